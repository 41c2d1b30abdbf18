#!/usr/bin/env python3
"""`trireme run --spares` between hosts that die and come back, unattended: the state at the end is that of one rank.

    spare_hosts.py --trireme build/release/bin/trireme [--case two_hosts] [--case bad_input] ...

Exit code 77, which CTest counts as skipped, where the machine gives no right to make network namespaces.
"""
import argparse
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hosts import Hosts, Unavailable

JOB = """
[model]
layers = 4
hidden = 64
heads = 2
vocab = 64
seq_len = 16
dropout = 0.1
[data]
kind = "synthetic"
[train]
steps = 1000000
global_batch = 32
micro_batch = 2
[optimizer]
lr = 1e-2
schedule = "constant"
warmup_steps = 2
[parallel]
threads = 1
timeout_s = 30
[checkpoint]
every = 10
"""


class Run:
    """A `trireme run` on the first host, in the background."""

    def __init__(self, hosts, trireme, folder, slots, *options):
        self.hosts, self.trireme, self.folder, self.out = hosts, trireme, folder, folder / "out"
        self.job, self.host_file = folder / "job.toml", folder / "hosts"
        self.job.write_text(JOB)
        self.host_file.write_text("".join(f"{hosts.address(h)} slots={slots}\n" for h in range(hosts.count)))
        line = [trireme, "run", self.job, "--out", self.out, "--hosts", self.host_file, *options, "--",
                *hosts.mpirun_options()]
        self.log = open(folder / "run.log", "w")
        self.process = subprocess.Popen(hosts.on_host(0, line), stdout=self.log, stderr=subprocess.STDOUT,
                                        stdin=subprocess.DEVNULL, start_new_session=True)

    def output(self):
        return (self.folder / "run.log").read_text()

    def lines(self, name):
        path = self.out / name
        lines = path.read_text().splitlines() if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def events(self, kind):
        return [event for event in self.lines("supervisor.jsonl") if event["event"] == kind]

    def wait(self, condition, what, seconds=60):
        deadline = time.time() + seconds
        while not condition():
            assert self.process.poll() is None, f"it ended before {what}\n{self.output()}"
            assert time.time() < deadline, f"{what} did not come\n{self.output()}"
            time.sleep(0.02)

    def last_step(self):
        return max((line.get("step", 0) for line in self.lines("metrics.jsonl")), default=0)

    def wait_for_steps(self, attempt, after=0):
        """Some more than there were when the attempt began, or step `after` was done."""
        def has_steps():
            begun = self.events("begin")
            return len(begun) == attempt and len(self.events("end")) == attempt - 1 and \
                self.last_step() > max(after, begun[-1]["first_step"]) + 12
        self.wait(has_steps, f"the steps of attempt {attempt}")

    def rank_on(self, host):
        for pid in self.hosts.processes(host):
            if "OMPI_COMM_WORLD_RANK" in Path(f"/proc/{pid}/environ").read_text(errors="replace"):
                return pid
        raise AssertionError(f"no rank on host {host + 1}\n{self.output()}")

    def used(self):
        """The hosts of each attempt, as their numbers."""
        return [[int(name.rsplit(".", 1)[1]) for name in event["hosts"]] for event in self.events("begin")]

    def stop(self):
        """With a checkpoint; returns the step and the state."""
        # The supervisor is the process that unshare and sh have become.
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=60) == 75, self.output()
        summary = json.loads((self.out / "summary.json").read_text())
        steps = [line["step"] for line in self.lines("metrics.jsonl") if "loss" in line]
        assert steps == list(range(1, len(steps) + 1)), "every step has one line"
        return len(steps), summary["state_hash"]

    def state_of_one_rank(self, steps):
        out = self.folder / "one"
        subprocess.run([self.trireme, "train", self.job, "--out", out, "--set", f"train.steps={steps}", "--set",
                        "checkpoint.every=0"], check=True, capture_output=True, timeout=300)
        return json.loads((out / "summary.json").read_text())["state_hash"]

    def check_end(self, used, struck):
        steps, state = self.stop()
        assert self.used() == used, f"{self.used()}, not {used}\n{self.output()}"
        blamed = [event.get("host", "") for event in self.events("end")]
        blamed = [int(name.rsplit(".", 1)[1]) for name in blamed if name]
        assert blamed == struck, f"{blamed}, not {struck}\n{self.output()}"
        left = [pid for host in range(self.hosts.count) for pid in self.hosts.processes(host)]
        assert not left, f"processes are left: {left}"
        assert state == self.state_of_one_rank(steps), f"the state of step {steps} is not that of one rank"
        restarts = [(event["time"], event["what"]) for event in self.lines("supervisor.jsonl") if "what" in event]
        print(f"hosts {used}, struck {struck}: step {steps}, state {state} is that of one rank")
        for when, what in restarts:
            print(f"  {when} {what}")


