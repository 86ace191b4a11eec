// ioredis's Cluster against one node that owns all slots. Each check ends the program where it fails.
"use strict";

const assert = require("node:assert/strict");
const { once } = require("node:events");
const { setTimeout: pause } = require("node:timers/promises");
const { Cluster } = require("ioredis");

const [host, port] = process.argv[2].split(":");
const keys = Array.from({ length: 100 }, (_, index) => `key:${100 + index}`);
let checks = 0;

function check(what, got, wanted) {
  checks += 1;
  assert.deepEqual(got, wanted, what);
}

async function main() {
  const cluster = new Cluster([{ host, port }]);
  await cluster.flushdb();
  await strings(cluster);
  await pipeline(cluster);
  await transaction(cluster);
  await publish(cluster);
  await blocking(cluster);
  await scan(cluster);
  cluster.disconnect();
  console.log("ok", checks);
}

async function strings(cluster) {
  for (const key of keys) await cluster.set(key, `value of ${key}`, "EX", 60);
  for (const key of keys) check(`get ${key}`, await cluster.get(key), `value of ${key}`);
  await cluster.mset("a", "1", "b", "2", "c", "3");
  check("mget", await cluster.mget("a", "b", "nosuch", "c"), ["1", "2", null, "3"]);
  check("del", await cluster.del("a", "b", "c"), 3);
  check("dbsize", await cluster.dbsize(), keys.length);
  check("keyslot", await cluster.cluster("KEYSLOT", "foo"), 12182);
}

async function pipeline(cluster) {
  const pipe = cluster.pipeline();
  for (let index = 0; index < 1000; index += 1) pipe.incr(`counter:${index % 10}`);
  const replies = await pipe.exec();
  check("replies of a pipeline", replies.length, 1000);
  check("the last of them", replies[999], [null, 100]);
}

async function transaction(cluster) {
  const replies = await cluster.multi().set("{t}:a", "1").incr("{t}:a").lpush("{t}:b", "x").exec();
  check("a transaction", replies, [[null, "OK"], [null, 2], [null, 1]]);
}

async function publish(cluster) {
  const plain = new Cluster([{ host, port }]);
  const sharded = new Cluster([{ host, port }], { shardedSubscribers: true });
  await plain.subscribe("news");
  await sharded.ssubscribe("sharded");
  const messages = Promise.all([once(plain, "message"), once(sharded, "smessage")]);
  check("publish", await cluster.publish("news", "hello"), 1);
  check("spublish", await cluster.spublish("sharded", "there"), 1);
  check("messages", (await messages).map((message) => message.slice(0, 2)), [["news", "hello"], ["sharded", "there"]]);
  plain.disconnect();
  sharded.disconnect();
}

async function blocking(cluster) {
  const waiter = new Cluster([{ host, port }]);
  const got = waiter.blpop("queue", 5);
  await pause(200);
  await cluster.rpush("queue", "element");
  check("what BLPOP waited for", await got, ["queue", "element"]);
  check("BLPOP in vain", await waiter.blpop("queue", 1), null);
  waiter.disconnect();
}

async function scan(cluster) {
  await cluster.flushdb();
  for (const key of keys) await cluster.set(key, "");
  const found = new Set();
  for (const node of cluster.nodes("master")) {
    for await (const page of node.scanStream({ match: "key:*", count: 7 })) page.forEach((key) => found.add(key));
  }
  check("scan", [...found].sort(), keys);
}

setTimeout(() => {
  console.error("FAILED: it did not come to its end");
  process.exit(1);
}, 60_000).unref();
main().catch((error) => {
  console.error("FAILED:", error);
  process.exit(1);
});
