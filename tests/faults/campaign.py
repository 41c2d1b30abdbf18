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
import struct
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "jobs"))
from jobs import OPTIONS, JobTest  # noqa: E402
from memory_group import MemoryGroup  # noqa: E402
from process_exit import exit_process  # noqa: E402
from process_memory import change_parameter  # noqa: E402
from supervised import SLOWER, Supervised, sets  # noqa: E402

RANKS = 2
KEYS = ("train.steps=24", "checkpoint.every=4", "checkpoint.keep=3")
NUM_TOKENS = 60_000
FILE_LIMIT = 100_000  # above metrics.jsonl at its end, below one file of a checkpoint


def write_shard(folder):
    """Tokens in the common layout: 256 numbers, then 16 bits a token."""
    shard, numbers = folder / "tokens.bin", random.Random(7)
    header = struct.pack("<256i", 20240520, 1, NUM_TOKENS, *[0] * 253)
    shard.write_bytes(header + struct.pack(f"<{NUM_TOKENS}H", *[numbers.randrange(64) for _ in range(NUM_TOKENS)]))
    return shard


def shard_keys(shard):
    return ("data.kind=tokens", f"data.train={shard}", "train.steps=24")


# Enough steps to know what a spike is.
SPIKE_KEYS = ("train.steps=40", "train.on_spike=rollback")
IN_BACKGROUND = "checkpoint.background=true"


class Missed(Exception):
    """The moment had passed before the fault was there: the injection does not count."""


class Unavailable(Exception):
    """This machine cannot have the fault."""