def two_hosts(options, folder):
    """2 hosts of 2 ranks and a spare: 2 -> 1 -> 2."""
    with Hosts(3) as hosts:
        run = Run(hosts, options.trireme, folder, 2, "--ranks", "2:4", "--spares", "1")
        try:
            run.wait_for_steps(1)
            hosts.set_link(1, "down")
            run.wait_for_steps(2)  # the spare in its place
            hosts.set_link(2, "down")
            run.wait_for_steps(3)  # alone
            hosts.set_link(1, "up")
            run.wait_for_steps(4)
            run.check_end([[1, 2], [1, 3], [1], [1, 2]], [2, 3])
        finally:
            hosts.end_processes()
            run.process.wait()


def partner(options, folder):
    """A lost host, and a lost file system with it: its partner has what it had. 2 hosts -> 2 others -> 1."""
    memory = folder / "memory"
    with Hosts(3) as hosts:
        run = Run(hosts, options.trireme, folder, 2, "--ranks", "2:4", "--spares", "1",
                  "--set", "checkpoint.partner=true", "--set", f"checkpoint.partner_folder={memory}")

        def lose(host):
            for name in ("host1", f"host{host + 1}"):
                run.wait(lambda: list(memory.glob(f"{name}/*/step-*.shard")), f"a copy on {name}")
            hosts.set_link(host, "down")
            shutil.rmtree(memory / f"host{host + 1}")
            shutil.rmtree(run.out / "checkpoints")
            return run.last_step()
        try:
            run.wait_for_steps(1)
            run.wait_for_steps(2, after=lose(1))  # the spare in its place
            run.wait_for_steps(3, after=lose(2))  # alone
            run.check_end([[1, 2], [1, 3], [1]], [2, 3])
            from_memory = [event["what"] for event in run.events("memory")]
            assert len(from_memory) == 2, run.output()
            assert all("in the memory of host1 " in what for what in from_memory), from_memory
        finally:
            hosts.end_processes()
            run.process.wait()


def partner_refused(options, folder):
    """Memory that is full is a warning; a folder that cannot be made is an error that names host and key."""
    with Hosts(2) as hosts:
        (folder / "job.toml").write_text(JOB)
        memory = folder / "memory"
        memory.mkdir()
        keys = ["train.steps=20", "checkpoint.every=5", "checkpoint.partner=true",
                f"checkpoint.partner_folder={memory}"]
        line = [options.trireme, "train", folder / "job.toml", "--out", folder / "out",
                *(part for key in keys for part in ("--set", key))]
        change_agent(hosts, 1, f"mount -t tmpfs -o size=64k none {memory}")
        done = hosts.mpirun(1, line)
        said = r"checkpoint of step 5 was not copied into the memory of hosts: rank 1: host host2: cannot reserve " \
               r".*No space left"
        assert done.returncode == 0 and re.search(said, done.stderr), f"{done.returncode}\n{done.stderr}"
        assert done.stderr.count("was not copied") == 1, done.stderr
        assert not list(memory.rglob("*.shard")), "the copies of a run that is done are left"
        print(re.search(said + ".*", done.stderr).group(0))
    with Hosts(2) as hosts:
        change_agent(hosts, 1, f"mount -t proc none {memory}")
        done = hosts.mpirun(1, [*line[:-1], f"checkpoint.partner_folder={memory}/below"])
        said = r"rank 1: checkpoint\.partner_folder = .* on host host2: "
        assert done.returncode == 2 and re.search(said, done.stderr), f"{done.returncode}\n{done.stderr}"
        print(re.search(said + ".*", done.stderr).group(0))


def four_ranks(options, folder):
    """4 hosts of one rank and a spare: 4 -> 3 -> 4."""
    with Hosts(5) as hosts:
        run = Run(hosts, options.trireme, folder, 1, "--ranks", "2:4", "--spares", "1")
        try:
            run.wait_for_steps(1)
            os.kill(run.rank_on(1), signal.SIGKILL)
            run.wait_for_steps(2)  # the spare in its place
            os.kill(run.rank_on(4), signal.SIGKILL)
            run.wait_for_steps(3)  # others have failed too: the first that struck is as good as they are
            hosts.set_link(4, "down")  # a spare that nobody needs
            hosts.set_link(3, "down")
            run.wait_for_steps(4)
            hosts.set_link(3, "up")
            run.wait_for_steps(5)
            assert [event["ranks"] for event in run.events("begin")] == [4, 4, 4, 3, 4], run.output()
            run.check_end([[1, 2, 3, 4], [1, 3, 4, 5], [1, 2, 3, 4], [1, 2, 3], [1, 2, 3, 4]], [2, 5, 4])
        finally:
            hosts.end_processes()
            run.process.wait()


