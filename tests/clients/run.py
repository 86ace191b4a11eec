#!/usr/bin/env python3
"""Runs the test suites of client libraries, unmodified, against this server, or another.

    tests/clients/run.py [--suite NAME ...] [--engine ENGINE] [--shards N] [--server PATH | --peer PATH] [--sources DIR] [--work DIR]

Each suite is checked out at a tag, and what it needs is installed, under --work (outside the tree). It runs in a network
namespace of its own, with the server on port 6379 and on a unix socket: no other server is in its reach, and it is in
reach of nobody. `--peer` is a redis-server or valkey-server that takes the place of ours, for the baseline. Prints a line
for each suite and a line for each test that fails; `--json FILE` keeps both, and `--baseline FILE`, such a file of a
peer, leaves out the tests that fail there, too. Exits with 1 when a suite did not run.

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
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
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
    directory = source(name, options)
    if directory.exists():
        return
    repository, tag = SUITES[name]["repository"], SUITES[name]["tag"]
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
    server = start_server(directory, SUITES[name].get("socket", str(directory / "server.sock")), options)
    try:
        started = time.time()
        tests = RUN[name](source(name, options), options)
        lived = server.poll() is None
        result = {"tests": tests, "seconds": round(time.time() - started), "server_lived": lived}
        file_of(name, "result.json", options).write_text(json.dumps(result))
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=30)
    return 0


def start_server(directory, socket, options):
    common = ["--port", "6379", "--dir", str(directory), "--unixsocket", socket, "--enable-debug-command", "yes"]
    # There is a config file for CONFIG REWRITE.
    file = directory / "server.conf"
    file.touch()
    if options.peer:
        command = [str(options.peer), str(file), *common, "--save", ""]
    else:
        command = [str(options.server), str(file), *common, "--appendonly", "no", "--engine", options.engine]
        command += ["--shards", str(options.shards)] if options.engine == "actor" else []
    server = subprocess.Popen(command, stdout=(directory / "log").open("w"), stderr=subprocess.STDOUT, cwd=directory)
    deadline = time.time() + 30
    while "Ready to accept connections" not in (directory / "log").read_text():
        if server.poll() is not None or time.time() > deadline:
            raise SystemExit(f"the server did not start: {(directory / 'log').read_text()}")
        time.sleep(0.05)
    return server


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
            reason = (kinds.get("failure") if "failure" in kinds else kinds["error"]).get("message") or ""
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
    command = ["npx", "mocha", "--reporter", "json", "--reporter-option", f"output={file}", "--exit"]
    command += ["test/helpers/*.ts", "test/functional/**/*.ts"]
    environment = {**os.environ, "TS_NODE_TRANSPILE_ONLY": "true", "NODE_ENV": "test"}
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


def named_redis_server(options):
    """The environment of suites that start servers of their own: its redis-server is a script."""
    if options.peer:
        command = [str(options.peer)]
    else:
        command = [str(options.server), "--engine", options.engine, "--appendonly", "no"]
        command += ["--shards", str(options.shards)] if options.engine == "actor" else []
    directory = options.work / f"bin-{options.peer.name if options.peer else options.engine}"
    directory.mkdir(exist_ok=True)
    program = directory / "redis-server"
    # Ours does not say that it is Redis, of which version, and logs to standard error.
    version = "" if options.peer else 'case "$1" in -v|--version) echo "Redis server v=7.2.4"; exit;; esac\n'
    program.write_text(f'#!/bin/sh\n{version}exec {shlex.join(command)} "$@" 2>&1\n')
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
        command = ["go", "tool", "test2json", "-t", f"../{package}.test", "-test.v"]
        out, _ = logged(command, directory / package, named_redis_server(options))
        said = {}
        for event in map(json.loads, out.splitlines()):
            test = f"{package} {event.get('Test')}"
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
