#!/usr/bin/env python3
"""Instructions of the server for each operation, beside other servers: what a noisy or busy machine still tells apart.

  instructions.py --server before='/tmp/before/shardrace --engine actor --port {port} --dir {dir} --appendonly no --save ""' \\
                  --server after='target/release/shardrace --engine actor --port {port} --dir {dir} --appendonly no --save ""'

Each server runs in valgrind's callgrind with one load of redis-benchmark and ends; the difference between a long and a
short run is what the operations take, without the start and the end. User space only: what the kernel does for the
server is not counted, nor what caches and branches cost. Loads: GET, SET and EVALSHA of one GET, 10 connections, 1,000
keys, pipelines 1 and 16; and commands over collections of three elements, or a stream of one (COPY removes a key and
copies another, XACK finds nothing to acknowledge). Deterministic to some tenths of a percent; it needs the packages
valgrind and redis-tools.
"""

import argparse
import hashlib
import re
from pathlib import Path

import sides

SHORT, LONG = 16_000, 48_000
KEY = "key:__rand_int__"
SCRIPT = "return redis.call('get', KEYS[1])"
LOADS = {
    "GET": ["GET", KEY],
    "SET": ["SET", KEY, "xxx"],
    "EVALSHA": ["EVALSHA", hashlib.sha1(SCRIPT.encode()).hexdigest(), "1", KEY],
    "SMEMBERS": ["SMEMBERS", "set"],
    "HGETALL": ["HGETALL", "hash"],
    "LRANGE": ["LRANGE", "list", "0", "-1"],
    "ZRANGE": ["ZRANGE", "zset", "0", "-1"],
    "COPY": ["COPY", "set", "copy", "REPLACE"],
    "XREAD": ["XREAD", "STREAMS", "stream", "0"],
    "XACK": ["XACK", "stream", "group", "1-1"],
}
SMALL = ["SADD set a b c", "HSET hash a 1 b 2 c 3", "RPUSH list a b c", "ZADD zset 1 a 2 b 3 c", "XADD stream 1-1 field value",
         "XGROUP CREATE stream group 0"]


def instructions(name, command, words, pipeline, count):
    """What the whole life of a server takes in which it does so many operations."""
    server = sides.Server(name, "valgrind --tool=callgrind --callgrind-out-file={dir}/callgrind.out " + command)
    try:
        server.command("SCRIPT", "LOAD", SCRIPT)
        for line in SMALL:
            server.command(*line.split())
        sides.benchmark(server, count, ["-c", "10", "-P", str(pipeline), "-r", "1000", *words])
        server.command("SHUTDOWN", "NOSAVE")
        server.process.wait()
        text = Path(server.directory, "callgrind.out").read_text()
        return int(re.search(r"^(?:summary|totals): (\d+)", text, re.MULTILINE)[1])
    finally:
        server.stop()


def per_operation(name, command, words, pipeline):
    counts = [instructions(name, command, words, pipeline, count) for count in (SHORT, LONG)]
    return (counts[1] - counts[0]) / (LONG - SHORT)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", action="append", required=True, metavar="NAME=COMMAND")
    parser.add_argument("--loads", nargs="*", default=list(LOADS), choices=list(LOADS))
    parser.add_argument("--pipelines", type=int, nargs="*", default=[1, 16])
    arguments = parser.parse_args()
    servers = [definition.split("=", 1) for definition in arguments.server]
    print("| load | " + " | ".join(name for name, _ in servers) + " |")
    print("|---|" + "---:|" * len(servers))
    for pipeline in arguments.pipelines:
        for load in arguments.loads:
            found = [per_operation(name, command, LOADS[load], pipeline) for name, command in servers]
            cells = [f"{count:,.0f} ({count / found[0]:.3f})" for count in found]
            print(f"| {load}, P{pipeline} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
