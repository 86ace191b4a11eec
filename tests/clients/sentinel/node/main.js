// ioredis through Sentinels: a failover that somebody asks for, and one of a master that ends. Each check ends the program
// where it fails.
"use strict";

const assert = require("node:assert/strict");
const { setTimeout: pause } = require("node:timers/promises");
const Redis = require("ioredis");

const sentinels = [26379, 26380, 26381].map((port) => ({ host: "127.0.0.1", port }));
const options = { sentinels, name: "main", maxRetriesPerRequest: null, sentinelRetryStrategy: () => 100, retryStrategy: () => 100 };
let checks = 0;

function check(what, got, wanted) {
  checks += 1;
  assert.deepEqual(got, wanted, what);
}

async function until(what, holds) {
  for (let tries = 0; tries < 600; tries += 1) {
    if (await holds()) {
      checks += 1;
      return;
    }
    await pause(100);
  }
  assert.fail(`never: ${what}`);
}

async function main() {
  const master = new Redis(options);
  const sentinel = new Redis(26379, "127.0.0.1");
  const address = async () => (await sentinel.call("SENTINEL", "get-master-addr-by-name", "main")).join(":");
  const first = await address();
  for (let number = 0; number < 100; number += 1) await master.set(`key:${number}`, number);
  check("a replica has it", await master.wait(1, 10_000), 1);
  const replica = new Redis({ ...options, role: "slave" });
  check("it is read from a replica", await replica.get("key:7"), "7");
  check("a replica says so", (await replica.role())[0], "slave");
  replica.disconnect();
  await sentinel.call("SENTINEL", "failover", "main");
  let written = await writeUntilMasterIsNot(master, address, first);
  check("what was acknowledged by a replica is there", Number(await master.get("counter")) >= written, true);
  await until("it has a replica again", async () => (await master.incr("counter")) && (await master.wait(1, 1000)) === 1);
  const second = await address();
  await end(second);
  written = await writeUntilMasterIsNot(master, address, second);
  check("what was acknowledged is there after a crash", Number(await master.get("counter")) >= written, true);
  check("and all else", await master.get("key:99"), "99");
  master.disconnect();
  sentinel.disconnect();
  console.log("ok", checks);
}

// Over a connection of its own, which sends nothing twice: SHUTDOWN has no reply, and the other connection would send it
// to the next master as well.
async function end(address) {
  const [host, port] = address.split(":");
  const once = { maxRetriesPerRequest: 0, retryStrategy: null, autoResendUnfulfilledCommands: false };
  const connection = new Redis({ host, port: Number(port), ...once });
  connection.on("error", () => {});
  await connection.shutdown("NOSAVE", "NOW", "FORCE").catch(() => {});
  connection.disconnect();
}

// Writes meanwhile; returns the last value that a replica has acknowledged.
async function writeUntilMasterIsNot(master, address, old) {
  const end = Date.now() + 60_000;
  let written = 0;
  while (Date.now() < end) {
    try {
      const value = await master.incr("counter");
      if ((await master.wait(1, 100)) >= 1) written = value;
      if ((await address()) !== old && (await master.role())[0] === "master") return written;
    } catch {
      await pause(50);
    }
  }
  return assert.fail("no other master");
}

main().catch((error) => {
  console.log("FAILED:", error.message);
  process.exit(1);
});
