#!/usr/bin/env python3
"""The mutation audit: changes the code in one place at a time, and looks whether a test notices.

    tests/mutants/run.py [--seed N] [--sample N] [--areas aof,resp] [--only REGEX] [--also REGEX] [--out DIR]

cargo-mutants says what can be changed. A build for each mutant would take days, so all that are tried are built at
once: a function with mutants gets a copy of its body for each, and the environment says which copy runs
(`SHARDRACE_MUTANT`). Where that is impossible (constants, `const fn`, `-> impl`), a mutant has a build of its own.

A mutant meets the unit tests of its area first, and the tests of its area over the wire if those miss it. The first
test that fails ends the run. What is found stands in DIR/outcomes.json; what stands there is not tried again. At the
end the rows of docs/mutants.md are printed.

While the file that MUTANTS_HOLD names exists nothing is built or run.
"""

import argparse
import collections
import json
import math
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SWITCH = "SHARDRACE_MUTANT"
SECONDS_MIN = 30
ACTORS = ["--package", "actors", "--lib", "--test", "turns", "--test", "unfinished", "--test", "schedules"]
SHARDRACE = ["--package", "shardrace", "--lib", "--bin", "shardrace", "--test", "wire"]

# For each area: its package, its files, what is built, and its tests in the order in which a mutant meets them: the
# target of cargo, and the arguments of the test's binary.
AREAS = {
    "resp": (
        "shardrace",
        ["src/resp/*.rs"],
        [*SHARDRACE, "--test", "parser"],
        [("unit", ["resp::"]), ("parser", []), ("wire", ["hostile::", "strings::", "sorted_sets::"])],
    ),
    "actors": ("actors", ["actors/src/*.rs"], ACTORS, [("unit", []), ("turns", []), ("unfinished", []), ("schedules", [])]),
    "transactions": (
        "shardrace",
        ["src/commands/transaction.rs", "src/connection/pending_request.rs"],
        [*SHARDRACE, "--test", "consistency", "--test", "crash"],
        [
            ("wire", ["transactions::"]),
            ("wire", ["blocking::", "order::", "databases::", "slow_readers::", "save_points::", "observing::"]),
            ("wire", ["rdb::", "waiting::", "clients::", "replays::", "debug::", "cluster::"]),
            ("crash", ["loading::"]),
            ("consistency", ["linearizable", "strictly_serializable"]),
        ],
    ),
    "engine": (
        "shardrace",
        ["src/engine/*.rs", "src/engine/**/*.rs"],
        [*SHARDRACE, "--test", "consistency", "--test", "crash"],
        [
            ("unit", ["engine::"]),
            ("wire", ["strings::", "transactions::", "order::"]),
            ("wire", ["keys::", "expiry::", "databases::", "slow_readers::", "rewriting::", "info::"]),
            ("wire", ["blocking::", "eviction::", "stages::", "observing::", "notifications::", "durability::", "streams::"]),
            ("wire", ["waiting::"]),
            ("crash", ["loading::"]),
            ("consistency", ["linearizable", "strictly_serializable"]),
        ],
    ),
    "aof": (
        "shardrace",
        ["src/aof/*.rs", "src/aof/**/*.rs"],
        [*SHARDRACE, "--test", "crash"],
        [
            ("unit", ["aof::"]),
            ("wire", ["check_aof::", "replays::"]),
            ("wire", ["durability::", "rewriting::", "files::"]),
            ("crash", ["what_was", "under_", "a_log_that"]),
        ],
    ),
}


def waits():
    hold = os.environ.get("MUTANTS_HOLD")
    while hold and os.path.exists(hold):
        time.sleep(5)


def is_held():
    hold = os.environ.get("MUTANTS_HOLD")
    return bool(hold) and os.path.exists(hold)


# What can be changed.


def mutants_of(area, root):
    package, files, _, _ = AREAS[area]
    chosen = [word for file in files for word in ("--file", file)]
    words = ["cargo", "mutants", "--package", package, *chosen, "--list", "--json"]
    listed = json.loads(subprocess.run(words, cwd=root, check=True, capture_output=True, text=True).stdout)
    listed = [mutant for mutant in listed if "mutant_is" not in mutant["name"]]
    return sorted(listed, key=lambda mutant: mutant["name"])


def chosen_of(area, options, root):
    mutants = mutants_of(area, root)
    if options.only:
        return [mutant for mutant in mutants if re.search(options.only, mutant["name"])], len(mutants)
    sample = min(options.sample, len(mutants))
    return random.Random(f"{options.seed} {area}").sample(mutants, sample), len(mutants)


def with_others(chosen, area, options, root):
    """The sample, and after it those that --also names: they are tried too, and no part of the sample's share."""
    if not options.also:
        return chosen
    names = {mutant["name"] for mutant in chosen}
    return chosen + [m for m in mutants_of(area, root) if m["name"] not in names and re.search(options.also, m["name"])]


