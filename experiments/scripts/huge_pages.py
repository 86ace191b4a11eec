#!/usr/bin/env python3
"""CPU per operation with huge pages and without, by the number of keys: a table in Markdown.

  huge_pages.py --loadgen PATH --shardrace PATH [--engines actor mutex] [--keys 100000 1000000 10000000] [--passes 5]

For each number of keys, a server of each engine with jemalloc's `thp:always` and one with `thp:default` are filled and
then read and written at random (SET and GET, half each, 64 bytes) by 50 connections, pipeline 16, in turn.
"""

import argparse
import statistics
import subprocess

import sides

REQUESTS = 1_000_000


def load(server, loadgen, keys, *words):
    command = [loadgen, "-q", "-p", str(server.port), "-c", "50", "-d", "64", "--key-maximum", str(keys), *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loadgen", required=True)
    parser.add_argument("--shardrace", required=True)
    parser.add_argument("--engines", nargs="+", default=["actor", "dashmap", "mutex"])
    parser.add_argument("--keys", nargs="+", type=int, default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--passes", type=int, default=5)
    arguments = parser.parse_args()
    print("| engine | keys | 4 KB pages: µs of CPU | huge pages: µs of CPU | ratio [range] |")
    print("|---|---:|---:|---:|---:|")
    for engine in arguments.engines:
        for keys in arguments.keys:
            measure(arguments, engine, keys)


def measure(arguments, engine, keys):
    def start(mode):
        return sides.Server(mode, f"env _RJEM_MALLOC_CONF=thp:{mode} {arguments.shardrace} --engine {engine} "
                                  "--port {port} --dir {dir} --appendonly no")

    def one(server, _):
        before = server.cpu_s()
        load(server, arguments.loadgen, keys, "-n", str(REQUESTS), "--pipeline", "16", "--ratio", "1:1")
        return [(server.cpu_s() - before) / REQUESTS * 1e6]

    servers = [start("default"), start("always")]
    try:
        for server in servers:
            load(server, arguments.loadgen, keys, "-n", str(keys), "--pipeline", "64", "--ratio", "1:0",
                 "--key-pattern", "S:S")
        found = sides.compare(servers, [keys], arguments.passes, one)[keys]
    finally:
        for server in servers:
            server.stop()
    small, huge = (statistics.median(figures[0] for figures in found[server.name]) for server in servers)
    ratio, least, greatest = sides.ratios({keys: found}, keys, "always", "default", 0)
    print(f"| {engine} | {keys:,} | {small:.2f} | {huge:.2f} | {ratio:.2f} [{least:.2f}–{greatest:.2f}] |", flush=True)


if __name__ == "__main__":
    main()
