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
import argparse, os, shlex, signal, socket, statistics, subprocess, sys, tempfile, threading, time

MB = 1 << 20
TICK = os.sysconf("SC_CLK_TCK")


def request(*words):
    words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


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
        self.send(request(*words))
        reply = b""
        while not reply.endswith(b"\r\n"):
            reply += self.socket.recv(4096)
        return reply


def bulk_len(length):
    return len(b"$%d\r\n" % length) + length + 2


class Server:
    def __init__(self, command, port):
        self.port = port
        self.dir = tempfile.mkdtemp(prefix="large-")
        log = open(os.path.join(self.dir, "server.log"), "wb")
        self.process = subprocess.Popen(shlex.split(command.format(port=port, dir=self.dir)), stdout=log, stderr=log)
        for _ in range(400):
            try:
                if Client(port).ask("PING").startswith(b"+PONG"):
                    return
            except OSError:
                time.sleep(0.05)
        sys.exit("no answer from %s; its log is in %s" % (command, self.dir))

    def cpu(self):
        fields = open("/proc/%d/stat" % self.process.pid).read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def memory(self, field):
        lines = open("/proc/%d/status" % self.process.pid).read().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith(field))) / 1024

    def forget_peak(self):
        open("/proc/%d/clear_refs" % self.process.pid, "w").write("5")

    def stop(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def longest_ping(port, until, found):
    client, longest = Client(port), 0.0
    while not until.is_set():
        start = time.monotonic()
        client.ask("PING")
        longest = max(longest, time.monotonic() - start)
        time.sleep(0.002)
    found.append(longest)


def get(server):
    length = 200 * MB
    client = Client(server.port)
    client.ask("SETRANGE", "large", length - 1, "v")
    client.send(request("GET", "large")); client.skip(bulk_len(length))
    done, found = threading.Event(), []
    pinger = threading.Thread(target=longest_ping, args=(server.port, done, found))
    pinger.start(); time.sleep(0.05)
    before = server.cpu()
    client.send(request("GET", "large")); client.skip(bulk_len(length))
    used = server.cpu() - before
    done.set(); pinger.join()
    client.ask("DEL", "large")
    return {"get CPU s": used, "longest PING s": found[0]}


def grown(server, work):
    server.forget_peak()
    before = server.memory("VmRSS")
    work()
    return server.memory("VmHWM") - before


def pipeline(server):
    client = Client(server.port)
    requests = request("GET", "megabyte") * 300
    start, cpu = time.monotonic(), server.cpu()
    def work():
        client.send(requests); client.skip(300 * bulk_len(MB))
    more = grown(server, work)
    return {"pipeline s": time.monotonic() - start, "pipeline CPU s": server.cpu() - cpu, "pipeline MB": more}


def execute(server):
    client = Client(server.port)
    client.ask("MULTI")
    for _ in range(48):
        client.ask("GET", "megabyte")
    def work():
        client.send(request("EXEC")); client.skip(len(b"*48\r\n") + 48 * bulk_len(MB))
    return {"exec MB": grown(server, work)}


def slow(server):
    def work():
        clients = [Client(server.port) for _ in range(8)]
        for client in clients:
            client.socket.settimeout(0.2)
            try:
                client.send(request("GET", "megabyte") * 2000)
            except OSError:
                pass  # the server reads no more, or has closed it
        time.sleep(2)
        for client in clients:
            client.socket.close()
    return {"slow MB": grown(server, work)}


def one_pass(command, port):
    server = Server(command, port)
    try:
        Client(server.port).ask("SET", "megabyte", b"v" * MB)
        start = server.memory("VmRSS")
        cells = {}
        for part in (pipeline, execute, get, slow):
            cells.update(part(server))
        time.sleep(15)
        cells["rest MB"] = server.memory("VmRSS") - start
        return cells
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", action="append", required=True, metavar="NAME=COMMAND")
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--base-port", type=int, default=7900)
    options = parser.parse_args()
    results = {}
    for number in range(options.passes):
        for index, server in enumerate(options.server):
            name, command = server.split("=", 1)
            for cell, value in one_pass(command, options.base_port + index).items():
                results.setdefault((name, cell), []).append(value)
    names = [server.split("=", 1)[0] for server in options.server]
    cells = list(dict.fromkeys(cell for _, cell in results))
    print("| " + " | ".join(["", *names]) + " |")
    print("|" + "---|" * (len(names) + 1))
    for cell in cells:
        shown = []
        for name in names:
            values = results[name, cell]
            shown.append("%.3g (%.3g-%.3g)" % (statistics.median(values), min(values), max(values)))
        print("| %s | %s |" % (cell, " | ".join(shown)))


main()
