#!/usr/bin/env python3
"""Jobs that fail, die, stall, stop or are refused, and what they leave behind.

    failing_jobs_test.py --trireme build/release/bin/trireme --mpiexec mpirun [--kills 50] [unittest options]
"""
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path
from unittest import mock

from jobs import JOB, OPTIONS, JobTest, command, kill_job, main


class FailingJobs(JobTest):
    # The moments at which a rank may be caught: in an action of a step, or where it has nothing to do with other ranks.
    ACTION = r"(in|after) (step \d+, action \d+ \([A-Z]\w+.*\)|the pause between steps \d+ and \d+|the reading of .*)"
    LAYOUTS = ((4, ("pipeline=4",)), (2, ("zero=2",)))

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
                sets = [part for key in (*keys, f"timeout_s={OPTIONS.timeout}") for part in ("--set", f"parallel.{key}")]
                batch = ("--set", "train.global_batch=12")
                process, pids = self.start_and_wait_for_steps(ranks, f"stalled{ranks}", *batch, *sets)
                os.kill(pids[1], signal.SIGSTOP)
                _, stderr = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 1, stderr)
                self.assertRegex(stderr, rf"the job is held up \(parallel.timeout_s = {OPTIONS.timeout}\) by "
                                 rf"rank 1 \(process {pids[1]}, stopped by a signal\) {self.ACTION}.* for .* s, while\n")
                for rank in range(ranks):
                    if rank != 1:
                        self.assertRegex(stderr, rf"\n  rank {rank} .*{self.ACTION}.*waiting for (others|rank \d+) for")
                self.assertEqual(stderr.count("held up"), 1, stderr)

    def test_a_rank_that_stalls_before_there_is_an_engine_is_named(self):
        # Blocks so large that rank 0 measures them for longer than the limit.
        large = ("model.hidden=1024", "model.layers=24", "model.seq_len=1024", "train.micro_batch=8")
        keys = ("pipeline=2", "pipeline_cut=measured", f"timeout_s={OPTIONS.timeout}")
        sets = [part for key in (*large, *(f"parallel.{key}" for key in keys)) for part in ("--set", key)]
        stderr = self.run_job(2, "early", *sets, expect=1)
        self.assertRegex(stderr, rf"held up \(parallel.timeout_s = {OPTIONS.timeout}\) by rank 0 .*in the measuring of a cut into stages")
        self.assertRegex(stderr, r"while\n  rank 1 .*in the measuring of a cut into stages, waiting for others for")

    def test_a_rank_that_stalls_inside_of_a_collective_is_named(self):
        process, pids = self.start_and_wait_for_steps(2, "stalled", "--set", f"parallel.timeout_s={OPTIONS.timeout}")
        # Rank 0 waits for rank 1 and is stopped there; then rank 1 continues until it waits for rank 0.
        os.kill(pids[1], signal.SIGSTOP)
        time.sleep(1.2)
        os.kill(pids[0], signal.SIGSTOP)
        os.kill(pids[1], signal.SIGCONT)
        _, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1, stderr)
        collective = (r"in (step \d+, action \d+ \((ReduceGrad|GatherGrad|ReduceLoss|GradNorm|GatherNorms|GatherUpdated)|"
                      r"the pause between steps|the reading of a step's results).*")
        self.assertRegex(stderr, rf"by rank 0 \(process {pids[0]}, stopped by a signal\) {collective}, waiting for others")
        self.assertRegex(stderr, rf"while\n  rank 1 {collective}, waiting for others")

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
                               ("parallel.recompute=attention", "parallel.recompute = "),
                               ("parallel.recompute_evry=2", "parallel.recompute_every"),
                               ("parallel.recompute_every=-1", "parallel.recompute_every"),
                               ("parallel.offload=everything", "parallel.offload"),
                               ("parallel.prefetch_depth=-1", "parallel.prefetch_depth")):
            stderr = self.run_job(4, "bad", "--set", "parallel.zero=2", "--set", setting, expect=2)
            self.assertIn(words, stderr)
            self.assertFalse((self.folder / "bad").exists())

    def test_an_overflow_is_named_with_its_rank(self):
        stderr = self.run_job(2, "overflow", "--set", "precision.mode=fp16", "--set", "precision.loss_scale=1e30",
                              "--set", "precision.max_skips=2", expect=1)
        self.assertIn("2 consecutive steps", stderr)
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
        # Rank 0 cannot save any more: a file replaces the folder.
        checkpoints.rename(self.folder / "failing" / "moved")
        checkpoints.write_text("in the way")
        began = time.time()
        _, stderr = process.communicate(timeout=60)
        self.assertLess(time.time() - began, 20, "the job did not end within seconds")
        self.assertEqual(process.returncode, 1, stderr)
        self.assertRegex(stderr, r"trireme: error: rank 0: .*checkpoints")
        self.assertNotRegex(stderr, r"rank 0.*rank 0|died")  # named once a line, and nobody is said to have died

    def test_threads_spin_briefly_where_the_user_does_not_say_how_they_wait(self):
        for variable, value in (("", ""), ("OMP_WAIT_POLICY", "active"), ("GOMP_SPINCOUNT", "7")):
            with self.subTest(variable):
                environment = {key: text for key, text in os.environ.items()
                               if key not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
                with mock.patch.dict(os.environ, environment | ({variable: value} if variable else {}), clear=True):
                    process, _ = self.start_and_wait_for_steps(0, f"waits{variable}")
                lines = Path(f"/proc/{process.pid}/environ").read_text().split("\0")
                waits = [line for line in lines if line.startswith(("OMP_WAIT_POLICY=", "GOMP_SPINCOUNT="))]
                self.assertEqual(waits, [f"{variable}={value}"] if variable else ["GOMP_SPINCOUNT=2000"])
                # Started a second time or not: the same process, name and arguments.
                self.assertEqual(Path(f"/proc/{process.pid}/comm").read_text(), "trireme\n")
                self.assertEqual(Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")[:3],
                                 [OPTIONS.trireme, "train", str(self.job)])
                kill_job(process)

    def test_an_output_folder_that_is_lost_ends_the_run_with_a_checkpoint(self):
        for ranks in (0, 2):
            with self.subTest(ranks=ranks, action="renamed"):
                out, moved = self.folder / f"renamed{ranks}", self.folder / f"moved{ranks}"
                process, _ = self.start_and_wait_for_steps(ranks, out.name)
                out.rename(moved)
                self.expect_lost_output(process, out, f"was renamed to {moved} .*in {moved}/checkpoints")
                self.assertFalse(out.exists())
                # The checkpoint has the last step of the metrics, and a run resumes from it.
                step = self.metrics(moved.name)[-1]["step"]
                self.run_job(ranks, moved.name, "--set", f"train.steps={step + 1}")
                self.assertEqual([m["step"] for m in self.metrics(moved.name)], list(range(1, step + 2)))
            with self.subTest(ranks=ranks, action="removed"):
                out = self.folder / f"removed{ranks}"
                process, pids = self.start_and_wait_for_steps(ranks, out.name)
                # Stopped, so that the folder goes at once: the files of the last checkpoint are not for rmtree.
                pids = pids or [process.pid]
                for pid in pids:
                    os.kill(pid, signal.SIGSTOP)
                shutil.rmtree(out)
                for pid in pids:
                    os.kill(pid, signal.SIGCONT)
                self.expect_lost_output(process, out, f"was removed .*in {out}/checkpoints")
                self.assertTrue(list((out / "checkpoints").glob("step-*")))

    def expect_lost_output(self, process, out, words):
        _, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1, stderr)
        self.assertRegex(stderr, rf"trireme: error: (rank 0: )?(the output folder )?{out}.* {words}")

    def write_shard(self, path, token, count=4096):
        path.write_bytes(struct.pack("<3i", 20240520, 1, count) + bytes(253 * 4) + struct.pack("<H", token) * count)

    def test_a_shard_that_changes_under_the_run_is_named_by_the_rank_that_reads_it(self):
        def overwrite(shard):
            with open(shard, "r+b") as file:
                file.seek(1024)
                file.write(struct.pack("<H", 60000) * 4096)
        changes = {"written to": overwrite,
                   "replaced by another file": lambda shard: os.rename(shard.with_suffix(".new"), shard),
                   "bytes now": lambda shard: os.truncate(shard, 2000)}
        for i, (words, change) in enumerate(changes.items()):
            with self.subTest(words):
                shard = self.folder / "shard.bin"
                self.write_shard(shard, 7)
                self.write_shard(shard.with_suffix(".new"), 60000)
                process, _ = self.start_and_wait_for_steps(2, f"shard{i}", "--set", "data.kind=tokens",
                                                           "--set", f"data.train={shard}")
                change(shard)
                _, stderr = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 1, stderr)
                # Or what a read meets that is under way: an id, or the end of the file.
                read = r": token 60000 at position \d+" if words == "written to" else "became shorter"
                self.assertRegex(stderr, rf"rank [01], step \d+.*: token file {shard} .*{words}|{read}")

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

    def test_ranks_with_other_instructions_are_refused(self):
        """SSE4.1 is less than any machine of today has; what one rank may use is set for it alone."""
        less = ["-x", "ONEDNN_MAX_CPU_ISA=SSE41"]
        line = command(1, "train", self.job, "--out", self.folder / "mixed")
        program = line[line.index(OPTIONS.trireme):]
        result = subprocess.run([*line, ":", "-np", "1", *less, *program], capture_output=True, text=True, timeout=60,
                                stdin=subprocess.DEVNULL)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertRegex(result.stderr, r"instruction set: \S+ on rank 0 \(\S+\), x86_64_v2 on rank 1 \(\S+\)")
        self.assertIn("mpirun -x ONEDNN_MAX_CPU_ISA=", result.stderr)
        self.assertFalse((self.folder / "mixed").exists())
        # All of them with less: one arithmetic again, which the checkpoint remembers.
        lowered = [*line[:1], *less, *line[1:]]
        result = subprocess.run(lowered, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        self.assertEqual(result.returncode, 0, result.stderr)
        stderr = self.run_job(1, "mixed", "--set", "train.steps=21")
        self.assertRegex(stderr, r"the checkpoint was made with another instruction set \(x86_64_v2, now \S+\)")

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

    def test_a_stop_request_saves_and_exits_75(self):
        # mpirun answers SIGTERM by ending the ranks itself; SIGUSR1 it hands on to them.
        for ranks, request in ((0, signal.SIGTERM), (2, signal.SIGUSR1)):
            out = f"stopped{ranks}"
            process, _ = self.start_and_wait_for_steps(ranks, out)
            process.send_signal(request)
            _, stderr = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 75, stderr)
            self.assertEqual(json.loads((self.folder / out / "summary.json").read_text())["status"], "stopped")


if __name__ == "__main__":
    main(first=("killed_at_random", "folder_that_is_lost", "shard_that_changes"))
