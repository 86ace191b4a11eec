#!/usr/bin/env python3
"""How far memory is above maxmemory while clients write new keys.

  over_limit.py --server redis='redis-server --port {port} --dir {dir} --save "" --maxmemory 100mb
      --maxmemory-policy allkeys-lru' --server NAME=COMMAND ... [--passes 5]

Each server is full of values of 300 bytes. SET of new keys by 50 connections of redis-benchmark, pipelines 1 and 64;
used_memory is read all the time on one connection, buffers and requests in flight included. A row of the file has the
middle, the 99th percentile and the most of one run, in KB above the limit.
"""

import socket
import statistics
import threading

import sides

REQUESTS = {1: 200_000, 64: 1_500_000}
NEW_KEYS = 1_000_000_000


def set_new(server, pipeline, requests):
    arguments = ["-c", "50", "-P", str(pipeline), "-t", "set", "-d", "300", "-r", str(NEW_KEYS)]
    return sides.benchmark(server, requests, arguments)


def watch(server, ends, found):
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        stream, question = connection.makefile("rb"), sides.request("INFO", "memory")
        while not ends.is_set():
            connection.sendall(question)
            text = stream.read(int(stream.readline()[1:]) + 2).decode()
            info = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
            found.append((int(info["used_memory"]) - int(info["maxmemory"])) / 1024)
            ends.wait(0.002)


def run(server, pipeline):
    """(SETs a second, KB above the limit: the middle, the 99th percentile, the most)"""
    ends, found = threading.Event(), []
    watcher = threading.Thread(target=watch, args=(server, ends, found))
    watcher.start()
    throughput, _ = set_new(server, pipeline, REQUESTS[pipeline])
    ends.set()
    watcher.join()
    found.sort()
    return throughput, statistics.median(found), found[len(found) * 99 // 100], found[-1]


def fill(server):
    set_new(server, 64, 600_000)
    if int(sides.info(server, "stats")["evicted_keys"]) == 0:
        raise SystemExit(f"{server.name} is not full")


def main():
    parser = sides.parser(__doc__)
    parser.add_argument("--passes", type=int, default=5)
    arguments = parser.parse_args()
    definitions = sides.definitions(arguments)
    servers = [sides.Server(*definition) for definition in definitions]
    try:
        for server in servers:
            fill(server)
        found = sides.compare(servers, list(REQUESTS), arguments.passes, run)
    finally:
        for server in servers:
            server.stop()
    print("| server | pipeline | SETs a second | KB above the limit: median | 99 % | most |")
    print("|---|" + "---:|" * 5)
    for pipeline, by_server in found.items():
        for name, samples in by_server.items():
            rate, middle, high, _ = (statistics.median(column) for column in zip(*samples))
            most = max(sample[3] for sample in samples)
            print(f"| {name} | {pipeline} | {rate:,.0f} | {middle:,.0f} | {high:,.0f} | {most:,.0f} |")
    if arguments.out:
        rows = [(pipeline, number, name, *sample) for pipeline, by_server in found.items()
                for name, samples in by_server.items() for number, sample in enumerate(samples, 1)]
        columns = ("pipeline", "pass", "server", "SETs/s", "KB above, median", "KB above, 99 %", "KB above, most")
        sides.write_raw(arguments.out, definitions, columns, rows)


if __name__ == "__main__":
    main()
