"""redis-py's RedisCluster, plain and asyncio, against one node that owns all slots. Each check ends the program where it
fails."""

import asyncio
import sys
import threading
import time

import redis
import redis.asyncio

KEYS = [f"key:{number}" for number in range(100, 200)]
checks = 0


def check(what, got, wanted):
    global checks
    checks += 1
    if got != wanted:
        sys.exit(f"FAILED: {what}: {got!r}, and not {wanted!r}")


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    for protocol in (2, 3):
        cluster = redis.RedisCluster(host=host, port=int(port), decode_responses=True, protocol=protocol)
        cluster.flushdb()
        strings(cluster)
        pipeline(cluster)
        transaction(cluster)
        publish(cluster)
        blocking(cluster)
        scan(cluster)
        cluster.close()
    asyncio.run(asynchronous(host, int(port)))
    print("ok", checks)


def strings(cluster):
    for key in KEYS:
        cluster.set(key, f"value of {key}", ex=60)
    for key in KEYS:
        check(f"get {key}", cluster.get(key), f"value of {key}")
    cluster.mset_nonatomic({"a": "1", "b": "2", "c": "3"})
    check("mget", cluster.mget_nonatomic("a", "b", "nosuch", "c"), ["1", "2", None, "3"])
    check("del", cluster.delete("a", "b", "c"), 3)
    check("dbsize", cluster.dbsize(), len(KEYS))
    check("keyslot", cluster.cluster_keyslot("foo"), 12182)


def pipeline(cluster):
    pipe = cluster.pipeline()
    for number in range(1000):
        pipe.incr(f"counter:{number % 10}")
    replies = pipe.execute()
    check("replies of a pipeline", (len(replies), replies[-1]), (1000, 100))


def transaction(cluster):
    # This client's pipelines are no transactions in a cluster: those go to the node of their slot.
    node = cluster.get_redis_connection(cluster.get_node_from_key("{t}:a"))
    pipe = node.pipeline(transaction=True)
    check("a transaction", pipe.set("{t}:a", 1).incr("{t}:a").lpush("{t}:b", "x").execute(), [True, 2, 1])


def publish(cluster):
    pubsub = cluster.pubsub()
    pubsub.subscribe("news")
    pubsub.ssubscribe("sharded")
    check("subscribed", received(pubsub.get_message)["type"], "subscribe")
    check("subscribed", received(pubsub.get_sharded_message)["type"], "ssubscribe")
    check("publish", cluster.publish("news", "hello"), 1)
    check("spublish", cluster.spublish("sharded", "there"), 1)
    check("a message", received(pubsub.get_message)["data"], "hello")
    check("a message", received(pubsub.get_sharded_message)["data"], "there")
    pubsub.close()


def received(get_message):
    # That of sharded channels may look without waiting.
    end = time.monotonic() + 5
    while time.monotonic() < end:
        message = get_message(timeout=0.1)
        if message:
            return message
    return {"type": None, "data": None}


def blocking(cluster):
    pusher = threading.Thread(target=lambda: (time.sleep(0.2), cluster.rpush("queue", "element")))
    pusher.start()
    check("what BLPOP waited for", list(cluster.blpop("queue", 5)), ["queue", "element"])
    pusher.join()
    check("BLPOP in vain", cluster.blpop("queue", 1), None)


def scan(cluster):
    cluster.flushdb()
    for key in KEYS:
        cluster.set(key, "")
    check("scan", sorted(cluster.scan_iter(match="key:*", count=7)), KEYS)


async def asynchronous(host, port):
    cluster = redis.asyncio.RedisCluster(host=host, port=port, decode_responses=True)
    await cluster.set("a", "1")
    check("asyncio get", await cluster.get("a"), "1")
    pipe = cluster.pipeline()
    for number in range(10):
        pipe.set(f"many:{number}", number)
    check("asyncio pipeline", await pipe.execute(), [True] * 10)
    await cluster.aclose()


if __name__ == "__main__":
    main()
