#!/usr/bin/env python3
"""Runs an MPI program on hosts that are network namespaces of this machine, with links as slow as one wants.

    on_hosts.py --hosts 2 --rate 100mbit -- build/release/bin/trireme train job.toml --out out

Ends with the program's exit code; with 77, and what is missing, where the machine gives no right to make namespaces.
"""
import argparse
import signal
import sys

from hosts import Hosts, Unavailable


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--ranks-per-host", type=int, default=1)
    parser.add_argument("--rate", help="of each link, as tc writes it; default: without a limit")
    parser.add_argument("line", nargs="+", help="the program and its arguments, after --")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with Hosts(options.hosts, options.rate) as hosts:
            done = hosts.mpirun(options.ranks_per_host, options.line)
    except Unavailable as lack:
        print(lack, file=sys.stderr)
        return 77
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
