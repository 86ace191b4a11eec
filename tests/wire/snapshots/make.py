#!/usr/bin/env python3
"""Makes the snapshots in this directory, with a real server of a newer version than the oracle of the tests:

    make.py NAME PATH-OF-SERVER        redis-8.2: redis-server 8.2.3, valkey-9.1: valkey-server 9.1.2

Of each: NAME.rdb, NAME-expiring.rdb (the same with a hash of which a field expires), and NAME.dump, a line with the
payload of DUMP in hex for each key. Every line of `COMMANDS` is a request.
"""

import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMANDS = """
SET string text
SET integer 12345
SET until v PXAT 33177117420000
RPUSH list a 1 -70000
SADD set:integers 1 2 3
SADD set:texts a b c
SADD set:large {numbers:300:m}
HSET hash f 1 g two
HSET hash:large {pairs:600}
ZADD zset 1 a 2.5 b -inf c
ZADD zset:large {scores:300}
XADD stream 1-1 f v
XADD stream 2-1 f w g x
XGROUP CREATE stream group 0
XREADGROUP GROUP group consumer COUNT 1 STREAMS stream >
PFADD hll a b c
SELECT 3
SET other 3
SELECT 0
HSET hash:lasting f 1 g 2
HEXPIRE hash:lasting 1000 FIELDS 1 f
HPERSIST hash:lasting FIELDS 1 f
HSET hash:large:lasting {pairs:600}
HEXPIRE hash:large:lasting 1000 FIELDS 1 field:1
HPERSIST hash:large:lasting FIELDS 1 field:1
""".strip().splitlines()

EXPIRING = ["HSET hash:expiring f 1 g 2", "HEXPIRE hash:expiring 1000000000 FIELDS 1 f"]
LIBRARY = ["FUNCTION", "LOAD", "#!lua name=mylib\nredis.register_function('f', function() return 1 end)"]


def words(line):
    for word in line.split(" "):
        if word.startswith("{numbers:"):
            yield from (f"m{n}" for n in range(int(word.split(":")[1])))
        elif word.startswith("{pairs:"):
            for n in range(int(word[7:-1])):
                yield from (f"field:{n}", str(n))
        elif word.startswith("{scores:"):
            for n in range(int(word[8:-1])):
                yield from (str(n), f"member:{n}")
        else:
            yield word


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.file = self.socket.makefile("rb")

    def call(self, *words):
        words = [word.encode() if isinstance(word, str) else word for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        reply = self.reply()
        if isinstance(reply, str) and reply.startswith("-"):
            sys.exit(f"{words}: {reply}")
        return reply

    def reply(self):
        line = self.file.readline().rstrip(b"\r\n")
        kind, rest = line[:1], line[1:]
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        return line.decode()


def main():
    name, server = sys.argv[1:]
    here = Path(__file__).parent
    with tempfile.TemporaryDirectory() as directory:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        arguments = [server, "--port", str(port), "--bind", "127.0.0.1", "--dir", directory, "--save", ""]
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
        try:
            for _ in range(100):
                try:
                    client = Client(port)
                    break
                except OSError:
                    time.sleep(0.05)
            client.call(*LIBRARY)
            for line in COMMANDS:
                client.call(*words(line))
            client.call("SAVE")
            (here / f"{name}.rdb").write_bytes((Path(directory) / "dump.rdb").read_bytes())
            for line in EXPIRING:
                client.call(*words(line))
            payloads = {key: client.call("DUMP", key) for key in sorted(client.call("KEYS", "*"))}
            lines = [f"{key.decode()} {payload.hex()}\n" for key, payload in payloads.items()]
            (here / f"{name}.dump").write_text("".join(lines))
            client.call("SAVE")
            (here / f"{name}-expiring.rdb").write_bytes((Path(directory) / "dump.rdb").read_bytes())
        finally:
            process.terminate()
            process.wait()


main()
