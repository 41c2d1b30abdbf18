#!/usr/bin/env python3
"""Jobs under `trireme run`: whatever ends them, they go on and end with the state of a run that nothing disturbed.

    supervised_jobs_test.py --trireme build/release/bin/trireme --mpiexec mpirun [unittest options]
"""
import json
import os
import signal
import subprocess
import time
from pathlib import Path

from jobs import OPTIONS, JobTest, kill_job, main, processes_below

# Steps of some 30 ms, so that there is time to strike between two.
SLOWER = ("train.steps=40", "checkpoint.every=5", "model.hidden=64", "model.layers=4", "train.global_batch=32")


def sets(*keys):
    return [part for key in keys for part in ("--set", key)]


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Supervised:
    """A `trireme run` in the background, its history and its ranks."""

    def __init__(self, test, out, *more, ranks="2", keys=()):
        self.test, self.out = test, test.folder / out
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        line = [OPTIONS.trireme, "run", test.job, "--out", self.out, "--mpirun", OPTIONS.mpiexec, "--ranks", ranks, *more,
                *sets(*SLOWER, *keys), "--", *root, "--oversubscribe", "--bind-to", "none"]
        self.log = open(test.folder / f"{out}.{time.time_ns()}.log", "w+")
        self.process = subprocess.Popen([str(word) for word in line], stdout=self.log, stderr=subprocess.STDOUT,
                                        stdin=subprocess.DEVNULL, start_new_session=True)
        test.addCleanup(self.clean_up)

    def clean_up(self):
        if self.process.poll() is None:
            kill_job(self.process)
        self.log.close()

    def output(self):
        return Path(self.log.name).read_text()

    def end(self, expect=0, timeout=120):
        code = self.process.wait(timeout=timeout)
        self.test.assertEqual(code, expect, self.output())
        return self.output()

    def events(self, kind=None):
        return [event for event in read_lines(self.out / "supervisor.jsonl") if kind in (None, event["event"])]

    def step(self):
        try:
            lines = (self.out / "metrics.jsonl").read_text().splitlines()
            return json.loads(lines[-1])["step"]
        except (OSError, IndexError, ValueError, KeyError):
            return 0

    def wait_for_step(self, step, attempt=1):
        deadline = time.time() + 60
        while self.step() < step or len(self.events("started")) < attempt:
            self.test.assertLess(time.time(), deadline, self.output())
            self.test.assertIsNone(self.process.poll(), self.output())
            time.sleep(0.005)

    def rank(self, number):
        """The process of a rank of the attempt that runs."""
        for pid in processes_below(int(self.events("started")[-1]["process"].split(".")[0])):
            try:
                variables = Path(f"/proc/{pid}/environ").read_text().split("\0")
            except OSError:
                continue
            if f"OMPI_COMM_WORLD_RANK={number}" in variables:
                return pid
        self.test.fail(f"no rank {number}: {self.output()}")

    def tagged(self):
        """Processes of any attempt that are alive."""
        tags = {f"TRIREME_ATTEMPT={event['tag']}" for event in self.events("begin")}
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and tags & set((entry / "environ").read_text().split("\0")) and is_alive(entry.name):
                    found.append(int(entry.name))
            except OSError:
                pass
        return found


class SupervisedJobs(JobTest):
    _undisturbed = None

    def undisturbed(self):
        """The state at the end of a run that nothing disturbs, on one rank."""
        if SupervisedJobs._undisturbed is None:
            self.run_job(0, "undisturbed", *sets(*SLOWER))
            SupervisedJobs._undisturbed = self.state("undisturbed")
        return SupervisedJobs._undisturbed

    def check(self, run):
        self.assertEqual(self.state(run.out.name), self.undisturbed(), run.output())
        steps = [line["step"] for line in self.metrics(run.out.name) if "loss" in line]
        self.assertEqual(steps, list(range(1, 41)), "every step has one line")
        self.check_that_nothing_is_left(run)

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
                self.assertRegex(ends[0]["verdict"], rf"rank 1 \(process {victim}\) died|process rank 1 with PID", output)
                self.assertGreater(run.events("begin")[1]["first_step"], 5, "it goes on from a checkpoint")
                self.check(run)

    def test_a_rank_that_is_stopped_is_named_by_the_watchdog(self):
        run = Supervised(self, "stopped", keys=(f"parallel.timeout_s={OPTIONS.timeout}",))
        run.wait_for_step(12)
        victim = run.rank(1)
        os.kill(victim, signal.SIGSTOP)
        run.end()
        self.assertRegex(run.events("end")[0]["verdict"], rf"held up .* by rank 1 \(process {victim}, stopped by a signal\)")
        self.check(run)

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
        self.assertRegex(output, r"attempt 1 \(process \d+ on .*\) was left without a supervisor; it was told to stop")
        self.check(second)

    def test_fewer_ranks_when_hosts_lose_slots_and_more_when_they_come_back(self):
        hosts = self.folder / "hosts"
        hosts.write_text("localhost slots=4\n")
        run = Supervised(self, "shrunk", "--hosts", hosts, ranks="2:4", keys=("train.steps=40",))
        run.wait_for_step(12)
        hosts.write_text("localhost slots=3  # which do not divide the batch\n")
        os.kill(run.rank(3), signal.SIGKILL)
        run.wait_for_step(17, attempt=2)
        hosts.write_text("localhost slots=4\n")
        run.end()
        self.assertEqual([event["ranks"] for event in run.events("begin")][:2], [4, 2], run.output())
        self.assertEqual([event["ranks"] for event in run.events("begin")][2:], [4], run.output())
        self.check(run)

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
                                   ("3", (), "no number of ranks from 3 to 3 can run the job.*train.global_batch"),
                                   ("1", ("parallel.pipeline=2",), "no number of ranks.*parallel.pipeline"),
                                   ("1", ("train.stps=3",), "train.steps")):
            with self.subTest(words):
                run = Supervised(self, "refused", ranks=ranks, keys=keys)
                output = run.end(expect=2)
                self.assertRegex(output, words)
                self.assertEqual(run.events("begin"), [])
        self.job = self.folder / "missing.toml"
        self.assertIn("missing.toml", Supervised(self, "refused").end(expect=2))

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
        self.check_that_nothing_is_left(first)


if __name__ == "__main__":
    main()
