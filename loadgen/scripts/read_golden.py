#!/usr/bin/env python3
"""Prints what the Python hdrhistogram package reads in a log, for tests/golden/read_by_python.json.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install hdrhistogram==0.10.8
    /tmp/venv/bin/python loadgen/scripts/read_golden.py tests/golden/run.hlog > tests/golden/read_by_python.json

Values are looked up by rank (the upper one, as Java's and Rust's libraries do), in nanoseconds.
"""

import json
import sys

from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

PERCENTILES = [0.01, 25, 50, 75, 90, 95, 99, 99.9, 99.99, 100]


def new_histogram():
    return HdrHistogram(1, 3_600_000_000_000, 3)


def values(histogram):
    count = histogram.get_total_count()
    ranks = {p: max(1, -(-round(p * 100) * count // 10_000)) for p in PERCENTILES}
    return {"count": count, "values": {str(p): histogram.get_value_at_percentile(rank / count * 100)
                                       for p, rank in ranks.items()}}


def main():
    total, by_tag = new_histogram(), {}
    intervals = []
    reader = HistogramLogReader(sys.argv[1], new_histogram())
    while (interval := reader.get_next_interval_histogram()) is not None:
        total.add(interval)
        by_tag.setdefault(interval.tag, new_histogram()).add(interval)
        intervals.append({"tag": interval.tag, "count": interval.get_total_count(),
                          "start_ms": interval.get_start_time_stamp(), "end_ms": interval.get_end_time_stamp()})
    result = {"reader": "Python hdrhistogram 0.10.8", "all": values(total), "intervals": intervals}
    result["tags"] = {tag: values(histogram) for tag, histogram in sorted(by_tag.items())}
    print(json.dumps(result, indent=1))


main()
