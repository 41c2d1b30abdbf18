#!/usr/bin/env python3
"""Whole jobs, as a user runs them: real `mpirun`, real files, real signals.

    jobs_test.py --trireme build/release/bin/trireme --mpiexec mpirun [--kills 50] [unittest options]

Needs the Python standard library only.
"""
import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

OPTIONS = None
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


class Jobs(unittest.TestCase):
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

    def test_the_same_state_on_every_number_of_ranks(self):
        self.run_job(0, "one")
        losses = [m["loss"] for m in self.metrics("one") if "loss" in m]
        self.assertEqual(len(losses), 20)
        for ranks in (1, 2, 4):
            self.run_job(ranks, f"np{ranks}")
            self.assertEqual(self.state(f"np{ranks}"), self.state("one"), f"{ranks} ranks")
            self.assertEqual([m["loss"] for m in self.metrics(f"np{ranks}") if "loss" in m], losses)
        self.run_job(0, "other", "--set", "train.seed=2")
        self.assertNotEqual(self.state("other"), self.state("one"))

    def test_the_same_state_in_every_pipeline(self):
        small = ("--set", "train.steps=8")
        for mode in ("fp32", "bf16"):
            precision = ("--set", f"precision.mode={mode}", *small)
            self.run_job(0, f"one-{mode}", *precision)
            losses = [m["loss"] for m in self.metrics(f"one-{mode}") if "loss" in m]
            cases = [(4, ("pipeline=4", "pipeline_cut=blocks")), (4, ("pipeline=2", "schedule=gpipe", "zero=1")),
                     (4, ("pipeline=4", "schedule=zb-h1", "pipeline_cut=blocks")),
                     (2, ("pipeline=2", "schedule=interleaved", "chunks=2"))]
            if mode == "fp32":
                cases += [(4, ("pipeline=2", "recompute_every=1", "zero=3", 'pipeline_cut="1"')),
                          (4, ("pipeline=2", "schedule=zb-h1", "recompute_every=1", "zero=3"))]
            for ranks, keys in cases:
                sets = [part for key in keys for part in ("--set", f"parallel.{key}")]
                out = f"{mode}-np{ranks}-" + "-".join(keys).replace('"', "").replace("=", "")
                self.run_job(ranks, out, *precision, *sets)
                self.assertEqual(self.state(out), self.state(f"one-{mode}"), keys)
                steps = [m for m in self.metrics(out) if "loss" in m]
                self.assertEqual([m["loss"] for m in steps], losses, keys)
                predicted = self.plan(ranks, *precision, *sets)["groups"][0]
                for m in steps:
                    self.assertEqual(m["peak_bytes"], predicted["peak_bytes"], keys)
                    self.assertEqual(m["comm_bytes"], predicted["comm_bytes"], keys)

    def test_a_gpt_of_24_layers_learns_the_same_in_4_stages(self):
        root = Path(__file__).resolve().parents[2]
        text = [str(path) for path in (root / "README.md", *sorted(root.glob("*/README.md")))]
        subprocess.run([OPTIONS.trireme, "data", "text", *text, "--out", str(self.folder / "text")], check=True,
                       capture_output=True, timeout=60)
        self.job.write_text(f"""
[model]
layers = 24
hidden = 48
heads = 2
seq_len = 32
[data]
kind = "tokens"
train = "{self.folder / "text"}"
eval = "{self.folder / "text"}"
[train]
steps = 24
global_batch = 16
micro_batch = 2
eval_every = 12
eval_batches = 2
[optimizer]
lr = 4e-3
schedule = "constant"
warmup_steps = 4
[parallel]
threads = 1
recompute_every = 2
""")
        self.run_job(0, "one")
        self.run_job(4, "stages", "--set", "parallel.pipeline=4")
        self.assertEqual(self.state("stages"), self.state("one"))
        one, stages = self.metrics("one"), self.metrics("stages")
        for key in ("loss", "eval_loss"):
            self.assertEqual([m[key] for m in stages if key in m], [m[key] for m in one if key in m])
        losses = [m["loss"] for m in stages if "loss" in m]
        self.assertEqual(len(losses), 24)
        self.assertLess(losses[-1], losses[0] - 1.5)  # from 256 equally likely bytes to letters

    def test_what_cannot_be_a_pipeline_is_refused(self):
        for ranks, keys, named in ((0, ("pipeline=8",), "parallel.pipeline"),
                                   (3, ("pipeline=2",), "parallel.pipeline = 2"),
                                   (0, ("pipeline=2", 'pipeline_cut="3, 1"'), "parallel.pipeline_cut"),
                                   (0, ("pipeline=2", "chunks=2"), "parallel.chunks = 2"),
                                   (0, ("pipeline=2", "schedule=zb-h1", "chunks=2"), "zb-h1"),
                                   (2, ("pipeline=2", "schedule=interleaved", "chunks=2"), "micro-batch")):
            sets = [part for key in keys for part in ("--set", f"parallel.{key}")]
            batch = ("--set", "train.global_batch=2") if named == "micro-batch" else ()
            stderr = self.run_job(ranks, "refused", *batch, *sets, expect=2)
            self.assertIn(named, stderr)

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

    # Where a rank may be caught: in an action of a step, or where it has nothing to do with other ranks.
    ACTION = r"(in|after) (step \d+, action \d+ \([A-Z]\w+.*\)|the pause between steps \d+ and \d+|the reading of .*)"
    LAYOUTS = ((4, ("pipeline=4",)), (2, ("zero=2",)))

    def test_a_killed_rank_is_named_with_its_action(self):
        for ranks, keys in self.LAYOUTS:
            with self.subTest(ranks=ranks, keys=keys):
                sets = [part for key in keys for part in ("--set", f"parallel.{key}")]
                batch = ("--set", "train.global_batch=12")
                process, pids = self.start_and_wait_for_steps(ranks, f"killed{ranks}", *batch, *sets)
                os.kill(pids[1], signal.SIGKILL)
                began = time.time()
                _, stderr = process.communicate(timeout=60)
                self.assertLess(time.time() - began, 20, "the job did not end within seconds")
                self.assertEqual(process.returncode, 128 + signal.SIGKILL, stderr)  # as mpirun has it
                self.assertRegex(stderr, rf"rank 1 \(process {pids[1]}\) died {self.ACTION}.*the job ends")
                self.assertEqual(stderr.count("died"), 1, stderr)

    def test_a_stalled_rank_is_named_with_everybodys_action(self):
        for ranks, keys in self.LAYOUTS:
            with self.subTest(ranks=ranks, keys=keys):
                sets = [part for key in (*keys, "timeout_s=2") for part in ("--set", f"parallel.{key}")]
                batch = ("--set", "train.global_batch=12")
                process, pids = self.start_and_wait_for_steps(ranks, f"stalled{ranks}", *batch, *sets)
                os.kill(pids[1], signal.SIGSTOP)
                _, stderr = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 1, stderr)
                self.assertRegex(stderr, r"the job is held up \(parallel.timeout_s = 2\) by "
                                 rf"rank 1 \(process {pids[1]}, stopped by a signal\) {self.ACTION}.* for .* s, while\n")
                for rank in range(ranks):
                    if rank != 1:
                        self.assertRegex(stderr, rf"\n  rank {rank} .*{self.ACTION}.*waiting for (others|rank \d+) for")
                self.assertEqual(stderr.count("held up"), 1, stderr)

    def test_a_rank_that_stalls_inside_of_a_collective_is_named(self):
        process, pids = self.start_and_wait_for_steps(2, "stalled", "--set", "parallel.timeout_s=3")
        # Rank 0 comes to wait for rank 1 and is stopped there; then rank 1 goes on until it waits for rank 0.
        os.kill(pids[1], signal.SIGSTOP)
        time.sleep(1.2)
        os.kill(pids[0], signal.SIGSTOP)
        os.kill(pids[1], signal.SIGCONT)
        _, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1, stderr)
        collective = r"in (step \d+, action \d+ \((ReduceGrad|ReduceLoss|GradNorm|OptimStep)|the pause between steps).*"
        self.assertRegex(stderr, rf"by rank 0 \(process {pids[0]}, stopped by a signal\) {collective}, waiting for others")
        self.assertRegex(stderr, rf"while\n  rank 1 {collective}, waiting for others")

    def test_a_checkpoint_moves_between_pipelines(self):
        self.run_job(0, "one", "--set", "train.steps=8")
        for steps, ranks, keys in ((3, 4, ("pipeline=2", "zero=1")), (6, 2, ()), (8, 3, ("pipeline=3",))):
            sets = [part for key in keys for part in ("--set", f"parallel.{key}")]
            batch = ("--set", "train.micro_batch=2")
            self.run_job(ranks, "moved", "--set", f"train.steps={steps}", *batch, *sets)
        self.assertEqual(self.state("moved"), self.state("one"))

    def test_a_network_with_running_statistics_trains_in_stages(self):
        self.job.write_text(IMAGE_JOB)
        self.run_job(0, "one")
        stages = ("--set", "parallel.pipeline=2", "--set", "parallel.zero=2", "--set", "parallel.schedule=interleaved",
                  "--set", "parallel.chunks=2", "--set", "parallel.pipeline_cut=measured")
        self.run_job(4, "moved", "--set", "train.steps=2", *stages)
        self.run_job(2, "moved", "--set", "train.steps=3", "--set", "parallel.pipeline=2")
        self.assertEqual(self.state("moved"), self.state("one"))
        evaluated = subprocess.run(command(0, "eval", self.folder / "moved", "--json"), capture_output=True, text=True,
                                   timeout=60)
        self.assertEqual(evaluated.returncode, 0, evaluated.stderr)
        self.assertEqual(json.loads(evaluated.stdout)["loss"], self.metrics("one")[-1]["eval_loss"])

    def plan(self, ranks, *more):
        line = [OPTIONS.trireme, "plan", str(self.job), "--ranks", str(ranks), "--json", *more]
        result = subprocess.run(line, capture_output=True, text=True, timeout=60)
        plan = json.loads(result.stdout)
        self.assertEqual(result.returncode, 0 if plan["fit"]["fits"] else 2, result.stderr)
        return plan

    def test_the_same_state_under_every_kind_of_sharding(self):
        self.run_job(0, "one")
        for ranks, keys in ((2, ("zero=1",)), (4, ("zero=2", "group_min_bytes=1MiB")),
                            (4, ("zero=2", "accumulate_unsharded=true")), (2, ("zero=3", "recompute_every=1")),
                            (4, ("zero=3", "prefetch_depth=2", "progress_thread=true")),
                            (2, ("zero=1", "offload=optimizer"))):
            sets = [part for key in keys for part in ("--set", f"parallel.{key}")]
            out = f"np{ranks}-" + "-".join(keys).replace("=", "")
            self.run_job(ranks, out, *sets)
            self.assertEqual(self.state(out), self.state("one"), keys)
            steps = [m for m in self.metrics(out) if "loss" in m]
            predicted = self.plan(ranks, *sets)["groups"][0]
            for m in steps:
                self.assertEqual(m["peak_bytes"], predicted["peak_bytes"], keys)
                self.assertEqual(m["comm_bytes"], predicted["comm_bytes"], keys)
                self.assertGreater(m["comm_wait_ms"], 0)
                self.assertLess(m["comm_wait_ms"], m["step_ms"])

    def test_a_job_that_does_not_fit_says_what_would_and_trains_with_it(self):
        large = ("--set", "model.hidden=128", "--set", "train.steps=3")
        group = self.plan(4, *large)["groups"][0]
        state = sum(group["memory"][category] for category in ("parameters", "gradients", "optimizer"))
        limit = ("--set", f"parallel.memory_limit={state * 9 // 10}")
        fit = self.plan(4, *large, *limit)["fit"]
        self.assertFalse(fit["fits"])
        stderr = self.run_job(4, "refused", *large, *limit, expect=2)
        self.assertIn("the job does not fit", stderr)
        self.assertIn(fit["text"], stderr)  # the same words
        self.assertFalse((self.folder / "refused").exists())
        remedy = fit["remedy"]
        self.assertGreater(remedy["zero"], 0)
        self.assertEqual(remedy["ranks"], 4)
        sets = ("--set", f"parallel.zero={remedy['zero']}",
                "--set", f"parallel.recompute_every={remedy['recompute_every']}",
                "--set", f"train.micro_batch={remedy['micro_batch']}")
        self.run_job(4, "fitting", *large, *limit, *sets)
        self.assertTrue(all(m["peak_bytes"] == remedy["peak_bytes"] for m in self.metrics("fitting") if "loss" in m))
        if remedy["micro_batch"] == 2:
            self.run_job(0, "unlimited", *large)
            self.assertEqual(self.state("fitting"), self.state("unlimited"))
        # Too little for anything: the block that runs at the peak is named.
        stderr = self.run_job(4, "hopeless", *large, "--set", "parallel.memory_limit=20KiB", expect=2)
        self.assertIn("make it fit: even", stderr)
        self.assertRegex(stderr, r"while block '\S+' runs")

    def test_bad_sharding_is_refused_before_step_1(self):
        for setting, words in (("train.global_batch=6", "train.global_batch"), ("parallel.zero=4", "parallel.zero"),
                               ("parallel.recompute=attention", "parallel.recompute_every"),
                               ("parallel.recompute_every=-1", "parallel.recompute_every"),
                               ("parallel.offload=everything", "parallel.offload"),
                               ("parallel.prefetch_depth=-1", "parallel.prefetch_depth")):
            stderr = self.run_job(4, "bad", "--set", "parallel.zero=2", "--set", setting, expect=2)
            self.assertIn(words, stderr)
            self.assertFalse((self.folder / "bad").exists())

    def test_resumes_on_another_number_of_ranks(self):
        self.run_job(0, "whole")
        self.run_job(2, "parts", "--set", "train.steps=7")
        self.run_job(4, "parts", "--set", "train.steps=13")
        self.run_job(0, "parts")
        self.assertEqual(self.state("parts"), self.state("whole"))
        self.assertEqual([m["step"] for m in self.metrics("parts") if "loss" in m], list(range(1, 21)))

    def test_every_precision_has_the_same_state_on_every_layout(self):
        course = {}
        for mode in ("tf32", "bf16", "fp16"):
            # A first scale that is too large, so that steps are skipped, on every rank the same ones.
            sets = ("--set", f"precision.mode={mode}", "--set", "precision.scale_init=67108864",
                    "--set", "precision.scale_interval=5")
            self.run_job(0, f"{mode}-one", *sets)
            course[mode] = [(m["loss"], m["loss_scale"], m["skipped"]) for m in self.metrics(f"{mode}-one")
                            if "loss" in m]
            self.assertEqual(any(skipped for _, _, skipped in course[mode]), mode == "fp16")
            for ranks, more in ((2, "parallel.zero=3"), (4, "parallel.recompute_every=1")):
                out = f"{mode}-np{ranks}"
                self.run_job(ranks, out, *sets, "--set", more, "--set", "train.steps=8")
                self.run_job(4 // ranks * 2, out, *sets, "--set", more)
                self.assertEqual(self.state(out), self.state(f"{mode}-one"), out)
                self.assertEqual([(m["loss"], m["loss_scale"], m["skipped"]) for m in self.metrics(out)
                                  if "loss" in m], course[mode], out)
        self.assertNotEqual(course["tf32"], course["bf16"])

    def test_an_overflow_is_named_with_its_rank(self):
        stderr = self.run_job(2, "overflow", "--set", "precision.mode=fp16", "--set", "precision.loss_scale=1e30",
                              "--set", "precision.max_skips=2", expect=1)
        self.assertIn("2 steps in a row", stderr)
        self.assertIn("of block 'head', micro-batch 0, on rank 0", stderr)

    def test_killed_at_random_moments_it_continues_bit_identically(self):
        steps = ("--set", "train.steps=400", "--set", "checkpoint.every=1")
        self.run_job(0, "whole", "--set", "train.steps=400")
        seed = random.randrange(1 << 30)
        print(f"kill seed {seed}", flush=True)
        moments = random.Random(seed)
        kills = 0
        while kills < OPTIONS.kills:
            ranks = 0 if kills % 5 else 2
            process = self.start(ranks, "killed", *steps)
            time.sleep(moments.uniform(0.0, 1.5 if ranks else 0.6))
            finished = process.poll() == 0
            kill_job(process)
            process.communicate()
            if finished:  # done before the kill: start over, so that every kill hits a running job
                shutil.rmtree(self.folder / "killed")
                continue
            kills += 1
            if kills % 10 == 0:
                print(f"{kills} kills", flush=True)
        self.run_job(0, "killed", *steps)
        self.assertEqual(self.state("killed"), self.state("whole"))
        left = sorted(p.name for p in (self.folder / "killed" / "checkpoints").iterdir())
        self.assertFalse([name for name in left if name.startswith(".tmp")], left)

    def test_a_damaged_checkpoint_is_passed_over(self):
        self.run_job(0, "whole")
        self.run_job(0, "damaged", "--set", "train.steps=9", "--set", "checkpoint.every=3")
        model = self.folder / "damaged" / "checkpoints" / "step-000009" / "model.safetensors"
        content = bytearray(model.read_bytes())
        content[-100] ^= 1
        model.write_bytes(content)
        self.assertIn("step-000009", self.run_job(2, "damaged"))
        self.assertEqual(self.state("damaged"), self.state("whole"))

    def test_alone_a_failure_while_running_exits_1(self):
        process = self.start(0, "alone", "--set", "train.steps=1000000", "--set", "checkpoint.every=500")
        checkpoints = self.folder / "alone" / "checkpoints"
        metrics = self.folder / "alone" / "metrics.jsonl"
        deadline = time.time() + 60
        while not (metrics.exists() and metrics.stat().st_size > 0):
            self.assertLess(time.time(), deadline, "no steps in a minute")
            time.sleep(0.01)
        if checkpoints.exists():
            checkpoints.rename(self.folder / "alone" / "moved")
        checkpoints.write_text("in the way")
        _, stderr = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 1, stderr)
        self.assertIn("checkpoints", stderr)

    def test_a_rank_that_fails_ends_the_job(self):
        endless = ("--set", "train.steps=1000000", "--set", "checkpoint.every=2")
        process = self.start(2, "failing", *endless)
        checkpoints = self.folder / "failing" / "checkpoints"
        deadline = time.time() + 60
        while not (checkpoints.exists() and any(p.name.startswith("step-") for p in checkpoints.iterdir())):
            self.assertLess(time.time(), deadline, "no checkpoint in a minute")
            time.sleep(0.05)
        # From now on rank 0 cannot save: a file stands where the folder was.
        checkpoints.rename(self.folder / "failing" / "moved")
        checkpoints.write_text("in the way")
        began = time.time()
        _, stderr = process.communicate(timeout=60)
        self.assertLess(time.time() - began, 20, "the job did not end within seconds")
        self.assertEqual(process.returncode, 1, stderr)
        self.assertRegex(stderr, r"trireme: error: rank 0: .*checkpoints")
        self.assertNotRegex(stderr, r"rank 0.*rank 0|died")  # named once a line, and nobody is said to have died

    def test_ranks_with_different_jobs_are_refused(self):
        other = self.folder / "other.toml"
        other.write_text(JOB.replace("lr = 1e-2", "lr = 2e-2"))
        one = command(1, "train", self.job, "--out", self.folder / "mixed")
        two = [OPTIONS.trireme, "train", str(other), "--out", str(self.folder / "mixed")]
        result = subprocess.run([*one, ":", "-np", "1", *two], capture_output=True, text=True, timeout=60,
                                stdin=subprocess.DEVNULL)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("optimizer.lr", result.stderr)
        self.assertIn("rank 1", result.stderr)
        self.assertFalse((self.folder / "mixed" / "metrics.jsonl").exists())

    def test_two_runs_do_not_share_an_output_folder(self):
        first = self.start(0, "shared", "--set", "train.steps=1000000")
        metrics = self.folder / "shared" / "metrics.jsonl"
        deadline = time.time() + 60
        while not metrics.exists():
            self.assertLess(time.time(), deadline, "no steps in a minute")
            time.sleep(0.05)
        second = self.start(0, "shared")
        _, stderr = second.communicate(timeout=60)
        self.assertEqual(second.returncode, 2, stderr)
        self.assertIn(f"process {first.pid}", stderr)
        first.send_signal(signal.SIGTERM)
        _, stderr = first.communicate(timeout=60)
        self.assertEqual(first.returncode, 75, stderr)

    def test_doctor_measures_all_reduces_between_the_ranks(self):
        for ranks in (0, 1, 2, 4):
            report = subprocess.run(command(ranks, "doctor", "--json"), capture_output=True, text=True, timeout=120)
            self.assertEqual(report.returncode, 0, report.stderr)
            measured = json.loads(report.stdout)["all_reduce"]
            if ranks < 2:  # nobody to talk to
                self.assertIsNone(measured)
                continue
            self.assertEqual((measured["ranks"], measured["communicator"]), (ranks, "mpi"))
            self.assertEqual([size["bytes"] for size in measured["sizes"]], [1 << 20, 64 << 20])
            for size in measured["sizes"]:
                factor = 2 * (ranks - 1) / ranks
                self.assertGreater(size["algorithm_gb_per_s"], 0)
                self.assertAlmostEqual(size["bus_gb_per_s"] / size["algorithm_gb_per_s"], factor, places=9)

    def test_a_stop_request_saves_and_exits_75(self):
        # mpirun answers SIGTERM by ending the ranks itself; SIGUSR1 it hands on to them.
        for ranks, request in ((0, signal.SIGTERM), (2, signal.SIGUSR1)):
            out = f"stopped{ranks}"
            process = self.start(ranks, out, "--set", "train.steps=1000000")
            metrics = self.folder / out / "metrics.jsonl"
            deadline = time.time() + 60
            while not (metrics.exists() and metrics.stat().st_size > 1000):
                self.assertLess(time.time(), deadline, "no steps in a minute")
                time.sleep(0.05)
            process.send_signal(request)
            _, stderr = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 75, stderr)
            self.assertEqual(json.loads((self.folder / out / "summary.json").read_text())["status"], "stopped")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--trireme", required=True)
    parser.add_argument("--mpiexec", required=True)
    parser.add_argument("--kills", type=int, default=10)
    OPTIONS, rest = parser.parse_known_args()
    OPTIONS.trireme = os.path.abspath(OPTIONS.trireme)
    unittest.main(argv=[sys.argv[0], *rest])
