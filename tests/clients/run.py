#!/usr/bin/env python3
"""Runs the test suites of client libraries, unmodified, against this server, or another.

    tests/clients/run.py [--suite NAME ...] [--engine ENGINE] [--shards N] [--server PATH | --peer PATH] [--sources DIR] [--work DIR]

Each suite is checked out at a tag, and what it needs is installed, under --work (outside the tree). It runs in a network
namespace of its own, with the server on port 6379 and on a unix socket, and where it wants more with servers on further
ports: no other server is in its reach, and it is in reach of nobody. `--peer` is a redis-server or valkey-server that
takes the place of ours, for the baseline. Prints a line for each suite and a line for each test that fails; `--json FILE`
keeps both, and `--baseline FILE`, such a file of a peer, leaves out the tests that fail there, too. Exits with 1 when a
suite did not run.

Sources are cloned from GitHub, or from --sources/OWNER+NAME/repo where that is there.
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLUSTER = ["cluster-enabled yes"]  # Of one node, which has all slots.
PASSWORD = "requirepass foobared"
WITH_PASSWORD = [PASSWORD, "masterauth foobared"]
USER = "user acljedis on allcommands allkeys >fizzbuzz"
SMALL_BUFFERS = "client-output-buffer-limit pubsub 256k 128k 5"
SUITES = {
    "redis-py": {"repository": "redis/redis-py", "tag": "v5.0.8"},
    "ioredis": {"repository": "redis/ioredis", "tag": "v5.11.0"},
    "go-redis": {"repository": "redis/go-redis", "tag": "v9.7.0"},
    "django-redis": {"repository": "jazzband/django-redis", "tag": "5.4.0", "socket": "/tmp/redis.sock"},
    # The commit after v5.6.2 that brings the tests of queues that expire: 58 tests.
    "kombu": {"repository": "celery/kombu", "tag": "5cbdaf97"},
    "rq": {"repository": "rq/rq", "tag": "v2.10"},
    # The files whose tests are about its scripts.
    "bullmq": {"repository": "taskforcesh/bullmq", "tag": "v5.81.0"},
    # These start servers of their own, by the name redis-server.
    "redis-rs": {"repository": "redis-rs/redis-rs", "tag": "redis-1.6.0"},
    "redigo": {"repository": "gomodule/redigo", "tag": "v1.9.3"},
    # With Debian's libevent-dev.
    "hiredis": {"repository": "redis/hiredis", "tag": "v1.4.1"},
    # With Debian's php-cli and php-redis, which has this version.
    "phpredis": {"repository": "phpredis/phpredis", "tag": "5.3.7", "socket": "/tmp/redis.sock"},
    # `servers` are more lines of the configuration for each port.
    "rueidis": {
        "repository": "redis/rueidis",
        "tag": "v1.0.76",
        "servers": {
            **{port: [] for port in [6333, 6344, 6355, 6356, 6378, 6381, 6382, 6666]},
            **{port: CLUSTER for port in [7001, 7004, 7007, 7010]},
        },
    },
    # With Debian's ruby, ruby-minitest and ruby-mocha. Its servers are those of its makefile without Sentinels.
    "redis-rb": {
        "repository": "redis/redis-rb",
        "tag": "v5.4.1",
        "servers": {6381: ["unixsocket /tmp/redis.sock"], 6382: ["replicaof 127.0.0.1 6381"]},
    },
    # With Debian's php-cli, php-bcmath, php-mbstring and phpunit.
    "predis": {"repository": "predis/predis", "tag": "v3.6.0", "servers": {6379: ["requirepass foobar"]}},
    # With Maven. The servers of their makefiles, without Sentinels, TLS and clusters of several nodes.
    "jedis": {
        "repository": "redis/jedis",
        "tag": "v5.2.0",
        "servers": {
            6379: [PASSWORD, USER, SMALL_BUFFERS],
            6380: [PASSWORD],
            6381: WITH_PASSWORD,
            6382: [*WITH_PASSWORD, "replicaof localhost 6381"],
            6383: [*WITH_PASSWORD, "replicaof localhost 6379"],
            6384: WITH_PASSWORD,
            6385: [*WITH_PASSWORD, "replicaof localhost 6384"],
            6386: ["maxmemory-policy allkeys-lfu", "unixsocket /tmp/redis_uds.sock"],
            6387: ["user default off", USER, SMALL_BUFFERS],
            6388: [],
            6389: ["replicaof localhost 6388"],
            6400: [],
        },
        "ends": 6400,  # The port of a server that the suite shuts down.
    },
    "lettuce": {
        "repository": "redis/lettuce",
        "tag": "6.5.5.RELEASE",
        "servers": {
            6479: [SMALL_BUFFERS, "unixsocket /tmp/lettuce.sock"],
            **{port: [] for port in [6480, 6481, 6482, 6484]},
            6483: ["replicaof localhost 6482"],
        },
        "ends": 6481,
    },
    # What it runs against a real server to know what its own is to do.
    "fakeredis": {"repository": "cunla/fakeredis-py", "tag": "v2.37.0", "servers": {6390: []}},
    # It starts servers of its own, by the name docker.
    "node-redis": {"repository": "redis/node-redis", "tag": "redis@5.10.0"},
}
ENGINES = ["mutex", "dashmap", "actor"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", action="append", choices=SUITES, help="may be given several times; all by default")
    parser.add_argument("--engine", default="actor", choices=ENGINES)
    # The actor engine has one shard where it has one thread: several are what it is about.
    parser.add_argument("--shards", type=int, default=3, help="of the actor engine")
    parser.add_argument("--server", type=pathlib.Path, default=ROOT / "target/release/shardrace")
    parser.add_argument("--peer", type=pathlib.Path, help="a redis-server to run the suites against instead")
    parser.add_argument("--sources", type=pathlib.Path, default=pathlib.Path("/nowhere"))
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/tmp/shardrace-clients"))
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--baseline", type=pathlib.Path)
    parser.add_argument("--inside", choices=SUITES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return run_inside(options.inside, options)
    options.work.mkdir(parents=True, exist_ok=True)
    baseline = json.loads(options.baseline.read_text()) if options.baseline else {}
    results = {}
    for name in options.suite or SUITES:
        checkout(name, options)
        INSTALL[name](source(name, options), options)
        results[name] = run_in_namespace(name, options)
        report(name, results[name], baseline.get(name, {"tests": {}}))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0 if all(result["tests"] for result in results.values()) else 1


def source(name, options):
    return options.work / name


def file_of(name, kind, options):
    """What a run writes: those of a peer and of each engine are told apart, so that they can run at the same time."""
    who = options.peer.name if options.peer else options.engine
    return options.work / f"{name}-{who}.{kind}"


def checkout(name, options):
    clone(source(name, options), SUITES[name]["repository"], SUITES[name]["tag"], options)


def clone(directory, repository, tag, options):
    if directory.exists():
        return
    stored = options.sources / repository.replace("/", "+") / "repo"
    url = str(stored) if stored.exists() else f"https://github.com/{repository}.git"
    run(["git", "clone", "-q", "-n", "-c", "advice.detachedHead=false", url, str(directory)])
    # A stored copy may lack large files, which are documents.
    run(["git", "sparse-checkout", "set", "--no-cone", "/*", "!/docs"], cwd=directory)
    run(["git", "checkout", "-q", tag], cwd=directory)


def run(command, **more):
    print("+", *command, file=sys.stderr)
    subprocess.run(command, check=True, **more)


def python(name, options):
    """The interpreter of a suite, in an environment of its own."""
    environment = options.work / f"python-{name}"
    if not environment.exists():
        run([sys.executable, "-m", "venv", str(environment)])
    return environment / "bin/python"


def pip(name, options, *packages):
    marker = options.work / f"python-{name}" / "installed"
    if not marker.exists():
        run([str(python(name, options)), "-m", "pip", "install", "-q", *packages])
        marker.write_text("\n".join(packages))


def install_redis_py(directory, options):
    needed = ["pytest<8.3", "pytest-asyncio<0.24", "pytest-timeout", "mock", "packaging", "uvloop", "cryptography", "numpy"]
    pip("redis-py", options, *needed, str(directory))


def install_django_redis(directory, options):
    needed = ["Django<5", "redis<5.1", "msgpack", "lz4", "pyzstd", "pytest<8", "pytest-django<4.9", "pytest-mock", "pytest-cov"]
    pip("django-redis", options, *needed, str(directory))


def install_kombu(directory, options):
    needed = ["redis<6.5", "pytest<9", "pytest-freezer", "hypothesis<7", "Pyro4", "pytz", "vine", "msgpack", "pyyaml"]
    pip("kombu", options, *needed, str(directory))


def install_ioredis(directory, _options):
    if not (directory / "node_modules").exists():
        run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=directory)


def install_go_redis(directory, _options):
    run(["go", "test", "-c", "-o", "suite.test", "."], cwd=directory)


def install_rq(directory, options):
    needed = ["redis<6.5", "pytest<9", "pytest-timeout", "psutil", "croniter", "sentry-sdk"]
    pip("rq", options, *needed, str(directory))


def install_bullmq(directory, _options):
    if not (directory / "src/scripts").exists():
        run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=directory)
        # What its `pretest` does, without the look for circular imports.
        for script in ["generate:raw:scripts", "transform:commands"]:
            run(["npm", "run", "-s", script], cwd=directory)


def command_of_redis_rs(options):
    """Without what is about TLS, modules, Sentinels and clusters."""
    features = "--features=tokio-comp,connection-manager,cache-aio,r2d2,bb8,token-based-authentication"
    target = f"--target-dir={options.work / 'redis-rs-target'}"
    return ["cargo", "test", "--locked", "-p", "redis", target, features, "--config=profile.dev.debug=0"]


def install_redis_rs(directory, options):
    run([*command_of_redis_rs(options), "-q", "--tests", "--no-run"], cwd=directory)


def install_redigo(directory, _options):
    for package in ["redis", "redisx"]:
        run(["go", "test", "-c", "-o", f"{package}.test", f"./{package}"], cwd=directory)


def install_hiredis(directory, _options):
    # The tests of the asynchronous interface need libevent.
    run(["make", "-s", "hiredis-test", "TEST_ASYNC=1"], cwd=directory)


def install_phpredis(_directory, _options):
    run(["php", "-r", "exit(extension_loaded('redis') ? 0 : 1);"])


# Those that talk to a server, without what needs modules or several nodes of a cluster.
RUEIDIS = {
    ".": ["-test.run=Single.*Integration|TestNegative"],
    "rueidiscompat": ["-ginkgo.skip=Search|JSON|first cmder error|Probabilistic|BF|CF|TS|Gears"],
    "rueidisaside": [],
    "rueidislimiter": [],
    "rueidislock": [],
    "rueidisotel": [],
    # Where a server is too old for what it is not to have.
    "rueidisprob": ["-test.skip=/unsupported_redis_version"],
}


def install_rueidis(directory, _options):
    for package in RUEIDIS:
        run(["go", "test", "-c", "-o", "suite.test", "."], cwd=directory / package)


def install_redis_rb(_directory, options):
    # What it needs of RubyGems, from its repository.
    clone(options.work / "redis-client", "redis-rb/redis-client", "v0.26.4", options)
    run(["ruby", "-rminitest", "-rmocha/minitest", "-e", ""])


def install_predis(_directory, options):
    run(["phpunit", "--version"], stdout=sys.stderr)
    # The interface that its streams have; Debian's is older.
    clone(options.work / "http-message", "php-fig/http-message", "2.0", options)


def install_fakeredis(directory, options):
    needed = ["redis<7.2", "valkey<6.3", "lupa<3", "pytest<9", "hypothesis<7", "pytest-timeout", "pytest-asyncio<1.3"]
    pip("fakeredis", options, *needed, "pytest-mock", "typing-extensions", str(directory))


def install_node_redis(directory, options):
    install_ioredis(directory, options)
    if not (directory / "packages/bloom/dist").exists():
        run(["npx", "tsc", "--build", *[f"packages/{package}" for package in ["client", "bloom", "test-utils"]]], cwd=directory)


def install_with_maven(test, directory):
    """Runs a test that needs no server, for Maven to fetch all that it needs to run others without a network."""
    marker = directory / "target/installed"
    if not marker.exists():
        run(["mvn", "-q", "-B", "test", f"-Dtest={test}"], cwd=directory, stdout=sys.stderr)
        marker.touch()


def install_jedis(directory, _options):
    install_with_maven("TupleTest", directory)


def install_lettuce(directory, _options):
    install_with_maven("RedisURIUnitTests", directory)


INSTALL = {
    "redis-py": install_redis_py,
    "ioredis": install_ioredis,
    "go-redis": install_go_redis,
    "django-redis": install_django_redis,
    "kombu": install_kombu,
    "rq": install_rq,
    "bullmq": install_bullmq,
    "redis-rs": install_redis_rs,
    "redigo": install_redigo,
    "hiredis": install_hiredis,
    "phpredis": install_phpredis,
    "rueidis": install_rueidis,
    "redis-rb": install_redis_rb,
    "predis": install_predis,
    "jedis": install_jedis,
    "lettuce": install_lettuce,
    "fakeredis": install_fakeredis,
    "node-redis": install_node_redis,
}


def run_in_namespace(name, options):
    """Runs this script again where there is no network but the loopback."""
    result = file_of(name, "result.json", options)
    result.unlink(missing_ok=True)
    flags = [f"--engine={options.engine}", f"--shards={options.shards}", f"--server={options.server.resolve()}", f"--work={options.work}"]
    flags += [f"--peer={options.peer.absolute()}"] if options.peer else []  # A link says by its name which program it is.
    mapping = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    # The mount namespace is for /etc/hosts, where a suite may need names.
    command = ["unshare", *mapping, "--net", "--mount", sys.executable, __file__, f"--inside={name}", *flags]
    with file_of(name, "log", options).open("w") as log:
        subprocess.run(command, stdout=log, stderr=log)
    return json.loads(result.read_text()) if result.exists() else {"tests": {}}


def run_inside(name, options):
    run(["ip", "link", "set", "lo", "up"])
    directory = file_of(name, "data", options)
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    servers = {}
    try:
        for port, lines in {6379: [], **SUITES[name].get("servers", {})}.items():
            servers[port] = start_server(directory, port, lines, SUITES[name].get("socket"), options)
        started = time.time()
        tests = RUN[name](source(name, options), options)
        lived = all(server.poll() is None for port, server in servers.items() if port != SUITES[name].get("ends"))
        result = {"tests": tests, "seconds": round(time.time() - started), "server_lived": lived}
        file_of(name, "result.json", options).write_text(json.dumps(result))
    finally:
        for server in servers.values():
            server.send_signal(signal.SIGTERM)
            server.wait(timeout=30)
    return 0


def start_server(directory, port, lines, unix_socket, options):
    if port != 6379:
        directory, unix_socket = directory / str(port), None
        directory.mkdir()
    unix_socket = unix_socket or str(directory / "server.sock")
    common = ["--port", str(port), "--dir", str(directory), "--enable-debug-command", "yes"]
    # There is a config file for CONFIG REWRITE.
    file = directory / "server.conf"
    file.write_text("".join(f"{line}\n" for line in [f"unixsocket {unix_socket}", *lines]))
    if options.peer:
        command = [str(options.peer), str(file), *common, "--save", ""]
    else:
        command = [str(options.server), str(file), *common, "--save", "", "--appendonly", "no", "--engine", options.engine]
        command += ["--shards", str(options.shards)] if options.engine == "actor" else []
    server = subprocess.Popen(command, stdout=(directory / "log").open("w"), stderr=subprocess.STDOUT, cwd=directory)
    deadline = time.time() + 30
    while "Ready to accept connections" not in (directory / "log").read_text():
        if server.poll() is not None or time.time() > deadline:
            raise SystemExit(f"the server did not start: {(directory / 'log').read_text()}")
        time.sleep(0.05)
    if options.peer and lines == CLUSTER:
        take_all_slots(port)
    return server


def take_all_slots(port):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"CLUSTER ADDSLOTSRANGE 0 16383\r\n")
        if (reply := connection.recv(100)) != b"+OK\r\n":
            raise SystemExit(f"no cluster at {port}: {reply}")


def run_pytest(name, directory, options, *arguments, environment=None, prefix=""):
    file = file_of(name, "xml", options)
    file.unlink(missing_ok=True)
    command = [str(python(name, options)), "-m", "pytest", "-q", f"--junitxml={file}", *arguments]
    suite = subprocess.Popen(command, cwd=directory, env={**os.environ, **(environment or {})})
    # A suite that has written its results may never end: rq's leaves a thread.
    while suite.poll() is None:
        time.sleep(1)
        if file.exists() and time.time() - file.stat().st_mtime > 30:
            suite.kill()
    suite.wait()
    return outcomes_of_junit(file, prefix)


def outcomes_of_junit(file, prefix=""):
    if not file.exists():
        return {}
    tests = {}
    for case in ElementTree.parse(file).iter("testcase"):
        test = f"{prefix}{case.get('classname')}::{case.get('name')}"
        kinds = {child.tag: child for child in case}
        if "failure" in kinds or "error" in kinds:
            cause = kinds["failure"] if "failure" in kinds else kinds["error"]
            reason = cause.get("message") or cause.text or ""
            tests[test] = "failed: " + " ".join(reason.split())[:300]
        elif "skipped" in kinds:
            tests[test] = "skipped"
        else:
            tests[test] = "passed"
    return tests


def run_redis_py(directory, options):
    # What needs modules, a cluster, TLS or Sentinels is told apart by the suite's own marks.
    marks = "not redismod and not onlycluster and not ssl"
    arguments = ["tests", "-m", marks, "--redis-url=redis://localhost:6379/9", "--timeout=60"]
    # Files of modules that are not there cannot be collected, on a server that has a list of modules.
    arguments += ["--continue-on-collection-errors", "-p", "no:cacheprovider"]
    return run_pytest("redis-py", directory, options, *arguments)


def run_django_redis(directory, options):
    tests = {}
    for settings in sorted((directory / "tests/settings").glob("sqlite*.py")):
        # Those of Sentinels have none here.
        if "sentinel" in settings.stem:
            continue
        arguments = [f"--ds=settings.{settings.stem}", "tests", "-p", "no:cacheprovider"]
        environment = {"PYTHONPATH": str(directory / "tests")}
        tests |= run_pytest("django-redis", directory, options, *arguments, environment=environment, prefix=settings.stem + " ")
    return tests


def run_kombu(directory, options):
    return run_pytest("kombu", directory, options, "t/integration/test_redis.py", "-E", "redis", "-p", "no:cacheprovider")


def run_ioredis(directory, options):
    file = file_of("ioredis", "json", options)
    file.unlink(missing_ok=True)
    environment = {**os.environ, "TS_NODE_TRANSPILE_ONLY": "true", "NODE_ENV": "test"}
    return mocha(file, directory, environment, "test/helpers/*.ts", "test/functional/**/*.ts")


def mocha(file, directory, environment, *arguments):
    command = ["npx", "mocha", "--reporter", "json", "--reporter-option", f"output={file}", "--exit", *arguments]
    subprocess.run(command, cwd=directory, env=environment)
    if not file.exists():
        return {}
    result = json.loads(file.read_text())
    tests = {test["fullTitle"]: "passed" for test in result["passes"]}
    tests |= {test["fullTitle"]: "skipped" for test in result["pending"]}
    for test in result["failures"]:
        tests[test["fullTitle"]] = "failed: " + " ".join(test["err"].get("message", "").split())[:300]
    return tests


def run_go_redis(directory, options):
    # RE_CLUSTER is the suite's mode in which one server is there already: it starts none itself.
    environment = {**os.environ, "RE_CLUSTER": "true"}
    file = file_of("go-redis", "xml", options)
    file.unlink(missing_ok=True)
    skipped = "|".join(["RedisTimeseries", "Probabilistic", "JSON Commands", "RediSearch", "Gears", "ClusterClient", "Sentinel", "Ring"])
    command = ["./suite.test", "-test.v", "-test.timeout=30m", f"-ginkgo.skip={skipped}", f"-ginkgo.junit-report={file}"]
    subprocess.run(command, cwd=directory, env=environment)
    return outcomes_of_junit(file)


def run_rq(directory, options):
    # Its tests start workers by their name.
    programs = python("rq", options).parent
    arguments = ["tests", "-p", "no:cacheprovider", "--timeout=120"]
    return run_pytest("rq", directory, options, *arguments, environment={"PATH": f"{programs}:{os.environ['PATH']}"})


def run_bullmq(directory, options):
    file = file_of("bullmq", "xml", options)
    file.unlink(missing_ok=True)
    command = ["npx", "vitest", "run", "--no-file-parallelism", "--reporter=junit", f"--outputFile={file}"]
    command += [f"tests/{name}.test.ts" for name in ["bulk", "queue", "scripts"]]
    subprocess.run(command, cwd=directory)
    return outcomes_of_junit(file)


def command_of_server(options):
    if options.peer:
        command = [str(options.peer)]
    else:
        command = [str(options.server), "--engine", options.engine, "--appendonly", "no"]
        command += ["--shards", str(options.shards)] if options.engine == "actor" else []
    return shlex.join(command)


def named_redis_server(options):
    """The environment of suites that start servers of their own: its redis-server is a script."""
    # Ours does not say that it is Redis, of which version, and logs to standard error.
    version = "" if options.peer else 'case "$1" in -v|--version) echo "Redis server v=7.2.4"; exit;; esac\n'
    return with_program("redis-server", f'{version}exec {command_of_server(options)} "$@" 2>&1\n', options)


def with_program(name, script, options):
    directory = options.work / f"bin-{options.peer.name if options.peer else options.engine}"
    directory.mkdir(exist_ok=True)
    program = directory / name
    program.write_text(f"#!/bin/sh\n{script}")
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"}


def logged(command, directory, environment=None):
    """What a suite says, without colours: for those that write no file of results."""
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, errors="replace")
    print(done.stdout, done.stderr)
    return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout), done


def failed(*lines):
    return "failed: " + " ".join(" ".join(lines).split())[:300]


def run_redis_rs(directory, options):
    command = [*command_of_redis_rs(options), "-q", "--offline", "--tests", "--no-run", "--message-format=json"]
    built = subprocess.run(command, cwd=directory, check=True, stdout=subprocess.PIPE, text=True).stdout
    programs = {}
    for message in map(json.loads, built.splitlines()):
        if message.get("executable"):
            programs[message["target"]["name"]] = message["executable"]
    tests = {}
    for protocol in ["RESP2", "RESP3"]:
        environment = {**named_redis_server(options), "PROTOCOL": protocol, "TMPDIR": str(file_of("redis-rs", "data", options))}
        for name in ["acl", "async", "auth", "basic", "bignum", "cache", "geospatial", "script", "streams"]:
            program = programs[f"test_{name}"]
            listed, _ = logged([program, "--list"], directory / "redis")
            # Each test is made for a process of its own. `timeout` kills what it started, too.
            for test in re.findall(r"^(\S+): test$", listed, re.MULTILINE):
                command = ["timeout", "-s", "KILL", "30", program, "--nocapture", "--exact", test]
                out, done = logged(command, directory / "redis", environment)
                said = done.stderr + out
                if done.returncode != 0:
                    result = failed("it did not end within 30 s:" if done.returncode == -signal.SIGKILL else "", said)
                # A test of a later version says so, and passes.
                elif "Skipping the test because" in said or "1 ignored;" in said:
                    result = "skipped"
                else:
                    result = "passed"
                tests[f"{protocol} {name} {test}"] = result
    return tests


def run_redigo(directory, options):
    tests = {}
    for package in ["redis", "redisx"]:
        tests |= go_tests(f"{package} ", f"../{package}.test", directory / package, [], named_redis_server(options))
    return tests


def go_tests(prefix, program, directory, arguments, environment=None):
    command = ["go", "tool", "test2json", "-t", program, "-test.v", *arguments]
    out, _ = logged(command, directory, environment)
    tests, said = {}, {}
    for event in map(json.loads, filter(lambda line: line.startswith("{"), out.splitlines())):
        test = f"{prefix}{event.get('Test')}"
        said.setdefault(test, []).append(event.get("Output", ""))
        lines = [line for line in said[test] if not line.lstrip().startswith(("=== ", "--- "))]
        outcome = {"pass": "passed", "fail": failed(*lines), "skip": "skipped"}.get(event["Action"])
        if outcome and "Test" in event:
            tests[test] = outcome
    return tests


def run_hiredis(directory, options):
    # An address where nobody answers, for connections that time out.
    run(["ip", "route", "add", "192.168.254.254", "dev", "lo"])
    socket = file_of("hiredis", "data", options) / "server.sock"
    # Unbuffered, for nothing to be lost when it aborts.
    command = ["stdbuf", "-o0", "./hiredis-test", "-h", "127.0.0.1", "-p", "6379", "-s", str(socket)]
    out, done = logged(command, directory)
    tests = {}
    parts = re.split(r"^(?=#\d+ )", out, flags=re.MULTILINE)[1:]
    for part in parts:
        test, outcome = re.fullmatch(r"(#\d+ .*?):?\s*(PASSED|FAILED|SKIPPED|$).*", part, re.DOTALL).groups()
        tests[" ".join(test.split())] = {"PASSED": "passed", "FAILED": failed("see the log"), "SKIPPED": "skipped"}.get(outcome)
    # The throughput has no outcome.
    tests = {test: outcome for test, outcome in tests.items() if outcome}
    if " TESTS " not in out:
        tests[" ".join(test.split())] = failed("it ended the run:", done.stderr)
    return tests


def run_phpredis(directory, _options):
    # For the programs that its tests of sessions start, which would look for an extension that was built there.
    environment = {**os.environ, "TEST_PHP_EXECUTABLE": "php", "TEST_PHP_ARGS": "-d error_reporting=0"}
    command = ["php", "TestRedis.php", "--class", "Redis", "--host", "127.0.0.1"]
    out, done = logged(command, directory / "tests", environment)
    reasons = {}
    for line in out.splitlines():
        if found := re.match(r"(Assertion failed|Uncaught exception).*\((test\w+)\)", line):
            reasons.setdefault(found[2], []).append(line)
    tests = {}
    # Between a test's name and its outcome there are warnings.
    for part in re.split(r"^(?=test\w+ )", out, flags=re.MULTILINE)[1:]:
        test, outcome = part.split()[0], re.search(r"\[(PASSED|FAILED|SKIPPED)\]", part)
        outcomes = {"PASSED": "passed", "FAILED": failed(*reasons.get(test, [])), "SKIPPED": "skipped"}
        tests[test] = outcomes[outcome[1]] if outcome else failed("it ended the run:", part)
    return tests


def run_rueidis(directory, options):
    tests = {}
    for package, arguments in RUEIDIS.items():
        prefix = "" if package == "." else f"{package} "
        arguments = ["-test.timeout=20m", *arguments]
        if package == "rueidiscompat":
            file = file_of("rueidis", "xml", options)
            file.unlink(missing_ok=True)
            subprocess.run(["./suite.test", "-test.v", *arguments, f"-ginkgo.junit-report={file}"], cwd=directory / package)
            tests |= outcomes_of_junit(file, prefix)
        else:
            tests |= go_tests(prefix, "./suite.test", directory / package, arguments)
    return tests


def run_redis_rb(directory, options):
    environment = {**os.environ, "REDIS_SOCKET_PATH": "/tmp/redis.sock"}
    tests = {}
    for file in sorted(directory.glob("test/redis/*_test.rb")) + sorted(directory.glob("test/distributed/*_test.rb")):
        command = ["timeout", "-s", "KILL", "300", "ruby", "-Ilib", "-Itest", f"-I{options.work}/redis-client/lib", str(file), "-v"]
        out, done = logged(command, directory, environment)
        reasons = dict(re.findall(r"^ +\d+\) (?:Failure|Error):\n(\S+)[ :](.*?)\n\n", out, re.MULTILINE | re.DOTALL))
        # A test that writes to the output does so between its name and its outcome.
        for test, outcome in re.findall(r"^(\w\S*#\S+) = .*?\d+\.\d\d s = ([.FES])$", out, re.MULTILINE | re.DOTALL):
            outcomes = {".": "passed", "S": "skipped"}
            tests[test] = outcomes.get(outcome) or failed(reasons.get(test, ""))
        if " runs, " not in out:
            tests[file.stem] = failed("it ended the run:", done.stderr[-300:])
    return tests


def run_predis(directory, options):
    file = file_of("predis", "xml", options)
    file.unlink(missing_ok=True)
    interface = options.work / "http-message/src/StreamInterface.php"
    command = ["php", "-d", f"auto_prepend_file={interface}", shutil.which("phpunit"), "--no-coverage", f"--log-junit={file}"]
    command += ["--filter=^(?!.*SSLTest)"]
    subprocess.run(command, cwd=directory)
    return outcomes_of_junit(file)


def run_jedis(directory, options):
    commands = "redis/clients/jedis/commands"
    classes = ["redis/clients/jedis/*Test", f"{commands}/jedis/*Test", f"{commands}/unified/**/*Test"]
    classes += [f"{commands}/commandobjects/*CommandsTest", "redis/clients/jedis/prefix/*Test"]
    # Without its client-side caching: it refuses servers that say that they are older than 7.4.
    modules = ["Bloom", "CountMin", "Cuckoo", "Json", "Search", "TDigest", "TimeSeries", "Topk", "Triggers"]
    excluded = ["SSL", "Sentinel", "Cluster", "Module", *[f"CommandObjects{module}" for module in modules]]
    return surefire(directory, "surefire:test", [*classes, *[f"!**/*{name}*Test" for name in excluded]])


def surefire(directory, goal, classes, *properties):
    reports = directory / "target/surefire-reports"
    shutil.rmtree(reports, ignore_errors=True)
    tests = "-Dtest=" + ",".join(classes)
    command = ["mvn", "-o", "-B", goal, tests, "-Dsurefire.failIfNoSpecifiedTests=false", *properties]
    subprocess.run(command, cwd=directory)
    tests = {}
    for file in sorted(reports.glob("TEST-*.xml")):
        tests |= outcomes_of_junit(file)
    return tests


def run_lettuce(directory, _options):
    packages = ["", *[f"commands/{kind}" for kind in ["", "reactive/", "transactional/"]]]
    others = ["dynamic", "event", "masterreplica", "masterslave", "protocol", "pubsub", "reliability", "support/**"]
    packages += [f"{name}/" for name in others]
    classes = [f"io/lettuce/core/{package}*IntegrationTests" for package in packages]
    excluded = [f"!**/*{name}*IntegrationTests" for name in ["Ssl", "Sentinel", "Cluster", "RedisContainer", "CommandInterfaces"]]
    return surefire(directory, "surefire:test", [*classes, *excluded], "-Ddomainsocket=/tmp/lettuce.sock")


def run_fakeredis(directory, options):
    common = ["-p", "no:cacheprovider", "--timeout=120"]
    others = ["dragonfly", "hypothesis", "internals", "stack", "tcp_server", "valkey"]
    left_out = [f"--ignore=test/test_{name}" for name in others]
    return run_pytest("fakeredis", directory, options, "test", "-m", "real", *left_out, *common)


# A container is a server, and its name is that of the process.
DOCKER = """
[ "$1" = rm ] && exec kill -KILL "$3"
while [ "$1" != host ]; do
  case "$1" in PORT=*) port=${1#PORT=};; esac
  shift
done
shift 2
mkdir -p DIRECTORY/docker-$port && cd DIRECTORY/docker-$port
server="SERVER"
# The tests of clusters are left out, but their nodes are started and joined all the same.
case "$*" in *--cluster-enabled*) server=redis-server;; esac
setsid $server --port $port "$@" > log 2>&1 < /dev/null &
echo $! | tee pid
"""


def run_node_redis(directory, options):
    file = file_of("node-redis", "json", options)
    file.unlink(missing_ok=True)
    servers = file_of("node-redis", "data", options)
    script = DOCKER.replace("SERVER", command_of_server(options)).replace("DIRECTORY", str(servers))
    environment = with_program("docker", script, options)
    # Those of clusters and Sentinels have this in their names.
    left_out = ["--ignore", "./lib/{cluster,sentinel}/**", "--grep", "[Cc]luster|[Ss]entinel", "--invert"]
    arguments = [*left_out, "--require", "tsx", "./lib/**/*.spec.ts", "--redis-version=7.2"]
    tests = mocha(file, directory / "packages/client", environment, *arguments)
    # What it has not ended itself.
    for pid in servers.glob("docker-*/pid"):
        subprocess.run(["kill", "-KILL", pid.read_text().strip()], stderr=subprocess.DEVNULL)
    return tests


RUN = {
    "redis-py": run_redis_py,
    "ioredis": run_ioredis,
    "go-redis": run_go_redis,
    "django-redis": run_django_redis,
    "kombu": run_kombu,
    "rq": run_rq,
    "bullmq": run_bullmq,
    "redis-rs": run_redis_rs,
    "redigo": run_redigo,
    "hiredis": run_hiredis,
    "phpredis": run_phpredis,
    "rueidis": run_rueidis,
    "redis-rb": run_redis_rb,
    "predis": run_predis,
    "jedis": run_jedis,
    "lettuce": run_lettuce,
    "fakeredis": run_fakeredis,
    "node-redis": run_node_redis,
}


def report(name, result, baseline):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for outcome in result["tests"].values():
        counts[re.split(":", outcome)[0]] += 1
    numbers = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    lived = "" if result.get("server_lived", True) else ", THE SERVER ENDED"
    print(f"{name} {SUITES[name]['tag']}: {numbers}{lived} ({result.get('seconds', 0)} s)")
    for test, outcome in sorted(result["tests"].items()):
        if outcome.startswith("failed") and not baseline["tests"].get(test, "").startswith("failed"):
            print(f"  {test}: {outcome}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
