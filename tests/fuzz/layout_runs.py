"""Runs one draw: its job on one rank, then on each of its layouts, and compares what must be equal."""
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "jobs"))
from jobs import OPTIONS, command, kill_job  # noqa: E402
from layout_data import paths, write_data  # noqa: E402
from layout_draws import MAX_THREADS, to_toml, toml_value  # noqa: E402

# Fields of a step or an evaluation that must be the same on every layout.
STEP_KEYS = ("step", "loss", "lr", "grad_norm", "loss_scale", "skipped", "state_hash")
EVAL_KEYS = ("step", "eval_loss", "eval_top1", "eval_top5", "eval_noise_bands")
SUMMARY_KEYS = ("status", "steps", "parameters", "loss", "eval_loss", "eval_top1", "eval_top5", "state_hash")
BAD_INPUT = 2  # the exit code of a refusal before step 1

# Waiting ranks and threads yield their core, because there are more of them than cores.
ENVIRONMENT = {**os.environ, "OMPI_MCA_mpi_yield_when_idle": "1", "OMP_WAIT_POLICY": "passive"}


class Difference(Exception):
    """A wrong result; the message names it and the run."""


@dataclass
class Tally:
    layouts: int = 0  # runs on a layout, resumed parts included
    equal: int = 0  # of these: the same as one rank, in the predicted memory
    limited: int = 0  # of these: with the predicted peak as memory limit
    resumes: int = 0
    evaluations: int = 0  # `trireme eval` of their checkpoints
    skipped_steps: int = 0  # of the one-rank runs
    failed_jobs: int = 0  # jobs that end with exit code 1 on every layout
    refusals: Counter = field(default_factory=Counter)

    def add(self, other):
        for name in self.counts():
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.refusals += other.refusals

    def counts(self):
        return {name: value for name, value in vars(self).items() if isinstance(value, int)}


@dataclass
class Finished:
    line: list
    code: int
    stdout: str
    stderr: str


def sets(keys):
    return [part for key, value in keys.items() for part in ("--set", f"{key}={toml_value(value)}")]


def layout_sets(layout):
    keys = dict(layout.keys)
    if keys.get("parallel.threads") == MAX_THREADS:
        keys["parallel.threads"] = min(MAX_THREADS, len(os.sched_getaffinity(0)))
    return sets(keys)


