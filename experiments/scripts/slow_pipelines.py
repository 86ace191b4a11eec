#!/usr/bin/env python3
"""What a pipeline of slow commands does to others: how long a PING of another connection waits beside it.

  slow_pipelines.py --server actor='target/release/shardrace --engine actor --io-threads 1 --port {port} --dir {dir}' \\
                    --server ... [--seconds 3] [--repeats 3] [--out docs/results/slow-pipelines.txt]

One connection sends a pipeline, of 250 KB where its commands are that short, all at once; it reads the replies as fast
as they come, or has asked for none. Another one, in a process of its own, sends a PING, waits for the reply, and sends
the next one 2 ms later (closed loop: a PING that waits delays the next, so medians say little; the maximum does not
suffer from it). All servers run; one is loaded at a time, in turn, in each repeat. With one thread each connection of
the server shares it with the pipeline.
"""

import multiprocessing
import selectors
import socket
import statistics
import time

import sides

ELEMENTS = [str(number) for number in range(10_000)]
SUBSCRIBERS = 1000
# What {} in a command stands for, in turn.
KEYS = 64
# The command, how often, and whether its replies are wanted.
PIPELINES = {
    "COMMAND DOCS, no replies": ("COMMAND DOCS", 18_000, False),
    "COMMAND DOCS": ("COMMAND DOCS", 18_000, True),
    "LRANGE of 10,000, no replies": ("LRANGE list 0 -1", 13_000, False),
    "LRANGE of 10,000": ("LRANGE list 0 -1", 13_000, True),
    "BITCOUNT of 2 MB": ("BITCOUNT bits", 18_000, True),
    "BITCOUNT of 2 MB, 64 keys": ("BITCOUNT bits:{}", 16_000, True),
    "SINTERCARD of 10,000": ("SINTERCARD 2 set set", 11_000, True),
    "PUBLISH to 1,000": ("PUBLISH channel m", 13_000, True),
    "EVAL of 100,000 rounds": ('EVAL "for i = 1, 1e5 do end" 0', 8_000, True),
}


def connect(port):
    return socket.create_connection(("127.0.0.1", port))


def read_all(port, ready):
    """The subscribers, which read what comes."""
    selector = selectors.DefaultSelector()
    for _ in range(SUBSCRIBERS):
        subscriber = connect(port)
        subscriber.sendall(b"SUBSCRIBE channel\r\n")
        subscriber.recv(1 << 16)
        selector.register(subscriber, selectors.EVENT_READ)
    ready.set()
    while True:
        for key, _ in selector.select():
            key.fileobj.recv(1 << 20)


def flood(port, line, count, is_read):
    connection = connect(port)
    if not is_read:
        connection.sendall(b"CLIENT REPLY OFF\r\n")
    reader = multiprocessing.Process(target=discard, args=(connection,))
    reader.start()
    try:
        connection.sendall("".join(line.format(turn % KEYS) + "\r\n" for turn in range(count)).encode())
        reader.join()
    finally:
        reader.kill()


def discard(connection):
    try:
        while connection.recv(1 << 20):
            pass
    except ConnectionResetError:
        pass  # The server was told to close it.


def pings(port, seconds):
    """How long each PING took, in seconds."""
    connection = connect(port)
    replies, took, end = connection.makefile("rb"), [], time.monotonic() + seconds
    while time.monotonic() < end:
        start = time.monotonic()
        connection.sendall(b"PING\r\n")
        replies.readline()
        took.append(time.monotonic() - start)
        time.sleep(0.002)
    return took


def beside(server, pipeline, seconds):
    line, count, is_read = PIPELINES[pipeline]
    subscribers = []
    if line.startswith("PUBLISH"):
        ready = multiprocessing.Event()
        subscribers = [multiprocessing.Process(target=read_all, args=(server.port, ready))]
        subscribers[0].start()
        ready.wait()
    flooding = multiprocessing.Process(target=flood, args=(server.port, line, count, is_read))
    flooding.start()
    time.sleep(0.1)
    took = pings(server.port, seconds)
    # What is left of the pipeline goes with its connection.
    server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    server.command("CLIENT", "KILL", "TYPE", "pubsub")
    for process in [flooding, *subscribers]:
        process.terminate()
        process.join()
    return took


def main():
    parser = sides.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    definitions = sides.definitions(arguments)
    servers = [sides.Server(*definition) for definition in definitions]
    for server in servers:
        server.pipe([("RPUSH", "list", *ELEMENTS), ("SADD", "set", *ELEMENTS), ("SETBIT", "bits", 16_000_000, 1)])
        server.pipe([("SETBIT", f"bits:{key}", 16_000_000, 1) for key in range(KEYS)])
    rows = []
    for repeat in range(arguments.repeats):
        first = repeat % len(servers)
        for pipeline in PIPELINES:
            for server in servers[first:] + servers[:first]:
                took = sorted(beside(server, pipeline, arguments.seconds))
                rows.append((repeat + 1, server.name, pipeline.replace(" ", "_"), len(took), *(
                    f"{1000 * value:.2f}"
                    for value in (statistics.median(took), took[len(took) * 99 // 100], took[-1]))))
    for server in servers:
        server.stop()
    show(servers, rows)
    if arguments.out:
        columns = ("repeat", "server", "pipeline", "PINGs", "p50 in ms", "p99 in ms", "max in ms")
        sides.write_raw(arguments.out, definitions, columns, rows)


def show(servers, rows):
    print("| pipeline | " + " | ".join(server.name for server in servers) + " |")
    print("|---|" + "---:|" * len(servers))
    for pipeline in PIPELINES:
        cells = []
        for server in servers:
            longest = [float(row[-1]) for row in rows if row[1:3] == (server.name, pipeline.replace(" ", "_"))]
            cells.append(f"{statistics.median(longest):.0f} [{min(longest):.0f}–{max(longest):.0f}]")
        print(f"| {pipeline} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
