#!/usr/bin/env python3
"""Runs the official Redis 7.2.4 Tcl suite against Shardrace: `make compat SUITE=/path/to/redis-7.2.4`.

The suite is not part of the project: SUITE is an unpacked source tree of Redis at tag 7.2.4, which stays as it is.
In `external` mode each file runs against one fresh server of each engine, and the suite leaves out what would
configure, stop or start one. In `server` mode the suite starts its servers itself: the file `redis-server` beside this
one stands in the place of Redis's binary, and becomes a server of the engine. In `sentinel` mode it is the suite's
tests of Sentinel that do so, with the redis-sentinel of this machine.

With --real some of the servers that the suite starts are the redis-server of this machine. The tests start one server
inside of another: `outer` is the outermost and every second one from there, `inner` the others, `all` is the control.
Which of them is the master differs by test, so both are needed for both roles.

With --tls everything of server mode speaks TLS, with certificates that the suite's own script makes: it needs openssl,
and tcl-tls for the suite.

What is counted is what the suite prints: tests that pass, that fail, and that are skipped. skips.txt lists tests that
are not run, each with its reason. The end is 1 when a test failed, and 2 when a skip names no test that exists.
"""

import argparse
import functools
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent.parent
ENGINES = ["mutex", "dashmap", "actor"]
# What stands in the place of the engine where no server is ours.
CONTROL = "redis-server"

# What external mode can run: every unit but those that start servers of their own.
EXTERNAL = """
unit/protocol unit/keyspace unit/scan unit/info unit/info-command
unit/type/string unit/type/incr unit/type/list unit/type/list-2 unit/type/list-3 unit/type/set unit/type/zset
unit/type/hash unit/type/stream unit/type/stream-cgroups
unit/sort unit/expire unit/other unit/multi unit/quit unit/dump unit/pause
unit/pubsub unit/pubsubshard unit/bitops unit/bitfield unit/geo unit/hyperloglog unit/wait
unit/introspection unit/introspection-2 unit/slowlog unit/latency-monitor unit/lazyfree
unit/scripting unit/functions
unit/maxmemory unit/obuf-limits unit/querybuf unit/networking unit/violations unit/replybufsize
""".split()

# What server mode adds. Not here: what is about several nodes, and modules, which this server does not have; and the
# files that write a log of Redis's (integration/aof and its kin).
SERVER = """
unit/auth unit/acl unit/acl-v2 unit/tracking unit/client-eviction unit/aofrw unit/limits unit/memefficiency unit/shutdown
unit/oom-score-adj
integration/logging integration/redis-cli integration/redis-benchmark integration/dismiss-mem
integration/corrupt-dump integration/rdb integration/convert-zipmap-hash-on-load
integration/convert-ziplist-hash-on-load integration/convert-ziplist-zset-on-load
integration/replication integration/replication-2 integration/replication-3 integration/replication-4
integration/replication-psync integration/psync2 integration/psync2-pingoff integration/psync2-reg
integration/psync2-master-restart integration/replication-buffer integration/block-repl integration/failover
integration/shutdown
""".split()

SENTINEL = """
00-base 01-conf-update 02-slaves-reconf 03-runtime-reconf 05-manual 06-ckquorum 07-down-conditions 08-hostname-conf
09-acl-support 10-replica-priority 11-port-0 12-master-reboot 13-info-command 14-debug-command
15-config-set-config-get
""".split()

MODES = {"external": EXTERNAL, "server": EXTERNAL + SERVER, "sentinel": SENTINEL}

# What has a second server. In other tests of replication the suite itself reads the stream.
PAIRED = """
integration/replication integration/replication-2 integration/replication-3 integration/replication-4
integration/replication-psync integration/psync2 integration/psync2-pingoff integration/psync2-reg
integration/psync2-master-restart integration/replication-buffer integration/block-repl integration/failover
integration/shutdown unit/wait unit/scripting unit/functions
""".split()
REALS = ["outer", "inner", "all"]
# Directives that redis-server does not list.
HIDDEN = ["key-load-delay", "rdb-key-save-delay", "loading-process-events-interval-bytes", "rename-command", "user"]
# Files of which only these blocks have a second server; and WAITAOF, which came with 7.2.
TAGS = {"unit/scripting": ["repl"], "unit/functions": ["repl"], "unit/wait": ["-aof"]}

