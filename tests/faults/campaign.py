#!/usr/bin/env python3
"""Strikes real jobs under `trireme run`, and says what became of them: a row for each class of fault.

    tests/faults/campaign.py --trireme build/release/bin/trireme [--seed S] [--count N] [--classes sigkill,sigstop,...]

A long campaign comes in pieces, each of which goes on where the one before stopped:

    tests/faults/campaign.py --trireme ... --count 20 --results r.jsonl --resume --minutes 9

Exit code 1 where one job did not end with the state of an undisturbed one, named another culprit, or left a process or
a lease behind. Needs the Python standard library only.
"""
import argparse
import json
import os
import random
import statistics
import sys
import time
from pathlib import Path

from injection import KEYS, Missed, Unavailable  # before the next: it knows where they are
from jobs import OPTIONS, JobTest
from supervised import SLOWER, sets

import file_faults
import process_faults
import state_faults

CLASSES = {
    "sigkill": process_faults.Sigkill,
    "sigsegv": process_faults.Sigsegv,
    "silent_exit": process_faults.SilentExit,
    "oom_kill": process_faults.OomKill,
    "sigstop": process_faults.Sigstop,
    "sigstop_learned": process_faults.SigstopLearned,
    "hang": process_faults.Hang,
    "hang_in_exchange": process_faults.HangInExchange,
    "straggler": process_faults.Straggler,
    "paused_job": process_faults.PausedJob,
    "clock_jump": process_faults.ClockJump,
    "mpirun_killed": process_faults.MpirunKilled,
    "supervisor_killed": process_faults.SupervisorKilled,
    "disk_full": file_faults.DiskFull,
    "background_disk_full": file_faults.BackgroundDiskFull,
    "read_only_output": file_faults.ReadOnlyOutput,
    "killed_while_saving": process_faults.KilledWhileSaving,
    "damaged_checkpoint": file_faults.DamagedCheckpoint,
    "torn_checkpoint": file_faults.TornCheckpoint,
    "missing_checkpoint_file": file_faults.MissingCheckpointFile,
    "truncated_shard": file_faults.TruncatedShard,
    "bit_flip": state_faults.BitFlip,
    "optimizer_bit_flip": state_faults.OptimizerBitFlip,
    "nan_parameter": state_faults.NanParameter,
    "spike": state_faults.Spike,
    "preemption": process_faults.Preemption,
    "preemption_with_a_second": process_faults.PreemptionWithASecond,
}
# What is recorded of an injection whose job did not come to an end of its own.
FAILED = {"named": False, "equal": False, "clean": False, "verdict_s": 60.0, "end_s": 60.0, "next_step_s": 60.0,
          "steps_again": 0}
HEAD = (f"{'class':24} jobs   named  equal  clean   verdict after   job ended after   next step after verdict   "
        "steps again")


def with_case(action):
    """`action` of a folder with a job; both go afterwards, with all that was started."""
    case = JobTest("setUp")
    case.setUp()
    try:
        return action(case)
    finally:
        case.doCleanups()
        case.tearDown()


class Undisturbed:
    """States of jobs that nothing disturbs, one for each set of keys."""

    def __init__(self):
        self.states = {}

    def of(self, fault):
        if fault.job_keys not in self.states:
            self.states[fault.job_keys] = with_case(lambda case: self.run(case, fault))
        return self.states[fault.job_keys]

    def run(self, case, fault):
        case.run_job(0, "undisturbed", *sets(*SLOWER, *KEYS, *fault.job_keys, *fault.prepare(case)))
        return case.state("undisturbed")


def inject(name, index, undisturbed):
    state = undisturbed.of(CLASSES[name])
    begin = time.time()
    for attempt in range(10):
        numbers = random.Random(f"{OPTIONS.seed} {name} {index} {attempt}")
        try:
            result = with_case(lambda case: CLASSES[name](case, numbers).carry_out(state))
            return {"class": name, "seed": OPTIONS.seed, "index": index, **result, "seconds": time.time() - begin}
        except Missed:
            continue
        except AssertionError as error:  # such as a job that nobody ended
            print(f"{name}: {error}", flush=True)
            return {"class": name, "seed": OPTIONS.seed, "index": index, **FAILED, "seconds": time.time() - begin}
    raise SystemExit(f"{name}: its moment was missed ten times")


