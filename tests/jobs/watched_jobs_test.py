#!/usr/bin/env python3
"""Ranks that are stopped, killed or aborted at random moments while a job starts and ends: others name them, in time.

    watched_jobs_test.py --trireme build/release/bin/trireme --mpiexec mpirun [--injections 6] [--seed S] [unittest options]
"""
import os
import random
import signal
import subprocess
import time
from collections import Counter, defaultdict
from pathlib import Path

from jobs import OPTIONS, JobTest, command, kill_job, main, processes_below

MARGIN_S = 20  # for mpirun to end the job, on such a machine
RANKS = 3
MEANS = (signal.SIGSTOP, signal.SIGKILL, signal.SIGABRT)


def read(path):
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def ranks_of(process):
    """{rank: process id} of those that mpirun has started so far; what they start themselves comes after them."""
    found = {}
    for pid in processes_below(process.pid):
        for variable in read(f"/proc/{pid}/environ").split("\0"):
            if variable.startswith("OMPI_COMM_WORLD_RANK="):
                found.setdefault(int(variable.split("=")[1]), pid)
    return found


def has_ended(out, late):
    """Its last step; `late`: its last file."""
    if late:
        return (out / "summary.json").exists()
    return '"step":3' in read(out / "metrics.jsonl").replace(" ", "")


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # gone meanwhile


def is_watched(pid):
    """True from the moment when the others can see the rank until it lets go."""
    return "/memfd:trireme-board" in read(f"/proc/{pid}/maps")


def state_of(pid):
    """A letter, as ps shows it; empty: gone."""
    return "".join(read(f"/proc/{pid}/stat").rpartition(")")[2].split()[:1])


def is_alive(pid):
    return state_of(pid) not in ("Z", "")


def wait_until_stopped(pid):
    while is_alive(pid) and state_of(pid) != "T":
        time.sleep(0.0005)


