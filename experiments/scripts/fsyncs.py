#!/usr/bin/env python3
"""How many fsyncs a server makes for 100,000 SETs of 50 clients, and how long each takes: as strace sees them.

  fsyncs.py --server NAME=COMMAND ...      (with appendfsync always)
  fsyncs.py --files                        what an fsync takes where a file grows, and where it was filled before

strace stops a server at each fsync and so slows it: the numbers are for comparing servers with each other.
"""

import argparse
import os
import re
import signal
import statistics
import subprocess
import tempfile
import time

import sides

WRITES = 100_000


def traced(name, command):
    folder = tempfile.mkdtemp(prefix="fsyncs-")
    trace = os.path.join(folder, "trace")
    server = sides.Server(name, f"strace --seccomp-bpf -f -T -e trace=fdatasync,fsync -o {trace} {command}", folder)
    throughput, _ = sides.benchmark(server, WRITES, ["-c", "50", "-r", "100000", "-d", "64", "-t", "set"])
    # strace ends when the server does, which is its only child.
    child = subprocess.run(["pgrep", "-P", str(server.process.pid)], capture_output=True, text=True).stdout.split()
    os.kill(int(child[0]), signal.SIGTERM)
    server.process.wait()
    with open(trace) as lines:
        took = [float(found) * 1e6 for found in re.findall(r"<([0-9.]+)>$", lines.read(), re.M)]
    print(f"{name:14} {throughput:8.0f}/s  {len(took):6} fsyncs for {WRITES} writes, {WRITES / len(took):5.1f} writes to each,"
          f"  median {statistics.median(took):4.0f} us, mean {statistics.mean(took):4.0f} us", flush=True)


def of_file(folder, is_filled, count=400, size=4000):
    path = os.path.join(folder, "file")
    file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_TRUNC)
    if is_filled:
        os.write(file, bytes(4 << 20))
        os.lseek(file, 0, os.SEEK_SET)
    os.fsync(file)
    took = []
    for _ in range(count):
        os.write(file, b"x" * size)
        start = time.monotonic()
        os.fdatasync(file)
        took.append((time.monotonic() - start) * 1e6)
    os.close(file)
    return statistics.median(took)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--files", action="store_true")
    arguments = parser.parse_args()
    for definition in arguments.server:
        traced(*definition.split("=", 1))
    if arguments.files:
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(5):
                grown, filled = of_file(folder, False), of_file(folder, True)
                print(f"write of 4,000 bytes and fdatasync: {grown:4.0f} us where the file grows, {filled:4.0f} us where it was filled")


if __name__ == "__main__":
    main()
