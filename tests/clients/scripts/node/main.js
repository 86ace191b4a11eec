// Libraries whose work is done by scripts, used as their documentation does. Each check ends the program where it fails.
"use strict";

const assert = require("node:assert/strict");
const { setTimeout: pause } = require("node:timers/promises");
const Redis = require("ioredis");

const [library, address] = process.argv.slice(2);
const [host, port] = address.split(":");
const connection = { host, port: Number(port), maxRetriesPerRequest: null };
let checks = 0;

function check(what, got, wanted) {
  checks += 1;
  assert.deepEqual(got, wanted, what);
}

async function until(what, holds) {
  for (let tries = 0; tries < 400; tries += 1) {
    if (await holds()) {
      checks += 1;
      return;
    }
    await pause(50);
  }
  assert.fail(`never: ${what}`);
}

const programs = {
  async bullmq() {
    const { FlowProducer, Queue, QueueEvents, Worker } = require("bullmq");
    const queue = new Queue("jobs", { connection });
    const done = [];
    const work = async (job) => {
      if (job.name === "fails once" && job.attemptsMade === 0) throw new Error("the first time");
      if (job.name === "never works") throw new Error("never");
      done.push(job.name);
      return job.data.number * 2;
    };
    const events = new QueueEvents("jobs", { connection });
    await events.waitUntilReady();
    const worker = new Worker("jobs", work, { connection, concurrency: 4, limiter: { max: 1000, duration: 1000 } });
    const job = await queue.add("one", { number: 21 });
    check("what a job returns", await job.waitUntilFinished(events, 10_000), 42);
    await queue.addBulk(Array.from({ length: 100 }, (_, number) => ({ name: `bulk ${number}`, data: { number } })));
    await until("a hundred jobs were done", async () => (await queue.getCompletedCount()) === 101);
    const retried = await queue.add("fails once", { number: 1 }, { attempts: 2, backoff: { type: "fixed", delay: 50 } });
    check("a job is tried again", await retried.waitUntilFinished(events, 10_000), 2);
    await queue.add("never works", {}, { attempts: 2 });
    await until("a job has failed", async () => (await queue.getFailedCount()) === 1);
    const before = Date.now();
    const late = await queue.add("late", { number: 3 }, { delay: 400 });
    check("a delayed job", await late.waitUntilFinished(events, 10_000), 6);
    check("it was late", Date.now() - before >= 395, true);
    const twice = [await queue.add("same", { number: 1 }, { jobId: "same" }), await queue.add("same", { number: 1 }, { jobId: "same" })];
    check("jobs of one id are one", twice.map(({ id }) => id), ["same", "same"]);
    const flow = await new FlowProducer({ connection }).add({
      name: "parent",
      queueName: "jobs",
      data: { number: 0 },
      children: [1, 2, 3].map((number) => ({ name: `child ${number}`, queueName: "jobs", data: { number } })),
    });
    await flow.job.waitUntilFinished(events, 10_000);
    check("values of children", Object.values(await flow.job.getChildrenValues()).sort(), [2, 4, 6]);
    await worker.close();
    await queue.pause();
    await queue.add("low", { number: 1 }, { priority: 10 });
    await queue.add("high", { number: 1 }, { priority: 1 });
    check("jobs by priority", (await queue.getPrioritized()).map(({ name }) => name), ["high", "low"]);
    await queue.obliterate({ force: true });
    check("nothing is left", await queue.getJobCountByTypes("waiting", "completed", "failed", "delayed", "paused"), 0);
  },

  async bull() {
    const Queue = require("bull");
    const queue = new Queue("jobs", { redis: { host, port: Number(port) } });
    queue.process(4, async (job) => {
      if (job.data.fails && job.attemptsMade === 0) throw new Error("the first time");
      return job.data.number + 1;
    });
    const job = await queue.add({ number: 1 });
    check("what a job returns", await job.finished(), 2);
    const retried = await queue.add({ number: 2, fails: true }, { attempts: 2 });
    check("a job is tried again", await retried.finished(), 3);
    const late = await queue.add({ number: 3 }, { delay: 300 });
    check("a delayed job", await late.finished(), 4);
    await queue.addBulk(Array.from({ length: 50 }, (_, number) => ({ data: { number } })));
    await until("all were done", async () => (await queue.getCompletedCount()) === 53);
    await queue.clean(0, "completed");
    check("none is left", await queue.getCompletedCount(), 0);
  },

  async "bee-queue"() {
    const Queue = require("bee-queue");
    const queue = new Queue("jobs", { redis: { host, port: Number(port) }, activateDelayedJobs: true });
    let tries = 0;
    queue.process(async (job) => {
      if (job.data.fails && (tries += 1) === 1) throw new Error("the first time");
      return job.data.number * 3;
    });
    const result = (job) => new Promise((resolve, reject) => job.on("succeeded", resolve).on("failed", reject));
    const one = queue.createJob({ number: 2 });
    const promised = result(one);
    await one.save();
    check("what a job returns", await promised, 6);
    const again = queue.createJob({ number: 3, fails: true }).retries(1);
    const second = result(again);
    await again.save();
    check("a job is tried again", await second, 9);
    const late = queue.createJob({ number: 4 }).delayUntil(Date.now() + 300);
    const third = result(late);
    await late.save();
    check("a delayed job", await third, 12);
    check("the health of the queue", (await queue.checkHealth()).failed, 0);
  },

  async redlock() {
    const { default: Redlock } = require("redlock");
    const locks = new Redlock([new Redis(connection)], { retryCount: 0 });
    const patient = new Redlock([new Redis(connection)], { retryCount: 100, retryDelay: 20 });
    const lock = await locks.acquire(["a", "b"], 2000);
    await assert.rejects(locks.acquire(["b"], 1000));
    checks += 1;
    const longer = await lock.extend(5000);
    check("it was extended", longer.expiration > Date.now() + 3000, true);
    const waiting = patient.acquire(["b"], 1000);
    await longer.release();
    check("the next one has it", (await waiting).resources, ["b"]);
    let running = 0;
    await Promise.all(Array.from({ length: 10 }, () => patient.using(["c"], 5000, async () => {
      running += 1;
      check("alone in the section", running, 1);
      await pause(5);
      running -= 1;
    })));
  },

  async "rate-limiter-flexible"() {
    const { RateLimiterRedis } = require("rate-limiter-flexible");
    const limiter = new RateLimiterRedis({ storeClient: new Redis(connection), points: 5, duration: 1 });
    const results = await Promise.allSettled(Array.from({ length: 8 }, () => limiter.consume("user")));
    check("five get through", results.filter(({ status }) => status === "fulfilled").length, 5);
    check("points that were consumed", (await limiter.get("user")).consumedPoints, 8);
    await pause(1100);
    check("a second later", (await limiter.consume("user")).remainingPoints, 4);
    await limiter.penalty("user", 2);
    check("a penalty", (await limiter.get("user")).consumedPoints, 3);
  },

  async "rate-limit-redis"() {
    const { RedisStore } = require("rate-limit-redis");
    const redis = new Redis(connection);
    const store = new RedisStore({ sendCommand: (...words) => redis.call(...words) });
    store.init({ windowMs: 1000 });
    for (const total of [1, 2, 3]) check("hits", (await store.increment("user")).totalHits, total);
    await store.decrement("user");
    check("hits after one less", (await store.get("user")).totalHits, 2);
    await pause(1100);
    check("hits in the next window", (await store.increment("user")).totalHits, 1);
    await store.resetKey("user");
    check("hits after a reset", (await store.increment("user")).totalHits, 1);
  },

  async bottleneck() {
    const Bottleneck = require("bottleneck");
    const options = { id: "limits", datastore: "ioredis", clearDatastore: true, clientOptions: connection, maxConcurrent: 2, minTime: 20, Redis };
    const limiter = new Bottleneck(options);
    await limiter.ready();
    let running = 0;
    let most = 0;
    const job = async (number) => {
      running += 1;
      most = Math.max(most, running);
      await pause(30);
      running -= 1;
      return number;
    };
    const before = Date.now();
    const results = await Promise.all(Array.from({ length: 20 }, (_, number) => limiter.schedule(job, number)));
    check("results", results, Array.from({ length: 20 }, (_, number) => number));
    check("two at a time", most <= 2, true);
    check("a pause between them", Date.now() - before >= 19 * 15, true);
    check("done", await limiter.done(), 20);
    await limiter.disconnect();
  },

  async ioredis() {
    const redis = new Redis(connection);
    redis.defineCommand("addAll", { numberOfKeys: 2, lua: "return redis.call('INCRBY', KEYS[1], ARGV[1]) + redis.call('INCRBY', KEYS[2], ARGV[2])" });
    check("a command of our own", await redis.addAll("a", "b", 1, 2), 3);
    const replies = await redis.pipeline().addAll("a", "b", 1, 1).addAll("a", "b", 1, 1).exec();
    check("in a pipeline", replies, [[null, 5], [null, 7]]);
    check("in a transaction", await redis.multi().addAll("a", "b", 0, 1).get("b").exec(), [[null, 8], [null, "5"]]);
    await redis.script("FLUSH");
    check("after SCRIPT FLUSH", await redis.addAll("a", "b", 0, 0), 8);
    check("a function", await redis.function("LOAD", "#!lua name=lib\nredis.register_function('twice', function(keys, args) return args[1] * 2 end)"), "lib");
    check("its result", await redis.fcall("twice", 0, 21), 42);
  },
};

setTimeout(() => {
  console.error("FAILED: it did not come to its end");
  process.exit(1);
}, 60_000).unref();
programs[library]().then(
  () => {
    console.log("ok", checks);
    process.exit(0);
  },
  (error) => {
    console.error("FAILED:", error);
    process.exit(1);
  },
);
