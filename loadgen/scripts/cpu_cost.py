#!/usr/bin/env python3
"""CPU time per operation of loadgen and of redis-benchmark, in alternating pairs.

Starts its own redis-server on a free port of 127.0.0.1, and stops it. What is measured is
user + system time of the whole client process (start-up and connecting included), divided by the
number of requests; what is printed, the median over the pairs.

    loadgen/scripts/cpu_cost.py path/to/loadgen [--pairs 7] [--pipeline 1 16 64]

The owner's limits are 0.7 of redis-benchmark's at pipeline 1, and 0.5 at 16 and 64. The exit status
is 1 when a ratio is above its limit. Run it on a machine that does nothing else: load average,
CPU model and kernel are printed with the table.
"""

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

CLIENTS, VALUE_BYTES, KEYS = 50, 64, 100_000
REQUESTS = {1: 200_000, 16: 1_000_000, 64: 3_000_000}
LIMITS = {1: 0.7}
LIMIT_PIPELINED = 0.5


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_it_accepts(port):
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    sys.exit(f"redis-server does not accept on port {port}")


def cpu_us_per_op(command, requests):
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = status
    if status != 0:
        sys.exit(f"{' '.join(command)} failed")
    return (usage.ru_utime + usage.ru_stime) * 1e6 / requests


def commands(loadgen, port, command, pipeline, requests):
    common = ["-p", str(port), "-c", str(CLIENTS), "-n", str(requests), "-d", str(VALUE_BYTES)]
    theirs = ["redis-benchmark", *common, "-P", str(pipeline), "-r", str(KEYS), "-t", command, "-q"]
    ratio = "0:1" if command == "get" else "1:0"
    ours = [loadgen, *common, "--pipeline", str(pipeline), "--ratio", ratio, "--key-prefix", "key:0000000",
            "--key-maximum", str(KEYS), "--quiet"]
    return ours, theirs


def conditions():
    with open("/proc/cpuinfo") as text:
        model = next((line.split(":")[1].strip() for line in text if line.startswith("model name")), "unknown CPU")
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    return (f"{model}, {os.cpu_count()} CPUs, Linux {os.uname().release}, load average {load}; {CLIENTS} connections, "
            f"{VALUE_BYTES}-byte values, {KEYS} keys")


def write(path, rows):
    with open(path, "w") as file:
        file.write(f"# {conditions()}\npipeline | command | pair | loadgen us/op | redis-benchmark us/op\n")
        for pipeline, command, number, own, other in rows:
            file.write(f"{pipeline} | {command} | {number} | {own:.3f} | {other:.3f}\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("loadgen")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--pipeline", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--out", help="write what each pair took to this file")
    flags = parser.parse_args()
    port, directory = free_port(), tempfile.mkdtemp()
    server = subprocess.Popen(
        ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", directory],
        stdout=subprocess.DEVNULL)
    try:
        wait_until_it_accepts(port)
        print(conditions())
        print()
        print("| pipeline | command | loadgen us/op | redis-benchmark us/op | ratio | limit | |")
        print("|---|---|---|---|---|---|---|")
        above, rows = 0, []
        for pipeline in flags.pipeline:
            requests = REQUESTS.get(pipeline, 1_000_000)
            for command in ("set", "get"):
                ours, theirs = commands(flags.loadgen, port, command, pipeline, requests)
                pairs = [(cpu_us_per_op(ours, requests), cpu_us_per_op(theirs, requests))
                         for _ in range(flags.pairs)]
                rows += [(pipeline, command.upper(), number, *pair) for number, pair in enumerate(pairs, 1)]
                own, other = (statistics.median(column) for column in zip(*pairs))
                ratio = statistics.median(a / b for a, b in pairs)
                limit = LIMITS.get(pipeline, LIMIT_PIPELINED)
                above += ratio > limit
                verdict = "held" if ratio <= limit else "NOT held"
                print(f"| {pipeline} | {command.upper()} | {own:.3f} | {other:.3f} | {ratio:.2f} | {limit} | {verdict} |",
                      flush=True)
        if flags.out:
            write(flags.out, rows)
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(directory)
    sys.exit(above > 0)


if __name__ == "__main__":
    main()
