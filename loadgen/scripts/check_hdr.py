#!/usr/bin/env python3
"""Reads PREFIX.hlog, PREFIX.service.hlog and PREFIX.hgrm with the Python hdrhistogram package.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install hdrhistogram
    loadgen ... --hdr-file-prefix PREFIX --json-out-file PREFIX.json
    /tmp/venv/bin/python loadgen/scripts/check_hdr.py PREFIX

Checks that both logs hold the counts and percentiles of PREFIX.json, and that each row of the
distribution is the value that Python finds at the row's count. Exits with 1 on a difference.
(Rows are looked up by count: for a percentile that falls between two of them, Python's package
rounds to the nearer one, while Java's and Rust's take the upper one.)
"""

import json
import re
import sys

from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

PERCENTILES = {"p50": 50, "p90": 90, "p95": 95, "p99": 99, "p99.9": 99.9, "p99.99": 99.99, "max": 100}


def new_histogram():
    return HdrHistogram(1, 3_600_000_000_000, 3)


def read_log(path):
    total, by_tag = new_histogram(), {}
    reader = HistogramLogReader(path, new_histogram())
    while (interval := reader.get_next_interval_histogram()) is not None:
        total.add(interval)
        by_tag.setdefault(interval.tag, new_histogram()).add(interval)
    return total, by_tag


def at_rank(histogram, rank):
    return histogram.get_value_at_percentile(rank / histogram.get_total_count() * 100)


def upper_rank(percentile, count):
    # In whole numbers of hundredths of a per cent: exact.
    return max(1, -(-round(percentile * 100) * count // 10_000))


def compare(name, histogram, expected):
    count, wrong = histogram.get_total_count(), 0
    for key, percentile in PERCENTILES.items():
        value = at_rank(histogram, upper_rank(percentile, count)) / 1000
        if abs(value - expected[key]) > 0.0005:
            print(f"{name} {key}: {value} us in the log, {expected[key]} us in the JSON")
            wrong += 1
    print(f"{name}: {count} values, {len(PERCENTILES) - wrong} of {len(PERCENTILES)} percentiles equal")
    return wrong


def compare_distribution(path, histogram):
    rows = wrong = 0
    for line in open(path):
        if row := re.match(r"\s*([\d.]+) [\d.]+\s+(\d+)", line):
            rows += 1
            value = at_rank(histogram, int(row[2])) / 1e6
            # The file has three decimals.
            if abs(value - float(row[1])) > 0.000501:
                print(f"{path}: {line.strip()}, but {value} in the log")
                wrong += 1
    print(f"{path}: {rows - wrong} of {rows} rows equal")
    return wrong


def main():
    prefix = sys.argv[1]
    result = json.load(open(prefix + ".json"))
    latency, latency_by_tag = read_log(prefix + ".hlog")
    service, _ = read_log(prefix + ".service.hlog")
    wrong = compare("latency", latency, result["totals"]["latency_us"])
    wrong += compare("service time", service, result["totals"]["service_us"])
    for tag, histogram in sorted(latency_by_tag.items()):
        wrong += compare(tag, histogram, result["commands"][tag]["latency_us"])
    wrong += compare_distribution(prefix + ".hgrm", latency)
    sys.exit(wrong > 0)


main()
