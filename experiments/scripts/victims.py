#!/usr/bin/env python3
"""What a large command does to others: latency of GETs alone, and while SUNION of two sets of a million runs.

  victims.py --loadgen target/release/loadgen --server NAME=COMMAND ... [--rate 5000] [--seconds 8] [--repeats 3]
             [--command SINTERCARD] [--generator-nice -10]

GETs come at a fixed rate (open loop, 20 connections, latency from the intended send time); one connection asks for the
union, reads the reply and asks again. Alone and beside it, in turn, on all servers in each repeat; medians over repeats.
The GETs' keys are on another shard than the sets where there are two (their hash slots differ in the lowest bit): a GET
of the same shard waits for the union in any case, and whatever its connection has asked behind it waits for its turn.

A run is invalid if loadgen lagged behind its own schedule, which is in the latencies then.

SINTERCARD has a short reply: the client that reads a union takes a core by itself. --generator-nice runs the generator
of the GETs at that priority, so that it does not wait for a core itself; below 0 it needs root.
"""

import binascii
import json
import os
import socket
import statistics
import subprocess
import tempfile
import threading
import time

import sides

MEMBERS = 1_000_000
KEYS = 10_000
# What is taken from the latencies of a run.
FIELDS = ("p50", "p99", "max")


def slot(tag):
    """The hash slot of a tag: CRC16 (XMODEM) modulo 16384."""
    return binascii.crc_hqx(tag.encode(), 0) % 16384


OTHER = next(tag for tag in "abcdefgh" if slot(tag) % 2 != slot("large") % 2)
PREFIX = "{" + OTHER + "}:"


def gets(loadgen, server, rate, seconds, nice):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "gets.json")
        subprocess.run(
            [loadgen, "-p", str(server.port), "-c", "20", "--ratio", "0:1", "--key-maximum", str(KEYS), "-d", "64", "--key-prefix", PREFIX,
             "--rate-limiting", str(rate), "--test-time", str(seconds), "--json-out-file", out, "--quiet"],
            check=True, stdout=subprocess.DEVNULL, preexec_fn=lambda: os.nice(nice))
        with open(out) as file:
            found = json.load(file)
    return {**found["totals"]["latency_us"], "valid": found["valid"]}


# The words of each command, and how many lines its reply has: a union has one for the number of members, and two for each.
COMMANDS = {
    "SUNION": (["SUNION", "{large}:one", "{large}:other"], 1 + 2 * (MEMBERS + MEMBERS // 2)),
    "SINTERCARD": (["SINTERCARD", "2", "{large}:one", "{large}:other"], 1),
}


class Large:
    """One connection that sends the large command again and again."""

    def __init__(self, server, command):
        self.words, self.lines = COMMANDS[command]
        self.connection = socket.create_connection(("127.0.0.1", server.port))
        self.took = []
        self.is_over = False
        self.thread = threading.Thread(target=self.ask)
        self.thread.start()

    def ask(self):
        while not self.is_over:
            start = time.monotonic()
            self.connection.sendall(sides.request(*self.words))
            left = self.lines
            while left > 0:
                data = self.connection.recv(1 << 20)
                if not data:
                    return
                left -= data.count(b"\n")
            self.took.append(time.monotonic() - start)

    def end(self):
        self.is_over = True
        self.thread.join()
        self.connection.close()
        return self.took


def main():
    parser = sides.parser(__doc__)
    parser.add_argument("--loadgen", required=True)
    parser.add_argument("--rate", type=int, default=5000)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--command", choices=list(COMMANDS), default="SUNION")
    parser.add_argument("--generator-nice", type=int, default=0)
    arguments = parser.parse_args()
    definitions = sides.definitions(arguments)
    servers = [sides.Server(*definition) for definition in definitions]
    for server in servers:
        server.pipe(("SET", f"{PREFIX}{n}", "v" * 64) for n in range(KEYS + 1))
        server.pipe(("SADD", "{large}:one", f"member:{n}") for n in range(MEMBERS))
        server.pipe(("SADD", "{large}:other", f"member:{n}") for n in range(MEMBERS // 2, MEMBERS + MEMBERS // 2))
    found = {server.name: ([], [], []) for server in servers}
    for number in range(arguments.repeats):
        first = number % len(servers)
        for server in servers[first:] + servers[:first]:
            alone, beside, took = found[server.name]
            run = lambda: gets(arguments.loadgen, server, arguments.rate, arguments.seconds, arguments.generator_nice)
            alone.append(run())
            large = Large(server, arguments.command)
            beside.append(run())
            took.append(large.end())
    for server in servers:
        server.stop()
    show(arguments.command, found)
    if arguments.out:
        columns = ("repeat", "server", "when", "p50 in us", "p99 in us", "max in us", "large commands", "invalid")
        sides.write_raw(arguments.out, definitions, columns, samples(found))


def samples(found):
    for name, (alone, beside, took) in found.items():
        for number, (one, two, times) in enumerate(zip(alone, beside, took), 1):
            for when, run, count in (("alone", one, 0), ("beside", two, len(times))):
                yield number, name, when, *(run[field] for field in FIELDS), count, int(not run["valid"])


def show(command, found):
    print(f"| server | alone: p50 / p99 / max, ms | beside {command} of 1M: p50 / p99 / max, ms | p99, of alone | seconds each | invalid beside it |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, (alone, beside, took) in found.items():
        shown = [" / ".join(f"{statistics.median(run[field] for run in runs) / 1000:.2f}" for field in FIELDS)
                 for runs in (alone, beside)]
        ratio = statistics.median(two["p99"] / one["p99"] for one, two in zip(alone, beside))
        times = [second for run in took for second in run]
        each = f"{statistics.median(times):.2f}" if times else "none came to its end"
        print(f"| {name} | {shown[0]} | {shown[1]} | {ratio:.1f} | {each} | {sum(not run['valid'] for run in beside)} of {len(beside)} |")


if __name__ == "__main__":
    main()
