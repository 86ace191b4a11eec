#!/usr/bin/env python3
"""What a large command does to others: latency of GETs alone, and while SUNION of two sets of a million runs.

  victims.py --loadgen target/release/loadgen --server NAME=COMMAND ... [--rate 5000] [--seconds 8] [--repeats 3]

GETs come at a fixed rate (open loop, 20 connections, latency from the intended send time); one connection asks for the
union, reads the reply and asks again. Alone and beside it, in turn; medians over repeats. The GETs' keys are on another
shard than the sets where there are two (their hash slots differ in the lowest bit): a GET of the same shard waits for
the union in any case, and whatever its connection has asked behind it waits for its turn.
"""

import argparse
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


def slot(tag):
    """The hash slot of a tag: CRC16 (XMODEM) modulo 16384."""
    return binascii.crc_hqx(tag.encode(), 0) % 16384


OTHER = next(tag for tag in "abcdefgh" if slot(tag) % 2 != slot("large") % 2)
PREFIX = "{" + OTHER + "}:"


def gets(loadgen, server, rate, seconds):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "gets.json")
        subprocess.run(
            [loadgen, "-p", str(server.port), "-c", "20", "--ratio", "0:1", "--key-maximum", str(KEYS), "-d", "64", "--key-prefix", PREFIX,
             "--rate-limiting", str(rate), "--test-time", str(seconds), "--json-out-file", out, "--quiet"],
            check=True, stdout=subprocess.DEVNULL)
        with open(out) as file:
            return json.load(file)["totals"]["latency_us"]


class Unions:
    """One connection that asks for the union again and again."""

    def __init__(self, server):
        self.connection = socket.create_connection(("127.0.0.1", server.port))
        self.took = []
        self.is_over = False
        self.thread = threading.Thread(target=self.ask)
        self.thread.start()

    def ask(self):
        while not self.is_over:
            start = time.monotonic()
            self.connection.sendall(sides.request("SUNION", "{large}:one", "{large}:other"))
            # One line for the number of members, and two for each of them.
            left = 1 + 2 * (MEMBERS + MEMBERS // 2)
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", action="append", required=True, metavar="NAME=COMMAND")
    parser.add_argument("--loadgen", required=True)
    parser.add_argument("--rate", type=int, default=5000)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    print("| server | alone: p50 / p99 / max, ms | beside SUNION of 1M: p50 / p99 / max, ms | unions, seconds each |")
    print("|---|---:|---:|---:|")
    for definition in arguments.server:
        server = sides.Server(*definition.split("=", 1))
        server.pipe(("SET", f"{PREFIX}{n}", "v" * 64) for n in range(KEYS + 1))
        server.pipe(("SADD", "{large}:one", f"member:{n}") for n in range(MEMBERS))
        server.pipe(("SADD", "{large}:other", f"member:{n}") for n in range(MEMBERS // 2, MEMBERS + MEMBERS // 2))
        alone, beside, took = [], [], []
        for _ in range(arguments.repeats):
            alone.append(gets(arguments.loadgen, server, arguments.rate, arguments.seconds))
            unions = Unions(server)
            beside.append(gets(arguments.loadgen, server, arguments.rate, arguments.seconds))
            took += unions.end()
        server.stop()
        shown = [" / ".join(f"{statistics.median(run[field] for run in runs) / 1000:.2f}" for field in ("p50", "p99", "max"))
                 for runs in (alone, beside)]
        each = f"{statistics.median(took):.2f}" if took else "none came to its end"
        print(f"| {server.name} | {shown[0]} | {shown[1]} | {each} |", flush=True)


if __name__ == "__main__":
    main()