def row(name, results):
    def median_and_worst(key):
        values = [result[key] for result in results]
        return f"{statistics.median(values):6.2f} {max(values):6.2f}"

    counts = "  ".join(f"{sum(result[key] for result in results):>3}/{len(results)}" for key in ("named", "equal", "clean"))
    times = "   ".join(median_and_worst(key) for key in ("verdict_s", "end_s", "next_step_s"))
    return f"{name:24} {len(results):>4}   {counts}   {times}   {statistics.mean(result['steps_again'] for result in results):.1f}"


def is_good(result):
    return result["named"] and result["equal"] and result["clean"]


def read_results():
    """Of this seed and these classes."""
    if not OPTIONS.results or not OPTIONS.results.exists():
        return []
    lines = [json.loads(line) for line in OPTIONS.results.read_text().splitlines()]
    return [line for line in lines if line["seed"] == OPTIONS.seed and line["class"] in OPTIONS.names]


def carry_out(results):
    """Adds what is not there yet: one of each class, and again. Returns whether there was time for all."""
    done = {(result["class"], result["index"]) for result in results}
    undisturbed, unavailable = Undisturbed(), set()
    for index in range(OPTIONS.count):
        for name in OPTIONS.names:
            if name in unavailable or (name, index) in done:
                continue
            if OPTIONS.minutes and time.monotonic() > OPTIONS.begin + 60 * OPTIONS.minutes:
                return False
            try:
                results.append(inject(name, index, undisturbed))
            except Unavailable as reason:
                unavailable.add(name)
                print(f"{name:24} skipped: {reason}", flush=True)
                continue
            if OPTIONS.results:
                with open(OPTIONS.results, "a") as file:
                    file.write(json.dumps(results[-1]) + "\n")
    return True


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", required=True)
    parser.add_argument("--mpiexec", default="mpirun")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1, help="injections of each class")
    parser.add_argument("--classes", default=",".join(CLASSES), help="of " + ", ".join(CLASSES))
    parser.add_argument("--timeout", type=int, default=4, help="seconds: the watchdog's limit for stopped ranks")
    parser.add_argument("--results", type=Path, help="adds a line of JSON for each injection to this file")
    parser.add_argument("--resume", action="store_true", help="leaves out what --results has of this seed")
    parser.add_argument("--minutes", type=float, default=0, help="begins no injection after these; 0: all of them")
    parser.parse_args(namespace=OPTIONS)
    OPTIONS.trireme, OPTIONS.begin = os.path.abspath(OPTIONS.trireme), time.monotonic()
    OPTIONS.names = OPTIONS.classes.split(",")
    if unknown := sorted(set(OPTIONS.names) - set(CLASSES)):
        parser.error(f"--classes: no such class: {', '.join(unknown)}; there are {', '.join(CLASSES)}")
    if OPTIONS.count < 1:
        parser.error(f"--count {OPTIONS.count}: 1 or more")
    if OPTIONS.resume and not OPTIONS.results:
        parser.error("--resume: of what? --results FILE says")
    if OPTIONS.results and OPTIONS.results.exists() and not OPTIONS.resume:
        parser.error(f"--results {OPTIONS.results}: exists; --resume adds to it")


def main():
    parse()
    print(f"seed {OPTIONS.seed}; seconds as median and largest\n{HEAD}", flush=True)
    results = read_results()
    whole = carry_out(results)
    for name in OPTIONS.names:
        if of_class := [result for result in results if result["class"] == name]:
            print(row(name, of_class), flush=True)
    bad = [result for result in results if not is_good(result)]
    print(f"{len(results)} injections, {len(bad)} of them not right{'' if whole else '; the time is over, --resume goes on'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
