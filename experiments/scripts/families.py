#!/usr/bin/env python3
"""CPU per operation and throughput of the commands of every type beside other servers: a table in Markdown.

  families.py --server redis='redis-server --port {port} --save ""' \\
              --server actor='target/release/shardrace --port {port} --dir {dir} --appendonly no' --passes 5

Loads: each command on one hot key and on distinct keys (100,000), pipelines 1 and 16, 50 connections; and O(N) commands
over large collections. The client is redis-benchmark.
"""

import sides

KEYS = 100_000
R = "__rand_int__"
HOT = {
    "LPUSH": ["LPUSH", "list", "element"],
    "LPOP": ["LPOP", "list"],
    "SADD": ["SADD", "set", f"member:{R}"],
    "SPOP": ["SPOP", "set"],
    "HSET": ["HSET", "hash", f"field:{R}", "value"],
    "ZADD": ["ZADD", "zset", R, f"member:{R}"],
    "ZRANGE 0 9": ["ZRANGE", "zset", "0", "9"],
    "XADD": ["XADD", "stream", "MAXLEN", "~", "10000", "*", "field", "value"],
}
DISTINCT = {
    "LPUSH": ["LPUSH", f"list:{R}", "element"],
    "LPOP": ["LPOP", f"list:{R}"],
    "SADD": ["SADD", f"set:{R}", "member"],
    "SPOP": ["SPOP", f"set:{R}"],
    "HSET": ["HSET", f"hash:{R}", "field", "value"],
    "ZADD": ["ZADD", f"zset:{R}", "1", "member"],
    "ZRANGE 0 9": ["ZRANGE", f"zset:{R}", "0", "9"],
    "XADD": ["XADD", f"stream:{R}", "*", "field", "value"],
    "MSET of 10": ["MSET"] + [part for n in range(10) for part in (f"key:{n}:{R}", "value")],
}
LARGE = {
    "LRANGE 0 499 of 10,000": (3_000, ["LRANGE", "large:list", "0", "499"]),
    "ZRANGE 0 499 of 10,000": (3_000, ["ZRANGE", "large:zset", "0", "499"]),
    "HGETALL of 500": (3_000, ["HGETALL", "large:hash"]),
    "SINTER of 10,000": (300, ["SINTER", "{large}:one", "{large}:other"]),
    "SMEMBERS of 10,000": (300, ["SMEMBERS", "{large}:one"]),
    "KEYS over 1,000,000": (8, ["KEYS", "nothing:*"]),
}
REQUESTS = {1: 100_000, 16: 240_000}


def fill(server):
    """What the O(N) commands look at, and a million keys."""
    server.pipe(("RPUSH", "large:list", f"element:{n}") for n in range(10_000))
    server.pipe(("ZADD", "large:zset", n, f"member:{n}") for n in range(10_000))
    server.pipe(("HSET", "large:hash", f"field:{n}", f"value:{n}") for n in range(500))
    server.pipe(("SADD", "{large}:one", f"member:{n}") for n in range(10_000))
    server.pipe(("SADD", "{large}:other", f"member:{n}") for n in range(5_000, 15_000))
    server.pipe(("SET", f"filler:{n}", "value") for n in range(1_000_000))


def run(server, load):
    kind, name, pipeline = load
    if kind == "large":
        requests, words = LARGE[name]
        return sides.benchmark(server, requests, ["-c", "4", *words])
    words = (HOT if kind == "one key" else DISTINCT)[name]
    arguments = ["-c", "50", "-P", str(pipeline), "-r", str(KEYS), *words]
    return sides.benchmark(server, REQUESTS[pipeline], arguments)


def label(load):
    kind, name, pipeline = load
    return name if kind == "large" else f"{name}, {kind}, P{pipeline}"


def main():
    parser = sides.parser(__doc__)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--pipelines", type=int, nargs="*", default=[1, 16], choices=list(REQUESTS))
    parser.add_argument("--without-large", action="store_true", help="no O(N) commands")
    arguments = parser.parse_args()
    definitions = sides.definitions(arguments)
    servers = [sides.Server(*definition) for definition in definitions]
    try:
        small = [(kind, name, pipeline)
                 for pipeline in arguments.pipelines
                 for kind, commands in (("one key", HOT), ("distinct keys", DISTINCT))
                 for name in commands]
        found = sides.compare(servers, small, arguments.passes, run)
        sides.table(found, servers, small, "CPU per operation [range] / throughput, ratios", label)
        large = [] if arguments.without_large else [("large", name, 1) for name in LARGE]
        if large:
            for server in servers:
                server.command("FLUSHALL")
                fill(server)
            found.update(sides.compare(servers, large, arguments.passes, run))
            sides.table(found, servers, large, "O(N), 4 connections", label)
        if arguments.out:
            sides.write_raw(arguments.out, definitions, *sides.compared_rows(found, small + large, label))
    finally:
        for server in servers:
            server.stop()


if __name__ == "__main__":
    main()
