#!/usr/bin/env python3
"""The share of time in which no kernel runs, from a trace that nsys has exported to SQLite.

    kernel_share.py TRACE.sqlite

Looks at the second half of the time between the first kernel and the last: steps that repeat each other. Kernels that
overlap count once; copies and fills do not count as kernels.
"""

import json
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


def main():
    database = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
    kernels = database.execute("SELECT start, end FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY start").fetchall()
    begin, last = kernels[0][0], max(stop for _, stop in kernels)
    first = (begin + last) // 2
    window = last - first
    in_kernels = busy(kernels, first, last)
    print(json.dumps({"kernels": sum(start >= first for start, _ in kernels), "window_ms": window * 1e-6,
                      "share_without_kernels": 1 - in_kernels / window}))


if __name__ == "__main__":
    main()
