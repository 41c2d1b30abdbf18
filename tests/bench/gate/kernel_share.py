#!/usr/bin/env python3
"""The share of time in which no kernel runs, from a trace of kernel_trace.cc, or one that nsys has exported to SQLite.

    kernel_share.py [--below SHARE] TRACE.tsv|TRACE.sqlite

Fails where the share is not below SHARE. Looks at the second half of the time between the first kernel and the last:
steps that repeat each other. Kernels that overlap count once; copies and fills do not count as kernels.
"""

import argparse
import json
import pathlib
import sqlite3
import sys
import sys


def busy(intervals, first, last):
    """Nanoseconds of [first, last) that at least one interval covers; intervals sorted by start."""
    total, end = 0, first
    for start, stop in intervals:
        start, stop = max(start, end), min(stop, last)
        if stop > start:
            total += stop - start
            end = stop
    return total


def read(path):
    """(start, end) of every kernel, by start."""
    if path.suffix == ".tsv":
        return sorted(tuple(map(int, line.split("\t"))) for line in path.read_text().splitlines())
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    return database.execute("SELECT start, end FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY start").fetchall()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--below", type=float, default=1.0)
    parser.add_argument("trace", type=pathlib.Path)
    args = parser.parse_args()
    kernels = read(args.trace)
    begin, last = kernels[0][0], max(stop for _, stop in kernels)
    first = (begin + last) // 2
    window = last - first
    share = 1 - busy(kernels, first, last) / window
    print(json.dumps({"kernels": sum(start >= first for start, _ in kernels), "window_ms": window * 1e-6,
                      "share_without_kernels": share, "bar": args.below}))
    return 0 if share < args.below else 1


if __name__ == "__main__":
    sys.exit(main())
