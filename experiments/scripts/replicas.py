#!/usr/bin/env python3
"""What a replica costs its master: writes while it follows, and a full synchronisation under load.

  replicas.py --loadgen PATH --server redis='redis-server --port {port} --dir {dir} --save "" --appendonly no' \\
              --server actor='target/release/shardrace --engine actor --port {port} --dir {dir} --save "" --appendonly no'

{port} and {dir} are filled in; the first server is the reference. Every replica is a redis-server (--replica PATH).

Writes: each server runs twice, alone and with one replica. SET of 64 bytes over 100,000 keys, 50 connections: requests
per second, CPU of the master and of the replica per request, the furthest that the replica was behind (both servers'
offsets, asked one after the other every 20 ms, so the time between the questions counts as lag), and how long after the
last reply it had everything.

Synchronisation: a master with a million keys under 20,000 SETs per second that arrive whether or not replies come
(loadgen's open loop, latency from when a request was due). A replica joins after one second. Seconds until its link is up,
how far the memory of the master and of its children grew (proportional set sizes, every 50 ms), and the 99th percentile
of latency in the run, by that of a run of the same length with no replica. A machine that is not ours alone may take the
cores away for milliseconds, which shows in that percentile: the time it stole in the run, by /proc/stat, is given, too.
"""

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import tempfile
import threading
import time

import sides

REPLICA = '{path} --port {{port}} --dir {{dir}} --save "" --appendonly no --replicaof 127.0.0.1 {port}'
LOADS = {"P1": ["-t", "set", "-d", "64", "-r", "100000", "-c", "50"],
         "P16": ["-t", "set", "-d", "64", "-r", "100000", "-c", "50", "-P", "16"]}
REQUESTS = {"P1": 300_000, "P16": 1_500_000}
SYNC_S = 10


def info(server, section="replication"):
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(sides.request("INFO", section))
        stream = connection.makefile("rb")
        text = stream.read(int(stream.readline()[1:])).decode()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def lag(master, replica):
    return int(info(master)["master_repl_offset"]) - int(info(replica).get("slave_repl_offset", 0))


def until(what, is_true, seconds=120):
    begun = time.monotonic()
    while not is_true():
        if time.monotonic() - begun > seconds:
            raise SystemExit(f"{what} took more than {seconds} s")
        time.sleep(0.01)
    return time.monotonic() - begun


def replica_of(master, path):
    return sides.Server(f"replica of {master.name}", REPLICA.format(path=path, port=master.port))


def is_up(replica):
    return info(replica).get("master_link_status") == "up"


def every(seconds, look, ends):
    """Calls `look` regularly on another thread, and gives the largest of what it returned."""
    found = []
    def watch():
        while not ends.is_set():
            found.append(look())
            time.sleep(seconds)
    thread = threading.Thread(target=watch)
    thread.start()
    return thread, found


def write(master, replica, load):
    """(requests/s, µs of the master, µs of the replica, largest lag in bytes, seconds to catch up)"""
    if replica is None:
        return (*sides.benchmark(master, REQUESTS[load], LOADS[load]), 0, 0, 0)
    ends, used = threading.Event(), replica.cpu_s()
    thread, lags = every(0.02, lambda: lag(master, replica), ends)
    throughput, cpu = sides.benchmark(master, REQUESTS[load], LOADS[load])
    ends.set()
    thread.join()
    late = until("catching up", lambda: lag(master, replica) <= 0)
    return throughput, cpu, (replica.cpu_s() - used) / REQUESTS[load] * 1e6, max(lags), late


def writes(definitions, path, passes):
    masters, replicas = [], {}
    try:
        for name, command in definitions:
            masters += [sides.Server(name, command), sides.Server(f"{name}, replica", command)]
            replicas[masters[-1].name] = replica_of(masters[-1], path)
        for replica in replicas.values():
            until("the first synchronisation", lambda: is_up(replica))
        run = lambda master, load: write(master, replicas.get(master.name), load)
        found = sides.compare(masters, list(LOADS), passes, run)
        for name, replica in replicas.items():
            master = next(master for master in masters if master.name == name)
            sizes = {master.command("DBSIZE"), replica.command("DBSIZE")}
            if len(sizes) > 1:
                raise SystemExit(f"{name}: the replica has other keys: {sizes}")
    finally:
        for server in [*replicas.values(), *masters]:
            server.stop(signal.SIGKILL)
    return found