def execute(line, folder):
    """Runs a command in `folder`; in its own process group, so that a hanging command can be ended completely."""
    process = subprocess.Popen(line, cwd=folder, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        stdout, stderr = process.communicate(timeout=OPTIONS.timeout)
    except subprocess.TimeoutExpired:
        kill_job(process)
        raise Difference(f"still running after {OPTIONS.timeout} s: {shlex.join(line)}") from None
    return Finished(line, process.returncode, stdout, stderr)


def read_metrics(out):
    path = out / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def checkpoints(out):
    """Names and state hashes of the checkpoints of a run."""
    found = {}
    for manifest in sorted(out.glob("checkpoints/step-*/manifest.json")):
        found[manifest.parent.name] = json.loads(manifest.read_text())["content"]["state_hash"]
    return found


def error_of(stderr):
    """The first error, or None."""
    found = re.search(r"trireme: error: (?:rank \d+: )?(.*)", stderr)
    return found.group(1) if found else None


def reason_of(stderr):
    """The message of a refusal, without its numbers and names."""
    error = error_of(stderr)
    return error and re.sub(r"\d[\d.e+]*", "N", re.sub(r'"[^"]*"', '"..."', error))[:150]


class DrawRunner:
    """A draw in its own folder."""

    def __init__(self, draw, folder):
        self.draw = draw
        self.folder = folder
        self.tally = Tally()
        self.lines = []  # the commands so far, as a shell would take them
        self.evaluated = {}  # what `trireme eval` of the one-rank run prints, by its options

    def run(self):
        """The draw's tally; throws Difference."""
        self.folder.mkdir()
        write_data(self.folder / "data", self.draw.data)
        train, evaluation = paths(self.folder / "data", self.draw.data)
        self.draw.job["data"].update(train=train, eval=evaluation)
        (self.folder / "job.toml").write_text(to_toml(self.draw.job))
        self.reference = self.train(0, "one", [])
        if self.reference.code == BAD_INPUT:
            self.count_refusal(self.reference)
            self.tally.layouts += 1
            return self.tally
        if self.reference.code not in (0, 1):
            raise Difference(f"one rank ended with exit code {self.reference.code}:\n{self.reference.stderr}")
        self.tally.failed_jobs += self.reference.code
        self.metrics = read_metrics(self.folder / "one")
        self.tally.skipped_steps += sum(line.get("skipped", False) for line in self.metrics)
        for number, run in enumerate(self.draw.runs):
            self.compare_run(run, f"layout{number}")
        return self.tally

    def train(self, ranks, out, more):
        return self.execute(ranks, "train", "job.toml", "--out", out, *more)

    def execute(self, ranks, *arguments):
        line = command(ranks, *arguments)
        self.lines.append(shlex.join(line))
        return execute(line, self.folder)

    def count_refusal(self, finished):
        reason = reason_of(finished.stderr)
        if reason is None:
            raise Difference(f"refused without a reason: exit code {finished.code}\n{finished.stderr}")
        self.tally.refusals[reason] += 1

    def compare_run(self, run, out):
        del self.lines[1:]
        if not self.compare_layout(run.layout, out, 0):
            return
        if run.evaluation is not None and checkpoints(self.folder / out):
            self.compare_evaluation(run.evaluation, out)
        if run.stop == 0 or not (self.folder / out / "checkpoints" / f"step-{run.stop:06}").exists():
            return  # the job, too, ends before that step
        self.cut_off(self.folder / out, run)
        self.lines.append(f"(what lies in {out} beyond step {run.stop} removed)")
        self.tally.resumes += 1
        self.compare_layout(run.resume, out, run.stop)

    def compare_evaluation(self, evaluation, out):
        """`trireme eval` of the last checkpoint, on another layout, compared with the one-rank run."""
        options = ["--threads", "1", "--json", *(["--ema"] if evaluation.ema else [])]
        if evaluation.ema not in self.evaluated:
            self.evaluated[evaluation.ema] = self.evaluate(0, "one", options)
        self.tally.evaluations += 1
        self.compare_equal("`trireme eval`", self.evaluate(evaluation.ranks, out, options + sets(evaluation.keys)),
                           self.evaluated[evaluation.ema])

    def evaluate(self, ranks, out, options):
        """The output without the checkpoint's folder, or the error."""
        finished = self.execute(ranks, "eval", out, *options)
        if finished.code != 0:
            # Behind the semicolon is the rank.
            error = (error_of(finished.stderr) or "none").split(";")[0]
            return {"exit code": finished.code, "error": error.replace(f"{Path(out).name}/", "")}
        figures = json.loads(finished.stdout)
        del figures["checkpoint"]
        return json.dumps(figures)

    def cut_off(self, out, run):
        """Reduces a run's folder to its state after a crash behind step `run.stop`."""
        for path in out.glob("checkpoints/step-*"):
            if int(path.name.split("-")[1]) > run.stop:
                shutil.rmtree(path)
        (out / "summary.json").unlink(missing_ok=True)
        path = out / "metrics.jsonl"
        lines = path.read_text().splitlines(keepends=True)
        kept = [line for line in lines if json.loads(line)["step"] <= run.stop]
        rest = lines[len(kept)][:40] if run.torn and len(kept) < len(lines) else ""
        path.write_text("".join(kept) + rest)

    def compare_layout(self, layout, out, after):
        """Returns whether it ran. An earlier layout ran the steps up to `after`."""
        self.tally.layouts += 1
        keys = layout_sets(layout)
        limit = self.exact_limit(layout, keys) if layout.exact_memory else []
        keys += limit
        finished = self.train(layout.ranks, out, keys)
        if finished.code == BAD_INPUT:
            self.count_refusal(finished)
            if self.plan(layout, keys)[1] is not None:
                raise Difference(f"refused, although `trireme plan` accepts it:\n{finished.stderr}")
            return False
        if finished.code != self.reference.code:
            raise Difference(f"exit code {finished.code} where one rank has {self.reference.code}:\n"
                             f"{finished.stderr}\none rank:\n{self.reference.stderr}")
        path = self.folder / out
        metrics = read_metrics(path)
        if finished.code != 0:
            # Behind the semicolon is the rank.
            self.compare_equal("error", *((error_of(end.stderr) or "none").split(";")[0]
                                          for end in (finished, self.reference)))
        self.compare_metrics(metrics)
        self.compare_equal("checkpoints and their state hashes", checkpoints(path), checkpoints(self.folder / "one"))
        if finished.code == 0:
            self.compare_summaries(path)
        measured_cut = layout.keys.get("parallel.pipeline_cut") == "measured"
        times = ["--times", str(path / "block_times.json")] if measured_cut else []
        line, plan = self.plan(layout, [*keys, *times])
        if plan is None:
            raise Difference(f"it ran, but this refuses it: {shlex.join(line)}")
        self.compare_memory(line, plan["groups"], [m for m in metrics if m["step"] > after and "loss" in m])
        self.tally.equal += 1
        self.tally.limited += bool(limit)
        return True

    def compare_equal(self, what, found, expected):
        if found != expected:
            raise Difference(f"{what}: {found}\n  one rank: {expected}")

    def compare_metrics(self, metrics):
        for number, (found, expected) in enumerate(zip(metrics, self.metrics)):
            for key in STEP_KEYS if "loss" in expected else EVAL_KEYS:
                # As text, digit for digit; NaN then equals only NaN.
                self.compare_equal(f"step {expected['step']}, line {number + 1} of metrics.jsonl, {key}",
                                   json.dumps(found.get(key)), json.dumps(expected.get(key)))
        self.compare_equal("lines of metrics.jsonl", len(metrics), len(self.metrics))

    def compare_summaries(self, out):
        found, expected = (json.loads((path / "summary.json").read_text()) for path in (out, self.folder / "one"))
        for key in SUMMARY_KEYS:
            self.compare_equal(f"{key} of summary.json", json.dumps(found[key]), json.dumps(expected[key]))

    def plan(self, layout, more):
        """The command, and its plan of the layout; None if it is refused."""
        line = [OPTIONS.trireme, "plan", "job.toml", "--ranks", str(max(layout.ranks, 1)), "--json", *more]
        result = subprocess.run(line, cwd=self.folder, capture_output=True, text=True, timeout=OPTIONS.timeout)
        if result.returncode not in (0, BAD_INPUT):
            raise Difference(f"exit code {result.returncode} of {shlex.join(line)}:\n{result.stderr}")
        return line, json.loads(result.stdout) if result.returncode == 0 else None

    def exact_limit(self, layout, keys):
        """A memory limit equal to the prediction, which must suffice for everything in a run."""
        _, plan = self.plan(layout, keys)
        return sets({"parallel.memory_limit": plan["fit"]["peak_bytes"]}) if plan else []

    def compare_memory(self, line, groups, steps):
        """Compares measured peaks and sent bytes with the output of the `trireme plan` command `line`."""
        for step in steps:
            of_step = f"step {step['step']}"
            group = next(group for group in groups if step["peak_rank"] in group["ranks"])
            self.compare_predicted(f"{of_step}, peak_bytes", step["peak_bytes"],
                                   max(group["peak_bytes"] for group in groups), line)
            memory = {key: value for key, value in step["memory"].items() if key in group["memory"]}
            self.compare_predicted(f"{of_step}, memory of rank {step['peak_rank']}", memory, group["memory"], line)
            self.compare_predicted(f"{of_step}, comm_bytes", step["comm_bytes"], groups[0]["comm_bytes"], line)

    def compare_predicted(self, what, measured, predicted, line):
        if measured != predicted:
            raise Difference(f"{what}: measured {measured}\n  predicted {predicted}\n  by {shlex.join(line)}")
