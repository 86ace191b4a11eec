#!/usr/bin/env python3
"""How long servers take to read a log of a million keys: from the start of the process to the first +PONG.

  recovery.py --server NAME=COMMAND ... [--keys 1000000] [--repeats 5]

Each server is filled once (SET of 64 bytes, and for one key in ten a hash of 5 fields), killed with SIGKILL, and started
anew so many times, the servers in turn. With --rewritten the log is rewritten before (BGREWRITEAOF).
"""

import shutil
import signal
import statistics
import tempfile
import time

import sides


def requests(keys):
    for n in range(keys):
        if n % 10 == 0:
            yield ("HSET", f"hash:{n}", "a", n, "b", n, "c", n, "d", "value", "e", "value")
        else:
            yield ("SET", f"key:{n}", "v" * 64)


def rewrite(server):
    server.command("BGREWRITEAOF")
    sides.until("rewriting", lambda: is_rewritten(server))


def is_rewritten(server):
    info = sides.info(server, "persistence")
    return info["aof_rewrite_in_progress"] == "0" and info["aof_rewrite_scheduled"] == "0"


def main():
    parser = sides.parser(__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rewritten", action="store_true")
    arguments = parser.parse_args()
    definitions = sides.definitions(arguments)
    folders = {name: tempfile.mkdtemp(prefix="recovery-") for name, _ in definitions}
    times = {name: [] for name, _ in definitions}
    try:
        for name, command in definitions:
            server = sides.Server(name, command, folders[name])
            server.pipe(requests(arguments.keys))
            if arguments.rewritten:
                rewrite(server)
            time.sleep(2)
            server.stop(signal.SIGKILL)
        for _ in range(arguments.repeats):
            for name, command in definitions:
                server = sides.Server(name, command, folders[name])
                times[name].append(server.start_s)
                size = server.command("DBSIZE")
                if size != b":%d" % arguments.keys:
                    raise SystemExit(f"{name} has {size} keys")
                server.stop(signal.SIGKILL)
    finally:
        for folder in folders.values():
            shutil.rmtree(folder, ignore_errors=True)
    what = "rewritten log" if arguments.rewritten else "log as written"
    print(f"| {arguments.keys} keys, {what} | seconds, median [range] | ratio to {definitions[0][0]} |")
    print("|---|---:|---:|")
    first = statistics.median(times[definitions[0][0]])
    for name, found in times.items():
        median = statistics.median(found)
        print(f"| {name} | {median:.2f} [{min(found):.2f}–{max(found):.2f}] | {median / first:.2f} |")
    if arguments.out:
        rows = [(name, number, second) for name, found in times.items() for number, second in enumerate(found, 1)]
        sides.write_raw(arguments.out, definitions, ("server", "start", "seconds"), rows)


if __name__ == "__main__":
    main()
