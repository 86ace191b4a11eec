#!/usr/bin/env python3
"""CPU per operation and throughput of scripts beside other servers: a table in Markdown.

  scripts.py --server redis='redis-server --port {port} --save ""' \\
             --server actor='target/release/shardrace --port {port} --dir {dir} --appendonly no --save ""' \\
             --server actor-8='target/release/shardrace --shards 8 --port {port} --dir {dir} --appendonly no --save ""'

The scripts: one GET of a declared key, ten of them, and a GET of a key that is not declared, for which every shard is
lent. EVALSHA, 50 connections, 100,000 keys of 3 bytes, pipelines 1 and 16. The client is redis-benchmark.
"""

import hashlib

import sides

KEYS = 100_000
R = "__rand_int__"
TEN = "local r for i = 1, 10 do r = redis.call('get', KEYS[i]) end return r"
SCRIPTS = {
    "one GET": ("return redis.call('get', KEYS[1])", ["1", f"key:{R}"]),
    "ten GETs": (TEN, ["10", *[f"{{t}}:{n}:{R}" for n in range(10)]]),
    "one GET, not declared": ("return redis.call('get', ARGV[1])", ["0", f"key:{R}"]),
}
REQUESTS = {1: 100_000, 16: 320_000}


def run(server, load):
    name, pipeline = load
    source, rest = SCRIPTS[name]
    sha = hashlib.sha1(source.encode()).hexdigest()
    arguments = ["-c", "50", "-P", str(pipeline), "-r", str(KEYS), "EVALSHA", sha, *rest]
    return sides.benchmark(server, REQUESTS[pipeline], arguments)


def main():
    parser = sides.parser(__doc__)
    parser.add_argument("--passes", type=int, default=7)
    arguments = parser.parse_args()
    definitions = sides.definitions(arguments)
    servers = [sides.Server(*definition) for definition in definitions]
    try:
        for server in servers:
            server.pipe(("SET", f"key:{n:012}", "xxx") for n in range(KEYS))
            for source, _ in SCRIPTS.values():
                server.command("SCRIPT", "LOAD", source)
        loads = [(name, pipeline) for name in SCRIPTS for pipeline in REQUESTS]
        found = sides.compare(servers, loads, arguments.passes, run)
        title = "CPU per operation [range] / throughput, ratios"
        label = lambda load: f"{load[0]}, P{load[1]}"
        sides.table(found, servers, loads, title, label)
        if arguments.out:
            sides.write_raw(arguments.out, definitions, *sides.compared_rows(found, loads, label))
    finally:
        for server in servers:
            server.stop()


if __name__ == "__main__":
    main()