class WatchedJobs(JobTest):
    def start_small_job(self, index, random_numbers):
        """Its process, output folder and layout."""
        out = self.folder / f"out{index}"
        layout = random_numbers.choice(("zero=0", "zero=2", "pipeline=3"))
        line = command(RANKS, "train", self.job, "--out", out, "--set", "train.steps=3", "--set", "train.global_batch=12",
                       "--set", f"parallel.{layout}", "--set", f"parallel.timeout_s={OPTIONS.timeout}")
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   stdin=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(kill_job, process)
        return process, out, layout

    def check_that_all_are_gone(self, pids, what):
        deadline = time.time() + 5
        while any(is_alive(one) for one in pids.values()):
            self.assertLess(time.time(), deadline, f"{what}: a process is left")
            time.sleep(0.01)

    def inject_directly(self, index, random_numbers):
        """One job with a rank that a signal ends in the start, at once. False where the job had ended before."""
        victim, means = random_numbers.randrange(RANKS), random_numbers.choice((signal.SIGKILL, signal.SIGABRT))
        process, out, layout = self.start_small_job(index, random_numbers)
        began = time.time()
        time.sleep(random_numbers.uniform(0, 0.9))
        while victim not in (pids := ranks_of(process)):
            if process.poll() is not None:
                process.communicate()
                return False
        pid, arrived = pids[victim], is_watched(pids[victim])
        runs_our_code = arrived or processes_below(pid) != [pid]  # the process that watches mpirun
        sent = time.time()
        send(pid, means)
        what = f"direct injection {index}: {means.name} to rank {victim} (process {pid}) after {sent - began:.3f} s, {layout}"
        try:
            _, stderr = process.communicate(timeout=OPTIONS.timeout + MARGIN_S)
        except subprocess.TimeoutExpired:
            states = {rank: state_of(one) for rank, one in pids.items()}
            kill_job(process)
            self.fail(f"{what}: the job goes on after {OPTIONS.timeout + MARGIN_S} s, {states}: {process.communicate()}")
        if process.returncode == 0:  # the signal came after the rank's exit: mpirun reports every rank that a signal ends
            self.assertTrue((out / "summary.json").exists(), what)
            return False
        hung = "hangs, although all of its processes have ended" in stderr
        self.times["direct " + means.name].append(time.time() - sent)
        self.assertIn(process.returncode, (1, 128 + means), f"{what}: {stderr}")
        # Named by another rank, or by mpirun if no rank could see it or mpirun was faster. For a process that dies while it
        # is loaded, mpirun may report only that a process ended.
        named = rf"rank {victim} \(process {pid}\) died |process rank {victim} with PID "
        unnamed = "" if runs_our_code else "|Primary job +terminated normally, but 1 process returned"
        self.assertRegex(stderr, named + unnamed, what)
        self.check_that_all_are_gone(pids, what)
        self.phases[("start", "direct " + means.name,
                     ("arrived" if arrived else "before it arrived") + (", mpirun hung and was ended" if hung else ""))] += 1
        return True

    def inject(self, index, moment, means, random_numbers):
        """One job. False where its moment was missed: it had ended, or nobody was left to name the rank."""
        victim = random_numbers.randrange(RANKS)
        process, out, layout = self.start_small_job(index, random_numbers)
        pids = {}
        late = random_numbers.choice((True, False))
        while victim not in pids or (moment == "end" and not has_ended(out, late)):
            if process.poll() is not None:
                process.communicate()
                return False
            pids = ranks_of(process)
        time.sleep(random_numbers.uniform(0, 1.2) if moment == "start" else random_numbers.uniform(0, 0.05))
        pids = ranks_of(process)
        pid = pids.get(victim)
        if pid is None:
            process.communicate(timeout=60)
            return False
        began = time.time()
        send(pid, signal.SIGSTOP)
        wait_until_stopped(pid)
        if not is_alive(pid):  # it had exited
            output = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, output)
            return False
        had_arrived = is_watched(pid)
        time.sleep(0.1)
        others = [one for rank, one in ranks_of(process).items() if rank != victim]
        others_watch = any(is_watched(one) for one in others)
        # A short job may end before the signal that was meant for its start.
        if (moment == "end" or has_ended(out, False)) and not (others_watch and had_arrived):
            send(pid, signal.SIGCONT)
            output = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, output)
            return False
        if means != signal.SIGSTOP:
            send(pid, means)
            send(pid, signal.SIGCONT)
        what = f"injection {index}: {means.name} to rank {victim} (process {pid}) in the {moment}, {layout}"
        try:
            _, stderr = process.communicate(timeout=OPTIONS.timeout + MARGIN_S)
        except subprocess.TimeoutExpired:
            states = {rank: state_of(one) for rank, one in pids.items()}
            kill_job(process)
            self.fail(f"{what}: the job goes on after {OPTIONS.timeout + MARGIN_S} s, {states}: {process.communicate()}")
        self.times[means.name].append(time.time() - began)
        self.assertIn(process.returncode, (1, 128 + means), f"{what}: {stderr}")
        if had_arrived:
            stopped = rf"the job is held up \(parallel.timeout_s = {OPTIONS.timeout}\) by rank {victim} " \
                      rf"\(process {pid}, stopped by a signal\) (in|after|before) "
            died = rf"rank {victim} \(process {pid}\) died (in|after|before) "
            if not others_watch:  # mpirun may end them before they arrive
                died += rf"|process rank {victim} with PID"
            self.assertRegex(stderr, stopped if means == signal.SIGSTOP else died, what)
        elif means == signal.SIGSTOP:
            self.assertRegex(stderr, rf"by process {victim} of this machine .*which has not arrived", what)
        else:
            self.assertRegex(stderr, rf"process rank {victim} with PID", what)  # mpirun's word: nobody else saw it
        self.check_that_all_are_gone(pids, what)
        phase = stderr.partition(" died " if means != signal.SIGSTOP else "stopped by a signal) ")[2].split(",")[0][:60]
        self.phases[(moment, means.name, phase if had_arrived else "before it arrived")] += 1
        return True

    def inject_many(self, inject_one):
        """`inject_one(number of the attempt, how many are done, random numbers)`: whether it came in time."""
        seed = OPTIONS.seed or random.randrange(1 << 30)
        print(f"seed {seed}", flush=True)
        random_numbers = random.Random(seed)
        self.phases, self.times = Counter(), defaultdict(list)
        done = attempts = 0
        while done < OPTIONS.injections:
            attempts += 1
            self.assertLess(attempts, 20 * OPTIONS.injections, "moments are missed again and again")
            done += inject_one(attempts, done, random_numbers)
        for key, count in sorted(self.phases.items()):
            print(count, *key, flush=True)
        print({name: f"at most {max(times):.1f} s" for name, times in self.times.items()}, flush=True)

    def test_who_stops_or_dies_in_the_start_or_the_end_is_named(self):
        self.inject_many(lambda attempt, done, random_numbers: self.inject(
            attempt, ("start", "end")[done // 3 % 2], MEANS[done % 3], random_numbers))

    def test_who_dies_at_any_moment_of_the_start_ends_the_job(self):
        self.inject_many(lambda attempt, done, random_numbers: self.inject_directly(attempt, random_numbers))

    def test_a_rank_that_dies_while_it_connects_to_mpirun_ends_the_job(self):
        """mpirun answers none of them until one is gone: Open MPI 4.1's hangs then, after all of its processes have ended."""
        process = self.start(RANKS, "connecting")
        self.addCleanup(kill_job, process)
        deadline = time.time() + 60
        while len(pids := ranks_of(process)) < RANKS:
            self.assertLess(time.time(), deadline, "the ranks do not come")
        os.kill(process.pid, signal.SIGSTOP)
        while not all(is_watched(pid) for pid in pids.values()):
            self.assertLess(time.time(), deadline, "the ranks do not start")
            time.sleep(0.01)
        time.sleep(0.5)  # for them to wait for mpirun's answer
        os.kill(pids[1], signal.SIGKILL)
        time.sleep(0.05)
        os.kill(process.pid, signal.SIGCONT)
        _, stderr = process.communicate(timeout=MARGIN_S)
        hung = "hangs, although all of its processes have ended" in stderr
        self.assertEqual(process.returncode, 1 if hung else 128 + signal.SIGKILL, stderr)
        self.assertRegex(stderr, rf"rank 1 \(process {pids[1]}\) died in MPI_Init, waiting for others")
        self.check_that_all_are_gone(pids, "connecting")
        print("mpirun hung and was ended" if hung else "mpirun ended by itself", flush=True)

    def test_a_rank_that_never_comes_is_missed(self):
        """It does not even start trireme: the others wait in MPI_Init."""
        line = command(2, "train", self.job, "--out", self.folder / "missed", "--set", f"parallel.timeout_s={OPTIONS.timeout}")
        line += [":", "-np", "1", "sleep", "1000"]
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   stdin=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(kill_job, process)
        _, stderr = process.communicate(timeout=OPTIONS.timeout + MARGIN_S)
        self.assertEqual(process.returncode, 1, stderr)
        self.assertRegex(stderr, rf"held up \(parallel.timeout_s = {OPTIONS.timeout}\) by process 2 of this machine .*has not arrived")
        self.assertRegex(stderr, r"rank 0 .*in MPI_Init")

    def test_the_other_commands_name_a_rank_that_dies_too(self):
        """It waits for a process that never comes, and its peer sees it die before mpirun ends that one as well."""
        for arguments in (("eval", self.folder / "none"), ("doctor",)):
            line = [*command(2, *arguments), ":", "-np", "1", "sleep", "1000"]
            process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       stdin=subprocess.DEVNULL, start_new_session=True)
            self.addCleanup(kill_job, process)
            deadline = time.time() + 60
            while not all(is_watched(ranks_of(process).get(rank)) for rank in (0, 1)):
                self.assertLess(time.time(), deadline, "two ranks do not come")
                time.sleep(0.01)
            time.sleep(0.2)  # for rank 0 to have seen rank 1
            pid = ranks_of(process)[1]
            os.kill(pid, signal.SIGKILL)
            _, stderr = process.communicate(timeout=MARGIN_S)
            self.assertEqual(process.returncode, 128 + signal.SIGKILL, stderr)
            self.assertRegex(stderr, rf"rank 1 \(process {pid}\) died in MPI_Init, waiting for others")


if __name__ == "__main__":
    main()
