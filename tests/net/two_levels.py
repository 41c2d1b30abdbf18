#!/usr/bin/env python3
"""Steps of one small GPT between hosts of several ranks each: exchanges between all ranks at once, and in two levels.

    two_levels.py --trireme build/release/bin/trireme [--rate 200mbit] [--rounds 3] [--steps 6]
    two_levels.py --trireme build/release/bin/trireme --check      a test: few steps on fast links, no time is looked at

Beside the bytes on the busiest host's wire stand those that the plan has for it on two levels, and the least that a
host must send, 2 (H-1)/H of the gradients between H hosts. A plan has more than the least by padding. Of a tied
embedding, a row of its own, it has both uses: each is summed on its own, so that stages may share the parameter and no
bit changes.
The state must be the same to the bit, whichever exchange. Exit code 1 where a figure is not as it should be; 77, which
CTest counts as skipped, where the machine gives no right to make network namespaces.
"""
import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from hosts import Hosts, Unavailable
from slow_link import JOB, Job

RANKS_PER_HOST = 2
EXCHANGES = ("flat", "hierarchical")
TIED = "zero = 0, tied"
LAYOUTS = {"zero = 0": ("parallel.zero=0", "model.tied=false"), "zero = 1": ("parallel.zero=1", "model.tied=false"),
           TIED: ("parallel.zero=0", "model.tied=true"),
           "zero = 0, fast": ("parallel.zero=0", "model.tied=false", 'parallel.reduction="fast"')}
OVER_HOSTS = ("ReduceGrad", "GatherGrad", "GatherUpdated")
MOST_OVER = 1.03        # of bytes on a wire, hierarchical, with headers and acknowledgements: the plan's, and the least
LEAST_GAIN = 1.6        # flat over hierarchical, seconds of canonical steps


def planned(trireme, keys, hosts):
    """Bytes a step: what the plan sends over the wire of a host on two levels; and the least, of parameters alone."""
    sets = [part for key in keys for part in ("--set", key)]
    with tempfile.TemporaryDirectory(prefix="trireme-two-levels-") as folder:
        job = Path(folder) / "job.toml"
        job.write_text(JOB)
        line = [trireme, "plan", job, "--json", "--set", "train.steps=1", "--ranks", str(hosts * RANKS_PER_HOST),
                "--ranks-per-machine", str(RANKS_PER_HOST), *sets]
        plan = json.loads(subprocess.run(line, capture_output=True, text=True, check=True).stdout)
    sent = plan["groups"][0]["comm_bytes_by_action"]
    over_hosts = sum(sent.get(kind, 0) for kind in OVER_HOSTS)
    return RANKS_PER_HOST * over_hosts, 2 * (hosts - 1) / hosts * 4 * plan["parameters"]


def keys_of(layout, exchange):
    return (*LAYOUTS[layout], f'parallel.exchange="{exchange}"')


def measure(options, count, problems):
    """Layouts and exchanges in turn. The first step of a run, for which the token bucket is full, is not counted."""
    seconds, sent, hashes = {}, {}, {}
    with Hosts(count, options.rate, options.burst, options.latency) as hosts:
        job = Job(hosts, options.trireme, RANKS_PER_HOST)
        for _ in range(options.rounds):
            for layout in LAYOUTS:
                for exchange in EXCHANGES:
                    case = (layout, exchange)
                    sent[case], run = job.step_bytes(keys_of(*case), options.steps)
                    seconds.setdefault(case, []).extend(run["step_s"][1:])
                    hashes[case] = run["hash"]
    for (layout, exchange), times in seconds.items():
        name = f"{count} x {RANKS_PER_HOST} | {layout}"
        on_wire = max(sent[layout, exchange])
        plan, least = planned(options.trireme, keys_of(layout, "hierarchical"), count)
        print(f"| {name} | {exchange} | {statistics.median(times):.2f} ({min(times):.2f} .. {max(times):.2f}) | "
              f"{on_wire / 1e6:.2f} | {plan / 1e6:.2f} | {least / 1e6:.2f} |", flush=True)
        is_canonical = "fast" not in layout
        if exchange == "hierarchical" and is_canonical and not 0.97 < on_wire / plan < MOST_OVER:
            problems.append(f"{name}: {on_wire / 1e6:.2f} MB on the wire, the plan has {plan / 1e6:.2f} MB")
        if exchange == "hierarchical" and is_canonical and layout != TIED and on_wire / least > MOST_OVER:
            problems.append(f"{name}: {on_wire / 1e6:.2f} MB on the wire, the least is {least / 1e6:.2f} MB")
        gain = statistics.median(seconds[layout, "flat"]) / statistics.median(times)
        if exchange == "hierarchical" and is_canonical:
            print(f"|  |  | {gain:.2f} x as fast as flat |  |  |  |", flush=True)
            if not options.check and gain < LEAST_GAIN:
                problems.append(f"{name}: {gain:.2f} times as fast as flat, not {LEAST_GAIN}")
    for tied in (False, True):
        canonical = {value for (layout, _), value in hashes.items()
                     if "fast" not in layout and (layout == TIED) == tied}
        if len(canonical) != 1:
            problems.append(f"{count} hosts: the state differs: {hashes}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", required=True, type=Path)
    parser.add_argument("--rate", default="200mbit")
    parser.add_argument("--burst", default="128kb")
    parser.add_argument("--latency", default="50ms")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--hosts", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.check:
        options.rate, options.rounds, options.hosts = None, 1, [2]
    options.trireme = options.trireme.resolve()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    problems = []
    try:
        print("| hosts x ranks | layout | exchange | seconds a step: median (least .. most) | MB a step on the busiest "
              "wire | planned on two levels | the least |")
        print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
        for count in options.hosts:
            measure(options, count, problems)
    except Unavailable as lack:
        # The form in which GoogleTest reports, so that the summary counts and lists it.
        print(f"two_levels.py: Skipped\n{lack}\n[  SKIPPED ] two_levels_check (0 ms)\n"
              "[  SKIPPED ] 1 test, listed below:")
        return 77
    for problem in problems:
        print(f"not as it should be: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
