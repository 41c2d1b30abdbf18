"""One job under `trireme run`, one fault, and the outcome: the code that all classes of faults share."""
import json
import re
import subprocess
import sys
import time
from pathlib import Path

for folder in ("jobs", "net"):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / folder))
from jobs import OPTIONS  # noqa: E402
from supervised import Supervised  # noqa: E402

RANKS = 2
KEYS = ("train.steps=24", "checkpoint.every=4", "checkpoint.keep=3")
IN_BACKGROUND = "checkpoint.background=true"


class Missed(Exception):
    """The moment had passed before the fault was there: the injection does not count."""


class Unavailable(Exception):
    """This machine cannot have the fault."""


class Injection:
    """A job that is about to be struck at a random step: the classes of faults are methods of those that inherit."""

    job_keys = ()  # beside KEYS, for the job that nothing disturbs, too
    keys = ()  # of the struck job alone
    options = ()  # of `trireme run`
    environment = {}  # variables of the struck job
    disk = None  # a SmallDisk that has the output folder
    first_step, last_step = 9, 17  # that may have been done when the fault strikes

    def __init__(self, case, numbers):
        self.case, self.numbers = case, numbers
        self.victim, self.step = numbers.randrange(RANKS), numbers.randrange(self.first_step, self.last_step + 1)
        self.culprit = None  # a pattern of the verdict; None: nobody is to be named
        self.supervisor = False  # the fault ended the supervisor, or made it give up
        self.survives = False  # the fault ends nothing
        self.begin = self.verdict = self.ended = None  # ended: when the supervisor knew the end of the first attempt

    @classmethod
    def prepare(cls, case):
        """Keys of files that the job reads."""
        return ()

    def strike(self):
        raise NotImplementedError

    def after_end(self):
        """Repairs what the fault damaged, if possible, before the next attempt."""

    def judge(self, named):
        """Further conditions of a right result. Raises Missed if the fault had no effect."""
        return named

    def verdicts(self):
        return [end["verdict"] for end in self.run.events("end")][:1]

    def left(self):
        """Processes that have not ended with the job."""
        return self.run.tagged()

    # For the classes:

    def start(self):
        return Supervised(self.case, "struck", *self.options, ranks=str(RANKS),
                          keys=(*KEYS, *self.job_keys, *self.files, *self.keys), environment=self.environment, disk=self.disk)

    def rank(self):
        return self.run.rank(self.victim)

    def dies(self, pid):
        self.culprit = rf"rank {self.victim} \(process {pid}\) died|process rank {self.victim} with PID {pid} "

    def mpirun(self):
        return int(self.run.events("started")[-1]["process"].split(".")[0])

    def newest(self):
        return max((self.run.out / "checkpoints").glob("step-*"))

    def hidden(self):
        return (self.run.out / "checkpoints").glob(".tmp-step-*")

    def wait_until(self, condition, pause_s=0.002):
        deadline = time.time() + 30
        while not (found := condition()):
            if time.time() > deadline or self.run.process.poll() is not None:
                raise Missed
            time.sleep(pause_s)
        return found

    # The outcome:

    def carry_out(self, undisturbed):
        """Strikes, and waits for the end; the figures."""
        self.files = self.prepare(self.case)
        self.run = self.start()
        self.run.wait_for_step(self.step)
        self.strike()
        if self.supervisor:
            self.run = self.start()
        elif self.survives:
            self.verdict = time.time()
        else:
            self.wait_for_verdict()
        if not self.survives:
            self.wait_for_next_step()
        next_step = time.time()
        self.run.end()
        return self.figures(undisturbed, next_step)

    def wait_for_verdict(self):
        while not self.run.events("end"):
            self.case.assertLess(time.time(), self.begin + 60, self.run.output())
            if self.verdict is None and self.culprit and self.is_said():
                self.verdict = time.time()
            time.sleep(0.002)
        self.ended = time.time()
        self.verdict = self.verdict or self.ended
        self.after_end()

    def is_said(self):
        """By the supervisor, or by the job in the output of its first attempt."""
        log = self.run.out / "attempts" / "attempt-0001.log"
        said = [event["what"] for event in self.run.events("verdict")] + [log.read_text() if log.exists() else ""]
        return any(re.search(self.culprit, text) for text in said)

    def wait_for_next_step(self):
        """Until the attempt after the fault has computed a step; its end counts, too."""
        attempt = max(2, len(self.run.events("end")) + 1)
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

    def figures(self, undisturbed, next_step):
        ends, begins = self.run.events("end"), self.run.events("begin")
        if not self.supervisor and not self.survives and ends[0]["exit_code"] == 0:
            raise Missed
        named = self.culprit is None or any(re.search(self.culprit, verdict) for verdict in self.verdicts())
        named = self.judge(len(begins) == 1 if self.survives else named)
        state = json.loads((self.run.out / "summary.json").read_text())["state_hash"]
        orphans, lease = self.left(), (self.run.out / ".supervisor").read_text()
        clean = not orphans and not lease and not any(self.hidden())
        again = ends[0]["step"] - begins[1]["first_step"] if len(begins) > 1 else 0
        result = {"named": bool(named), "equal": state == undisturbed, "clean": clean,
                  "verdict_s": self.verdict - self.begin, "end_s": (self.ended or self.verdict) - self.begin,
                  "next_step_s": next_step - self.verdict, "steps_again": max(0, again)}
        if not (named and result["equal"] and clean):
            print(f"rank {self.victim}, step {self.step}: {result}, left: {orphans} {lease}\n{self.run.output()}", flush=True)
        return result

    def verify(self, checkpoint):
        return subprocess.run([OPTIONS.trireme, "checkpoint", "verify", checkpoint], capture_output=True, text=True)
