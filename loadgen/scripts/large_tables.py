#!/usr/bin/env python3
"""The longest single commands over very large tables: while they grow, when most of them is deleted, SCAN of both, when
all is removed at once, and WATCH of many keys. What each took is the server's own measure (SLOWLOG): the network does not count.

    loadgen/scripts/large_tables.py target/release/shardrace [KEYS]

Each engine, and redis-server where there is one. That is given 5,000 keys to WATCH and not 100,000: it goes through the
list of them for each.
"""
import shutil, socket, subprocess, sys, tempfile, time

BINARY, KEYS = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5_000_000
KEPT_ONE_IN = 1000
WATCHED, WATCHED_OF_REDIS = 100_000, 5_000
START_S = 60


def request(*words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.file = self.socket.makefile("rb", 1 << 20)

    def reply(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise RuntimeError(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self.reply() for _ in range(int(rest))]
        return int(rest) if kind == b":" else rest

    def call(self, *words):
        self.socket.sendall(request(*words))
        return self.reply()

    def pipeline(self, requests, depth=200):
        batch = []
        for one in requests:
            batch.append(one)
            if len(batch) == depth:
                self.flush(batch)
        self.flush(batch)

    def flush(self, batch):
        self.socket.sendall(b"".join(batch))
        for _ in batch:
            self.reply()
        batch.clear()


def phase(client, what, act):
    """Runs something, and prints the longest commands of each name, in microseconds."""
    client.call("SLOWLOG", "RESET")
    client.call("CONFIG", "RESETSTAT")
    start = time.time()
    note = act() or ""
    longest = {}
    for entry in client.call("SLOWLOG", "GET", "-1"):
        longest.setdefault(entry[3][0].decode().upper(), []).append(entry[2])
    stats = client.call("INFO", "commandstats").decode()
    means = {}
    for line in stats.splitlines():
        if line.startswith("cmdstat_"):
            name, fields = line[8:].split(":")
            means[name.upper()] = dict(field.split("=") for field in fields.split(","))
    for name in sorted(means):
        if name.split("|")[0] in ("SLOWLOG", "CONFIG", "INFO", "PING"):
            continue
        took = max(longest.get(name, [0]))
        took = f"{took:8d}" if took else "   < 100"
        print(f"{what:34s} {name:8s} calls {int(means[name]['calls']):9d}  mean {float(means[name]['usec_per_call']):9.2f} us  longest {took} us  {note}", flush=True)


def scan(client, count, command=("SCAN",)):
    cursor, calls, keys = b"0", 0, 0
    while True:
        cursor, page = client.call(*command, cursor, "COUNT", count)
        calls, keys = calls + 1, keys + len(page)
        if cursor == b"0":
            return f"{keys} elements in {calls} pages"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


def connected(port):
    start = time.time()
    while True:
        try:
            return Client(port)
        except OSError:
            if time.time() - start > START_S:
                raise
            time.sleep(0.05)


def measure(title, command, watched_count):
    print(f"-- {title} keys={KEYS}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        port = free_port()
        arguments = command + ["--port", str(port), "--appendonly", "no", "--save", "", "--dir", directory]
        arguments += ["--slowlog-log-slower-than", "100", "--slowlog-max-len", "100000"]
        server = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            client = connected(port)
            keys = lambda: (b"key:%010d" % n for n in range(KEYS))
            gone = lambda: (b"key:%010d" % n for n in range(KEYS) if n % KEPT_ONE_IN)
            phase(client, "keys: grow", lambda: client.pipeline(request("SET", key, "v") for key in keys()))
            phase(client, "keys: SCAN COUNT 1000", lambda: scan(client, 1000))
            phase(client, "keys: delete all but one in 1000", lambda: client.pipeline(request("DEL", key) for key in gone()))
            phase(client, "keys left: SCAN COUNT 1000", lambda: scan(client, 1000))
            phase(client, "keys left: SCAN COUNT 10", lambda: scan(client, 10))
            phase(client, "members: grow", lambda: client.pipeline(request("SADD", "set", key) for key in keys()))
            phase(client, "members: SSCAN COUNT 1000", lambda: scan(client, 1000, ("SSCAN", "set")))
            phase(client, "members: remove all but one in 1000", lambda: client.pipeline(request("SREM", "set", key) for key in gone()))
            phase(client, "members left: SSCAN COUNT 1000", lambda: scan(client, 1000, ("SSCAN", "set")))
            phase(client, "members left: SSCAN COUNT 10", lambda: scan(client, 10, ("SSCAN", "set")))
            rank = lambda: client.pipeline(request("ZADD", "ranked", n * 7919 % KEYS, b"key:%010d" % n) for n in range(KEYS))
            for removal in ["UNLINK", "DEL"]:
                phase(client, "ranked: grow", rank)
                phase(client, "ranked: ZSCAN COUNT 1000", lambda: scan(client, 1000, ("ZSCAN", "ranked")))
                phase(client, f"ranked: {removal}", lambda: client.call(removal, "ranked") and None)
            for mode in ["ASYNC", "SYNC"]:
                client.pipeline(request("SET", key, "v") for key in keys())
                phase(client, f"keys: FLUSHALL {mode}", lambda: client.call("FLUSHALL", mode) and None)

            watched = [b"watched:%d" % n for n in range(watched_count)]
            other = Client(port)
            phase(client, f"WATCH of {watched_count:,} keys at once", lambda: client.call("WATCH", *watched) and None)
            phase(other, "a key that nobody watches", lambda: other.pipeline(request("SET", b"other:%d" % n, "v") for n in range(watched_count)))
            phase(other, f"one watched, {watched_count:,} times", lambda: other.pipeline(request("SET", watched[0], "v") for _ in range(watched_count)))
            phase(other, "each of them once", lambda: other.pipeline(request("SET", key, "v") for key in watched))

            def transaction():
                client.call("MULTI")
                client.call("PING")
                if client.call("EXEC") is not None:
                    raise RuntimeError("the watch was broken")

            phase(client, "EXEC", transaction)
            phase(client, f"WATCH of {watched_count:,} keys one by one", lambda: client.pipeline(request("WATCH", key) for key in watched))
            phase(client, "UNWATCH", lambda: client.call("UNWATCH") and None)
            crowd = [Client(port) for _ in range(1000)]
            phase(client, "one key watched by 1000", lambda: [one.call("WATCH", "crowd") for one in crowd] and None)
            phase(client, "its change", lambda: client.call("SET", "crowd", "v") and None)
        finally:
            server.terminate()
            server.wait()


for engine, shards in [("mutex", []), ("dashmap", []), ("actor", ["--shards", "2"])]:
    measure(" ".join([engine, *shards]), [BINARY, "--engine", engine, *shards], WATCHED)
if shutil.which("redis-server"):
    measure("redis-server", ["redis-server"], WATCHED_OF_REDIS)
