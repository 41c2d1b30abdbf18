"""Whole jobs, as a user runs them: real `mpirun`, real files, real signals. Shared by the tests in this folder.

Needs the Python standard library only.
"""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from at_once import run_tests_at_once

OPTIONS = argparse.Namespace()  # filled by main()
JOB = """
[model]
layers = 2
hidden = 32
heads = 2
vocab = 64
seq_len = 16
dropout = 0.1
[data]
kind = "synthetic"
[train]
steps = 20
global_batch = 16
micro_batch = 2
[optimizer]
lr = 1e-2
schedule = "constant"
warmup_steps = 2
[parallel]
threads = 1
[log]
every = 5
"""


IMAGE_JOB = """
[model]
name = "resnet20"
[data]
kind = "synthetic"
eval = "synthetic too"
image_size = 8
[train]
steps = 3
global_batch = 8
micro_batch = 2
[optimizer]
name = "sgd"
schedule = "constant"
[parallel]
threads = 1
"""


def command(ranks, *arguments):
    """ranks = 0: without mpirun."""
    line = [OPTIONS.trireme, *map(str, arguments)]
    if ranks == 0:
        return line
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return [OPTIONS.mpiexec, *root, "--oversubscribe", "--bind-to", "none", "-np", str(ranks), *line]


def processes_below(root):
    """Ids of `root` and all its descendants: mpirun gives every rank a process group of its own."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                pass  # gone meanwhile
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def kill_job(process):
    """SIGKILL to every process of the job; returns when all are gone."""
    pids = processes_below(process.pid)
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()
    deadline = time.time() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.time() < deadline:
        time.sleep(0.01)


class JobTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="trireme-jobs-"))
        self.job = self.folder / "job.toml"
        self.job.write_text(JOB)

    def tearDown(self):
        shutil.rmtree(self.folder)

    def start(self, ranks, out, *more):
        line = command(ranks, "train", self.job, "--out", self.folder / out, *more)
        # A process group of its own: what a test kills is this job and nothing else.
        return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                stdin=subprocess.DEVNULL, start_new_session=True)

    def run_job(self, ranks, out, *more, expect=0):
        process = self.start(ranks, out, *more)
        stdout, stderr = process.communicate(timeout=240)
        self.assertEqual(process.returncode, expect, f"{ranks} ranks, {more}:\n{stdout}\n{stderr}")
        return stderr

    def state(self, out):
        return json.loads((self.folder / out / "summary.json").read_text())["state_hash"]

    def metrics(self, out):
        lines = (self.folder / out / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def plan(self, ranks, *more):
        line = [OPTIONS.trireme, "plan", str(self.job), "--ranks", str(ranks), "--json", *more]
        result = subprocess.run(line, capture_output=True, text=True, timeout=60)
        plan = json.loads(result.stdout)
        self.assertEqual(result.returncode, 0 if plan["fit"]["fits"] else 2, result.stderr)
        return plan

    def start_and_wait_for_steps(self, ranks, out, *more):
        """A job that would go on for long, some steps after its beginning, and the process of each rank."""
        process = self.start(ranks, out, "--set", "train.steps=1000000", *more)
        self.addCleanup(kill_job, process)
        metrics = self.folder / out / "metrics.jsonl"
        deadline = time.time() + 60
        while not (metrics.exists() and metrics.stat().st_size > 1000):
            self.assertLess(time.time(), deadline, "no steps in a minute")
            time.sleep(0.05)
        variables = {pid: Path(f"/proc/{pid}/environ").read_text().split("\0") for pid in processes_below(process.pid)}
        return process, [next(pid for pid in variables if f"OMPI_COMM_WORLD_RANK={rank}" in variables[pid])
                         for rank in range(ranks)]


def main(first=()):
    """Tests with one of the words of `first` in their names begin first, where several run at once."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trireme", required=True)
    parser.add_argument("--mpiexec", required=True)
    parser.add_argument("--kills", type=int, default=10)
    # For jobs that stall: far longer than any part of a job on a busy machine, including its start.
    parser.add_argument("--timeout", type=int, default=4)
    parser.add_argument("--injections", type=int, default=6)
    parser.add_argument("--fake-nvml", default="")  # the folder of tests/support/fake_nvml.cc, built
    parser.add_argument("--seed", type=int, default=0)  # 0: another one each time
    parser.add_argument("--at-once", type=int, default=1, help="tests at a time; they wait most of the time")
    _, rest = parser.parse_known_args(namespace=OPTIONS)
    OPTIONS.trireme = os.path.abspath(OPTIONS.trireme)
    if OPTIONS.at_once > 1:
        names = [word for word in rest if not word.startswith("-")]
        sys.exit(0 if run_tests_at_once(names, OPTIONS.at_once, first) else 1)
    unittest.main(module="__main__", argv=[sys.argv[0], *rest])
