#!/usr/bin/env python3
"""Tests the scripts of examples/slurm without Slurm: sends the same signals, and replaces scontrol and srun by stubs.

    batch_script_test.py --trireme build/release/bin/trireme --mpiexec mpirun [unittest options]
"""
import os
import signal
import subprocess
import time
from pathlib import Path

from jobs import OPTIONS, JobTest, command, kill_job, main
from supervised import SLOWER, sets

TASKS = "2"
FOLDER = Path(__file__).resolve().parents[2] / "examples" / "slurm"


class BatchScript(JobTest):
    job_state = "RUNNING"
    script = "train.sbatch"
    started_by = "mpirun"  # or srun, for train_gpu.sbatch

    def slice(self, out, *keys):
        """Starts the script in a separate process group, with a stub of scontrol that records its arguments, and one of
        srun that starts ranks by mpirun, which forwards SIGUSR1 as srun does."""
        tools = self.folder / "tools"
        tools.mkdir(exist_ok=True)
        (tools / "scontrol").write_text(f"""#!/bin/sh
case $1 in
  show) echo "JobId=4711 JobState={self.job_state} Reason=None" ;;
  *) echo "$@" >> {self.folder}/scontrol.log ;;
esac
""")
        (tools / "srun").write_text(f"""#!/bin/sh
echo "$@" >> {self.folder}/srun.log
while case $1 in --*) true ;; *) false ;; esac; do shift; done
exec {' '.join(command(int(TASKS))[:-1])} "$@"
""")
        for tool in tools.iterdir():
            tool.chmod(0o755)
        environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "TRIREME": OPTIONS.trireme,
                       "SLURM_JOB_ID": "4711", "SLURM_NTASKS": TASKS, "SLURM_CPUS_PER_TASK": "1",
                       "START": self.started_by}
        of_run = ["--mpirun", OPTIONS.mpiexec], ["--", "--oversubscribe", "--bind-to", "none"]
        before, after = of_run if self.started_by == "mpirun" else ([], [])
        line = ["bash", FOLDER / self.script, self.job, self.folder / out, *before, *sets(*SLOWER, *keys), *after]
        log = open(self.folder / "slice.log", "w")
        self.addCleanup(log.close)
        process = subprocess.Popen([str(word) for word in line], stdout=log, stderr=subprocess.STDOUT, env=environment,
                                   stdin=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(lambda: process.poll() is None and kill_job(process))
        return process

    def output(self):
        return (self.folder / "slice.log").read_text()

    def requeued(self):
        log = self.folder / "scontrol.log"
        return log.read_text().splitlines() if log.exists() else []

    def wait_for_a_step(self, process, out, above):
        deadline = time.time() + 60
        while True:
            self.assertLess(time.time(), deadline, self.output())
            self.assertIsNone(process.poll(), self.output())
            try:
                if max(line.get("step", 0) for line in self.metrics(out)) > above:
                    return
            except (OSError, ValueError):
                pass
            time.sleep(0.005)

    def test_slices_that_a_signal_ends_come_to_the_state_of_one_run(self):
        steps = "train.steps=200"
        above = 0
        for number, sent in enumerate((signal.SIGUSR1, signal.SIGTERM), 1):
            process = self.slice("sliced", steps)
            self.wait_for_a_step(process, "sliced", above)
            process.send_signal(sent)
            self.assertEqual(process.wait(timeout=60), 75, self.output())
            self.assertEqual(self.requeued(), ["requeue 4711"] * number)
            above = max(line.get("step", 0) for line in self.metrics("sliced"))
        self.assertEqual(self.slice("sliced", steps).wait(timeout=120), 0, self.output())
        self.assertEqual(len(self.requeued()), 2, "a job that is done is not queued again")
        self.run_job(0, "whole", *sets(*SLOWER, steps))
        self.assertEqual(self.state("sliced"), self.state("whole"))
        self.assertEqual(self.slice("sliced", steps).wait(timeout=60), 0, "a slice after the end: " + self.output())

    def test_a_slice_whose_ranks_srun_starts_stops_and_goes_on(self):
        self.script, self.started_by = "train_gpu.sbatch", "srun"
        steps = "train.steps=40"
        process = self.slice("srun", steps)
        self.wait_for_a_step(process, "srun", 0)
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(process.wait(timeout=60), 75, self.output())
        self.assertEqual(self.requeued(), ["requeue 4711"])
        self.assertEqual(self.slice("srun", steps).wait(timeout=120), 0, self.output())
        self.assertEqual(len(self.requeued()), 1)
        started = f"--mpi=pmix --cpus-per-task=1 --kill-on-bad-exit=0 {OPTIONS.trireme} train "
        for line in (self.folder / "srun.log").read_text().splitlines():
            self.assertTrue(line.startswith(started), line)
        self.run_job(0, "whole", *sets(*SLOWER, steps))
        self.assertEqual(self.state("srun"), self.state("whole"))

    def test_the_gpu_script_starts_mpirun_by_default(self):
        self.script = "train_gpu.sbatch"
        self.assertEqual(self.slice("gpu", "train.steps=5").wait(timeout=60), 0, self.output())
        self.assertFalse((self.folder / "srun.log").exists())
        self.assertIn("2 rank(s)", self.output())

    def test_a_job_that_its_user_cancels_is_not_queued_again(self):
        self.job_state = "COMPLETING"
        process = self.slice("cancelled", "train.steps=1000000")
        self.wait_for_a_step(process, "cancelled", 0)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=60), 75, self.output())
        self.assertEqual(self.requeued(), [])

    def test_a_job_that_cannot_run_is_not_queued_again(self):
        self.assertEqual(self.slice("bad", "train.micro_batch=3").wait(timeout=60), 2, self.output())
        self.assertEqual(self.requeued(), [])


if __name__ == "__main__":
    main()
