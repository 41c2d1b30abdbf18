#!/usr/bin/env python3
"""Strikes real jobs under `trireme run`, and says what became of them: a row for each class of fault.

    tests/faults/campaign.py --trireme build/release/bin/trireme [--seed S] [--count N] [--classes sigkill,sigstop,...]

Exit code 1 where one job did not end with the state of an undisturbed one, named another culprit, or left a process or
a lease behind. Needs the Python standard library only.
"""
import argparse
import json
import os
import random
import re
import resource
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "jobs"))
from jobs import OPTIONS, JobTest  # noqa: E402
from supervised import SLOWER, Supervised, sets  # noqa: E402

RANKS = 2
KEYS = ("train.steps=24", "checkpoint.every=4", "checkpoint.keep=3")
FILE_LIMIT = 100_000  # above metrics.jsonl at its end, below one file of a checkpoint


class Missed(Exception):
    """The moment had passed before the fault was there: the injection does not count."""


class Injection:
    """One job and one fault."""

    def __init__(self, case, name, numbers):
        self.case, self.numbers = case, numbers
        self.victim, self.step = numbers.randrange(RANKS), numbers.randrange(9, 18)
        self.run = self.start(name, (f"parallel.timeout_s={OPTIONS.timeout}",) if name == "sigstop" else ())
        self.run.wait_for_step(self.step)
        self.culprit = None  # a pattern of the verdict; None: nobody is to be named
        self.supervisor = False  # the fault ended the supervisor
        getattr(self, name)()

    def start(self, name, keys=()):
        self.keys = (*KEYS, *keys)
        return Supervised(self.case, name, ranks=str(RANKS), keys=self.keys)

    def strike(self, number):
        pid = self.run.rank(self.victim)
        self.begin = time.time()
        os.kill(pid, number)
        return pid

    def sigkill(self, number=signal.SIGKILL):
        pid = self.strike(number)
        self.culprit = rf"rank {self.victim} \(process {pid}\) died|process rank {self.victim} with PID {pid} "

    def sigsegv(self):
        self.sigkill(signal.SIGSEGV)

    def sigstop(self):
        pid = self.strike(signal.SIGSTOP)
        self.culprit = rf"held up .* by rank {self.victim} \(process {pid}, stopped by a signal\)"

    def supervisor_killed(self):
        self.begin = time.time()
        self.run.process.kill()
        self.run.process.wait()
        self.verdict = time.time()
        self.supervisor = True

    def preemption(self):
        self.begin = time.time()
        self.run.process.send_signal(signal.SIGTERM)
        self.run.end(expect=75)
        self.verdict = time.time()
        self.supervisor = True

    def disk_full(self):
        """A limit on the size of files stands for it: rank 0 cannot write its next checkpoint."""
        self.victim = 0
        pid = self.run.rank(0)
        self.begin = time.time()
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (FILE_LIMIT, FILE_LIMIT))
        self.culprit = r"checkpoints/\S*step-0000\d\d.*File too large"

    def damaged_checkpoint(self):
        """A byte of the newest checkpoint changes; then a rank dies."""
        self.damaged = self.newest()
        path = max(self.damaged.glob("*.safetensors"), key=lambda file: file.stat().st_size)
        with open(path, "r+b") as file:
            file.seek(path.stat().st_size // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
        self.sigkill()
        verified = subprocess.run([OPTIONS.trireme, "checkpoint", "verify", self.damaged], capture_output=True, text=True)
        self.case.assertEqual(verified.returncode, 1, verified)
        self.case.assertRegex(verified.stdout, rf"{self.damaged}  damaged: .*{path.name} was changed after it was written")

    def newest(self):
        return max((self.run.out / "checkpoints").glob("step-*"))

    def wait_for_next_step(self, attempt):
        """Until the attempt has computed a step; its end counts, too."""
        log = self.run.out / "attempts" / f"attempt-{attempt:04}.log"
        deadline = time.time() + 60
        while time.time() < deadline:
            begins = self.run.events("begin")
            if len(self.run.events("end")) > attempt - 1 or self.run.process.poll() is not None:
                return
            if len(begins) >= attempt and log.exists() and "resuming from" in log.read_text():
                if self.run.step() >= begins[attempt - 1]["first_step"]:
                    return
            time.sleep(0.002)
        self.case.fail(self.run.output())

    def finish(self, undisturbed):
        """The figures of this injection."""
        name = self.run.out.name
        if self.supervisor:
            self.run = self.start(name)
        else:
            while not self.run.events("end"):
                self.case.assertLess(time.time(), self.begin + 60, self.run.output())
                time.sleep(0.002)
            self.verdict = time.time()
        self.wait_for_next_step(2)
        next_step = time.time()
        self.run.end()
        events = self.run.events()
        first_end = next((event for event in events if event["event"] == "end"), {})
        if not self.supervisor and first_end["exit_code"] == 0:
            raise Missed
        named = self.culprit is None or re.search(self.culprit, first_end["verdict"]) is not None
        if name == "damaged_checkpoint":
            second = (self.run.out / "attempts" / "attempt-0002.log").read_text()
            if self.damaged.name not in second:
                raise Missed  # a newer one was saved before the rank died
            named = named and f"ignoring damaged checkpoint {self.damaged}" in second
        state = json.loads((self.run.out / "summary.json").read_text())["state_hash"]
        orphans, lease = self.run.tagged(), (self.run.out / ".supervisor").read_text()
        result = {"named": named, "equal": state == undisturbed, "clean": not orphans and not lease,
                  "verdict_s": self.verdict - self.begin, "next_step_s": next_step - self.verdict}
        if not (named and result["equal"] and result["clean"]):
            print(f"rank {self.victim}, step {self.step}: {result}, left: {orphans} {lease}\n{self.run.output()}", flush=True)
        return result


CLASSES = ("sigkill", "sigsegv", "sigstop", "supervisor_killed", "disk_full", "damaged_checkpoint", "preemption")


def with_case(action):
    """`action` of a folder with a job; both go afterwards, with all that was started."""
    case = JobTest("setUp")
    case.setUp()
    try:
        return action(case)
    finally:
        case.doCleanups()
        case.tearDown()


def undisturbed_state(case):
    case.run_job(0, "undisturbed", *sets(*SLOWER, *KEYS))
    return case.state("undisturbed")


def inject(name, index, undisturbed):
    for attempt in range(10):
        numbers = random.Random(f"{OPTIONS.seed} {name} {index} {attempt}")
        try:
            return with_case(lambda case: Injection(case, name, numbers).finish(undisturbed))
        except Missed:
            continue
    raise SystemExit(f"{name}: its moment was missed ten times")


def row(name, results):
    def worst_and_median(key):
        values = [result[key] for result in results]
        return f"{statistics.median(values):6.2f} {max(values):6.2f}"

    counts = "  ".join(f"{sum(result[key] for result in results):>3}/{len(results)}" for key in ("named", "equal", "clean"))
    return f"{name:20} {len(results):>4}   {counts}   {worst_and_median('verdict_s')}   {worst_and_median('next_step_s')}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", required=True)
    parser.add_argument("--mpiexec", default="mpirun")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1, help="injections of each class")
    parser.add_argument("--classes", default=",".join(CLASSES), help="of " + ", ".join(CLASSES))
    parser.add_argument("--timeout", type=int, default=4, help="seconds: the watchdog's limit for stopped ranks")
    parser.parse_args(namespace=OPTIONS)
    OPTIONS.trireme = os.path.abspath(OPTIONS.trireme)
    names = OPTIONS.classes.split(",")
    if unknown := sorted(set(names) - set(CLASSES)):
        parser.error(f"--classes: no such class: {', '.join(unknown)}; there are {', '.join(CLASSES)}")
    if OPTIONS.count < 1:
        parser.error(f"--count {OPTIONS.count}: 1 or more")
    undisturbed = with_case(undisturbed_state)
    print(f"seed {OPTIONS.seed}; seconds as median and largest\n"
          f"{'class':20} jobs   named  equal  clean   verdict after   next step after it", flush=True)
    good = True
    for name in names:
        results = [inject(name, index, undisturbed) for index in range(OPTIONS.count)]
        print(row(name, results), flush=True)
        good = good and all(result["named"] and result["equal"] and result["clean"] for result in results)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