# The actor engine has one shard where it has one thread: several are what it is about.
FLAGS = {"mutex": [], "dashmap": [], "actor": ["--shards", "3"], CONTROL: []}

# In external mode the suite's server may have no replicas.
# What needs a snapshot that takes minutes is left out by a tag of our own: see SLOW.
SLOW_TAG = "needs:slow-snapshot"
DENIED_TAGS = {"external": ["needs:repl"], "server": [SLOW_TAG]}

# The wrapper is told which server of a test it starts, and by the suite of Sentinel which tests are not run; that one
# prints its results as the other does.
TOLD = {
    "tests/support/server.tcl": [
        (
            "        set pid [spawn_server $config_file $stdout $stderr $args]\n",
            "        set ::env(SHARDRACE_DEPTH) [llength $::servers]\n"
            "        set pid [spawn_server $config_file $stdout $stderr $args]\n",
        ),
    ],
    "tests/instances.tcl": [
        (
            '    puts -nonewline "$ts> $descr: "\n    flush stdout\n',
            '    if {[search_pattern_list $descr [split $::env(SKIPS) "\\n"]]} {puts "\\[skip\\]: $descr"; return}\n',
        ),
        (
            "    if {[catch {set retval [uplevel 1 $code]} error]} {\n",
            "    if {[catch {set retval [uplevel 1 $code]} error]} {\n"
            '        puts "\\n\\[err\\]: $descr\\n[set ::told $error]"\n',
        ),
        ("        puts [colorstr green OK]\n", '        puts "\\n\\[ok\\]: $descr"\n'),
        ("set ::failed 0\n", 'set ::failed 0\nset ::told ""\n'),
        (
            '            puts "FAILED: caught an error in the test $err"\n',
            '            if {$err ne $::told} {puts "\\n\\[exception\\]: between two tests of $test\\n$err"}\n',
        ),
    ],
    # What follows the first test in this file needs it.
    "tests/sentinel/tests/12-master-reboot.tcl": [
        (
            'test "New master [join $addr {:}] role matches" {\n',
            'if {![info exists addr]} return\ntest "New master [join $addr {:}] role matches" {\n',
        ),
    ],
}

# The suite's harness ends a whole file when one of these fails, though the tests in it could run. They are caught in a
# copy of the suite; the tests themselves are not touched.
CAUGHT = {
    "tests/support/server.tcl": [
        ("        r config set $param $val\n", "        catch {r config set $param $val}\n"),
        ("        r config set $param $val\n", "        catch {r config set $param $val}\n"),
    ],
    # The log has one form, whatever the suite sets.
    "tests/unit/aofrw.tcl": [
        ("        r config set aof-use-rdb-preamble $rdbpre\n", "        catch {r config set aof-use-rdb-preamble $rdbpre}\n"),
    ],
    # There is no debugger of Lua, and nothing that makes loading slow; both stand between tests.
    "tests/unit/scripting.tcl": [("    r script debug sync\n", "    catch {r script debug sync}\n")],
    "tests/unit/memefficiency.tcl": [
        ("        r config set key-load-delay 0\n", "        catch {r config set key-load-delay 0}\n"),
    ],
}

# The same for settings of Redis's that have one value here, or none: a snapshot goes to replicas without a file and is
# loaded aside, and nothing makes it slow.
FIXED = "repl-diskless-sync|repl-diskless-load|rdb-key-save-delay|key-load-delay"
SET_FIXED = re.compile(rf"^(\s*)((?:assert_match \"OK\" )?\[?.*config set (?:{FIXED}) [^;#\n]*?)(\s*;#.*)?$", re.M)
# Blocks of the suite in which every test needs a snapshot that a setting makes slow, and waits for it (or fills the server
# by DEBUG POPULATE) between its tests, where a failure ends the file. They get a tag, by which the suite leaves them out.
SLOW = {
    "replication": [
        ("""foreach testType {Successful Aborted} {\n    start_server {tags {"repl external:skip"}} {\n""", 2),
        ("""start_server {tags {"repl external:skip"} overrides {save ""}} {\n    set master [srv 0 client]\n    $master config set repl-diskless-sync yes\n""", 1),
        ("""start_server {tags {"repl external:skip"}} {\n    set master1_host""", 1),
    ],
    "replication-buffer": [
        ("""start_server {tags {"repl external:skip"}} {\nstart_server {} {\nstart_server {} {\n""", 2),
    ],
}

