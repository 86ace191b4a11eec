#!/usr/bin/env python3
"""Latency and memory while the log is rewritten under load, and before and after it.

  rewriting.py --loadgen PATH --server redis='redis-server --port {port} --dir {dir} --save "" --appendonly yes
      --auto-aof-rewrite-percentage 0' --server NAME=COMMAND ... [--keys 1000000] [--rate 10000] [--seconds 10]

Each server has a million keys with values of 100 bytes, and gets requests at a fixed rate (half GET, half SET, 50
connections, open loop: latency from the time at which each was due). A phase takes so many seconds; in the second one
BGREWRITEAOF follows BGREWRITEAOF. Memory, every 50 ms: used_memory, and proportional set sizes of the process and its
children, since a fork counts. What the hypervisor took away meanwhile is given, too, and how many runs loadgen calls
invalid because it lagged behind its own schedule. Servers take turns, each pass has a fresh one.
"""

import signal
import statistics
import threading
import time

import sides

PHASES = ("before", "during", "after")
COLUMNS = ("server", "pass", "phase", "p50 in us", "p99 in us", "max in us", "used_memory in MB", "set size in MB",
           "rewritings", "seconds of one", "ms stolen", "invalid")


def is_rewriting(server):
    info = sides.info(server, "persistence")
    return "1" in (info["aof_rewrite_in_progress"], info["aof_rewrite_scheduled"])


def rewrite(server):
    """Rewrites the log; seconds."""
    begun = time.monotonic()
    server.command("BGREWRITEAOF")
    sides.until("rewriting", lambda: not is_rewriting(server))
    return time.monotonic() - begun


def rewrite_for_ever(server, ends, took):
    while not ends.is_set():
        took.append(rewrite(server))


def memory_mb(server):
    return int(sides.info(server, "memory")["used_memory"]) / (1 << 20), sides.memory_kb(server.process.pid) / 1024


def phase(server, name, arguments):
    ends, took, stolen = threading.Event(), [], sides.stolen_ms()
    watcher, sizes = sides.every(0.05, lambda: memory_mb(server), ends)
    rewriter = threading.Thread(target=rewrite_for_ever, args=(server, ends, took))
    if name == "during":
        rewriter.start()
    flags = ["-c", 50, "-d", 100, "--key-maximum", arguments.keys, "--ratio", "1:1", "--rate-limiting", arguments.rate,
             "--test-time", arguments.seconds]
    latency, is_valid = sides.open_loop(arguments.loadgen, server, flags)
    ends.set()
    watcher.join()
    if name == "during":
        rewriter.join()
    used, whole = (max(column) for column in zip(*sizes))
    each = statistics.median(took) if took else 0.0
    stolen = sides.stolen_ms() - stolen
    return latency["p50"], latency["p99"], latency["max"], used, whole, len(took), each, stolen, int(not is_valid)


def one_pass(name, command, arguments):
    server = sides.Server(name, command)
    try:
        server.pipe(("SET", f"memtier-{number}", "v" * 100) for number in range(arguments.keys))
        return {name: phase(server, name, arguments) for name in PHASES}
    finally:
        server.stop(signal.SIGKILL)


def main():
    parser = sides.parser(__doc__)
    parser.add_argument("--loadgen", required=True)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--passes", type=int, default=3)
    arguments = parser.parse_args()
    definitions = sides.definitions(arguments)
    rows = [(name, number, when, *sample)
            for number in range(1, arguments.passes + 1)
            for name, command in definitions
            for when, sample in one_pass(name, command, arguments).items()]
    print_table(rows, [name for name, _ in definitions])
    if arguments.out:
        sides.write_raw(arguments.out, definitions, COLUMNS, rows)


def print_table(rows, names):
    print("| server | phase | p50, µs | p99, µs | longest, µs | used_memory, MB | set size, MB | rewritings | seconds of one | stolen, ms | invalid |")
    print("|---|---" + "|---:" * 9 + "|")
    for name in names:
        for when in PHASES:
            columns = list(zip(*(row[3:] for row in rows if (row[0], row[2]) == (name, when))))
            p50, p99, most, used, whole, count, each, stolen, _ = (statistics.median(column) for column in columns)
            spread = f"{p99:.0f} [{min(columns[1]):.0f}–{max(columns[1]):.0f}]"
            print(f"| {name} | {when} | {p50:.0f} | {spread} | {most:.0f} | {used:.1f} | {whole:.1f} | {count:.0f} | {each:.2f} | {stolen:.0f} | {sum(columns[-1])} of {len(columns[-1])} |")


if __name__ == "__main__":
    main()