def print_writes(found, names):
    reference = f"{names[0]}, replica"
    print("| load | server | requests/s | by the reference | µs of the master | by the reference | by itself alone | µs of the replica | largest lag, KB | caught up after, ms |")
    print("|---|---|" + "---:|" * 8)
    for load, by_server in found.items():
        for name in names:
            with_one, alone = f"{name}, replica", by_server[name]
            middle = [statistics.median(row[which] for row in by_server[with_one]) for which in range(5)]
            print(f"| {load} | {name} | {middle[0]:.0f} | {shown(found, load, with_one, reference, 0)} | {middle[1]:.2f} | "
                  f"{shown(found, load, with_one, reference, 1)} | {shown(found, load, with_one, name, 1)} | "
                  f"{middle[2]:.2f} | {middle[3] / 1024:.0f} | {middle[4] * 1000:.0f} |")


def shown(found, load, name, reference, which):
    return "{:.2f} [{:.2f}–{:.2f}]".format(*sides.ratios(found, load, name, reference, which))


def memory_kb(pid):
    """Proportional set sizes of a process and its children."""
    total = 0
    children = open(f"/proc/{pid}/task/{pid}/children").read().split()
    for one in [str(pid), *children]:
        try:
            with open(f"/proc/{one}/smaps_rollup") as file:
                total += next(int(line.split()[1]) for line in file if line.startswith("Pss:"))
        except (OSError, StopIteration):
            pass  # a child has ended
    return total


def stolen_ms():
    with open("/proc/stat") as file:
        return int(file.readline().split()[8]) * 1000 // os.sysconf("SC_CLK_TCK")


def p99_us(loadgen, server, meanwhile):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.json")
        words = [loadgen, "--quiet", "-p", str(server.port), "-c", "50", "--test-time", str(SYNC_S), "--warm-up", "0.5",
                 "--ratio", "1:0", "-d", "64", "--key-maximum", "1000000", "--rate-limiting", "20000",
                 "--json-out-file", out]
        load = subprocess.Popen(words)
        try:
            time.sleep(1.5)
            meanwhile()
        finally:
            load.wait()
        with open(out) as file:
            return json.load(file)["totals"]["latency_us"]["p99"]


def synchronise(definition, loadgen, path, keys):
    """(seconds, growth of memory, p99 in µs, p99 without, in µs, ms stolen from all cores meanwhile)"""
    master = sides.Server(*definition)
    try:
        master.pipe(("SET", f"memtier-{number}", "v" * 64) for number in range(keys))
        calm = p99_us(loadgen, master, lambda: None)
        before = memory_kb(master.process.pid)
        figures = []
        def join():
            ends = threading.Event()
            thread, sizes = every(0.05, lambda: memory_kb(master.process.pid), ends)
            replica = replica_of(master, path)
            try:
                figures.append(until("synchronisation", lambda: is_up(replica)) + replica.start_s)
                time.sleep(1)
                if int(replica.command("DBSIZE")[1:]) < keys:
                    raise SystemExit("the replica has fewer keys")
            finally:
                ends.set()
                thread.join()
                replica.stop(signal.SIGKILL)
            figures.append(max(sizes) / before)
        stolen = stolen_ms()
        busy = p99_us(loadgen, master, join)
        return (*figures, busy, calm, stolen_ms() - stolen)
    finally:
        master.stop(signal.SIGKILL)


def print_synchronisations(found, names, keys):
    print(f"\n| {keys} keys | seconds | by the reference | memory of the master, times | p99, µs | by its p99 without | stolen, ms |")
    print("|---|" + "---:|" * 6)
    for name in names:
        rows = found[name]
        middle = [statistics.median(row[which] for row in rows) for which in range(4)]
        ratios = sorted(one[0] / other[0] for one, other in zip(rows, found[names[0]]))
        tails = sorted(row[2] / row[3] for row in rows)
        growth = sorted(row[1] for row in rows)
        stolen = "–".join(str(edge([row[4] for row in rows])) for edge in (min, max))
        print(f"| {name} | {middle[0]:.2f} | {spread(ratios)} | {spread(growth)} | {middle[2]:.0f} | {spread(tails)} | {stolen} |")


def spread(values):
    return f"{statistics.median(values):.2f} [{values[0]:.2f}–{values[-1]:.2f}]"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", action="append", required=True, metavar="NAME=COMMAND")
    parser.add_argument("--loadgen", required=True)
    parser.add_argument("--replica", default="redis-server", help="the program of the replicas")
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--part", choices=["writes", "synchronisation", "both"], default="both")
    arguments = parser.parse_args()
    definitions = [definition.split("=", 1) for definition in arguments.server]
    names = [name for name, _ in definitions]
    if arguments.part != "synchronisation":
        print_writes(writes(definitions, arguments.replica, arguments.passes), names)
    if arguments.part == "writes":
        return
    found = {name: [] for name in names}
    for number in range(arguments.passes):
        first = number % len(definitions)
        for definition in definitions[first:] + definitions[:first]:
            found[definition[0]].append(synchronise(definition, arguments.loadgen, arguments.replica, arguments.keys))
    print_synchronisations(found, names, arguments.keys)


if __name__ == "__main__":
    main()
