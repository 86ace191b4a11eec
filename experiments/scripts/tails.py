#!/usr/bin/env python3
"""Percentiles of latency at one offered load, with a log and without.

  tails.py --loadgen PATH --server NAME=COMMAND ... [--rate 20000] [--seconds 5] [--passes 5]

{port} and {dir} in a command are filled in; the first server is the reference. Latency counts from the time a request
was due (loadgen's open loop). A run that loadgen calls invalid, because it lagged behind its own schedule, is said to be
so and counts: a machine that is busy is busy for all.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile

import sides

PERCENTILES = ["p50", "p99", "p99.9"]


def run(server, loadgen, rate, seconds):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.json")
        words = [loadgen, "--quiet", "-p", str(server.port), "-c", "50", "--test-time", str(seconds), "--warm-up", "0.5",
                 "--ratio", "1:0", "-d", "64", "--key-maximum", "100000", "--rate-limiting", str(rate),
                 "--json-out-file", out]
        subprocess.run(words, check=True)
        with open(out) as file:
            found = json.load(file)
    latency = found["totals"]["latency_us"]
    return [latency[percentile] for percentile in PERCENTILES], found["valid"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loadgen", required=True)
    parser.add_argument("--server", action="append", required=True, metavar="NAME=COMMAND")
    parser.add_argument("--rate", type=int, default=20000)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--passes", type=int, default=5)
    arguments = parser.parse_args()
    servers = [sides.Server(*definition.split("=", 1)) for definition in arguments.server]
    invalid = {server.name: 0 for server in servers}

    def one(server, rate):
        figures, is_valid = run(server, arguments.loadgen, rate, arguments.seconds)
        invalid[server.name] += not is_valid
        return figures

    try:
        found = sides.compare(servers, [arguments.rate], arguments.passes, one)[arguments.rate]
    finally:
        for server in servers:
            server.stop()
    print(f"{arguments.rate} SETs a second of 64 bytes, 50 connections, {arguments.passes} passes of {arguments.seconds:g} s")
    print(f"{'server':18}" + "".join(f"{name + ' us':>10} {'ratio':>18}" for name in PERCENTILES) + "  invalid")
    reference = servers[0].name
    for server in servers:
        row = f"{server.name:18}"
        for which in range(len(PERCENTILES)):
            middle = statistics.median(figures[which] for figures in found[server.name])
            ratio, least, greatest = sides.ratios({0: found}, 0, server.name, reference, which)
            row += f"{middle:10.0f} {ratio:5.2f} [{least:.2f}-{greatest:.2f}]".ljust(29)
        print(f"{row}  {invalid[server.name]}")


if __name__ == "__main__":
    main()