WITH_FIXED = ["replication", "replication-psync", "replication-buffer", "redis-cli", "psync2", "shutdown"]

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
OUTCOME = re.compile(r"^(?:\*\*\* )?\[(ok|err|skip|ignore|exception|TIMEOUT)\]: ?(.*)$")


def main():
    # As Ctrl-C: what was started is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    arguments = parse_arguments()
    if arguments.report:
        arguments.markdown.write_text(markdown(read_outcomes(arguments.report)))
        return 0
    skips = read_skips(HERE / "skips.txt")
    skips = [skip for skip in skips if skip.is_for(arguments)]
    check_skips(skips, arguments.suite)
    outcomes = {}
    with tempfile.TemporaryDirectory(prefix="compat-") as folder:
        suite = copy_suite(arguments.suite, Path(folder))
        if arguments.tls:
            subprocess.run(["utils/gen-test-certs.sh"], cwd=suite, check=True, capture_output=True)
        for engine in arguments.engines:
            for file in arguments.files:
                outcome = run_file(suite, file, engine, skips, arguments)
                outcomes[engine, file] = outcome
                print(f"{engine:8} {file:24} {outcome.summary()}", flush=True)
                for name, detail in outcome.failed:
                    print(f"    {name}: {detail[:300]}", flush=True)
                if arguments.json:
                    keep(outcome, engine, file, arguments)
    print_table(outcomes, arguments)
    if arguments.markdown:
        runs = {(label(arguments), engine, file): outcome for (engine, file), outcome in outcomes.items()}
        arguments.markdown.write_text(markdown(runs))
    failed = sum(len(outcome.failed) for outcome in outcomes.values())
    return 1 if failed else 0


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", type=Path, help="source tree of Redis 7.2.4")
    parser.add_argument("--server", type=Path, help="the binary")
    parser.add_argument("--engines", nargs="+", default=ENGINES, choices=ENGINES)
    parser.add_argument("--shards", default="3", help="of the actor engine")
    parser.add_argument("--mode", default="external", choices=MODES)
    parser.add_argument("--real", choices=REALS, help="these servers are the redis-server of this machine")
    parser.add_argument("--tls", action="store_true", help="with TLS, in server mode")
    parser.add_argument("--redis", default=shutil.which("redis-server"), help="the redis-server of --real")
    parser.add_argument("--files", nargs="+", help="as the suite names them: unit/type/string")
    parser.add_argument("--seconds", type=int, default=600, help="per file")
    parser.add_argument("--markdown", type=Path, help="write the table here")
    parser.add_argument("--logs", type=Path, help="keep the suite's output here")
    parser.add_argument("--json", type=Path, help="add a line for each file and engine here")
    parser.add_argument("--report", type=Path, nargs="+", help="run nothing: write --markdown from what --json kept")
    arguments = parser.parse_args()
    FLAGS["actor"] = ["--shards", arguments.shards]
    if arguments.report:
        if not arguments.markdown:
            parser.error("--report needs --markdown")
        return arguments
    if not (arguments.suite and arguments.server):
        parser.error("--suite and --server are needed")
    if arguments.tls and arguments.mode != "server":
        parser.error("--tls needs --mode server")
    if arguments.tls and not shutil.which("openssl"):
        parser.error("openssl is missing: apt-get install openssl tcl-tls")
    if arguments.real and arguments.mode == "external":
        parser.error("--real needs a mode in which the suite starts the servers")
    if arguments.real == "all":
        arguments.engines = [CONTROL]
    arguments.files = arguments.files or files_of(label(arguments))
    arguments.server = arguments.server.resolve()
    if not (arguments.suite / "tests/test_helper.tcl").exists():
        parser.error(f"{arguments.suite} is no source tree of Redis")
    version = (arguments.suite / "src/version.h").read_text()
    if '"7.2.4"' not in version:
        parser.error(f"{arguments.suite} is not at 7.2.4: {version.strip()}")
    if not shutil.which("tclsh"):
        parser.error("tclsh is missing: apt-get install tcl")
    if arguments.real and not arguments.redis:
        parser.error("redis-server is missing: apt-get install redis-server")
    if arguments.mode == "sentinel" and not shutil.which("redis-sentinel"):
        parser.error("redis-sentinel is missing: apt-get install redis-sentinel")
    return arguments


