#!/usr/bin/env python3
"""Runs small programs that use libraries as their documentation does, unchanged, against this server, or another.

    tests/clients/programs.py [--program NAME ...] [--engine ENGINE ...] [--shards N ...] [--server PATH | --peer PATH] [--work DIR]

`cluster/` has one for the cluster client of each library: get and set, many keys, a pipeline, a transaction, messages, a
blocking command, SCAN; the server is then the one node of a cluster. `scripts/` has one for each library whose work is
done by scripts: queues, locks, limiters. `sentinel/` has one for each library that asks Sentinels for the master: there
are two servers and three Sentinels then, which hand the role over twice. `stream/` has one that follows the server as a
replica does, and does what it reads at a second server, the copy. A program says how many of its checks held, or which
one did not. Libraries are installed under --work (outside the tree). A run has a network namespace of its own, with the
server on port 6379. `--peer` is a redis-server or valkey-server that takes the place of ours, for all programs but those
of a cluster. Exits with 1 when one failed.
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
ENGINES = ["mutex", "dashmap", "actor"]
SECONDS = 120
# What a server needs for a kind of programs. Copies are compared by DEBUG DIGEST.
FLAGS = {"cluster": ["--cluster-enabled", "yes"], "stream": ["--enable-debug-command", "yes"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", action="append", choices=PROGRAMS, help="may be given several times; all by default")
    parser.add_argument("--engine", action="append", choices=ENGINES, help="may be given several times; all by default")
    # The actor engine has one shard where it has one thread: several are what it is about.
    parser.add_argument("--shards", type=int, action="append", help="of the actor engine; may be given several times; 3")
    parser.add_argument("--server", type=pathlib.Path, default=ROOT / "target/release/shardrace")
    parser.add_argument("--peer", type=pathlib.Path, help="a redis-server to run the programs against instead")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/tmp/shardrace-programs"))
    parser.add_argument("--inside", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        kind, *words = options.inside
        return run_inside(kind, *[unpacked(word) for word in words])
    failures = 0
    for name in options.program or PROGRAMS:
        kind, install = PROGRAMS[name]
        command = install(options.work / name.replace(" ", "-"))
        for label, server in servers(kind, options):
            output, failed = run_in_namespace(f"{name} {label}".replace(" ", "-"), kind, command, server, options)
            failures += failed
            print(f"{name:30} {label:12} {output}", flush=True)
    return 1 if failures else 0


def servers(kind, options):
    """The servers that a program meets: a name, and the command line without what depends on the run."""
    if options.peer:
        flags = FLAGS["stream"] if kind == "stream" else []
        return [(options.peer.name, [str(options.peer.absolute()), "--save", "", *flags])] if kind != "cluster" else []
    flags = FLAGS.get(kind, [])
    found = []
    for engine in options.engine or ENGINES:
        for shards in (options.shards or [3]) if engine == "actor" else [None]:
            sharded = ["--shards", str(shards)] if shards else []
            label = f"{engine} {shards}" if shards else engine
            found.append((label, [str(options.server.resolve()), "--engine", engine, *sharded, *flags]))
    return found


def packed(words):
    return "\0".join(words).encode().hex()


def unpacked(word):
    return bytes.fromhex(word).decode().split("\0")


def install(command, directory):
    print("+", *command, file=sys.stderr)
    subprocess.run(command, cwd=directory, check=True, stdout=sys.stderr)


def copied(source, directory):
    """The sources, where what they need may be installed beside them."""
    shutil.copytree(HERE / source, directory, dirs_exist_ok=True)


def python(program, *packages):
    def build(directory):
        interpreter = directory / "bin/python"
        if not interpreter.exists():
            directory.mkdir(parents=True)
            install([sys.executable, "-m", "venv", str(directory)], directory)
            install([str(interpreter), "-m", "pip", "install", "-q", *packages], directory)
        return [str(interpreter), *[str(HERE / program[0]), *program[1:]], ADDRESS]

    return build


def node(source, *arguments):
    def build(directory):
        # One installation for all programs of a source.
        directory = directory.parent / source.replace("/", "-")
        copied(source, directory)
        if not (directory / "node_modules").exists():
            install(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"], directory)
        return ["node", str(directory / "main.js"), *arguments, ADDRESS]

    return build


def from_debian(command, *packages):
    """A program of a language whose libraries come as packages of Debian."""

    def build(directory):
        missing = [name for name in packages if subprocess.run(["dpkg", "-s", name], capture_output=True).returncode]
        if missing:
            install(["apt-get", "install", "-y", "-qq", *missing], ROOT)
        directory.mkdir(parents=True, exist_ok=True)
        return [command[0], str(HERE / command[1]), *command[2:], ADDRESS]

    return build


def go(source, *arguments):
    def build(directory):
        directory = directory.parent / source.replace("/", "-")
        copied(source, directory)
        install(["go", "build", "-o", "program", "."], directory)
        return [str(directory / "program"), *arguments, ADDRESS]

    return build


def java(source, program, *arguments):
    def build(directory):
        directory = directory.parent / source.replace("/", "-")
        copied(source, directory)
        install(["mvn", "-q", "-B", "compile", "dependency:build-classpath", "-Dmdep.outputFile=classpath"], directory)
        classpath = f"{directory / 'target/classes'}:{(directory / 'classpath').read_text().strip()}"
        return ["java", "-cp", classpath, program, *arguments, ADDRESS]

    return build


PYTHON_SCRIPTS = {
    "redis-py": ["redis==5.0.8"],
    "rq": ["rq==2.10", "redis<6.5"],
    "celery": ["celery==5.7.0", "redis<6.5", "packaging"],
    "celery 5.3": ["celery==5.3.6", "kombu==5.3.7", "redis<5.1", "packaging", "setuptools<70"],
    "dramatiq": ["dramatiq[redis]==1.18.0"],
    "limits": ["limits[redis]==4.7.3"],
    "django-redis": ["django-redis==5.4.0", "Django<5", "redis<5.1"],
}
NODE_SCRIPTS = [
    "bullmq", "bull", "bee-queue", "redlock", "rate-limiter-flexible", "rate-limit-redis", "bottleneck", "ioredis"
]
GO_SCRIPTS = ["asynq", "redsync", "redis_rate", "redislock", "go-redis"]

# Each by its name: what it is about, and what installs it, which returns its command line.
PROGRAMS = {
    "cluster redis-py": ("cluster", python(["cluster/redis_py.py"], "redis==5.0.8")),
    "cluster ioredis": ("cluster", node("cluster/node")),
    "cluster go-redis": ("cluster", go("cluster/go")),
    "cluster jedis": ("cluster", java("cluster/java", "JedisProgram")),
    "cluster lettuce": ("cluster", java("cluster/java", "LettuceProgram")),
    **{f"scripts {name}": ("scripts", python(["scripts/python/main.py", name.split()[0]], *needed)) for name, needed in PYTHON_SCRIPTS.items()},
    **{f"scripts {name}": ("scripts", node("scripts/node", name)) for name in NODE_SCRIPTS},
    **{f"scripts {name}": ("scripts", go("scripts/go", name)) for name in GO_SCRIPTS},
    "scripts sidekiq": ("scripts", from_debian(["ruby", "scripts/ruby/main.rb", "sidekiq"], "ruby-sidekiq")),
    "scripts laravel": (
        "scripts",
        from_debian(["php", "scripts/php/main.php", "laravel"], "php-cli", "php-redis", "php-illuminate-queue", "php-illuminate-redis"),
    ),
    "scripts redis-cli": ("scripts", from_debian(["sh", "scripts/shell/main.sh", "redis-cli"], "redis-tools")),
    "sentinel redis-py": ("sentinel", python(["sentinel/redis_py.py"], "redis==5.0.8")),
    "sentinel ioredis": ("sentinel", node("sentinel/node")),
    "sentinel go-redis": ("sentinel", go("sentinel/go")),
    "sentinel jedis": ("sentinel", java("sentinel/java", "JedisSentinelProgram")),
    "stream redis-replicator": ("stream", java("stream/java", "ReplicatorProgram")),
    "scripts redisson": ("scripts", java("scripts/java", "RedissonProgram", "redisson")),
}


def run_in_namespace(label, kind, command, server, options):
    """Runs this script again where there is no network but the loopback: what it prints, and whether that is a failure."""
    mapping = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    words = ["unshare", *mapping, "--net", sys.executable, __file__, "--inside", kind, packed(server), packed(command)]
    done = subprocess.run(words, capture_output=True, text=True)
    log = options.work / f"{label}.log"
    log.write_text(done.stdout + done.stderr)
    lines = done.stdout.strip().splitlines()
    held = [line for line in lines if line.startswith("ok ")]
    if done.returncode == 0 and held:
        return f"{held[-1].removeprefix('ok ')} checks held", False
    return f"FAILED, see {log}: {lines[-1] if lines else done.stderr.strip()[-300:]}", True


def run_inside(kind, server, command):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with tempfile.TemporaryDirectory(prefix="program-") as data:
        data = pathlib.Path(data)
        processes = [start_server(server, data / "6379", 6379)]
        try:
            if kind == "stream":
                processes.append(start_server(server, data / "6380", 6380))
            if kind == "sentinel":
                processes.append(start_server([*server, "--replicaof", "127.0.0.1 6379"], data / "6380", 6380))
                processes += [start_sentinel(data / str(port), port) for port in (26379, 26380, 26381)]
                wait_for_sentinels()
            done = subprocess.run(command, timeout=SECONDS)
            # A master that the program ends is to end.
            if kind != "sentinel" and processes[0].poll() is not None:
                print("FAILED: the server ended")
                return 1
            return done.returncode
        finally:
            for process in reversed(processes):
                process.send_signal(signal.SIGTERM)
                process.wait(timeout=30)


def start_sentinel(directory, port):
    directory.mkdir()
    lines = ["sentinel monitor main 127.0.0.1 6379 2", "sentinel down-after-milliseconds main 2000", "sentinel failover-timeout main 5000"]
    (directory / "sentinel.conf").write_text("\n".join([f"port {port}", f"dir {directory}", *lines]) + "\n")
    with (directory / "log").open("w") as log:
        return subprocess.Popen(["redis-sentinel", str(directory / "sentinel.conf")], stdout=log, stderr=log)


def wait_for_sentinels():
    """Until each knows the replica and the other two."""
    deadline = time.time() + 60
    for port in ("26379", "26380", "26381"):
        fields = {}
        while not (fields.get("num-slaves") == "1" and fields.get("num-other-sentinels") == "2"):
            if time.time() > deadline:
                raise SystemExit(f"the Sentinels do not find each other: {fields}")
            time.sleep(0.1)
            reply = subprocess.run(["redis-cli", "-p", port, "SENTINEL", "MASTER", "main"], capture_output=True, text=True).stdout
            words = reply.splitlines()
            fields = dict(zip(words[::2], words[1::2]))


def start_server(server, data, port):
    data.mkdir()
    with (data / "log").open("w") as log:
        process = subprocess.Popen([*server, "--port", str(port), "--dir", str(data)], stdout=log, stderr=log, cwd=data)
    deadline = time.time() + 30
    while "Ready to accept connections" not in (data / "log").read_text():
        if process.poll() is not None or time.time() > deadline:
            raise SystemExit(f"the server did not start: {(data / 'log').read_text()}")
        time.sleep(0.05)
    return process


if __name__ == "__main__":
    sys.exit(main())
