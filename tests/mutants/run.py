#!/usr/bin/env python3
"""The mutation audit: changes the code in one place at a time, and looks whether a test notices.

    tests/mutants/run.py [--seed N] [--sample N] [--areas aof,resp] [--out DIR]

All mutants of the crate `actors`, and of each other area a sample, which the seed chooses. A mutant meets the unit tests
first, which are cheap; one that they miss meets the tests of its area over the wire. What those miss as well survives.
The outcome is printed as the table of docs/mutants.md and kept in DIR, whose finished parts are not run again.

It needs cargo-mutants (cargo install cargo-mutants --locked --version 27.1.0), and hours: one mutant is one build.
"""

import argparse
import json
import pathlib
import random
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# For each area: its package, its files, and the tests that see what its unit tests may not, as arguments of cargo test.
AREAS = {
    "actors": ("actors", ["actors/src/*.rs"], [["--tests"]]),
    "aof": (
        "shardrace",
        ["src/aof/*.rs", "src/aof/**/*.rs"],
        [["--test", "wire", "--", "durability", "replays", "check_aof", "rewriting", "files"], ["--test", "crash"]],
    ),
    "engine": (
        "shardrace",
        ["src/engine/*.rs", "src/engine/**/*.rs"],
        [["--test", "wire"], ["--test", "consistency"]],
    ),
    "transactions": (
        "shardrace",
        ["src/commands/transaction.rs", "src/deferred.rs"],
        [["--test", "wire", "--", "transactions", "blocking", "order", "databases", "slow_readers"]],
    ),
    "resp": ("shardrace", ["src/resp/*.rs"], [["--test", "parser"], ["--test", "wire", "--", "hostile", "strings"]]),
}
OUTCOMES = {"CaughtMutant": "caught", "MissedMutant": "missed", "Unviable": "unviable", "Timeout": "timeout"}


def cargo_mutants(area, *words):
    package, files, _ = AREAS[area]
    chosen = [word for file in files for word in ("--file", file)]
    return ["cargo", "mutants", "--package", package, *chosen, *words]


def mutants_of(area):
    """The names of all mutants of an area, in an order of their own."""
    listed = subprocess.run(cargo_mutants(area, "--list"), cwd=ROOT, check=True, capture_output=True, text=True)
    return sorted(listed.stdout.splitlines())


def chosen_of(area, seed, sample):
    mutants = mutants_of(area)
    if area == "actors" or len(mutants) <= sample:
        return mutants, len(mutants)
    return sorted(random.Random(f"{seed} {area}").sample(mutants, sample)), len(mutants)


def cheap(package):
    """Lets the compiler do as little as it can for the package that is built again and again, and share the others."""
    settings = ("opt-level=0", "debug=0")
    return [f"--cargo-arg=--config=profile.dev.package.{package}.{setting}" for setting in settings]


def run(area, mutants, tests, out):
    """What becomes of mutants under some tests: their outcomes by name."""
    finished = out / "mutants.out" / "outcomes.json"
    if not finished.exists() or json.loads(finished.read_text()).get("end_time") is None:
        out.mkdir(parents=True, exist_ok=True)
        names = [word for mutant in mutants for word in ("--re", f"^{re.escape(mutant)}$")]
        words = ["--jobs", "1", "--no-shuffle", "--minimum-test-timeout", "120", "--output", str(out), *cheap(AREAS[area][0])]
        # It fails where something is missed.
        subprocess.run(cargo_mutants(area, *words, *names, "--", *tests), cwd=ROOT, check=False)
    outcomes = json.loads(finished.read_text())["outcomes"]
    found = {one["scenario"]["Mutant"]["name"]: OUTCOMES[one["summary"]] for one in outcomes if one["scenario"] != "Baseline"}
    if set(found) != set(mutants):
        sys.exit(f"{area}: cargo-mutants ran {len(found)} mutants of {len(mutants)}; see {out}")
    return found


def judge(area, mutants, out):
    found = run(area, mutants, ["--lib"], out / area / "lib")
    for index, tests in enumerate(AREAS[area][2]):
        missed = sorted(name for name, outcome in found.items() if outcome == "missed")
        if missed:
            found |= run(area, missed, tests, out / area / f"more-{index}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", default="18")
    parser.add_argument("--sample", type=int, default=16, help="mutants of each area but actors")
    parser.add_argument("--areas", default=",".join(AREAS))
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target" / "mutants")
    options = parser.parse_args()
    rows, survivors = [], []
    for area in options.areas.split(","):
        mutants, of = chosen_of(area, options.seed, options.sample)
        found = judge(area, mutants, options.out.resolve())
        counts = [sum(outcome == wanted for outcome in found.values()) for wanted in OUTCOMES.values()]
        rows.append(f"| {area} | {of} | {len(mutants)} | " + " | ".join(map(str, counts)) + " |")
        survivors += sorted(name for name, outcome in found.items() if outcome == "missed")
    print("| area | mutants | tried | " + " | ".join(OUTCOMES.values()) + " |")
    print("|---|---" + "|---" * (1 + len(OUTCOMES)) + "|")
    print(*rows, sep="\n")
    print(*survivors, sep="\n")


if __name__ == "__main__":
    main()