# Changing it. A function's text with its mutants becomes the text of a function that chooses.

TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|b?r(#*)\".*?\"\1|b?\"(?:\\.|[^\"\\])*\"|b?'(?:\\.[^']*|[^'\\])'|'\w+|\w+|.", re.DOTALL
)


def body_of(text):
    """The positions of a function's body, its braces not among them; nothing for one that cannot choose at run time."""
    begun, depth, before = False, 0, []
    for token in TOKEN.finditer(text):
        word = token.group()
        if word == "fn" and not begun:
            begun = True
            if before[-1:] == ["const"] or before[-2:-1] == ["const"]:
                return None
        elif begun and word in "([":
            depth += 1
        elif begun and word in ")]":
            depth -= 1
        elif begun and word == "{" and depth == 0:
            return token.end(), text.rindex("}")
        if not word.isspace() and not word.startswith(("//", "/*")):
            before.append(word)
    return None


class Source:
    """A file's text, and places in it as cargo-mutants names them."""

    def __init__(self, text):
        self.text = text
        self.lines = [0]
        for line in text.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))

    def position(self, place):
        return self.lines[place["line"] - 1] + place["column"] - 1

    def span(self, span):
        return self.position(span["start"]), self.position(span["end"])

    def changed(self, mutant, start, end):
        """The text from start to end with a mutant in it."""
        first, last = self.span(mutant["span"])
        return self.text[start:first] + mutant["replacement"] + self.text[last:end]


def is_apart(source, mutant):
    function = mutant["function"]
    if function is None or "impl " in function["return_type"]:
        return True
    start, end = source.span(function["span"])
    return body_of(source.text[start:end]) is None


def woven(source, mutants, numbers):
    """A file's text with the mutants in it, and the lines of each: (first, last, number)."""
    spans = sorted({source.span(mutant["function"]["span"]) for mutant in mutants})
    outer = [span for span in spans if not any(other != span and other[0] <= span[0] and span[1] <= other[1] for other in spans)]
    text, lines, done = "", [], 0
    for start, end in outer:
        inside = [mutant for mutant in mutants if start <= source.span(mutant["span"])[0] < end]
        first, last = body_of(source.text[start:end])
        first, last = start + first, start + last
        text += source.text[done:first]
        for mutant in inside:
            number = numbers[mutant["name"]]
            text += f"\nif crate::mutant_is({number}) {{\n"
            begins = text.count("\n") + 1
            text += source.changed(mutant, first, last) + "\n} else "
            lines.append((begins, text.count("\n") + 1, number))
        text += "{\n" + source.text[first:last] + "\n}\n"
        done = last
    return text + source.text[done:], lines


CHOICE = f"""
/// Whether this run is that of a mutant.
#[doc(hidden)]
pub fn mutant_is(number: u32) -> bool {{
    static RUN: std::sync::LazyLock<u32> =
        std::sync::LazyLock::new(|| std::env::var("{SWITCH}").ok().and_then(|number| number.parse().ok()).unwrap_or(0));
    *RUN == number
}}
"""