def label(arguments):
    """The kind of the run, as --json keeps it."""
    kind = f"{arguments.mode}, tls" if arguments.tls else arguments.mode
    return f"{kind}, real: {arguments.real}" if arguments.real else kind


def files_of(kind):
    if ", real" in kind and not kind.startswith("sentinel"):
        return PAIRED
    return MODES[kind.split(",")[0]] + (["unit/tls"] if ", tls" in kind else [])


class Skip:
    def __init__(self, pattern, reason, mode=None, reals=None):
        self.pattern, self.reason, self.mode, self.reals = pattern, reason, mode, reals

    def is_for(self, arguments):
        is_of_real = self.reals is None or (arguments.real or "none") in self.reals.split(", ")
        return self.mode in (None, arguments.mode) and is_of_real

    def matches(self, name):
        if self.pattern.startswith("/"):
            return re.search(self.pattern[1:], name) is not None
        return self.pattern == name


def read_skips(path):
    """Lines `name of a test`, or `/regular expression`, each below a line `# reason` that may serve for several; one
    that begins with `# in server mode: ` is for that mode alone, and with `# in server mode with real inner, all: ` for
    these values of --real (`none` is its absence)."""
    skips, reason, kind = [], None, ()
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            reason = line[1:].strip()
            found = re.match(r"in (external|server|sentinel) mode(?: with real ([a-z, ]+))?: (.*)", reason)
            *kind, reason = found.groups() if found else (reason,)
        elif line.strip():
            if not reason:
                sys.exit(f"{path}: no reason above {line!r}")
            skips.append(Skip(line, reason, *kind))
        else:
            reason = None
    return skips


def check_skips(skips, suite):
    """A skip that names no test is a mistake, or is not needed any more."""
    names = set()
    folders = ["tests/unit", "tests/integration", "tests/sentinel/tests"]
    for file in (file for folder in folders for file in (suite / folder).rglob("*.tcl")):
        names.update(re.findall(r'^\s*test\s+[{"](.*?)[}"](?=\s+[{"$])', file.read_text(errors="replace"), re.M))
    # A name with a variable in it stands for every name that it may become.
    forms = [re.compile(re.sub(r"\\\$\w+", ".*", re.escape(name))) for name in names if "$" in name]

    def exists(skip):
        is_name = not skip.pattern.startswith("/")
        return any(skip.matches(name) for name in names) or is_name and any(
            form.fullmatch(skip.pattern) for form in forms
        )

    unknown = [skip.pattern for skip in skips if not exists(skip)]
    if unknown:
        print(f"skips.txt names tests that the suite does not have: {unknown}", file=sys.stderr)
        sys.exit(2)


def copy_suite(source, folder):
    suite = folder / "suite"
    shutil.copytree(source / "tests", suite / "tests")
    shutil.copy(source / "runtest", suite)
    (suite / "src").mkdir()
    shutil.copy(HERE / "redis-server", suite / "src")
    shutil.copy(source / "runtest-sentinel", suite)
    (suite / "tests/sentinel/tmp").mkdir(exist_ok=True)
    for tool in ["redis-cli", "redis-benchmark", "redis-sentinel"]:
        if shutil.which(tool):
            (suite / "src" / tool).symlink_to(shutil.which(tool))
    shutil.copytree(source / "utils", suite / "utils")
    (suite / "tests/tmp").mkdir(exist_ok=True)
    for name, changes in [*CAUGHT.items(), *TOLD.items()]:
        path = suite / name
        text = path.read_text()
        for before, after in changes:
            if before not in text:
                sys.exit(f"{name} has no line {before!r}: not 7.2.4")
            text = text.replace(before, after, 1)
        path.write_text(text)
    for name in WITH_FIXED:
        path = suite / "tests/integration" / f"{name}.tcl"
        path.write_text(SET_FIXED.sub(r"\1catch {\2}\3", tagged(name, path.read_text())))
    return suite


def tagged(name, text):
    """A file of the suite with our tag at the blocks that need a slow snapshot."""
    for block, times in SLOW.get(name, []):
        if text.count(block) != times:
            sys.exit(f"{name} has no {times} blocks {block!r}: not 7.2.4")
        text = text.replace(block, block.replace('external:skip"', f'external:skip {SLOW_TAG}"', 1))
    return text


