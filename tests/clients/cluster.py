#!/usr/bin/env python3
"""Runs the cluster clients of libraries, unchanged, against this server as the one node of a cluster.

    tests/clients/cluster.py [--client NAME ...] [--engine ENGINE ...] [--server PATH] [--work DIR]

For each library there is a small program in `cluster/`: get and set, many keys, a pipeline, a transaction, messages, a
blocking command, SCAN. It says how many of its checks held, or which one did not. Libraries are installed under --work
(outside the tree). A run has a network namespace of its own, with the server on port 6379 and `cluster-enabled yes`.
Exits with 1 when one failed.
"""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ADDRESS = "127.0.0.1:6379"
# The actor engine has one shard where it has one thread: several are what it is about.
FLAGS = {"mutex": [], "dashmap": [], "actor": ["--shards", "3"]}
SECONDS = 120


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--client", action="append", choices=CLIENTS, help="may be given several times; all by default")
    parser.add_argument("--engine", action="append", choices=FLAGS, help="may be given several times; all by default")
    parser.add_argument("--server", type=pathlib.Path, default=ROOT / "target/release/shardrace")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/tmp/shardrace-cluster-clients"))
    parser.add_argument("--inside", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return run_inside(*options.inside, options)
    failures = 0
    for name in options.client or CLIENTS:
        command = CLIENTS[name](options.work / name)
        for engine in options.engine or FLAGS:
            output, failed = run_in_namespace(name, command, engine, options)
            failures += failed
            print(f"{name:10} {engine:8} {output}", flush=True)
    return 1 if failures else 0


def install(command, directory):
    print("+", *command, file=sys.stderr)
    subprocess.run(command, cwd=directory, check=True, stdout=sys.stderr)


def copied(name, directory):
    """The sources, where what they need may be installed beside them."""
    shutil.copytree(HERE / "cluster" / name, directory, dirs_exist_ok=True)


def redis_py(directory):
    python = directory / "bin/python"
    if not python.exists():
        directory.mkdir(parents=True)
        install([sys.executable, "-m", "venv", str(directory)], directory)
        install([str(python), "-m", "pip", "install", "-q", "redis==5.0.8"], directory)
    return [str(python), str(HERE / "cluster/redis_py.py"), ADDRESS]


def ioredis(directory):
    copied("node", directory)
    install(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"], directory)
    return ["node", str(directory / "main.js"), ADDRESS]


def go_redis(directory):
    copied("go", directory)
    install(["go", "build", "-o", "program", "."], directory)
    return [str(directory / "program"), ADDRESS]


def java(program):
    def build(directory):
        copied("java", directory)
        install(["mvn", "-q", "-B", "compile", "dependency:build-classpath", "-Dmdep.outputFile=classpath"], directory)
        classpath = f"{directory / 'target/classes'}:{(directory / 'classpath').read_text().strip()}"
        return ["java", "-cp", classpath, program, ADDRESS]

    return build


CLIENTS = {
    "redis-py": redis_py,
    "ioredis": ioredis,
    "go-redis": go_redis,
    "jedis": java("JedisProgram"),
    "lettuce": java("LettuceProgram"),
}


def run_in_namespace(name, command, engine, options):
    """Runs this script again where there is no network but the loopback: what it prints, and whether that is a failure."""
    mapping = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    flags = ["--inside", engine, "\0".join(command).encode().hex(), f"--server={options.server.resolve()}"]
    done = subprocess.run(
        ["unshare", *mapping, "--net", sys.executable, __file__, *flags], capture_output=True, text=True
    )
    log = options.work / f"{name}-{engine}.log"
    log.write_text(done.stdout + done.stderr)
    lines = done.stdout.strip().splitlines()
    held = [line for line in lines if line.startswith("ok ")]
    if done.returncode == 0 and held:
        return f"{held[-1].removeprefix('ok ')} checks held", False
    return f"FAILED, see {log}: {lines[-1] if lines else done.stderr.strip()[-300:]}", True


def run_inside(engine, command, options):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with tempfile.TemporaryDirectory(prefix="cluster-client-") as data:
        server = start_server(engine, pathlib.Path(data), options)
        try:
            done = subprocess.run(bytes.fromhex(command).decode().split("\0"), timeout=SECONDS)
            if server.poll() is not None:
                print("FAILED: the server ended")
                return 1
            return done.returncode
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(timeout=30)


def start_server(engine, data, options):
    command = [str(options.server), "--port", "6379", "--dir", str(data), "--cluster-enabled", "yes"]
    command += ["--engine", engine, *FLAGS[engine]]
    with (data / "log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=data)
    deadline = time.time() + 30
    while "Ready to accept connections" not in (data / "log").read_text():
        if server.poll() is not None or time.time() > deadline:
            raise SystemExit(f"the server did not start: {(data / 'log').read_text()}")
        time.sleep(0.05)
    return server


if __name__ == "__main__":
    sys.exit(main())