class Tree:
    """A copy of the last commit, which is changed and built."""

    def __init__(self, out):
        self.root = out / "tree"
        self.lines, self.originals = {}, {}
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)
        archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", self.root], input=archive, check=True)
        self.commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True)
        self.commit = self.commit.stdout.strip()
        for lib in ("src/lib.rs", "actors/src/lib.rs"):
            with (self.root / lib).open("a") as file:
                file.write(CHOICE)

    def original(self, file):
        if file not in self.originals:
            self.originals[file] = Source((self.root / file).read_text())
        return self.originals[file]

    def put(self, file, text):
        path = self.root / file
        if path.read_text() != text:
            path.write_text(text)

    def weave(self, mutants, numbers):
        by_file = collections.defaultdict(list)
        for mutant in mutants:
            by_file[mutant["file"]].append(mutant)
        for file in set(by_file) | set(self.lines):
            text, lines = woven(self.original(file), by_file[file], numbers)
            self.put(file, text)
            self.lines[file] = lines

    def number_at(self, file, line):
        return next((number for first, last, number in self.lines.get(file, []) if first <= line <= last), None)

    def cargo(self, words):
        """What cargo says, message by message."""
        waits()
        mold = ["mold", "-run"] if shutil.which("mold") else []
        cheap = ["--config", "profile.dev.package.shardrace.debug=0"]
        ran = subprocess.run([*mold, "cargo", *words, *cheap, "--message-format", "json"], cwd=self.root, capture_output=True, text=True)
        return ran.returncode, [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")], ran.stderr

    def errors(self, package):
        """The numbers of the mutants that do not compile. An error elsewhere is ours."""
        code, messages, said = self.cargo(["check", "--package", package, "--lib"])
        bad, ours = set(), []
        for message in messages:
            if message["reason"] != "compiler-message" or message["message"]["level"] != "error":
                continue
            found = [self.number_at(span["file_name"], span["line_start"]) for span in message["message"]["spans"]]
            bad |= {number for number in found if number}
            if message["message"]["spans"] and not any(found):
                ours.append(message["message"]["rendered"])
        if code != 0 and not bad:
            sys.exit("the tree does not compile:\n" + "\n".join(ours) + said)
        return bad

    def build(self, words):
        """The binaries of tests by the names of their targets."""
        code, messages, said = self.cargo(["test", "--no-run", *words])
        if code != 0:
            return None
        made = [message for message in messages if message["reason"] == "compiler-artifact" and message["profile"]["test"]]
        return {name_of(one["target"]): (one["executable"], pathlib.Path(one["manifest_path"]).parent) for one in made}


def name_of(target):
    """What AREAS calls a target: a binary has the name of its library."""
    return "unit" if "lib" in target["kind"] else target["name"] if "test" in target["kind"] else "bin"


# Running tests.


def run(binary, package_dir, arguments, number, seconds_max):
    """What the tests say: passed, failed (with the name of the first), or that they took too long."""
    while True:
        waits()
        environment = os.environ | {"CARGO_MANIFEST_DIR": str(package_dir), SWITCH: str(number)}
        begun = time.monotonic()
        process = subprocess.Popen(
            [binary, *arguments], cwd=package_dir, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )
        os.set_blocking(process.stdout.fileno(), False)
        said, verdict = b"", None
        while verdict is None:
            said += process.stdout.read() or b""
            failed = re.search(rb"^test (\S+).* \.\.\. FAILED|^test (\S+).* FAILED$", said, re.MULTILINE)
            if failed:
                verdict = ("caught", (failed[1] or failed[2]).decode())
            elif is_held():
                verdict = ("held", "")
            elif process.poll() is not None:
                verdict = ("passed", "") if process.returncode == 0 else ("caught", f"ended with {process.returncode}")
            elif time.monotonic() - begun > seconds_max:
                verdict = ("timeout", "")
            else:
                time.sleep(0.05)
        end(process)
        if verdict[0] != "held":
            return *verdict, time.monotonic() - begun


def end(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()



class Judge:
    """The tests of an area, with what they take where nothing is changed."""

    def __init__(self, area, binaries, log):
        self.steps, self.log = [], log
        for target, filters in AREAS[area][3]:
            binary, directory = binaries[target]
            skips = []
            # A test that fails where nothing is changed says nothing: it is named, and left out.
            while True:
                arguments = [*filters, *[word for skip in skips for word in ("--skip", skip)]]
                verdict, name, seconds = run(binary, directory, arguments, 0, 900)
                if verdict == "passed":
                    break
                self.log(f"{area}: unchanged, {target} {verdict}: {name}")
                if verdict != "caught" or name.startswith("ended") or len(skips) > 5:
                    sys.exit(f"the tests of {area} in {target} do not pass where nothing is changed")
                skips.append(name)
            self.log(f"{area}: unchanged, {target} {filters} passes in {seconds:.1f} s")
            self.steps.append((target, binary, directory, arguments, max(SECONDS_MIN, 5 * seconds)))

    def judge(self, number):
        for target, binary, directory, arguments, seconds_max in self.steps:
            verdict, name = self.run_surely(binary, directory, arguments, number, seconds_max)
            if verdict != "passed":
                return verdict, f"{target}: {name}" if name else target
        return "survived", ""

    def run_surely(self, binary, directory, arguments, number, seconds_max):
        """Runs tests. One that fails and then passes alone says nothing of the mutant, and the others run again."""
        while True:
            verdict, name, _ = run(binary, directory, arguments, number, seconds_max)
            if verdict != "caught" or name.startswith("ended"):
                return verdict, name
            if run(binary, directory, ["--exact", name], number, seconds_max)[0] != "passed":
                return verdict, name
            self.log(f"{name} failed and passes alone")
            arguments = [*arguments, "--skip", name]


class Audit:
    def __init__(self, options):
        self.options = options
        self.out = options.out.resolve()
        self.tree = Tree(self.out)
        self.kept = self.out / "outcomes.json"
        self.outcomes = json.loads(self.kept.read_text()) if self.kept.exists() else {}

    def log(self, line):
        print(time.strftime("%H:%M:%S"), line, file=sys.stderr, flush=True)

    def note(self, area, mutant, outcome, by=""):
        self.outcomes.setdefault(area, {})[mutant["name"]] = {"outcome": outcome, "by": by, "commit": self.tree.commit}
        self.kept.write_text(json.dumps(self.outcomes, indent=1))
        self.log(f"{area}: {outcome}: {mutant['name']} {by}")

    def run(self, areas):
        chosen = {area: chosen_of(area, self.options, self.tree.root) for area in areas}
        tried = {area: with_others(mutants, area, self.options, self.tree.root) for area, (mutants, _) in chosen.items()}
        todo = {area: [m for m in mutants if m["name"] not in self.outcomes.get(area, {})] for area, mutants in tried.items()}
        mutants = [mutant for mutants in todo.values() for mutant in mutants]
        numbers = {mutant["name"]: index + 1 for index, mutant in enumerate(mutants)}
        apart = {mutant["name"] for mutant in mutants if is_apart(self.tree.original(mutant["file"]), mutant)}
        together = self.woven_together(todo, numbers, apart)
        for area in areas:
            self.judge_together(area, [m for m in together if m in todo[area]], numbers)
        for area in areas:
            for mutant in todo[area]:
                if mutant["name"] in apart:
                    self.judge_apart(area, mutant)
        for area in areas:
            print_row(area, chosen[area], self.outcomes.get(area, {}))
        for area in areas:
            print_others(area, tried[area][len(chosen[area][0]) :], self.outcomes.get(area, {}))

    def woven_together(self, todo, numbers, apart):
        together = [m for mutants in todo.values() for m in mutants if m["name"] not in apart]
        packages = sorted({AREAS[area][0] for area in todo})
        while True:
            self.tree.weave(together, numbers)
            bad = set().union(*(self.tree.errors(package) for package in packages))
            for area, mutants in todo.items():
                for mutant in mutants:
                    if numbers[mutant["name"]] in bad:
                        self.note(area, mutant, "unviable")
            if not bad:
                return together
            together = [mutant for mutant in together if numbers[mutant["name"]] not in bad]

    def judge_together(self, area, mutants, numbers):
        if not mutants:
            return
        self.log(f"{area}: builds {len(mutants)} mutants")
        binaries = self.tree.build(AREAS[area][2])
        if binaries is None:
            sys.exit(f"{area}: the tests do not build")
        judge = Judge(area, binaries, self.log)
        for mutant in mutants:
            self.note(area, mutant, *judge.judge(numbers[mutant["name"]]))

    def judge_apart(self, area, mutant):
        self.tree.weave([], {})
        source = self.tree.original(mutant["file"])
        self.tree.put(mutant["file"], source.changed(mutant, 0, len(source.text)))
        binaries = self.tree.build(AREAS[area][2])
        if binaries is None:
            self.note(area, mutant, "unviable")
        else:
            outcome = "survived", ""
            for target, filters in AREAS[area][3]:
                verdict, name, _ = run(*binaries[target], filters, 0, 300)
                if verdict != "passed":
                    outcome = verdict, f"{target}: {name}"
                    break
            self.note(area, mutant, *outcome)
        self.tree.put(mutant["file"], source.text)


# The figure.


def wilson(caught, tried):
    """The share that was caught and its interval of 95 %, in percent."""
    z, share = 1.96, caught / tried
    middle = (share + z * z / (2 * tried)) / (1 + z * z / tried)
    half = z / (1 + z * z / tried) * math.sqrt(share * (1 - share) / tried + z * z / (4 * tried * tried))
    return 100 * share, 100 * (middle - half), 100 * (middle + half)


def print_row(area, chosen, outcomes):
    mutants, of = chosen
    names = {mutant["name"] for mutant in mutants}
    found = [(name, one) for name, one in outcomes.items() if name in names]
    counts = {kind: sum(one["outcome"] == kind for _, one in found) for kind in ("caught", "survived", "timeout", "unviable")}
    noticed, judged = counts["caught"] + counts["timeout"], len(found) - counts["unviable"]
    share = "{:.0f} % ({:.0f} to {:.0f})".format(*wilson(noticed, judged)) if judged else ""
    print(f"| {area} | {of} | {len(found)} | " + " | ".join(map(str, counts.values())) + f" | {share} |")
    for name, one in found:
        if one["outcome"] == "survived":
            print(f"  survived: {name}")


def print_others(area, others, outcomes):
    for mutant in others:
        one = outcomes.get(mutant["name"], {"outcome": "not judged", "by": ""})
        print(f"  also, {area}: {one['outcome']}: {mutant['name']} {one['by']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", default="18")
    parser.add_argument("--sample", type=int, default=40, help="mutants of each area")
    parser.add_argument("--areas", default=",".join(AREAS))
    parser.add_argument("--only", help="instead of a sample: the mutants whose names match")
    parser.add_argument("--also", help="beside the sample: the mutants whose names match, as those that survived before")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target" / "mutants")
    options = parser.parse_args()
    Audit(options).run(options.areas.split(","))


if __name__ == "__main__":
    main()
