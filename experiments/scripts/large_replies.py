#!/usr/bin/env python3
"""What large replies cost, and what they do to others: one server after the other, several passes in turn.

  large_replies.py --server redis='redis-server --port {port} --save "" --appendonly no' \
                   --server actor='target/release/shardrace --engine actor --port {port} --dir {dir} --appendonly no'

Per server, the median over passes (least and most behind it):
  get        one GET of 200 MB: CPU of the server in seconds, and the longest PING of another connection meanwhile
  pipeline   300 GETs of 1 MB sent at once on one connection, read as fast as they come: seconds, CPU, and how far resident
             memory grew at its peak
  exec       MULTI, 48 GETs of 1 MB, EXEC: how far resident memory grew at its peak
  slow       8 connections that send 2,000 GETs of 1 MB each and read nothing for 2 s: how far resident memory grew
  rest       resident memory above that of the start, 15 s after all connections closed
A fresh server for each pass: what a peak took does not come back by itself everywhere.
"""
import os
import signal
import socket
import statistics
import sys
import threading
import time

import sides

MB = 1 << 20
PING_EVERY_S = 0.002


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=120)
        self.room = bytearray(4 * MB)

    def send(self, data):
        self.socket.sendall(data)

    def skip(self, count):
        while count:
            got = self.socket.recv_into(self.room, min(count, len(self.room)))
            if got == 0:
                sys.exit("the server closed a connection that reads")
            count -= got

    def ask(self, *words):
        self.send(sides.request(*words))
        reply = b""
        while not reply.endswith(b"\r\n"):
            reply += self.socket.recv(4096)
        return reply


def bulk_len(length):
    return len(b"$%d\r\n" % length) + length + 2


def memory_mb(server, field):
    with open(f"/proc/{server.process.pid}/status") as file:
        return int(next(line.split()[1] for line in file if line.startswith(field))) / 1024


def forget_peak(server):
    with open(f"/proc/{server.process.pid}/clear_refs", "w") as file:
        file.write("5")


def longest_ping(port, until, found):
    client, longest = Client(port), 0.0
    while not until.is_set():
        start = time.monotonic()
        client.ask("PING")
        longest = max(longest, time.monotonic() - start)
        time.sleep(PING_EVERY_S)
    found.append(longest)


def get(server):
    length = 200 * MB
    client = Client(server.port)
    client.ask("SETRANGE", "large", length - 1, "v")
    client.send(sides.request("GET", "large")); client.skip(bulk_len(length))
    done, found = threading.Event(), []
    pinger = threading.Thread(target=longest_ping, args=(server.port, done, found))
    pinger.start(); time.sleep(0.05)
    before = server.cpu_s()
    client.send(sides.request("GET", "large")); client.skip(bulk_len(length))
    used = server.cpu_s() - before
    done.set(); pinger.join()
    client.ask("DEL", "large")
    return {"get CPU s": used, "longest PING s": found[0]}


def grown(server, work):
    forget_peak(server)
    before = memory_mb(server, "VmRSS")
    work()
    return memory_mb(server, "VmHWM") - before


def pipeline(server):
    client = Client(server.port)
    requests = sides.request("GET", "megabyte") * 300
    start, cpu = time.monotonic(), server.cpu_s()
    def work():
        client.send(requests); client.skip(300 * bulk_len(MB))
    more = grown(server, work)
    return {"pipeline s": time.monotonic() - start, "pipeline CPU s": server.cpu_s() - cpu, "pipeline MB": more}


def execute(server):
    client = Client(server.port)
    client.ask("MULTI")
    for _ in range(48):
        client.ask("GET", "megabyte")
    def work():
        client.send(sides.request("EXEC")); client.skip(len(b"*48\r\n") + 48 * bulk_len(MB))
    return {"exec MB": grown(server, work)}


def slow(server):
    def work():
        clients = [Client(server.port) for _ in range(8)]
        for client in clients:
            client.socket.settimeout(0.2)
            try:
                client.send(sides.request("GET", "megabyte") * 2000)
            except OSError:
                pass  # the server reads no more, or has closed it
        time.sleep(2)
        for client in clients:
            client.socket.close()
    return {"slow MB": grown(server, work)}


def one_pass(name, command):
    server = sides.Server(name, command)
    try:
        Client(server.port).ask("SET", "megabyte", b"v" * MB)
        start = memory_mb(server, "VmRSS")
        cells = {}
        for part in (pipeline, execute, get, slow):
            cells.update(part(server))
        time.sleep(15)
        cells["rest MB"] = memory_mb(server, "VmRSS") - start
        return cells
    finally:
        server.stop(signal.SIGKILL)


def shown(values):
    return f"{statistics.median(values):.3g} ({min(values):.3g}-{max(values):.3g})"


def main():
    parser = sides.parser(__doc__)
    parser.add_argument("--passes", type=int, default=5)
    arguments = parser.parse_args()
    definitions = sides.definitions(arguments)
    rows = [(cell, number, name, float(value))
            for number in range(1, arguments.passes + 1)
            for name, command in definitions
            for cell, value in one_pass(name, command).items()]
    print("| " + " | ".join(["", *(name for name, _ in definitions)]) + " |")
    print("|---" * (len(definitions) + 1) + "|")
    for cell in dict.fromkeys(cell for cell, *_ in rows):
        values = [[value for c, _, n, value in rows if (c, n) == (cell, name)] for name, _ in definitions]
        print(f"| {cell} | {' | '.join(map(shown, values))} |")
    if arguments.out:
        sides.write_raw(arguments.out, definitions, ("what", "pass", "server", "value"), rows)


if __name__ == "__main__":
    main()