class Injection:
    """One job and one fault."""

    def __init__(self, case, name, numbers):
        self.case, self.numbers = case, numbers
        self.victim, self.step = numbers.randrange(RANKS), numbers.randrange(9, 18) + (12 if name == "spike" else 0)
        if name == "truncated_shard":
            self.shard = write_shard(case.folder)
        self.run = self.start(name, self.keys_of(name))
        self.run.wait_for_step(self.step)
        self.culprit = None  # a pattern of the verdict; None: nobody is to be named
        self.supervisor = False  # the fault ended the supervisor, or made it give up
        self.survives = False  # the fault ends nothing
        self.ended = None  # when the supervisor knew the end of the first attempt; None: there was none
        getattr(self, name)()

    def keys_of(self, name):
        if name == "sigstop":
            return (f"parallel.timeout_s={OPTIONS.timeout}",)
        if name == "sigstop_learned":
            return ("parallel.timeout_s=auto",)
        if name in ("background_disk_full", "killed_while_saving"):
            return (IN_BACKGROUND,)
        if name in ("sigkill", "sigsegv", "preemption", "preemption_with_a_second", "silent_exit"):
            return self.numbers.choice(((), (IN_BACKGROUND,)))
        if name == "spike":
            return SPIKE_KEYS
        if name in ("bit_flip", "nan_parameter"):
            return ("checkpoint.verify_every=2", f"parallel.zero={self.numbers.choice((0, 0, 1, 2, 3))}")
        if name == "truncated_shard":
            return shard_keys(self.shard)
        return ()

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

    def sigstop_learned(self):
        self.sigstop()

    def silent_exit(self):
        """A rank ends itself in the middle of something, with exit code 0 or another."""
        pid = self.run.rank(self.victim)
        self.begin = time.time()
        try:
            exit_process(pid, self.numbers.choice((0, 3)))
        except ProcessLookupError:
            raise Missed
        except OSError as error:
            raise Unavailable(error)
        self.culprit = rf"rank {self.victim} \(process {pid}\) died"

    def oom_kill(self):
        """A rank gets no more memory: the kernel kills it at the next page that it takes."""
        try:
            group = MemoryGroup()
        except OSError as error:
            raise Unavailable(error)
        self.case.addCleanup(group.remove)
        pid = self.run.rank(self.victim)
        self.begin = time.time()
        group.starve(pid)
        self.culprit = rf"rank {self.victim} \(process {pid}\) died|process rank {self.victim} with PID {pid} "

    def killed_while_saving(self):
        """A rank dies while threads write a checkpoint: it is hidden, or whole."""
        pid = self.run.rank(self.victim)
        deadline = time.time() + 30
        while not any(self.hidden()):
            if time.time() > deadline or self.run.process.poll() is not None:
                raise Missed
        self.begin = time.time()
        os.kill(pid, signal.SIGKILL)
        self.culprit = rf"rank {self.victim} \(process {pid}\) died|process rank {self.victim} with PID {pid} "

    def hidden(self):
        return (self.run.out / "checkpoints").glob(".tmp-step-*")

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

    def bit_flip(self):
        """A bit of a parameter changes in a rank's memory, right after a checkpoint."""
        bit = self.numbers.randrange(8, 31)
        self.change_parameter(lambda value: (int.from_bytes(value, "little") ^ 1 << bit).to_bytes(4, "little"))

    def spike(self):
        """A parameter of one rank becomes huge, and nobody verifies the state."""
        self.change_parameter(lambda value: struct.pack("<f", 1e4))
        self.culprit = r"is a spike: rolled back|the state after step \d+ differs between ranks"

    def nan_parameter(self):
        """A parameter becomes NaN: the loss does, too, and the rank is still named."""
        self.change_parameter(lambda value: b"\0\0\xc0\x7f")

    def change_parameter(self, change):
        pid, tried = self.run.rank(self.victim), self.newest()
        deadline = time.time() + 30
        while True:
            while (checkpoint := self.newest()) == tried:
                if time.time() > deadline or self.run.process.poll() is not None:
                    raise Missed
                time.sleep(0.002)
            tried, self.begin = checkpoint, time.time()
            if change_parameter(pid, checkpoint, self.numbers, change):
                break
        self.culprit = rf"silent corruption: .* rank {self.victim} on "

    def disk_full(self):
        """A limit on the size of files stands for it: rank 0 cannot write its next checkpoint."""
        self.victim = 0
        pid = self.run.rank(0)
        self.begin = time.time()
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (FILE_LIMIT, FILE_LIMIT))
        self.culprit = r"checkpoints/\S*step-0000\d\d.*File too large"

    def background_disk_full(self):
        """The same while a thread writes: of rank 0, which makes the files, or of another, which has a part of them."""
        pid = self.run.rank(self.victim)
        self.begin = time.time()
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (FILE_LIMIT, FILE_LIMIT))
        self.culprit = rf"rank {self.victim}: .*checkpoints/\S*step-0000\d\d.*File too large"

    def damaged_checkpoint(self):
        """A byte of the newest checkpoint changes; then a rank dies."""
        def change(path):
            with open(path, "r+b") as file:
                file.seek(path.stat().st_size // 2)
                byte = file.read(1)
                file.seek(-1, os.SEEK_CUR)
                file.write(bytes([byte[0] ^ 1]))

        self.damage(change, "was changed after it was written.*; changed: '")

    def torn_checkpoint(self):
        """A file of the newest checkpoint loses its end; then a rank dies."""
        self.damage(lambda path: os.truncate(path, path.stat().st_size * 2 // 3), r"has \d+ bytes, and its manifest says")

    def missing_checkpoint_file(self):
        self.damage(os.unlink, "cannot be read: No such file")

    def damage(self, change, what):
        self.damaged = self.newest()
        path = max(self.damaged.glob("*.safetensors"), key=lambda file: file.stat().st_size)
        change(path)
        self.sigkill()
        verified = subprocess.run([OPTIONS.trireme, "checkpoint", "verify", self.damaged], capture_output=True, text=True)
        if "no folder" in verified.stderr:
            raise Missed  # two newer ones were saved meanwhile
        self.case.assertEqual(verified.returncode, 1, verified)
        self.case.assertRegex(verified.stdout, rf"{self.damaged}  damaged: .*{path.name} {what}")

    def straggler(self):
        """A rank gets a third of the time for two seconds: the job waits for it, and nothing else happens."""
        pid = self.run.rank(self.victim)
        self.begin, self.survives = time.time(), True
        try:
            while time.time() < self.begin + 2 and self.run.process.poll() is None:
                os.kill(pid, signal.SIGSTOP)
                time.sleep(0.02)
                os.kill(pid, signal.SIGCONT)
                time.sleep(0.01)
        except ProcessLookupError:
            pass  # the job is done

    def truncated_shard(self):
        """The tokens lose their end under the job, which names the file and cannot go on until they are back."""
        whole = self.shard.read_bytes()
        self.begin = time.time()
        os.truncate(self.shard, 8192)
        self.culprit = rf"{self.shard}"
        self.run.end(expect=2)
        self.verdict, self.supervisor = time.time(), True
        self.shard.write_bytes(whole)

    def preemption_with_a_second(self):
        """SIGTERM, and a second later SIGKILL to all there is."""
        self.begin = time.time()
        self.run.process.send_signal(signal.SIGTERM)
        try:
            self.run.process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            for pid in [self.run.process.pid, *self.run.tagged()]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            self.run.process.wait()
        self.verdict, self.supervisor = time.time(), True

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

    def look_for_culprit(self):
        """The job's own words in the output of its first attempt: the verdict, before mpirun has ended the job."""
        log = self.run.out / "attempts" / "attempt-0001.log"
        if self.verdict is None and self.culprit and log.exists() and re.search(self.culprit, log.read_text()):
            self.verdict = time.time()

    def finish(self, undisturbed):
        """The figures of this injection."""
        name = self.run.out.name
        if self.supervisor:
            self.run = self.start(name, self.keys_of(name))
        elif self.survives:
            self.verdict = time.time()
        else:
            self.verdict = None
            while not self.run.events("end"):
                self.case.assertLess(time.time(), self.begin + 60, self.run.output())
                self.look_for_culprit()
                time.sleep(0.002)
            self.ended = time.time()
            self.verdict = self.verdict or self.ended
        if not self.survives:
            self.wait_for_next_step(len(self.run.events("end")) + 1 if name == "truncated_shard" else 2)
        next_step = time.time()
        self.run.end()
        events = self.run.events()
        first_end = next((event for event in events if event["event"] == "end"), {})
        if not self.supervisor and not self.survives and first_end["exit_code"] == 0:
            raise Missed
        # Who meets SIGBUS cannot name the file; the attempt after it can.
        verdicts = [end["verdict"] for end in self.run.events("end")][:2 if name == "truncated_shard" else 1]
        named = self.culprit is None or any(re.search(self.culprit, verdict) for verdict in verdicts)
        if self.survives:
            named = len(self.run.events("begin")) == 1
        if name in ("damaged_checkpoint", "torn_checkpoint", "missing_checkpoint_file"):
            second = (self.run.out / "attempts" / "attempt-0002.log").read_text()
            if self.damaged.name not in second:
                raise Missed  # a newer one was saved before the rank died
            named = named and f"ignoring damaged checkpoint {self.damaged}" in second
        state = json.loads((self.run.out / "summary.json").read_text())["state_hash"]
        orphans, lease = self.run.tagged(), (self.run.out / ".supervisor").read_text()
        result = {"named": named, "equal": state == undisturbed, "clean": not orphans and not lease and not any(self.hidden()),
                  "verdict_s": self.verdict - self.begin, "end_s": (self.ended or self.verdict) - self.begin,
                  "next_step_s": next_step - self.verdict}
        if not (named and result["equal"] and result["clean"]):
            print(f"rank {self.victim}, step {self.step}: {result}, left: {orphans} {lease}\n{self.run.output()}", flush=True)
        return result


CLASSES = ("sigkill", "sigsegv", "silent_exit", "oom_kill", "sigstop", "sigstop_learned", "straggler", "supervisor_killed",
           "disk_full", "background_disk_full", "killed_while_saving", "damaged_checkpoint", "torn_checkpoint",
           "missing_checkpoint_file", "truncated_shard", "bit_flip", "nan_parameter", "spike", "preemption",
           "preemption_with_a_second")


def with_case(action):
    """`action` of a folder with a job; both go afterwards, with all that was started."""
    case = JobTest("setUp")
    case.setUp()
    try:
        return action(case)
    finally:
        case.doCleanups()
        case.tearDown()


def undisturbed_state(case, name):
    keys = shard_keys(write_shard(case.folder)) if name == "truncated_shard" else SPIKE_KEYS if name == "spike" else ()
    case.run_job(0, "undisturbed", *sets(*SLOWER, *KEYS, *keys))
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
    return f"{name:24} {len(results):>4}   {counts}   {worst_and_median('verdict_s')}   {worst_and_median('end_s')}   {worst_and_median('next_step_s')}"


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
    undisturbed = {}  # by class: that of another job, or ""
    print(f"seed {OPTIONS.seed}; seconds as median and largest\n"
          f"{'class':24} jobs   named  equal  clean   verdict after   job ended after   next step after verdict", flush=True)
    good = True
    for name in names:
        job = name if name in ("truncated_shard", "spike") else ""
        if job not in undisturbed:
            undisturbed[job] = with_case(lambda case: undisturbed_state(case, job))
        try:
            results = [inject(name, index, undisturbed[job]) for index in range(OPTIONS.count)]
        except Unavailable as reason:
            print(f"{name:24} skipped: {reason}", flush=True)
            continue
        print(row(name, results), flush=True)
        good = good and all(result["named"] and result["equal"] and result["clean"] for result in results)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