def silent_host(options, folder):
    """The ranks end the job before mpirun has noticed that a host is silent."""
    with Hosts(3) as hosts:
        run = Run(hosts, options.trireme, folder, 1, "--ranks", "2", "--spares", "1", "--set", "parallel.timeout_s=1")
        try:
            run.wait_for_steps(1)
            hosts.set_link(1, "down")
            run.wait_for_steps(2)
            run.check_end([[1, 2], [1, 3]], [2])
        finally:
            hosts.end_processes()
            run.process.wait()


def refused(run, *words):
    code = run.process.wait(timeout=60)
    output = run.output()
    assert code == 2, f"exit code {code}\n{output}"
    assert output.count("error: ") == 1, output
    for word in words:
        assert re.search(word, output), f"not said: {word}\n{output}"
    assert not run.events("begin"), output
    print(output.strip())


def change_agent(hosts, host, commands):
    """Runs shell commands on the host before mpirun's daemon."""
    text = hosts.agent.read_text()
    address = hosts.address(host).rsplit(".", 1)[1]
    hosts.agent.write_text(text.replace("$*", f"case ${{address##*.}} in {address}) {commands};; esac; $*"))


def bad_input(options, folder):
    def start(name, *more):
        (folder / name).mkdir()
        return Run(hosts, options.trireme, folder / name, 1, "--ranks", "1:2", *more)

    with Hosts(3) as hosts:
        refused(start("too_many_spares", "--spares", "3"), r"--spares 3: .* 3 host\(s\)")
        change_agent(hosts, 2, "export ONEDNN_MAX_CPU_ISA=AVX2")
        refused(start("other_processor", "--spares", "1"),
                r"10\.77\.0\.3: other bits than 10\.77\.0\.1: instruction set x86_64_v3, not x86_64_v4|"
                r"10\.77\.0\.3: other bits than 10\.77\.0\.1: .*instruction set .*, not ")
    with Hosts(3) as hosts:
        # Another file at the program's path, seen by one host alone: a byte of its build id is changed.
        other = folder / "another_program"
        content = bytearray(options.trireme.read_bytes())
        build_id = re.search(r"Build ID: ([0-9a-f]+)", subprocess.run(
            ["readelf", "-n", options.trireme], capture_output=True, text=True, check=True).stdout).group(1)
        at = content.index(bytes.fromhex(build_id))
        content[at] ^= 0xFF
        other.write_bytes(content)
        other.chmod(other.stat().st_mode | stat.S_IXUSR)
        change_agent(hosts, 2, f"mount --bind {other} {options.trireme}")
        changed = bytes(content[at:at + len(build_id) // 2]).hex()
        refused(start("other_build", "--spares", "1"),
                rf"10\.77\.0\.3: other bits than 10\.77\.0\.1: build id {changed}, not {build_id}")
    with Hosts(3) as hosts:
        change_agent(hosts, 1, "echo ssh: connect to host 10.77.0.2 port 22: Connection refused >&2; exit 255")
        change_agent(hosts, 2, "echo Host key verification failed. >&2; exit 255")
        refused(start("cannot_be_reached", "--spares", "1"), r"10\.77\.0\.2: ssh: connect .* Connection refused",
                r"10\.77\.0\.3: Host key verification failed\.")


def own_folders(options, folder):
    """The output folder is another one on each host."""
    with Hosts(2) as hosts:
        private = folder / "private"
        private.mkdir()
        (folder / "job.toml").write_text(JOB)
        change_agent(hosts, 1, f"mount -t tmpfs none {private}")
        line = [options.trireme, "train", folder / "job.toml", "--set", "train.steps=3", "--out", private / "out"]
        done = hosts.mpirun(1, line)
        said = rf"rank 1: checkpoint\.every is above 0, but host host2 does not see what rank 0 writes into {private}"
        assert done.returncode == 2 and re.search(said, done.stderr), f"{done.returncode}\n{done.stderr}"
        assert not (private / "out").exists(), "a folder is left"
        done = hosts.mpirun(1, [*line, "--set", "checkpoint.every=0"])
        assert done.returncode == 0, done.stderr


CASES = {"two_hosts": two_hosts, "four_ranks": four_ranks, "silent_host": silent_host, "bad_input": bad_input,
         "own_folders": own_folders, "partner": partner, "partner_refused": partner_refused}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", required=True, type=Path)
    parser.add_argument("--case", action="append", choices=CASES)
    options = parser.parse_args()
    options.trireme = options.trireme.resolve()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        for case in options.case or CASES:
            start = time.time()
            folder = Path(tempfile.mkdtemp(prefix="trireme-spares-"))
            try:
                CASES[case](options, folder)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            print(f"{case}: as it should be, {time.time() - start:.0f} s", flush=True)
    except Unavailable as lack:
        # The form in which GoogleTest reports, so that the summary counts and lists it.
        print(f"spare_hosts.py: Skipped\n{lack}\n[  SKIPPED ] spare_hosts_check (0 ms)\n"
              "[  SKIPPED ] 1 test, listed below:")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
