#!/usr/bin/env python3
"""What order over shards costs: events of keys, SCAN, and commands over several shards behind plain ones.

  price_of_order.py --server one='target/release/shardrace --engine actor --shards 1 --port {port} --dir {dir} --appendonly no' \
                    --server four='target/release/shardrace --engine actor --shards 4 --port {port} --dir {dir} --appendonly no'

For each server and cell, the median over passes (least and most after it) of requests a second, and the CPU of the
server in microseconds for each request (for each key in the cells of SCAN). Connections send pipelines of 64 and read
all replies of one before the next.
  events     SET of keys on all shards, or of one (a hash tag), without events and with `notify-keyspace-events KEA`. The
             price of their order (docs/adr/0008) is what on/all loses to off/all beyond what on/tag loses to off/tag
  scan       all of 100,000 keys in pages of COUNT 10, 100 and 1000, one page after the other
  behind     pipelines of 64 SETs; of 63 SETs and an MSET of two keys at their end; of 32 SETs and 32 such MSETs in turn;
             and of 64 MSETs, which shows what an MSET costs by itself
With three passes and two servers it takes about 90 seconds.
"""
import argparse, os, shlex, shutil, signal, socket, statistics, subprocess, sys, tempfile, threading, time

TICK = os.sysconf("SC_CLK_TCK")
PIPELINE = 64
SECONDS = 1.0
KEYS = 100_000


def request(*words):
    words = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""

    def oks(self, requests, count):
        """Sends requests that are all replied +OK."""
        self.socket.sendall(requests)
        wanted = b"+OK\r\n" * count
        got = b""
        while len(got) < len(wanted):
            part = self.socket.recv(1 << 20)
            if not part:
                sys.exit("the server closed a connection")
            got += part
        if got != wanted:
            sys.exit(f"the server replied {got[:200]!r}")

    def line(self):
        while b"\r\n" not in self.rest:
            part = self.socket.recv(1 << 20)
            if not part:
                sys.exit("the server closed a connection")
            self.rest += part
        line, self.rest = self.rest.split(b"\r\n", 1)
        return line

    def value(self):
        line = self.line()
        kind, rest = line[:1], line[1:]
        if kind == b"*":
            return [self.value() for _ in range(int(rest))]
        if kind == b"$":
            while len(self.rest) < int(rest) + 2:
                self.rest += self.socket.recv(1 << 20)
            text, self.rest = self.rest[: int(rest)], self.rest[int(rest) + 2 :]
            return text
        if kind == b"-":
            sys.exit(f"the server replied {line!r}")
        return rest

    def ask(self, *words):
        self.socket.sendall(request(*words))
        return self.value()


class Server:
    def __init__(self, command):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.dir = tempfile.mkdtemp(prefix="order-")
        log = open(os.path.join(self.dir, "server.log"), "wb")
        self.process = subprocess.Popen(shlex.split(command.format(port=self.port, dir=self.dir)), stdout=log, stderr=log)
        for _ in range(400):
            try:
                Client(self.port).ask("PING")
                return
            # Nobody is there yet, or it loads.
            except (OSError, SystemExit):
                time.sleep(0.05)
        sys.exit(f"the server does not start: see {self.dir}/server.log")

    def cpu(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)
        shutil.rmtree(self.dir)


def run(server, connections, pipelines):
    """Requests a second, and CPU in microseconds for each, where each connection sends these pipelines in turn."""
    done, ends = [0] * connections, time.monotonic() + SECONDS

    def work(number):
        client, turn = Client(server.port), 0
        while time.monotonic() < ends:
            client.oks(pipelines[turn % len(pipelines)], PIPELINE)
            done[number] += PIPELINE
            turn += 1

    cpu, begin = server.cpu(), time.monotonic()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(connections)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    count = sum(done)
    return count / (time.monotonic() - begin), (server.cpu() - cpu) * 1e6 / count


def of_sets(name):
    """Pipelines of SET over keys of the form that `name` makes of a number."""
    return [b"".join(request("SET", name(turn * PIPELINE + at), "value") for at in range(PIPELINE)) for turn in range(32)]


def of_both(is_mset):
    def one(number, at):
        if is_mset(at):
            return request("MSET", f"key:{number}", "value", f"other:{number}", "value")
        return request("SET", f"key:{number}", "value")

    return [b"".join(one(turn * PIPELINE + at, at) for at in range(PIPELINE)) for turn in range(32)]


def scan(server, count):
    client, cursor, seen = Client(server.port), b"0", 0
    cpu, begin, pages = server.cpu(), time.monotonic(), 0
    while True:
        cursor, keys = client.ask("SCAN", cursor.decode(), "COUNT", count)
        seen, pages = seen + len(keys), pages + 1
        if cursor == b"0":
            break
    if seen < KEYS:
        sys.exit(f"SCAN showed {seen} keys of {KEYS}")
    return pages / (time.monotonic() - begin), (server.cpu() - cpu) * 1e6 / seen


def one_pass(server, connections):
    client = Client(server.port)
    cells = {}
    for events in ["", "KEA"]:
        client.ask("CONFIG", "SET", "notify-keyspace-events", events)
        for keys, name in [("all", lambda number: f"key:{number}"), ("tag", lambda number: f"{{tag}}:{number}")]:
            cells[f"events {'on' if events else 'off'}/{keys}"] = run(server, connections, of_sets(name))
    client.ask("CONFIG", "SET", "notify-keyspace-events", "")
    for title, is_mset in [
        ("behind 64 SET", lambda at: False),
        ("behind 63 SET, MSET", lambda at: at == PIPELINE - 1),
        ("behind SET, MSET in turn", lambda at: at % 2 == 1),
        ("behind 64 MSET", lambda at: True),
    ]:
        cells[title] = run(server, connections, of_both(is_mset))
    client.ask("FLUSHALL")
    for begin in range(0, KEYS, 1000):
        client.oks(b"".join(request("SET", f"scanned:{number}", "v") for number in range(begin, begin + 1000)), 1000)
    for count in [10, 100, 1000]:
        cells[f"scan COUNT {count}"] = scan(server, count)
    return cells


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", action="append", required=True, help="NAME=COMMAND, with {port} and {dir}")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--connections", type=int, default=2)
    arguments = parser.parse_args()
    found = {}
    for _ in range(arguments.passes):
        for server in arguments.server:
            name, command = server.split("=", 1)
            process = Server(command)
            for cell, figures in one_pass(process, arguments.connections).items():
                found.setdefault(cell, {}).setdefault(name, []).append(figures)
            process.stop()
    for cell, servers in found.items():
        for name, figures in servers.items():
            shown = []
            for place, unit in [(0, "/s"), (1, " us")]:
                values = sorted(figure[place] for figure in figures)
                digits = 0 if place == 0 else 2
                shown.append(f"{statistics.median(values):,.{digits}f}{unit} ({values[0]:,.{digits}f}..{values[-1]:,.{digits}f})")
            print(f"{cell:26} {name:10} {shown[0]:>40} {shown[1]:>30}")


if __name__ == "__main__":
    main()
