"""Runs `trireme run` in the background, for tests with faults; gives access to its history, ranks and processes."""
import json
import os
import subprocess
import time
from pathlib import Path

from jobs import OPTIONS, kill_job, processes_below

# Steps take about 30 ms, so that a fault can be injected between two of them.
SLOWER = ("train.steps=40", "checkpoint.every=5", "model.hidden=64", "model.layers=4", "train.global_batch=32")


def sets(*keys):
    return [part for key in keys for part in ("--set", key)]


def read_lines(path):
    """The lines of a JSON file, except one that is incomplete."""
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")] if path.exists() else []


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class SmallDisk:
    """A file system of `megabytes`. Commands that begin with `enter` see it; the test accesses it through `path`. Skips the
    test if this user may not mount it."""

    def __init__(self, test, megabytes):
        self.inside = test.folder / "small"
        self.inside.mkdir()
        user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        mount = f"mount -t tmpfs -o size={megabytes}m tmpfs {self.inside} && echo mounted && exec sleep 600"
        self.keeper = subprocess.Popen(["unshare", "--mount", *user, "sh", "-c", mount], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        test.addCleanup(self.remove)
        if self.keeper.stdout.readline() != b"mounted\n":
            test.skipTest("this user may not mount a small file system")
        as_root = ["env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"]
        self.enter = ["nsenter", f"--target={self.keeper.pid}", "--mount", *(["--user", "--preserve-credentials"] if user else []), *as_root]
        self.path = Path(f"/proc/{self.keeper.pid}/root{self.inside}")

    def remove(self):
        self.keeper.kill()
        self.keeper.wait()
        self.keeper.stdout.close()

    def fill(self):
        with open(self.path / "filler", "wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(bytes(1 << 16))
            except OSError:
                pass  # it is full

    def make_room(self):
        (self.path / "filler").unlink()


class Supervised:
    """A `trireme run` in the background, its history and its ranks.

    `hosts`: hosts of tests/net; the supervisor runs on the first. `mpirun`: additional options of mpirun. `disk`: the
    SmallDisk that contains the output folder."""

    def __init__(self, test, out, *more, ranks="2", keys=(), environment=None, hosts=None, mpirun=(), disk=None):
        self.test, self.out, self.hosts = test, (disk.inside if disk else test.folder) / out, hosts
        of_mpirun = hosts.mpirun_options() if hosts else ["--bind-to", "none"]
        line = [OPTIONS.trireme, "run", test.job, "--out", self.out, "--mpirun", OPTIONS.mpiexec, "--ranks", ranks, *more,
                *sets(*SLOWER, *keys), "--", *of_mpirun, *mpirun]
        if hosts:
            line = hosts.on_host(0, line)  # which becomes the supervisor
        if disk:
            self.out = disk.path / out  # as this process sees it
            line = [*disk.enter, *line]
        self.log = open(test.folder / f"{out}.{time.time_ns()}.log", "w+")
        self.process = subprocess.Popen([str(word) for word in line], stdout=self.log, stderr=subprocess.STDOUT,
                                        stdin=subprocess.DEVNULL, start_new_session=True, env={**os.environ, **(environment or {})})
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
            time.sleep(0.002)

    def on_hosts(self):
        return [pid for host in range(self.hosts.count) for pid in self.hosts.processes(host)]

    def rank(self, number):
        """The process of a rank of the current attempt."""
        mpirun = int(self.events("started")[-1]["process"].split(".")[0])
        for pid in self.on_hosts() if self.hosts else processes_below(mpirun):
            try:
                variables = Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
            except OSError:
                continue
            if f"OMPI_COMM_WORLD_RANK={number}" in variables:
                return pid
        self.test.fail(f"no rank {number}: {self.output()}")

    def tagged(self):
        """Live processes of all attempts; with hosts, all processes except the supervisor."""
        if self.hosts:
            return [pid for pid in self.on_hosts() if pid != self.process.pid]
        tags = {f"TRIREME_ATTEMPT={event['tag']}" for event in self.events("begin")}
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and tags & set((entry / "environ").read_text(errors="replace").split("\0")) and is_alive(entry.name):
                    found.append(int(entry.name))
            except OSError:
                pass
        return found
