"""What the scripts beside this one have in common: servers side by side, CPU from /proc, ratios of one pass.

All servers of a comparison run at once; in each pass every load runs on every server in turn, the order rotating, so
that drift of the machine hits all alike. A figure is the median over passes of the ratio to the first server of the
same pass, with the smallest and the largest.
"""

import os
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time

TICKS = os.sysconf("SC_CLK_TCK")
START_S = 60


class Server:
    """A server that was started on a free port in a folder of its own."""

    def __init__(self, name, command, directory=None):
        self.name = name
        self.line = command
        self.directory = directory or tempfile.mkdtemp(prefix="sides-")
        self.is_own_directory = directory is None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        words = shlex.split(command.format(port=self.port, dir=self.directory))
        self.log = open(os.path.join(self.directory, "server.log"), "ab")
        started = time.monotonic()
        self.process = subprocess.Popen(words, stdout=self.log, stderr=self.log)
        while self.command("PING") != b"+PONG":
            if self.process.poll() is not None or time.monotonic() - started > START_S:
                raise SystemExit(f"{name} did not start: {command}, see {self.log.name}")
            time.sleep(0.002)
        # From the start of the process to the first reply that is not -LOADING.
        self.start_s = time.monotonic() - started

    def command(self, *words):
        """The first line of a reply; None where there is no connection."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=START_S) as connection:
                connection.sendall(request(*words))
                return connection.makefile("rb").readline().rstrip()
        except OSError:
            return None

    def pipe(self, requests):
        """Sends requests and waits for the reply to a PING behind them."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=START_S) as connection:
            replies = connection.makefile("rb")
            buffer, count = [], 0
            for words in requests:
                buffer.append(request(*words))
                count += 1
                if count == 1000:
                    connection.sendall(b"".join(buffer))
                    skip(replies, count)
                    buffer, count = [], 0
            connection.sendall(b"".join(buffer))
            skip(replies, count)

    def cpu_s(self):
        """User and system time so far."""
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait()
        self.log.close()
        if self.is_own_directory:
            shutil.rmtree(self.directory, ignore_errors=True)


def request(*words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def skip(replies, count):
    """Reads simple replies: statuses and integers."""
    for _ in range(count):
        line = replies.readline()
        if not line.startswith((b"+", b":")):
            raise SystemExit(f"unexpected reply {line!r}")


def benchmark(server, requests, arguments):
    """One run of redis-benchmark: operations a second, and CPU microseconds of the server for each."""
    words = ["redis-benchmark", "-p", str(server.port), "-n", str(requests), "--csv", *arguments]
    cpu = server.cpu_s()
    out = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    used = server.cpu_s() - cpu
    row = out.strip().splitlines()[-1].split('","')
    return float(row[1].strip('"')), used / requests * 1e6


def compare(servers, loads, passes, run):
    """Runs every load on every server in each pass; gives {load: {server: [(throughput, cpu)]}}."""
    found = {load: {server.name: [] for server in servers} for load in loads}
    for number in range(passes):
        for load in loads:
            first = number % len(servers)
            for server in servers[first:] + servers[:first]:
                found[load][server.name].append(run(server, load))
    return found


def write_rows(path, found, servers, loads, label):
    """Writes what each pass measured, a row for each load, pass and server, below what the servers are."""
    with open(path, "w") as file:
        file.write("".join(f"# server {server.name}: {server.line}\n" for server in servers))
        file.write("load | pass | server | requests/s | us of CPU for each\n")
        for load in loads:
            for server in servers:
                for number, (throughput, cpu) in enumerate(found[load][server.name], 1):
                    file.write(f"{label(load)} | {number} | {server.name} | {throughput:.0f} | {cpu:.3f}\n")


def ratios(found, load, name, reference, which):
    """Median, least and greatest ratio to the reference of the same pass."""
    pairs = zip(found[load][name], found[load][reference])
    values = [one[which] / other[which] for one, other in pairs if other[which] > 0]
    return statistics.median(values), min(values), max(values)


def table(found, servers, loads, title, label):
    """Prints what the servers took by the first of them: a row for each load, named by `label`."""
    names = [server.name for server in servers[1:]]
    reference = servers[0].name
    print(f"\n| {title} | {reference}: µs of CPU | " + " | ".join(names) + " |")
    print("|---|---:" + "|---:" * len(names) + "|")
    for load in loads:
        own = statistics.median(cpu for _, cpu in found[load][reference])
        cells = []
        for name in names:
            cpu, least, most = ratios(found, load, name, reference, 1)
            throughput, _, _ = ratios(found, load, name, reference, 0)
            cells.append(f"{cpu:.2f} [{least:.2f}–{most:.2f}] / {throughput:.2f}")
        print(f"| {label(load)} | {own:.2f} | " + " | ".join(cells) + " |")
