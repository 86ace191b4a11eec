"""What the scripts beside this one have in common: servers side by side, CPU from /proc, ratios of one pass.

All servers of a comparison run at once; in each pass every load runs on every server in turn, the order rotating, so
that drift of the machine hits all alike. A figure is the median over passes of the ratio to the first server of the
same pass, with the smallest and the largest.
"""

import argparse
import json
import os
import platform
import shlex
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import threading
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


def info(server, section):
    """The fields of a section of INFO."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(request("INFO", section))
        stream = connection.makefile("rb")
        text = stream.read(int(stream.readline()[1:])).decode()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def until(what, is_true, seconds=120):
    """Waits, and returns for how many seconds."""
    begun = time.monotonic()
    while not is_true():
        if time.monotonic() - begun > seconds:
            raise SystemExit(f"{what} took more than {seconds} s")
        time.sleep(0.01)
    return time.monotonic() - begun


def every(seconds, look, ends):
    """Calls `look` regularly on another thread; returns the thread, and the list of what it returned."""
    found = []
    def watch():
        while not ends.is_set():
            found.append(look())
            time.sleep(seconds)
    thread = threading.Thread(target=watch)
    thread.start()
    return thread, found


def open_loop(loadgen, server, flags):
    """The latencies of requests at a fixed rate, in microseconds, from the time at which each was due; and whether loadgen
    calls the run valid: if it lagged behind its schedule, its own delay is in them."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.json")
        words = [loadgen, "--quiet", "-p", str(server.port), "--json-out-file", out, *map(str, flags)]
        subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
        with open(out) as file:
            found = json.load(file)
    return found["totals"]["latency_us"], found["valid"]


def memory_kb(pid):
    """Proportional set sizes of a process and its children."""
    total = 0
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        children = file.read().split()
    for one in [str(pid), *children]:
        try:
            with open(f"/proc/{one}/smaps_rollup") as file:
                total += next(int(line.split()[1]) for line in file if line.startswith("Pss:"))
        except (OSError, StopIteration):
            pass  # a child has ended
    return total


def stolen_ms():
    """What the hypervisor took from all cores so far."""
    with open("/proc/stat") as file:
        return int(file.readline().split()[8]) * 1000 // TICKS


def scheduled_ms(pid):
    """{thread: (its name, ms on a core, ms that it was ready and waited for one)}"""
    found = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/comm") as name, open(f"/proc/{pid}/task/{thread}/schedstat") as file:
                ran, waited, _ = file.read().split()
                found[thread] = (name.read().strip(), int(ran) / 1e6, int(waited) / 1e6)
        except OSError:
            pass  # It has ended meanwhile.
    return found


def idle_share(before):
    """The share of the cores' time since `before` in which they were idle, and what to pass the next time."""
    with open("/proc/stat") as file:
        now = [int(ticks) for ticks in file.readline().split()[1:9]]
    passed = [late - early for late, early in zip(now, before)] if before else now
    return (passed[3] + passed[4]) / max(sum(passed), 1), now


def compare(servers, loads, passes, run):
    """Runs every load on every server in each pass; gives {load: {server: [(throughput, cpu)]}}."""
    found = {load: {server.name: [] for server in servers} for load in loads}
    for number in range(passes):
        for load in loads:
            first = number % len(servers)
            for server in servers[first:] + servers[:first]:
                found[load][server.name].append(run(server, load))
    return found


def definitions(arguments):
    """The servers that were named, as names and commands."""
    return [tuple(definition.split("=", 1)) for definition in arguments.server]


def parser(text):
    """What every script takes: servers, and a file for what it measured."""
    flags = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--server", action="append", required=True, metavar="NAME=COMMAND")
    flags.add_argument("--out", help="write what was measured, sample by sample, to this file")
    return flags


def write_raw(path, servers, columns, rows):
    """Writes samples, a row each, below the machine, the commit and the servers (names and commands)."""
    with open("/proc/cpuinfo") as file:
        cpu = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True).stdout.strip()
    with open(path, "w") as file:
        file.write(f"# machine: {cpu[0] if cpu else platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}\n")
        file.write(f"# commit of the folder: {commit or 'unknown'}\n")
        file.write(f"# ended: {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}\n")
        for name, command in servers:
            file.write(f"# server {name}: {version(command)}; {command}\n")
        for row in [columns, *rows]:
            file.write(" | ".join(f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in row) + "\n")


def version(command):
    """What the program of a server says of itself."""
    said = subprocess.run([shlex.split(command)[0], "--version"], capture_output=True, text=True).stdout
    return " ".join(said.split()) or "unknown version"


def compared_rows(found, loads, label):
    """The samples of `compare`, for `write_raw`."""
    columns = ("load", "pass", "server", "requests/s", "us of CPU for each")
    rows = [(label(load), number, name, *sample)
            for load in loads for name, samples in found[load].items() for number, sample in enumerate(samples, 1)]
    return columns, rows


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