class Outcome:
    def __init__(self):
        self.passed, self.failed, self.skipped, self.ignored = [], [], [], []
        # Of those that passed: only alone.
        self.alone = 0

    def absent(self):
        """How many failed because the server does not know a command or a directive."""
        return sum(is_about_unknown(detail) for _, detail in self.failed)

    def summary(self):
        failed = f"{len(self.failed)} err ({self.absent()} of them: unknown command or directive)"
        passed = f"{len(self.passed)} ok ({self.alone} of them: alone)"
        return f"{passed}, {failed}, {len(self.skipped)} skipped, {len(self.ignored)} not for this mode"


def run_file(suite, file, engine, skips, arguments):
    outcome = run_once(suite, file, engine, skips, arguments)
    # A test that fails may leave its connection in the middle of something, and the next one fails with it: what
    # fails for no reason that is plain is run once more, alone, and that is what counts.
    for name, detail in list(outcome.failed):
        test = re.split(r" in tests/(?:unit|integration)/", name)[0]
        if is_about_unknown(detail) or test == name:
            continue
        again = run_once(suite, file, engine, skips, arguments, only=test)
        if again.passed == [test] and not again.failed:
            outcome.failed.remove((name, detail))
            outcome.passed.append(test)
            outcome.alone += 1
    return outcome


def run_once(suite, file, engine, skips, arguments, only=None):
    with tempfile.TemporaryDirectory(prefix="compat-data-") as data:
        if arguments.mode != "external":
            output, has_ended = run_suite(suite, file, [], skips, arguments, engine, only)
            outcome = read_output(output)
            if arguments.mode == "sentinel" and not outcome.failed and "GOOD! No errors." not in output:
                outcome.failed.append((f"{file} ended otherwise", output[-500:]))
        else:
            with Server(arguments.server, engine, data) as server:
                options = ["--host", "127.0.0.1", "--port", str(server.port)]
                # The suite works in database 9.
                options += ["--singledb"] if server.databases() < 10 else []
                output, has_ended = run_suite(suite, file, options, skips, arguments, engine, only)
                outcome = read_output(output)
                if server.process.poll() is not None:
                    outcome.failed.append((f"the server ended with {server.process.returncode}", ""))
        if not has_ended:
            outcome.failed.append((f"{file} did not end within {arguments.seconds} s", ""))
        if arguments.logs and not only:
            arguments.logs.mkdir(parents=True, exist_ok=True)
            kind = label(arguments).replace(", real: ", "-").replace(", ", "-")
            name = f"{kind}-{engine}-{file.replace('/', '-')}.log"
            (arguments.logs / name).write_text(output)
        return outcome


