#!/usr/bin/env python3
"""What clients of a loaded server notice of its snapshots, and what of it is the machine's.

  snapshots.py --loadgen PATH --server now='target/release/shardrace --engine mutex --port {port} --dir {dir} --save "" --appendonly no' …

{port} and {dir} are filled in. Each server has a million keys with values of 64 bytes. A trial is five seconds of load from 50
connections, half GET and half SET: requests at a fixed rate, whether or not replies come (--rate), or as fast as 50
connections with 16 requests each go (--rate 0). Servers take turns; each has a trial without snapshots and one with BGSAVE
after BGSAVE. A line per trial: requests per second, latency in µs, the middle time of a BGSAVE, and how long the hypervisor
took cores away meanwhile (steal of /proc/stat, ms, of all cores). Then medians for each server, of all its trials and of
those in which at most 0.1 % of the time of one core was taken.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import threading
import time

import sides

SECONDS = 5
STOLEN_MS_MAX = SECONDS  # a thousandth


def is_saving(server):
    return sides.info(server, "persistence")["rdb_bgsave_in_progress"].strip() == "1"


def save_for_ever(server, ends, took):
    while not ends.is_set():
        begun = time.monotonic()
        server.command("BGSAVE")
        while is_saving(server):
            if ends.is_set():
                return
            time.sleep(0.01)
        took.append(time.monotonic() - begun)


def loaded(loadgen, server, rate):
    """(requests/s, p50, p99, p99.9, stolen ms)"""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.json")
        words = [loadgen, "--quiet", "-p", str(server.port), "-c", "50", "--test-time", str(SECONDS), "--warm-up", "0.5",
                 "--ratio", "1:1", "-d", "64", "--key-maximum", "1000000", "--json-out-file", out]
        words += ["--rate-limiting", str(rate)] if rate else ["--pipeline", "16"]
        stolen = sides.stolen_ms()
        subprocess.run(words, stderr=subprocess.DEVNULL, check=True)
        stolen = sides.stolen_ms() - stolen
        with open(out) as file:
            totals = json.load(file)["totals"]
    latency = totals["latency_us"]
    return totals["ops_per_sec"], latency["p50"], latency["p99"], latency["p99.9"], stolen


def trial(loadgen, server, rate, with_saves):
    """The same, and seconds of a BGSAVE, or None."""
    ends, took = threading.Event(), []
    saver = threading.Thread(target=save_for_ever, args=(server, ends, took))
    if with_saves:
        saver.start()
    found = loaded(loadgen, server, rate)
    ends.set()
    if with_saves:
        saver.join()
        while is_saving(server):
            time.sleep(0.02)
    return (*found, statistics.median(took) if took else None)


def line(rate, name, with_saves, row):
    ops, p50, p99, p999, stolen, took = row
    saves = f"a BGSAVE {took:.2f} s" if took else "none ended" if with_saves else "no BGSAVE"
    return f"{rate} {name}: {ops:.0f} requests/s, p50 {p50:.0f} p99 {p99:.0f} p99.9 {p999:.0f}, stolen {stolen} ms, {saves}"


def print_medians(rate, name, with_saves, rows):
    calm = [row for row in rows if row[4] <= STOLEN_MS_MAX]
    for what, some in (("all", rows), ("not stolen from", calm)):
        if some:
            middle = [statistics.median([row[which] for row in some if row[which] is not None] or [0]) for which in range(6)]
            print(f"median of {len(some)} ({what}): {line(rate, name, with_saves, middle)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", action="append", required=True, metavar="NAME=COMMAND")
    parser.add_argument("--loadgen", required=True)
    parser.add_argument("--rate", action="append", type=int, required=True)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--keys", type=int, default=1_000_000)
    arguments = parser.parse_args()
    servers = [sides.Server(*definition.split("=", 1)) for definition in arguments.server]
    try:
        for server in servers:
            server.pipe(("SET", f"memtier-{number}", "v" * 64) for number in range(arguments.keys))
        for rate in arguments.rate:
            found = {}
            for _ in range(arguments.passes):
                for server in servers:
                    for with_saves in (False, True):
                        row = trial(arguments.loadgen, server, rate, with_saves)
                        found.setdefault((server.name, with_saves), []).append(row)
                        print(line(rate, server.name, with_saves, row), flush=True)
            for (name, with_saves), rows in found.items():
                print_medians(rate, name, with_saves, rows)
    finally:
        for server in servers:
            server.stop()


if __name__ == "__main__":
    main()
