#!/usr/bin/env python3
"""Injects faults into real jobs under `trireme run` and prints one row of results for each class of fault.

    tests/faults/campaign.py --trireme build/release/bin/trireme [--seed S] [--count N] [--classes sigkill,sigstop,...]

A long campaign can run in pieces, each of which continues where the previous one stopped:

    tests/faults/campaign.py --trireme ... --count 20 --results r.jsonl --resume --minutes 9

A short one, whose times are not meaningful because several jobs share the machine:

    tests/faults/campaign.py --trireme ... --at-least 40 --at-once 4

Exit code 1 where one job did not end with the state of an undisturbed one, named another culprit, or left a process or
a lease behind. Needs the Python standard library only.
"""
import argparse
import json
import os
import random
import signal
import statistics
import sys
import time
from pathlib import Path

from injection import KEYS, Missed, Unavailable  # before the next: it knows where they are
from at_once import at_once
from jobs import OPTIONS, JobTest
from supervised import SLOWER, sets

import file_faults
import host_faults
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
    "mpirun_stopped": process_faults.MpirunStopped,
    "supervisor_killed": process_faults.SupervisorKilled,
    "disk_full": file_faults.DiskFull,
    "background_disk_full": file_faults.BackgroundDiskFull,
    "full_file_system": file_faults.FullFileSystem,
    "file_system_stays_full": file_faults.FileSystemStaysFull,
    "read_only_output": file_faults.ReadOnlyOutput,
    "killed_while_saving": process_faults.KilledWhileSaving,
    "damaged_checkpoint": file_faults.DamagedCheckpoint,
    "torn_checkpoint": file_faults.TornCheckpoint,
    "missing_checkpoint_file": file_faults.MissingCheckpointFile,
    "truncated_shard": file_faults.TruncatedShard,
    "bit_flip": state_faults.BitFlip,
    "optimizer_bit_flip": state_faults.OptimizerBitFlip,
    "gradient_bit_flip": state_faults.GradientBitFlip,
    "message_bit_flip": state_faults.MessageBitFlip,
    "nan_parameter": state_faults.NanParameter,
    "spike": state_faults.Spike,
    "preemption": process_faults.Preemption,
    "hangup": process_faults.Hangup,
    "stopped_job": process_faults.StoppedJob,
    "preemption_with_a_second": process_faults.PreemptionWithASecond,
    "lost_host": host_faults.LostHost,
    "link_down": host_faults.LinkDown,
    "link_down_5s": host_faults.LinkDown5s,
    "link_down_5s_patient": host_faults.LinkDown5sPatient,
    "slow_link": host_faults.SlowLink,
}
# The result of an injection whose job did not end on its own.
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


STATES = {}  # of jobs that nothing disturbs, one for each set of keys


def undisturbed(fault):
    def run(case):
        case.run_job(0, "undisturbed", *sets(*SLOWER, *KEYS, *fault.job_keys, *fault.prepare(case)))
        return case.state("undisturbed")

    if fault.job_keys not in STATES:
        STATES[fault.job_keys] = with_case(run)
    return STATES[fault.job_keys]


def inject(name, index):
    state = undisturbed(CLASSES[name])
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
    raise RuntimeError(f"{name}: its moment was missed ten times")


LATE = "there was no time for it"


def inject_in_time(place):
    """The result; or, as text, why there is none."""
    if OPTIONS.minutes and time.monotonic() > OPTIONS.begin + 60 * OPTIONS.minutes:
        return LATE
    try:
        return inject(*place)
    except Unavailable as reason:
        return f"{place[0]:24} skipped: {reason}"


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


def places(done):
    """(class, index) of what is to be injected: one of each class, and again."""
    all_places = [(name, index) for index in range(OPTIONS.count) for name in OPTIONS.names]
    return [place for place in all_places[:OPTIONS.at_most] if place not in done]


def one_at_a_time(places):
    unavailable = set()
    for place in places:
        if place[0] in unavailable:
            continue
        result = inject_in_time(place)
        if isinstance(result, str):
            unavailable.add(place[0])
        yield result


def state_of_undisturbed(name):
    return CLASSES[name].job_keys, undisturbed(CLASSES[name])


def several_at_once(places):
    one_of_each = list({CLASSES[name].job_keys: name for name in OPTIONS.names}.values())
    STATES.update(at_once(state_of_undisturbed, one_of_each, OPTIONS.at_once))
    return at_once(inject_in_time, places, OPTIONS.at_once)


def carry_out(results):
    """Adds what is not there yet. Returns whether there was time for all."""
    done = {(result["class"], result["index"]) for result in results}
    whole, said = True, set()
    for result in (several_at_once if OPTIONS.at_once > 1 else one_at_a_time)(places(done)):
        if isinstance(result, str):
            whole = whole and result != LATE
            if result not in said and result != LATE:
                print(result, flush=True)
            said.add(result)
            continue
        results.append(result)
        if OPTIONS.results:
            with open(OPTIONS.results, "a") as file:
                file.write(json.dumps(result) + "\n")
    return whole


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", required=True)
    parser.add_argument("--mpiexec", default="mpirun")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1, help="injections of each class")
    parser.add_argument("--at-least", type=int, default=0, help="injections in all, in place of --count")
    parser.add_argument("--at-once", type=int, default=1, help="jobs at a time: for a verdict in less time, not for times")
    parser.add_argument("--classes", default=",".join(CLASSES), help="of " + ", ".join(CLASSES))
    parser.add_argument("--timeout", type=int, default=4, help="seconds: the watchdog's limit for stopped ranks")
    parser.add_argument("--full-seconds", type=int, default=60, help="for which a file system is full")
    parser.add_argument("--results", type=Path, help="adds a line of JSON for each injection to this file")
    parser.add_argument("--resume", action="store_true", help="leaves out what --results has of this seed")
    parser.add_argument("--minutes", type=float, default=0, help="begins no injection after these; 0: all of them")
    parser.parse_args(namespace=OPTIONS)
    OPTIONS.trireme, OPTIONS.begin = os.path.abspath(OPTIONS.trireme), time.monotonic()
    OPTIONS.names = OPTIONS.classes.split(",")
    if unknown := sorted(set(OPTIONS.names) - set(CLASSES)):
        parser.error(f"--classes: no such class: {', '.join(unknown)}; there are {', '.join(CLASSES)}")
    if OPTIONS.count < 1 or OPTIONS.at_once < 1:
        parser.error(f"--count {OPTIONS.count}, --at-once {OPTIONS.at_once}: 1 or more")
    OPTIONS.at_most = None
    if OPTIONS.at_least:
        OPTIONS.count, OPTIONS.at_most = -(-OPTIONS.at_least // len(OPTIONS.names)), max(OPTIONS.at_least, len(OPTIONS.names))
    if OPTIONS.resume and not OPTIONS.results:
        parser.error("--resume: of what? --results FILE says")
    if OPTIONS.results and OPTIONS.results.exists() and not OPTIONS.resume:
        parser.error(f"--results {OPTIONS.results}: exists; --resume adds to it")


def main():
    parse()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup, jobs would inherit that it is ignored
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