def run_suite(suite, file, options, skips, arguments, engine, only):
    patterns = "\n".join(skip.pattern for skip in skips)
    if arguments.mode == "sentinel":
        command = ["./runtest-sentinel", "--single", file]
    else:
        command = runtest_command(suite, file, options, patterns, arguments, only)
    flags = " ".join(["--engine", engine, *FLAGS[engine]])
    environment = os.environ | {"SHARDRACE": str(arguments.server), "SHARDRACE_FLAGS": flags, "SKIPS": patterns}
    if arguments.real:
        environment |= {"REAL": arguments.real, "REAL_SERVER": arguments.redis}
        environment |= {"REAL_KNOWN": real_directives(arguments.redis)}
    # A session of its own, so that the suite's helpers can be ended with it.
    runner = subprocess.Popen(
        command,
        cwd=suite,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    has_ended = True
    try:
        output, _ = runner.communicate(timeout=arguments.seconds)
    except subprocess.TimeoutExpired:
        has_ended = False
    finally:
        end_session(runner)
    if not has_ended:
        output, _ = runner.communicate()
    return COLOURS.sub("", output.decode(errors="replace")), has_ended


def runtest_command(suite, file, options, patterns, arguments, only):
    skip_file = suite / "skips"
    skip_file.write_text(patterns)
    tags = [*(TAGS.get(file, []) if arguments.real else []), *(f"-{tag}" for tag in DENIED_TAGS[arguments.mode])]
    options = [*options, "--tls"] if arguments.tls else options
    command = ["./runtest", *options, "--durable", "--no-latency", "--clients", "1"]
    command += ["--skipfile", str(skip_file), "--tags", " ".join(tags), "--single", file]
    command += ["--only", only] if only else []
    # The suite's own processes meet at a port that it takes to be free.
    return [*command, "--baseport", str(random.randrange(22_000, 31_000))]


@functools.cache
def real_directives(binary):
    """What a redis-server may be told in its configuration."""
    with tempfile.TemporaryDirectory(prefix="compat-real-") as data:
        path = os.path.join(data, "socket")
        command = [binary, "--port", "0", "--unixsocket", path, "--dir", data]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            with connected(path) as connection:
                connection.sendall(b"CONFIG GET *\r\nQUIT\r\n")
                values = re.findall(r"\$\d+\r\n(.*?)\r\n", connection.makefile(newline="").read())
        finally:
            server.kill()
            server.wait()
    return " ".join([*values[::2], *HIDDEN])


def connected(path):
    for _ in range(1000):
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(path)
            return connection
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            time.sleep(0.01)
    sys.exit(f"redis-server did not listen on {path}")


def end_session(runner):
    try:
        os.killpg(runner.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # All of it had ended.


def read_output(output):
    outcome = Outcome()
    # Behind this the suite prints its failures once more.
    body = output.split("!!! WARNING The following tests failed:")[0]
    lists = {"ok": outcome.passed, "skip": outcome.skipped, "ignore": outcome.ignored}
    lines = body.splitlines()
    for at, line in enumerate(lines):
        found = OUTCOME.match(line)
        if not found:
            continue
        kind, name = found.groups()
        if kind in lists:
            lists[kind].append(re.sub(r" \(\d+ ms\)$", "", name))
            continue
        # The first of these lines lacks its beginning.
        detail = " ".join(lines[at + 1 : at + 3])
        outcome.failed.append((name, detail))
    if not (outcome.passed or outcome.failed or outcome.skipped or outcome.ignored):
        outcome.failed.append(("nothing ran", output[-500:]))
    return outcome


def is_about_unknown(detail):
    return re.search(r"unknown (sub)?command|Unknown option or number of arguments for CONFIG SET", detail) is not None


class Server:
    """A server of ours on a free port, ended by its own pid."""

    def __init__(self, binary, engine, data):
        log = open(os.path.join(data, "log"), "w+")
        command = [str(binary), "--engine", engine, *FLAGS[engine], "--port", "0", "--dir", data]
        # As the suite's own configuration has it.
        command += ["--enable-debug-command", "local"]
        self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=data)
        self.port = self.wait_for_port(log.name)

    def wait_for_port(self, log):
        for _ in range(1000):
            found = re.search(r"Ready to accept connections tcp on \S*:(\d+)", Path(log).read_text())
            if found:
                return int(found.group(1))
            time.sleep(0.01)
        self.process.kill()
        sys.exit(f"the server did not start: {Path(log).read_text()}")

    def databases(self):
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(b"CONFIG GET databases\r\nQUIT\r\n")
            return int(connection.makefile().read().split()[-2])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def print_table(outcomes, arguments):
    print("\nfailures")
    for (engine, file), outcome in outcomes.items():
        for name, detail in outcome.failed:
            print(f"  {engine} {file}: {name}: {detail[:200]}")
    print("\nok / err / skipped, by file; err (n): n of them because a command or directive is unknown")
    print(f"{'file':26}" + "".join(f"{engine:>24}" for engine in arguments.engines))
    totals = {engine: [0, 0, 0, 0] for engine in arguments.engines}
    for file in arguments.files:
        cells = ""
        for engine in arguments.engines:
            outcome = outcomes[engine, file]
            found = [*counts(outcome), outcome.absent()]
            totals[engine] = [total + count for total, count in zip(totals[engine], found)]
            cells += f"{cell(*found):>24}"
        print(f"{file:26}{cells}")
    print(f"{'all':26}" + "".join(f"{cell(*totals[engine]):>24}" for engine in arguments.engines))


def keep(outcome, engine, file, arguments):
    with arguments.json.open("a") as lines:
        lines.write(json.dumps([label(arguments), engine, file, vars(outcome)]) + "\n")


def read_outcomes(paths):
    """What was kept; of several runs of a file the last."""
    outcomes = {}
    for line in (line for path in paths for line in path.read_text().splitlines()):
        mode, engine, file, values = json.loads(line)
        outcome = Outcome()
        vars(outcome).update(values)
        outcomes[mode, engine, file] = outcome
    return outcomes


def markdown(outcomes):
    """docs/results/compat.md: for each mode the table and what failed, and what was skipped why."""
    lines = [
        "# Redis's own Tcl suite",
        "",
        "Redis 7.2.4's suite (redis/redis, tag 7.2.4). Written by `tests/compat/run.py`, as it counts: `ok / err / "
        "skipped`; a test that the suite itself leaves out in a mode is not counted. The actor engine has 3 shards.",
    ]
    for mode, title in [("external", "External mode"), ("server", "Server mode")]:
        of_mode = {(engine, file): outcome for (of, engine, file), outcome in outcomes.items() if of == mode}
        if of_mode:
            lines += ["", f"## {title}", "", *table_markdown(mode, of_mode), "", *failures_markdown(of_mode)]
    for mode, title in [("server", "Pairs, server mode"), ("sentinel", "Sentinel")]:
        of_mode = {key: outcome for key, outcome in outcomes.items() if key[0] != "server" and key[0].startswith(mode)}
        if of_mode:
            lines += ["", f"## {title}", "", *pairs_markdown(of_mode), "", *failures_of_pairs(of_mode)]
    lines += ["", "## What is skipped", "", *skips_markdown(HERE / "skips.txt")]
    return "\n".join(lines) + "\n"


def table_markdown(mode, outcomes):
    engines = [engine for engine in ENGINES if any(engine == of for of, _ in outcomes)]
    lines = ["| file | " + " | ".join(engines) + " |", "|---|" + "---|" * len(engines)]
    totals = {engine: [0, 0, 0] for engine in engines}
    for file in MODES[mode]:
        cells = []
        for engine in engines:
            outcome = outcomes.get((engine, file))
            found = counts(outcome) if outcome else [0, 0, 0]
            totals[engine] = [total + count for total, count in zip(totals[engine], found)]
            cells.append(" / ".join(map(str, found)) if outcome else "not run")
        lines.append(f"| {file} | " + " | ".join(cells) + " |")
    sums = [" / ".join(map(str, totals[engine])) for engine in engines]
    return [*lines, "| **all** | " + " | ".join(sums) + " |"]


def pairs_markdown(outcomes):
    """A table with a column for each engine and each choice of --real, in the order of the runs."""
    columns = list(dict.fromkeys((kind, engine) for kind, engine, _ in outcomes))
    reals = {kind: kind.partition("real: ")[2] or "none" for kind, _ in columns}
    titles = [engine if engine == CONTROL else f"{engine}, {reals[kind]}" for kind, engine in columns]
    lines = ["| file | " + " | ".join(titles) + " |", "|---|" + "---|" * len(columns)]
    for file in files_of(columns[0][0]):
        found = [outcomes.get((*column, file)) for column in columns]
        cells = [" / ".join(map(str, counts(outcome))) if outcome else "–" for outcome in found]
        lines.append(f"| {file} | " + " | ".join(cells) + " |")
    return lines


def counts(outcome):
    return [len(outcome.passed), len(outcome.failed), len(outcome.skipped)]


def failures_of_pairs(outcomes):
    return failures_markdown({(f"{engine}, {kind}", file): outcome for (kind, engine, file), outcome in outcomes.items()})


def failures_markdown(outcomes):
    failed = {}
    for (engine, file), outcome in outcomes.items():
        for name, detail in outcome.failed:
            test = re.split(r" in tests/(?:unit|integration)/", name)[0]
            failed.setdefault((file, test), ([], detail))[0].append(engine)
    lines = ["What fails:", ""] if failed else ["Nothing fails."]
    for (file, test), (engines, detail) in failed.items():
        reason = re.sub(r"\s+", " ", detail).strip()[:160].replace("|", "\\|").replace("`", "'")
        lines.append(f"- {file}: {test} ({', '.join(engines)}): `{reason}`")
    return lines


def skips_markdown(path):
    lines = []
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            lines.append(f"- {line[1:].strip()}")
        elif line.strip():
            lines.append(f"  - `{line}`")
    return lines


def cell(passed, failed, skipped, absent):
    return f"{passed} / {failed} ({absent}) / {skipped}"


if __name__ == "__main__":
    sys.exit(main())
