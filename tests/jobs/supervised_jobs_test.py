#!/usr/bin/env python3
"""Jobs under `trireme run`: after any failure they continue and reach the state of an undisturbed run.

    supervised_jobs_test.py --trireme build/release/bin/trireme --mpiexec mpirun [unittest options]
"""
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest.mock
from pathlib import Path

from jobs import OPTIONS, JobTest, main
from supervised import SLOWER, SmallDisk, Supervised, is_alive, sets


class SupervisedJobs(JobTest):
    _undisturbed = {}

    def undisturbed(self, steps):
        """The state at the end of a run that nothing disturbs, on one rank."""
        if steps not in SupervisedJobs._undisturbed:
            out = f"undisturbed{steps}"
            self.run_job(0, out, *sets(*SLOWER, f"train.steps={steps}"))
            SupervisedJobs._undisturbed[steps] = self.state(out)
        return SupervisedJobs._undisturbed[steps]

    def check(self, run, steps=40):
        self.assertEqual(self.state(run.out.name), self.undisturbed(steps), run.output())
        lines = [line["step"] for line in self.metrics(run.out.name) if "loss" in line]
        self.assertEqual(lines, list(range(1, steps + 1)), "every step has one line")
        self.check_that_nothing_is_left(run)

    def write_tokens(self, shard, tokens):
        header = struct.pack("<256i", 20240520, 1, len(tokens), *[0] * 253)
        shard.write_bytes(header + struct.pack(f"<{len(tokens)}H", *tokens))

    def check_that_nothing_is_left(self, run):
        self.assertEqual(run.tagged(), [], "processes are left")
        self.assertEqual((run.out / ".supervisor").read_text(), "", "a lease is left")

    def test_a_rank_that_a_signal_ends(self):
        for number in (signal.SIGKILL, signal.SIGSEGV):
            with self.subTest(number.name):
                run = Supervised(self, number.name)
                run.wait_for_step(12)
                victim = run.rank(1)
                os.kill(victim, number)
                output = run.end()
                ends = run.events("end")
                self.assertEqual([end["exit_code"] for end in ends], [128 + number, 0], output)
                self.assertRegex(ends[0]["verdict"], rf"^host \S+: rank 1 \(process {victim}\) died \w+ .*step", output)
                self.assertEqual(run.events("verdict")[0]["what"], ends[0]["verdict"], output)
                self.assertGreater(run.events("begin")[1]["first_step"], 5, "it goes on from a checkpoint")
                self.check(run)

    def test_the_memory_of_the_host_when_the_file_system_is_gone(self):
        for background in ("false", "true"):
            with self.subTest(background=background):
                memory = self.folder / f"memory{background}"
                run = Supervised(self, f"gone{background}", keys=(
                    "checkpoint.partner=true", f"checkpoint.partner_folder={memory}", f"checkpoint.background={background}"))
                run.wait_for_step(12)
                ranks = [run.rank(0), run.rank(1)]
                for rank in ranks:
                    os.kill(rank, signal.SIGKILL)
                while any(is_alive(rank) for rank in ranks):
                    time.sleep(0.01)
                shutil.rmtree(run.out / "checkpoints")  # that nobody writes any more
                output = run.end()
                self.assertRegex(output, r"going on from the checkpoint of step \d+ in the memory of .*has no whole checkpoint")
                self.assertRegex(run.events("memory")[0]["what"], "went on from the checkpoint of step (5|10|15) in the memory of")
                self.check(run)
                self.assertEqual(list(memory.rglob("*.shard")), [], "copies of a run that is done are left")

    def test_each_attempt_searches_its_layout(self):
        run = Supervised(self, "searched", keys=("parallel=auto",))
        run.wait_for_step(12)
        os.kill(run.rank(1), signal.SIGKILL)
        output = run.end()
        self.assertEqual(output.count('parallel.layout = "auto" on 2 ranks: '), 2, output)
        self.check(run)

    def test_a_rank_that_is_stopped_is_named_by_the_watchdog(self):
        run = Supervised(self, "stopped", keys=(f"parallel.timeout_s={OPTIONS.timeout}",))
        run.wait_for_step(12)
        victim = run.rank(1)
        os.kill(victim, signal.SIGSTOP)
        run.end()
        self.assertRegex(run.events("end")[0]["verdict"], rf"held up .* by rank 1 \(process {victim}, stopped by a signal\)")
        self.check(run)

    def test_a_limit_that_is_learned_names_a_stopped_rank_and_lets_saves_and_evaluations_be(self):
        # An evaluation takes longer than the limit, which is known by then.
        shard = self.folder / "tokens.bin"
        numbers = random.Random(7)
        self.write_tokens(shard, [numbers.randrange(64) for _ in range(400_000)])
        data = ("data.kind=tokens", f"data.train={shard}")
        self.run_job(0, "whole", *sets(*SLOWER, *data))
        run = Supervised(self, "learned", keys=(*data, f"data.eval={shard}", "data.allow_eval_in_train=true",
                                               "train.eval_every=20", "parallel.timeout_s=auto"))
        run.wait_for_step(22)
        self.assertEqual(len(run.events("begin")), 1, "an evaluation was taken for a stall")
        victim = run.rank(1)
        os.kill(victim, signal.SIGSTOP)
        run.end()
        self.assertRegex(run.events("end")[0]["verdict"],
                         rf"held up \(parallel.timeout_s = auto: [12]\.\d\d s, learned from steps of up to .*\) "
                         rf"by rank 1 \(process {victim}, stopped by a signal\)")
        self.assertEqual(self.state("learned"), self.state("whole"), run.output())
        self.check_that_nothing_is_left(run)

    def test_a_supervisor_that_is_killed_is_followed_by_another(self):
        first = Supervised(self, "orphan")
        first.wait_for_step(8)
        foreign = subprocess.Popen(["sleep", "600"])
        self.addCleanup(foreign.wait)
        self.addCleanup(foreign.kill)
        orphans = first.tagged()
        first.process.kill()
        first.process.wait()
        self.assertTrue(any(is_alive(pid) for pid in orphans), "the job outlives its supervisor")
        second = Supervised(self, "orphan")
        output = second.end()
        self.assertFalse(any(is_alive(pid) for pid in orphans), output)
        self.assertIsNone(foreign.poll(), "a process of another origin was ended")
        self.assertRegex(output, r"attempt 1 \(process \d+ on .*\) was left without a supervisor; it was asked to stop")
        self.check(second)

    def test_fewer_ranks_when_hosts_lose_slots_and_more_when_they_come_back(self):
        hosts = self.folder / "hosts"
        hosts.write_text("localhost slots=4\n")
        steps = 160  # seconds: the hosts are looked at once in a second
        run = Supervised(self, "shrunk", "--hosts", hosts, ranks="2:4", keys=(f"train.steps={steps}",))
        run.wait_for_step(12)
        hosts.write_text("localhost slots=3  # which do not divide the micro-batches\n")
        os.kill(run.rank(3), signal.SIGKILL)
        run.wait_for_step(17, attempt=2)
        hosts.write_text("localhost slots=4\n")
        run.end()
        self.assertEqual([event["ranks"] for event in run.events("begin")][:2], [4, 3], run.output())
        self.assertEqual([event["ranks"] for event in run.events("begin")][2:], [4], run.output())
        self.check(run, steps)

    def test_a_slice_of_time_ends_with_a_checkpoint_that_goes_on(self):
        first = Supervised(self, "slices", keys=("train.max_minutes=0.04", "train.steps=1000000"))
        output = first.end(expect=75)
        self.assertIn("train.max_minutes = ", output)
        self.assertRegex(output, r"attempt 1: 2 rank\(s\), from step 1; \S+ of train.max_minutes = 0.04 are left")
        self.assertEqual([end["verdict"] for end in first.events("end")], [""], "a planned stop is no failure")
        self.assertEqual(len(first.events("begin")), 1, output)
        step = first.step()
        self.assertGreater(step, 0, output)
        self.assertTrue((first.out / "checkpoints" / f"step-{step:06}").is_dir(), output)
        second = Supervised(self, "slices", keys=(f"train.steps={step + 10}",))
        self.assertNotIn("the checkpoint was made with another train.max_minutes", second.end())
        self.check(second, step + 10)

    def keys_of_strange_data(self):
        """A few tokens without sense, among others that are soon known by heart."""
        shard, numbers = self.folder / "tokens.bin", random.Random(3)
        strange = [numbers.randrange(64) for _ in range(40)]
        self.write_tokens(shard, [token % 16 for token in range(30_000)] + strange + [token % 16 for token in range(30_000)])
        return "data.kind=tokens", f"data.train={shard}", "train.steps=100", "checkpoint.every=10"

    def test_a_spike_of_the_data_is_left_out_on_other_ranks_and_after_a_restart_alike(self):
        keys = (*self.keys_of_strange_data(), "train.on_spike=skip")
        self.run_job(0, "whole", *sets(*SLOWER, *keys))
        left_out = [line["step"] for line in self.metrics("whole") if line.get("skipped")]
        self.assertGreater(len(left_out), 0)
        run = Supervised(self, "left_out", keys=(*keys, "parallel.zero=1"))
        run.wait_for_step(left_out[0] + 1)
        os.kill(run.rank(1), signal.SIGKILL)
        output = run.end()
        self.assertEqual([line["step"] for line in self.metrics("left_out") if line.get("skipped")], left_out, output)
        self.assertRegex(output, rf"step {left_out[0]}: .* is a spike; it is left out: no update")
        self.assertEqual(self.state("left_out"), self.state("whole"), output)
        self.check_that_nothing_is_left(run)

    def test_a_spike_of_the_data_is_rolled_back_once_and_passed_when_it_comes_again(self):
        keys = self.keys_of_strange_data()
        self.run_job(0, "whole", *sets(*SLOWER, *keys))
        run = Supervised(self, "spike", keys=(*keys, "train.on_spike=rollback", "checkpoint.background=true"))
        output = run.end()
        rollbacks = [json.loads(line)["step"] for line in (run.out / "rollbacks.jsonl").read_text().splitlines()]
        self.assertGreater(len(rollbacks), 0, output)
        self.assertEqual(len(rollbacks), len(set(rollbacks)), output)
        self.assertEqual(len(run.events("begin")), 1 + len(rollbacks), output)
        for step, end, begin in zip(rollbacks, run.events("end"), run.events("begin")[1:]):
            self.assertRegex(end["verdict"], rf"step {step}: the (loss|gradient norm) is .* is a spike: rolled back")
            self.assertEqual(begin["first_step"], (step - 1) // 10 * 10 + 1, output)
            self.assertRegex(output, rf"step {step}: .* is a spike; it came again after a rollback")
        self.assertEqual(self.state("spike"), self.state("whole"), output)
        self.check_that_nothing_is_left(run)

    def wait_for_output(self, run, text):
        deadline = time.time() + 60
        while text not in run.output():
            self.assertLess(time.time(), deadline, run.output())
            self.assertIsNone(run.process.poll(), run.output())
            time.sleep(0.05)

    def test_a_disk_that_is_full_for_a_while(self):
        disk = SmallDisk(self, 24)
        run = Supervised(self, "full", disk=disk)
        run.wait_for_step(6)
        disk.fill()
        self.wait_for_output(run, "waiting for the disk, for up to 60 minutes: ")
        self.assertEqual(len(run.events("begin")), 1, run.output())
        disk.make_room()
        output = run.end()
        self.assertIn("the disk takes data again", output)
        self.assertIn("No space left on device", run.events("end")[0]["verdict"])
        self.assertEqual([event["event"] for event in run.events() if event["event"] in ("begin", "end", "restart", "done")],
                         ["begin", "end", "restart", "begin", "end", "done"], output)
        self.assertEqual(json.loads((run.out / "summary.json").read_text())["state_hash"], self.undisturbed(40), output)
        self.check_that_nothing_is_left(run)

    def test_a_disk_that_stays_full(self):
        disk = SmallDisk(self, 24)
        run = Supervised(self, "full", "--max-disk-minutes", "0.05", disk=disk)
        run.wait_for_step(6)
        disk.fill()
        output = run.end(expect=1)
        self.assertRegex(output, r"No space left on device.*; waited 3 s for the disk \(--max-disk-minutes 0\.05\)")
        self.assertIn("attempt 1: 2 rank(s)", output)
        self.assertEqual(len(run.events("begin")), 1, output)
        self.assertEqual(run.tagged(), [], "processes are left")

    def mpirun_of(self, run):
        return int(run.events("started")[-1]["process"].split(".")[0])

    def check_no_files_of_mpirun(self, run):
        left = [path for base in (tempfile.gettempdir(), "/dev/shm")
                for path in Path(base, f"trireme-{os.geteuid()}").glob(f"mpi-{run.process.pid}-*")]
        self.assertEqual(left, [], "files of mpirun are left")

    def test_an_mpirun_that_is_killed_is_named(self):
        run = Supervised(self, "killed")
        run.wait_for_step(12)
        victim = self.mpirun_of(run)
        os.kill(victim, signal.SIGKILL)
        output = run.end()
        self.assertEqual([end["exit_code"] for end in run.events("end")], [137, 0], output)
        self.assertEqual(run.events("end")[0]["verdict"], f"mpirun (process {victim}) was ended by signal 9 (Killed)")
        self.check(run)
        self.check_no_files_of_mpirun(run)

    def test_an_mpirun_that_is_stopped_goes_on(self):
        run = Supervised(self, "stopped")
        run.wait_for_step(3)
        victim = self.mpirun_of(run)
        os.kill(victim, signal.SIGSTOP)
        output = run.end()
        self.assertIn(f"mpirun (process {victim}) was stopped by a signal, and its ranks were not: it is continued", output)
        self.assertEqual([end["exit_code"] for end in run.events("end")], [0], output)
        self.check(run)
        self.check_no_files_of_mpirun(run)

    def test_ctrl_c_ends_all_ranks_as_one(self):
        run = Supervised(self, "interrupted", keys=("train.steps=1000000",))
        run.wait_for_step(6)
        run.process.send_signal(signal.SIGINT)
        output = run.end(expect=75)
        self.assertEqual(run.events("end")[-1]["exit_code"], 75, output)
        self.assertEqual(json.loads((run.out / "summary.json").read_text())["status"], "stopped")
        self.assertRegex(output, r"stopped at step \d+ of 1000000")
        self.assertNotRegex(output, r"mpirun (noticed|detected|has)|non-zero|-{20}")
        self.check_that_nothing_is_left(run)

    def test_a_stopped_job_ends_when_it_is_told_to(self):
        for with_mpirun in (False, True):
            run = Supervised(self, f"paused{with_mpirun}", keys=("train.steps=1000000",))
            run.wait_for_step(6)
            for pid in (run.rank(0), run.rank(1), *([self.mpirun_of(run)] if with_mpirun else [])):
                os.kill(pid, signal.SIGSTOP)
            run.process.send_signal(signal.SIGTERM)
            output = run.end(expect=75)
            self.assertRegex(output, r"\d process\(es\) of the job were stopped by a signal: continued")
            self.assertEqual(run.events("end")[-1]["exit_code"], 75, output)
            self.check_that_nothing_is_left(run)
            self.check_no_files_of_mpirun(run)

    def test_a_step_that_fails_three_times_is_reported(self):
        run = Supervised(self, "hopeless", keys=("optimizer.lr=1e38", "optimizer.grad_clip=0"))
        output = run.end(expect=1)
        self.assertEqual(len(run.events("begin")), 3, output)
        self.assertEqual(len({event["step"] for event in run.events("end")}), 1, output)
        self.assertRegex(output, r"3 attempts in a row ended in step \d+")
        self.assertRegex(output, r"attempt 1: 2 rank\(s\) .*\n.*attempt 2: .*\n.*attempt 3: ")
        self.assertEqual(run.events()[-1]["event"], "gave_up")
        self.check_that_nothing_is_left(run)

    def test_bad_input_is_refused(self):
        for ranks, keys, words in (("4:2", (), "MIN 4 is above MAX 2"), ("two", (), "--ranks two"),
                                   ("17", (), "no number of ranks from 17 to 17 can run the job.*train.global_batch"),
                                   ("1", ("parallel.pipeline=2",), "no number of ranks.*parallel.pipeline"),
                                   ("1", ("train.stps=3",), "train.steps")):
            with self.subTest(words):
                run = Supervised(self, "refused", ranks=ranks, keys=keys)
                output = run.end(expect=2)
                self.assertRegex(output, words)
                self.assertFalse(run.out.exists(), "a folder is left of a refused job")
        self.job = self.folder / "missing.toml"
        self.assertIn("missing.toml", Supervised(self, "refused").end(expect=2))

    def test_hosts_that_cannot_be_used_are_refused_before_step_1(self):
        hosts = self.folder / "hosts"
        hosts.write_text("localhost slots=2\nnowhere.invalid slots=2\n")
        for options, words in ((("--spares", "1"), "--spares 1: spares are hosts of a host file: add --hosts"),
                               (("--hosts", hosts, "--spares", "2"), r"--spares 2: --hosts .* has 2 host\(s\)"),
                               (("--hosts", hosts), r"\n  nowhere\.invalid: ssh: Could not resolve hostname nowhere")):
            with self.subTest(words):
                run = Supervised(self, "refused", *options)
                output = run.end(expect=2)
                self.assertRegex(output, words)
                self.assertEqual(output.count("error: "), 1, output)
                self.assertFalse(run.out.exists(), "a folder is left of a refused job")

    def test_an_mpirun_that_says_that_it_ends_and_does_not_is_killed(self):
        mpirun = self.folder / "mpirun"
        mpirun.write_text("#!/bin/sh\necho MPI_ABORT was invoked on rank 0\nsleep 600\n")  # of a host that is lost
        mpirun.chmod(0o755)
        with unittest.mock.patch.object(OPTIONS, "mpiexec", str(mpirun)):
            run = Supervised(self, "stuck", "--max-restarts", "0")
        self.assertIn("mpirun is still running 6 s after the job's failure: killing it", run.end(expect=1))
        self.assertEqual([end["exit_code"] for end in run.events("end")], [137], run.output())
        self.check_that_nothing_is_left(run)

    def test_what_the_job_refuses_is_not_tried_again(self):
        run = Supervised(self, "refused", keys=('data.kind="tokens"', 'data.train="nowhere"'))
        output = run.end(expect=2)
        self.assertIn("nowhere", output)
        self.assertLessEqual(len(run.events("begin")), 1, output)

    def test_two_supervisors_of_one_folder(self):
        first = Supervised(self, "shared", keys=("train.steps=1000000",))
        first.wait_for_step(3)
        second = Supervised(self, "shared")
        output = second.end(expect=2)
        self.assertRegex(output, rf"another supervisor .*: process {first.process.pid} on {os.uname().nodename}")
        self.assertIsNone(first.process.poll(), "the first goes on")
        first.process.send_signal(signal.SIGTERM)
        first.end(expect=75)
        self.assertEqual(first.events()[-1]["event"], "stopped")
        self.assertEqual([end["verdict"] for end in first.events("end")], [""], "a planned stop is no failure")
        self.check_that_nothing_is_left(first)


if __name__ == "__main__":
    main(first=("fewer_ranks", "rolled_back", "does_not_is_killed", "signal_ends"))
