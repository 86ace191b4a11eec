#!/usr/bin/env python3
"""Measures servers side by side with an independent client, redis-benchmark: `make side-by-side`.

All servers run at once. Within each pass every load runs on every server in turn, the order rotating, so that the drift
of a shared machine falls on all alike. Each cell is the median, over the passes, of the ratio to the first server in that
same pass, with the least and the greatest; the passes themselves follow the table, so that it can be computed again
(`experiments verify` does), each with the cores that others used. A sample during which others used more than --foreign
cores is run again, twice at most, and the least disturbed of them counts; the output says how many remained disturbed.

Our engines are those in target/release; redis-server and valkey-server join where they are on PATH or named. One that
is absent is named in the output. Servers listen on 127.0.0.1, and end by their own process ids.
"""
import argparse, csv, io, os, platform, shlex, shutil, socket, statistics, subprocess, sys, tempfile, time

LOADS = {  # arguments of redis-benchmark, requests, keys
    "P1c50": (["-P", "1", "-c", "50", "-d", "64"], 100_000, 100_000),
    "P16c50": (["-P", "16", "-c", "50", "-d", "64"], 1_000_000, 100_000),
    "P64c50": (["-P", "64", "-c", "50", "-d", "64"], 2_000_000, 100_000),
    "P16c200d1024": (["-P", "16", "-c", "200", "-d", "1024"], 600_000, 100_000),
    "P1c1000": (["-P", "1", "-c", "1000", "-d", "64"], 100_000, 10_000),
}
DEFAULT_LOADS = list(LOADS)
# By size of value, for --loads: as many requests as move 2 GB, and keys that hold 64 MB at most.
for size in (8, 512, 4096, 16_384, 32_768, 49_152, 65_536, 131_072, 262_144, 1_048_576):
    for pipeline, most in ((1, 50_000), (16, 500_000)):
        words = ["-P", str(pipeline), "-c", "50", "-d", str(size)]
        LOADS["P%dc50d%d" % (pipeline, size)] = (words, min(most, 2_000_000_000 // size), min(10_000, 64_000_000 // size))
TICK = os.sysconf("SC_CLK_TCK")
PEER = '{path} --bind 127.0.0.1 --port {{port}} --dir {{dir}} --save "" --appendonly no'
OURS = '{path} --engine {engine} --bind 127.0.0.1 --port {{port}} --dir {{dir}} --save "" --appendonly no'


class Server:
    def __init__(self, name, command):
        self.name, self.command = name, command
        self.folder = tempfile.mkdtemp(prefix="side-by-side-")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.log = open(os.path.join(self.folder, "server.log"), "ab")
        words = shlex.split(command.format(port=self.port, dir=self.folder))
        self.process = subprocess.Popen(words, stdout=self.log, stderr=self.log)
        self.wait()

    def wait(self):
        for _ in range(400):
            try:
                # A server that does not know PING is there as well.
                if self.ask("PING")[:1] in ("+", "-"):
                    return
            except OSError:
                pass
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        sys.exit("%s does not answer: %s (log: %s)" % (self.name, self.command, self.log.name))

    def ask(self, *words):
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            request = "*%d\r\n" % len(words) + "".join("$%d\r\n%s\r\n" % (len(word), word) for word in words)
            connection.sendall(request.encode())
            reply = b""
            while not reply.endswith(b"\r\n") or (reply[:1] == b"$" and len(reply) < int(reply[1:reply.index(b"\r")]) + 4):
                part = connection.recv(1 << 16)
                if not part:
                    break
                reply += part
            return reply.decode(errors="replace")

    def info(self):
        lines = [line.split(":", 1) for line in self.ask("INFO", "all").splitlines() if ":" in line]
        return {field: value for field, value in lines}

    def cpu(self):
        fields = open("/proc/%d/stat" % self.process.pid).read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def peak_mib(self):
        lines = open("/proc/%d/status" % self.process.pid)
        return int([line.split()[1] for line in lines if line.startswith("VmHWM")][0]) // 1024

    def end(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def machine_busy():
    ticks = list(map(int, open("/proc/stat").readline().split()[1:]))
    return (sum(ticks) - ticks[3] - ticks[4]) / TICK


def sample(bench, server, test, load):
    """Requests per second, server CPU and client CPU per request in microseconds, and the cores that others used."""
    arguments, requests, keys = LOADS[load]
    busy, used, client, begun = machine_busy(), server.cpu(), os.times(), time.time()
    command = [bench, "-h", "127.0.0.1", "-p", str(server.port), "-t", test, "-n", str(requests), "-r", str(keys), "--csv"]
    output = subprocess.run(command + arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=300)
    seconds, used, after = time.time() - begun, server.cpu() - used, os.times()
    client = after.children_user + after.children_system - client.children_user - client.children_system
    rows = [row for row in csv.reader(io.StringIO(output.stdout)) if len(row) >= 2 and row[0].lower() == test]
    if not rows:
        sys.exit("%s says nothing of %s on %s: %s" % (bench, test, server.name, output.stdout[-300:]))
    foreign = (machine_busy() - busy - used - client) / max(seconds, 1e-9)
    return (float(rows[-1][1]), used / requests * 1e6, client / requests * 1e6), foreign


def quiet_sample(arguments, server, test, load):
    """The first sample without others, or the one of three that had the least of them, and how many cores they used."""
    samples = []
    for _ in range(3):
        samples.append(sample(arguments.bench, server, test, load))
        if samples[-1][1] <= arguments.foreign:
            break
    return min(samples, key=lambda one: one[1])


def measure(arguments, servers, loads, tests):
    """The passes, and which cells were disturbed in how many of them."""
    passes, disturbed = [], {}
    for number in range(arguments.passes):
        here = 0
        for load in loads:
            for test in tests:
                first = number % len(servers)
                for server in servers[first:] + servers[:first]:
                    found, foreign = quiet_sample(arguments, server, test, load)
                    passes.append((number + 1, load, test, server.name, found, foreign))
                    if foreign > arguments.foreign:
                        here += 1
                        disturbed[(load, test, server.name)] = disturbed.get((load, test, server.name), 0) + 1
        print("pass %d of %d, %d cells disturbed" % (number + 1, arguments.passes, here), file=sys.stderr)
    return passes, disturbed


def notes(arguments, passes, disturbed):
    """How much of the table others had a part in."""
    yield "# disturbed (others used more than %g cores in the best of three samples): %d of %d samples" % (
        arguments.foreign, sum(disturbed.values()), len(passes))
    for (load, test, name), count in sorted(disturbed.items()):
        yield "# disturbed: %s %s %s in %d of %d passes" % (load, test, name, count, arguments.passes)


def table(passes, servers, loads, tests):
    line = "%-14s %-4s %-14s %10.0f %8.2f %5.2f [%.2f-%.2f] %5.2f [%.2f-%.2f] %6.2f"
    yield "%-14s %-4s %-14s %10s %8s %16s %16s %s" % (
        "load", "test", "server", "rps", "us/op", "rps ratio", "us/op ratio", "client us/op")
    median = statistics.median
    for load in loads:
        for test in tests:
            of = lambda name: [found for _, l, t, n, found, _ in passes if (l, t, n) == (load, test, name)]
            base = of(servers[0].name)
            for server in servers:
                own = of(server.name)
                rate = [x[0] / y[0] for x, y in zip(own, base)]
                cpu = [x[1] / y[1] for x, y in zip(own, base) if y[1]]
                yield line % (load, test, server.name, median(x[0] for x in own), median(x[1] for x in own), median(rate),
                              min(rate), max(rate), median(cpu), min(cpu), max(cpu), median(x[2] for x in own))


def facts(servers, loads):
    cpu = [line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    run = lambda *words: subprocess.run(words, capture_output=True, text=True).stdout.strip()
    dirty = " with uncommitted changes" if run("git", "status", "--porcelain", "--untracked-files=no") else ""
    yield "# machine: %s, %d cores, Linux %s" % (cpu[0] if cpu else platform.machine(), os.cpu_count(), platform.release())
    yield "# commit: %s%s" % (run("git", "rev-parse", "--short=12", "HEAD") or "unknown", dirty)
    yield "# begun: %s" % time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    yield "# working set: %s" % ", ".join("%s %d keys" % (load, LOADS[load][2]) for load in loads)
    for server in servers:
        info = server.info()
        version = info.get("valkey_version") or info.get("redis_version", "unknown")
        ours = "engine" in info
        threads = len(os.listdir("/proc/%d/task" % server.process.pid))
        io = info.get("io_threads_active")
        if ours:
            yield "# build of %s: sources %s" % (server.name, info.get("redis_build_id", "unknown"))
        yield "# server %s: version %s, allocator %s, %s, %s%d threads in the process; %s" % (
            server.name, version, info.get("mem_allocator", "unknown"), shards_of(info),
            "io-threads active %s, " % io if io else "", threads, server.command)


def shards_of(info):
    """In words. What dashmap calls its shards is one: those that have locks are its table's."""
    if "engine" not in info:
        return "no shards"
    if info["engine"] == "dashmap":
        return "%s shards of its table" % info.get("map_shards", "unknown")
    return "%s shards" % info.get("shards", "unknown")


def default_servers(named):
    known = {text.split("=", 1)[0]: text.split("=", 1)[1] for text in named}
    target = os.path.join(os.environ.get("CARGO_TARGET_DIR", "target"), "release", "shardrace")
    servers = {}
    for peer in ["redis-server", "valkey-server"]:
        path = known.pop(peer, None) or shutil.which(peer)
        if path:
            servers[peer] = PEER.format(path=path) if "{port}" not in path else path
        else:
            print("ABSENT: %s is not on PATH; name it with --server %s=/path/to/it" % (peer, peer), file=sys.stderr)
    for engine in ["actor", "dashmap", "mutex"]:
        if not os.path.exists(target):
            sys.exit("%s does not exist: build it with `cargo build --release`" % target)
        servers[engine] = OURS.format(path=target, engine=engine)
    for name, path in known.items():
        servers[name] = PEER.format(path=path) if "{port}" not in path else path
    return servers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", action="append", default=[], metavar="NAME=COMMAND", help="a path, or a command with {port} and {dir}")
    parser.add_argument("--loads", default=",".join(DEFAULT_LOADS))
    parser.add_argument("--tests", default="set,get")
    parser.add_argument("--passes", type=int, default=7)
    parser.add_argument("--bench", default="redis-benchmark")
    parser.add_argument("--foreign", type=float, default=0.25)
    parser.add_argument("--out", default="docs/results/side-by-side.txt")
    arguments = parser.parse_args()
    if not shutil.which(arguments.bench):
        sys.exit("%s is not on PATH: install redis-tools" % arguments.bench)
    loads, tests, servers = arguments.loads.split(","), arguments.tests.split(","), []
    unknown = [load for load in loads if load not in LOADS]
    if unknown:
        sys.exit("no such load: %s; there are %s" % (", ".join(unknown), ", ".join(LOADS)))
    try:
        for name, command in default_servers(arguments.server).items():
            servers.append(Server(name, command))
        lines = list(facts(servers, loads))
        passes, disturbed = measure(arguments, servers, loads, tests)
        lines += table(passes, servers, loads, tests)
        lines += notes(arguments, passes, disturbed)
        lines += ["peak memory %-14s %d MiB" % (server.name, server.peak_mib()) for server in servers]
        lines += ["pass %d %s %s %s %r %r %r %.3f" % (number, load, test, name, *found, foreign) for number, load, test, name, found, foreign in passes]
        with open(arguments.out + ".new", "w") as file:
            file.write("\n".join(lines) + "\n")
        os.replace(arguments.out + ".new", arguments.out)
        print("written: %s" % arguments.out)
    finally:
        for server in servers:
            server.end()


main()
