#!/usr/bin/env python3
"""The scripts of examples/slurm under a real Slurm of this machine: slices that time limits or signals end come to the
state of one run that nothing interrupts, started by mpirun or by srun.

    slurm_jobs_test.py --trireme build/release/bin/trireme --mpiexec mpirun [unittest options]

Skipped where Slurm is missing or cannot be started.
"""
import os
import re
import time
from pathlib import Path

import slurm
from jobs import OPTIONS, JobTest, main
from supervised import SLOWER, read_lines, sets

SCRIPTS = Path(__file__).resolve().parents[2] / "examples" / "slurm"
# Steps of some 50 ms: slices have few enough for one run to repeat them.
KEYS = tuple(key for key in SLOWER if not key.startswith("train.")) + ("train.global_batch=128", "model.layers=8")
# Slurm limits are in minutes and checked twice a minute: a slice of one minute gets its signal after 15 to 45 s.
SIGNAL_BEFORE_S = 15


class SlurmJobs(JobTest):
    def setUp(self):
        super().setUp()
        try:
            self.slurm = slurm.Slurm(self.folder / "slurm", cpus=2).__enter__()
        except slurm.Unavailable as lack:
            super().tearDown()
            self.skipTest(str(lack))
        # In this order: what is in the folder is in use until the daemons have ended.
        self.addCleanup(lambda: self.assertEqual(self.slurm.processes(), [], "processes are left"))
        self.addCleanup(self.slurm.close)

    def tearDown(self):
        self.slurm.close()
        super().tearDown()

    def submit(self, out, *options, steps=1_000_000, script="train.sbatch", start="mpirun"):
        """The script as it is, on one node with two tasks. The job file says how many steps: a later slice may find
        another number."""
        self.set_steps(steps)
        environment = {"TRIREME": OPTIONS.trireme, "START": start}
        with_mpirun = start == "mpirun"
        if os.geteuid() == 0:
            environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return self.slurm.sbatch("--nodes=1", "--ntasks-per-node=2", "--time=1", f"--output={self.folder}/{out}.log",
                                 *options, SCRIPTS / script, self.job, self.folder / out,
                                 *(("--mpirun", OPTIONS.mpiexec) if with_mpirun else ()), *sets(*KEYS),
                                 *(("--", "--bind-to", "none") if with_mpirun else ()), environment=environment)

    def set_steps(self, steps):
        self.job.write_text(re.sub(r"(?m)^steps = .*", f"steps = {steps}", self.job.read_text()))

    def output(self, out):
        log = self.folder / f"{out}.log"
        return (log.read_text()[-4000:] if log.exists() else "no output") + "\n" + self.slurm.output()

    def wait_for(self, number, out, condition, what, seconds=180):
        """Until `condition` holds of the job's fields."""
        deadline = time.time() + seconds
        while not condition(fields := self.slurm.job(number)):
            in_time = time.time() < deadline and fields.get("JobState") not in ("FAILED", "TIMEOUT", "NODE_FAIL")
            self.assertTrue(in_time, f"{what} did not come: {fields}\n{self.output(out)}")
            time.sleep(0.1)
        return fields

    def wait_for_slice(self, number, out, restarts):
        """Until the slice has ended and the job waits in the queue for the `restarts`th time."""
        self.wait_for(number, out, lambda job: (job.get("JobState"), job.get("Restarts")) == ("PENDING", str(restarts)),
                      f"the end of slice {restarts}")

    def start_again(self, number):
        """Without the two minutes; a node does not take a job again in the second in which it has ended it."""
        self.slurm.ask("scontrol", "update", f"JobId={number}", "StartTime=now+5")

    def step(self, out):
        return max((line.get("step", 0) for line in read_lines(self.folder / out / "metrics.jsonl")), default=0)

    def let_it_end(self, number, out, steps):
        self.set_steps(steps)
        self.start_again(number)
        self.wait_for(number, out, lambda job: job.get("JobState") == "COMPLETED", "the end")

    def check(self, out, steps):
        self.run_job(0, "whole", *sets(*KEYS, f"train.steps={steps}", "checkpoint.every=0"))
        self.assertEqual(self.state(out), self.state("whole"), self.output(out))
        self.assertEqual([line["step"] for line in self.metrics(out) if "loss" in line], list(range(1, steps + 1)))

    def test_a_job_whose_limit_ends_two_slices_comes_to_the_state_of_one_run(self):
        number = self.submit("sliced", f"--signal=B:USR1@{SIGNAL_BEFORE_S}")
        above = 0
        for restarts in (1, 2):
            self.wait_for_slice(number, "sliced", restarts)
            step = self.step("sliced")
            self.assertGreater(step, above, self.output("sliced"))
            self.assertTrue((self.folder / "sliced/checkpoints" / f"step-{step:06}").is_dir(), self.output("sliced"))
            above = step
            if restarts == 1:
                self.start_again(number)
        self.let_it_end(number, "sliced", above + 10)
        self.check("sliced", above + 10)

    def test_a_slice_that_the_limit_itself_ends_goes_on_in_the_next(self):
        # Without a signal before: SIGTERM to every process at once.
        number = self.submit("ended", "--signal=B:USR1@0")
        self.wait_for_slice(number, "ended", 1)
        steps = self.step("ended") + 10
        self.let_it_end(number, "ended", steps)
        self.check("ended", steps)

    def check_signalled_slice(self, start):
        """The script for GPUs, on CPUs: a slice that gets the signal before its limit is queued again."""
        out = f"by-{start}"
        # Slurm's own signal would come at once: two minutes are longer than the limit.
        number = self.submit(out, "--signal=B:USR1@0", "--time=10", "--gpus-per-node=0", "--cpus-per-task=1",
                             script="train_gpu.sbatch", start=start)
        self.wait_for(number, out, lambda job: self.step(out) > 3, "a step")
        self.slurm.ask("scancel", "--batch", "--signal=USR1", number)
        self.wait_for_slice(number, out, 1)
        steps = self.step(out) + 10
        self.let_it_end(number, out, steps)
        self.check(out, steps)

    def test_a_signalled_slice_that_mpirun_started_goes_on_in_the_next(self):
        self.check_signalled_slice("mpirun")

    def test_a_signalled_slice_that_srun_started_goes_on_in_the_next(self):
        if "pmix" not in self.slurm.ask("srun", "--mpi=list"):
            self.skipTest("this Slurm has no PMIx plugin")
        self.check_signalled_slice("srun")

    def test_a_job_that_its_user_cancels_is_not_queued_again(self):
        number = self.submit("cancelled")
        self.wait_for(number, "cancelled", lambda job: self.step("cancelled") > 3, "a step")
        self.slurm.ask("scancel", number)
        goes_on = ("RUNNING", "COMPLETING")
        fields = self.wait_for(number, "cancelled", lambda job: job.get("JobState") not in goes_on, "the end")
        self.assertEqual(fields["JobState"], "CANCELLED", self.output("cancelled"))
        time.sleep(2)
        self.assertEqual(self.slurm.job(number)["Restarts"], "0", self.output("cancelled"))


if __name__ == "__main__":
    main()
