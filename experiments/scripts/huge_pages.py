#!/usr/bin/env python3
"""What huge pages do, against 4 KB pages: tables in Markdown of CPU per operation by the number of keys, and of latency
while an empty server is filled.

  huge_pages.py --loadgen PATH --shardrace PATH [--engines actor mutex] [--keys 100000 1000000 10000000] [--passes 5]

For each number of keys, a server of each engine with jemalloc's `thp:always` and one with `thp:default` are filled and
then read and written at random (SET and GET, half each, 64 bytes) by 50 connections, pipeline 16, in turn. Then, for each
engine, servers that are empty take SETs of 500,000 new keys, pipeline 1.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile

import sides

REQUESTS = 1_000_000
FILLED = 500_000
PERCENTILES = ["p99", "p99.9", "max"]
MODES = {"4 KB": "default", "huge": "always"}


def load(server, loadgen, keys, *words):
    command = [loadgen, "--quiet", "-p", str(server.port), "-c", "50", "-d", "64", "--key-maximum", str(keys), *words]
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
    print(f"\n| {FILLED:,} new keys | pages | " + " | ".join(f"{name}, ms, median [range]" for name in PERCENTILES) + " |")
    print("|---|---|" + "---:|" * len(PERCENTILES))
    for engine in arguments.engines:
        measure_filling(arguments, engine)


def start(arguments, engine, pages):
    return sides.Server(pages, f"env _RJEM_MALLOC_CONF=thp:{MODES[pages]} {arguments.shardrace} --engine {engine} "
                               "--port {port} --dir {dir} --appendonly no --save \"\"")


def measure_filling(arguments, engine):
    found = {pages: [] for pages in MODES}
    for number in range(arguments.passes):
        for pages in list(MODES)[::1 if number % 2 == 0 else -1]:
            found[pages].append(fill(arguments, engine, pages))
    for pages, runs in found.items():
        cells = []
        for values in zip(*runs):
            cells.append(f"{statistics.median(values):.2f} [{min(values):.2f}–{max(values):.2f}]")
        print(f"| {engine} | {pages} | " + " | ".join(cells) + " |", flush=True)


def fill(arguments, engine, pages):
    """Percentiles of latency in milliseconds, of one server."""
    server = start(arguments, engine, pages)
    try:
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "out.json")
            load(server, arguments.loadgen, FILLED, "-n", str(FILLED), "--ratio", "1:0", "--key-pattern", "S:S",
                 "--json-out-file", out)
            with open(out) as file:
                latency = json.load(file)["totals"]["latency_us"]
    finally:
        server.stop()
    return [latency[name] / 1000 for name in PERCENTILES]


def measure(arguments, engine, keys):
    def one(server, _):
        before = server.cpu_s()
        load(server, arguments.loadgen, keys, "-n", str(REQUESTS), "--pipeline", "16", "--ratio", "1:1")
        return [(server.cpu_s() - before) / REQUESTS * 1e6]

    servers = [start(arguments, engine, pages) for pages in MODES]
    try:
        for server in servers:
            load(server, arguments.loadgen, keys, "-n", str(keys), "--pipeline", "64", "--ratio", "1:0",
                 "--key-pattern", "S:S")
        found = sides.compare(servers, [keys], arguments.passes, one)[keys]
    finally:
        for server in servers:
            server.stop()
    small, huge = (statistics.median(figures[0] for figures in found[server.name]) for server in servers)
    ratio, least, greatest = sides.ratios({keys: found}, keys, servers[1].name, servers[0].name, 0)
    print(f"| {engine} | {keys:,} | {small:.2f} | {huge:.2f} | {ratio:.2f} [{least:.2f}–{greatest:.2f}] |", flush=True)


if __name__ == "__main__":
    main()
