#!/usr/bin/env python3
"""The share of time in which no kernel runs, from a trace of kernel_trace.cc, or one that nsys has exported to SQLite.

    kernel_share.py [--below SHARE] TRACE.tsv|TRACE.sqlite

Fails where the share is not below SHARE. Looks at the second half of the time between the first kernel and the last:
steps that repeat each other. Kernels that overlap count once; copies and fills do not count as kernels. "by_kernel" has
the kernels that took most of the time: milliseconds within the window, how often they ran, and their names.
"""

import argparse
import json
import pathlib
import sqlite3
import sys


def busy(kernels, first, last):
    """Nanoseconds of [first, last) that at least one kernel covers; kernels sorted by start."""
    total, end = 0, first
    for start, stop, _ in kernels:
        start, stop = max(start, end), min(stop, last)
        if stop > start:
            total += stop - start
            end = stop
    return total


def read(path):
    """(start, end, name) of every kernel, by start."""
    if path.suffix == ".tsv":
        lines = (line.split("\t") for line in path.read_text().splitlines())
        return sorted((int(start), int(end), name) for start, end, name in lines)
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    return database.execute("SELECT start, end, value FROM CUPTI_ACTIVITY_KIND_KERNEL"
                            " JOIN StringIds ON demangledName = id ORDER BY start").fetchall()


def by_kernel(kernels, most=40):
    """[milliseconds, count, name] of those that took most of the time together."""
    sums = {}
    for start, end, name in kernels:
        total = sums.setdefault(name, [0, 0])
        total[0] += end - start
        total[1] += 1
    longest = sorted(sums.items(), key=lambda item: -item[1][0])[:most]
    return [[round(total * 1e-6, 4), count, name[:160]] for name, (total, count) in longest]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--below", type=float, default=1.0)
    parser.add_argument("trace", type=pathlib.Path)
    args = parser.parse_args()
    kernels = read(args.trace)
    begin, last = kernels[0][0], max(stop for _, stop, _ in kernels)
    first = (begin + last) // 2
    window = last - first
    share = 1 - busy(kernels, first, last) / window
    looked_at = [kernel for kernel in kernels if kernel[0] >= first]
    print(json.dumps({"kernels": len(looked_at), "window_ms": window * 1e-6, "share_without_kernels": share,
                      "bar": args.below, "by_kernel": by_kernel(looked_at)}))
    return 0 if share < args.below else 1


if __name__ == "__main__":
    sys.exit(main())
