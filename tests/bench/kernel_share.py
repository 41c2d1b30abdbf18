#!/usr/bin/env python3
"""The share of time in which no kernel runs, from a trace of kernel_trace.cc, or one that nsys has exported to SQLite.

    kernel_share.py TRACE.tsv|TRACE.sqlite

Looks at the second half of the time between the first kernel and the last: steps that repeat each other. Kernels that
overlap count once; copies and fills do not count as kernels.
"""

import json
import pathlib
import sqlite3
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
    kernels = read(pathlib.Path(sys.argv[1]))
    begin, last = kernels[0][0], max(stop for _, stop in kernels)
    first = (begin + last) // 2
    window = last - first
    in_kernels = busy(kernels, first, last)
    print(json.dumps({"kernels": sum(start >= first for start, _ in kernels), "window_ms": window * 1e-6,
                      "share_without_kernels": 1 - in_kernels / window}))


if __name__ == "__main__":
    main()
