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
of latency in the run, by that of a run of the same length with no replica. As the control, the same percentile while a
redis-server that has nothing to do with the master starts and loads the same keys from a file: the cores are shared with
a process that works as much as a replica does, but the master makes and sends nothing. A machine that is not ours alone may take the
cores away for milliseconds, which shows in that percentile: the time it stole in the run, by /proc/stat, is given, too.
A second table says where the time of a synchronisation went: for each kind of thread of the master, and for the replica,
how long it ran, and how long it was ready and waited for a core (/proc/PID/task/*/schedstat), and how idle the cores were.
"""

import json
import os
import signal
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
# Of the file for --out: what is written of writes, and in the same places of synchronisations.
COLUMNS = ("load", "server", "pass", "requests/s, or seconds", "us of the master, or its memory by that before",
           "us of the replica, or p99 in us", "largest lag in bytes, or p99 without in us", "s to catch up, or ms stolen",
           "p99 beside a bystander that loads, in us", "of three runs, with a late generator")
BYSTANDER = '{path} --port {{port}} --dir {{dir}} --save "" --appendonly no'


def lag(master, replica):
    sent = sides.info(master, "replication")["master_repl_offset"]
    applied = sides.info(replica, "replication").get("slave_repl_offset", 0)
    return int(sent) - int(applied)


def replica_of(master, path):
    return sides.Server(f"replica of {master.name}", REPLICA.format(path=path, port=master.port))


def is_up(replica):
    return sides.info(replica, "replication").get("master_link_status") == "up"


def write(master, replica, load):
    """(requests/s, µs of the master, µs of the replica, largest lag in bytes, seconds to catch up)"""
    if replica is None:
        return (*sides.benchmark(master, REQUESTS[load], LOADS[load]), 0, 0, 0)
    ends, used = threading.Event(), replica.cpu_s()
    thread, lags = sides.every(0.02, lambda: lag(master, replica), ends)
    throughput, cpu = sides.benchmark(master, REQUESTS[load], LOADS[load])
    ends.set()
    thread.join()
    late = sides.until("catching up", lambda: lag(master, replica) <= 0)
    return throughput, cpu, (replica.cpu_s() - used) / REQUESTS[load] * 1e6, max(lags), late


def writes(definitions, path, passes):
    masters, replicas = [], {}
    try:
        for name, command in definitions:
            masters += [sides.Server(name, command), sides.Server(f"{name}, replica", command)]
            replicas[masters[-1].name] = replica_of(masters[-1], path)
        for replica in replicas.values():
            sides.until("the first synchronisation", lambda: is_up(replica))
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


def p99_us(loadgen, server, meanwhile):
    """(99th percentile in µs, whether the generator was late)"""
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
            found = json.load(file)
        return found["totals"]["latency_us"]["p99"], not found["valid"]


def fill(server, keys):
    server.pipe(("SET", f"memtier-{number}", "v" * 64) for number in range(keys))


def save_keys(path, keys, directory):
    """Writes a dump.rdb of the keys into the directory."""
    server = sides.Server("the one that saves", BYSTANDER.format(path=path), directory)
    fill(server, keys)
    if server.command("SAVE") != b"+OK":
        raise SystemExit("the keys of the bystander were not saved")
    server.stop(signal.SIGKILL)


def load_beside(path, keys, directory):
    """A redis-server that loads those keys, and is there for as long as a replica would be."""
    bystander = sides.Server("bystander", BYSTANDER.format(path=path), directory)
    time.sleep(1)
    loaded = int(bystander.command("DBSIZE")[1:])
    bystander.stop(signal.SIGKILL)
    if loaded != keys:
        raise SystemExit(f"the bystander has {loaded} keys")


class Scheduled:
    """Where the time of a synchronisation goes: what the threads of a master ran and waited for a core. Threads that end
    meanwhile count up to when they were last looked at."""

    def __init__(self, pid):
        self.pid, self.before, self.last = pid, sides.scheduled_ms(pid), {}
        self.ends = threading.Event()
        self.thread, _ = sides.every(0.01, self.look, self.ends)
        _, self.ticks = sides.idle_share(None)

    def look(self):
        self.last.update(sides.scheduled_ms(self.pid))

    def end(self, replica):
        """{kind of thread: (ms run, ms waited)}, with the replica, and the share of the cores that was idle."""
        idle, _ = sides.idle_share(self.ticks)
        self.ends.set()
        self.thread.join()
        self.look()
        found = {}
        for thread, (name, ran, waited) in self.last.items():
            _, ran_before, waited_before = self.before.get(thread, (name, 0, 0))
            sums = found.setdefault(name, [0, 0])
            sums[0] += ran - ran_before
            sums[1] += waited - waited_before
        of_replica = sides.scheduled_ms(replica.process.pid).values()
        found["the replica"] = [sum(one[which] for one in of_replica) for which in (1, 2)]
        return found, idle


def print_scheduled(samples):
    print("\n| server | ms run, ms waited for a core | idle cores |\n|---|---|---:|")
    for name, found in samples.items():
        kinds = sorted({kind for threads, _ in found for kind in threads})
        middle = lambda kind, which: statistics.median(threads.get(kind, (0, 0))[which] for threads, _ in found)
        shown = [f"{kind}: {middle(kind, 0):.0f}, {middle(kind, 1):.0f}" for kind in kinds if middle(kind, 0) >= 1]
        print(f"| {name} | {'; '.join(shown)} | {statistics.median(idle for _, idle in found):.1%} |")


def synchronise(definition, loadgen, path, keys, saved, scheduled):
    """(seconds, growth of memory, p99 in µs, p99 without, in µs, ms stolen from all cores meanwhile, p99 beside a server
    that loads the same keys from the directory `saved`, in µs, of these three runs those with a late generator)"""
    master = sides.Server(*definition)
    try:
        fill(master, keys)
        calm, was_late = p99_us(loadgen, master, lambda: None)
        beside, was_late_beside = p99_us(loadgen, master, lambda: load_beside(path, keys, saved))
        before = sides.memory_kb(master.process.pid)
        figures = []
        def join():
            ends = threading.Event()
            thread, sizes = sides.every(0.05, lambda: sides.memory_kb(master.process.pid), ends)
            watched = Scheduled(master.process.pid)
            replica = replica_of(master, path)
            try:
                figures.append(sides.until("synchronisation", lambda: is_up(replica)) + replica.start_s)
                scheduled.append(watched.end(replica))
                time.sleep(1)
                if int(replica.command("DBSIZE")[1:]) < keys:
                    raise SystemExit("the replica has fewer keys")
            finally:
                ends.set()
                watched.ends.set()
                thread.join()
                replica.stop(signal.SIGKILL)
            figures.append(max(sizes) / before)
        stolen = sides.stolen_ms()
        busy, was_late_busy = p99_us(loadgen, master, join)
        late = was_late + was_late_beside + was_late_busy
        return (*figures, busy, calm, sides.stolen_ms() - stolen, beside, late)
    finally:
        master.stop(signal.SIGKILL)


def print_synchronisations(found, names, keys):
    print(f"\n| {keys} keys | seconds | by the reference | memory of the master, times | p99, µs | by its p99 without | beside a bystander, by its p99 without | by that | stolen, ms | late |")
    print("|---|" + "---:|" * 9)
    for name in names:
        rows = found[name]
        middle = [statistics.median(row[which] for row in rows) for which in range(4)]
        ratios = sorted(one[0] / other[0] for one, other in zip(rows, found[names[0]]))
        tails, beside, left = (sorted(row[over] / row[under] for row in rows) for over, under in ((2, 3), (5, 3), (2, 5)))
        growth = sorted(row[1] for row in rows)
        stolen = "–".join(str(edge([row[4] for row in rows])) for edge in (min, max))
        print(f"| {name} | {middle[0]:.2f} | {spread(ratios)} | {spread(growth)} | {middle[2]:.0f} | {spread(tails)} | {spread(beside)} | "
              f"{spread(left)} | {stolen} | {sum(row[6] for row in rows)} of {3 * len(rows)} |")


def spread(values):
    return f"{statistics.median(values):.2f} [{values[0]:.2f}–{values[-1]:.2f}]"


def main():
    parser = sides.parser(__doc__)
    parser.add_argument("--loadgen", required=True)
    parser.add_argument("--replica", default="redis-server", help="the program of the replicas")
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--part", choices=["writes", "synchronisation", "both"], default="both")
    arguments = parser.parse_args()
    definitions = sides.definitions(arguments)
    names = [name for name, _ in definitions]
    rows = []
    if arguments.part != "synchronisation":
        found = writes(definitions, arguments.replica, arguments.passes)
        print_writes(found, names)
        rows += [(load, name, number, *sample, "", "") for load, by_server in found.items()
                 for name, samples in by_server.items() for number, sample in enumerate(samples, 1)]
    if arguments.part != "writes":
        found = synchronisations(definitions, arguments)
        print_synchronisations(found, names, arguments.keys)
        rows += [("synchronisation", name, number, *sample)
                 for name, samples in found.items() for number, sample in enumerate(samples, 1)]
    if arguments.out:
        sides.write_raw(arguments.out, definitions, COLUMNS, rows)


def synchronisations(definitions, arguments):
    found = {name: [] for name, _ in definitions}
    scheduled = {name: [] for name, _ in definitions}
    with tempfile.TemporaryDirectory() as saved:
        save_keys(arguments.replica, arguments.keys, saved)
        for number in range(arguments.passes):
            first = number % len(definitions)
            for definition in definitions[first:] + definitions[:first]:
                sample = synchronise(definition, arguments.loadgen, arguments.replica, arguments.keys, saved,
                                     scheduled[definition[0]])
                found[definition[0]].append(sample)
    print_scheduled(scheduled)
    return found


if __name__ == "__main__":
    main()
