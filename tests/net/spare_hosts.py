#!/usr/bin/env python3
"""`trireme run --spares` between hosts that die and come back, unattended: the state at the end is that of one rank.

    spare_hosts.py --trireme build/release/bin/trireme [--case two_hosts] [--case bad_input] ...

Exit code 77, which CTest counts as skipped, where the machine gives no right to make network namespaces.
"""
import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

from hosts import Hosts, Unavailable

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "jobs"))
from at_once import at_once  # noqa: E402
from jobs import OPTIONS, JobTest  # noqa: E402
from supervised import SLOWER, Supervised, read_lines, sets  # noqa: E402

# As long as it takes: the test stops it.
KEYS = ("train.steps=1000000", "parallel.timeout_s=30", "checkpoint.every=10")


class Run(Supervised):
    """A `trireme run` on the first host, in the background."""

    def __init__(self, case, hosts, slots, *options, ranks, out="out", keys=()):
        super().__init__(case, out, "--hosts", hosts.file(case.folder, slots), *options, ranks=ranks, keys=(*KEYS, *keys),
                         hosts=hosts)

    def wait(self, condition, what, seconds=60):
        deadline = time.time() + seconds
        while not condition():
            assert self.process.poll() is None, f"it ended before {what}\n{self.output()}"
            assert time.time() < deadline, f"{what} did not come\n{self.output()}"
            time.sleep(0.02)

    def last_step(self):
        return max((line.get("step", 0) for line in read_lines(self.out / "metrics.jsonl")), default=0)

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
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=60) == 75, self.output()
        summary = json.loads((self.out / "summary.json").read_text())
        steps = [line["step"] for line in read_lines(self.out / "metrics.jsonl") if "loss" in line]
        assert steps == list(range(1, len(steps) + 1)), "every step has one line"
        return len(steps), summary["state_hash"]

    def state_of_one_rank(self, steps):
        self.test.run_job(0, "one", *sets(*SLOWER, f"train.steps={steps}", "checkpoint.every=0"))
        return self.test.state("one")

    def check_end(self, used, struck):
        steps, state = self.stop()
        assert self.used() == used, f"{self.used()}, not {used}\n{self.output()}"
        blamed = [event.get("host", "") for event in self.events("end")]
        blamed = [int(name.rsplit(".", 1)[1]) for name in blamed if name]
        assert blamed == struck, f"{blamed}, not {struck}\n{self.output()}"
        assert not self.on_hosts(), f"processes are left: {self.on_hosts()}"
        assert state == self.state_of_one_rank(steps), f"the state of step {steps} is not that of one rank"
        restarts = [(event["time"], event["what"]) for event in read_lines(self.out / "supervisor.jsonl") if "what" in event]
        print(f"hosts {used}, struck {struck}: step {steps}, state {state} is that of one rank")
        for when, what in restarts:
            print(f"  {when} {what}")


@contextlib.contextmanager
def a_run(case, num_hosts, slots, *options, **more):
    """`trireme run` with a spare on so many hosts, some steps after its begin."""
    with Hosts(num_hosts) as hosts:
        run = Run(case, hosts, slots, "--spares", "1", *options, **more)
        try:
            run.wait_for_steps(1)
            yield hosts, run
        finally:
            hosts.end_processes()
            run.process.wait()


def two_hosts(case):
    """2 hosts of 2 ranks and a spare: 2 -> 1 -> 2."""
    with a_run(case, 3, 2, ranks="2:4") as (hosts, run):
        hosts.set_link(1, "down")
        run.wait_for_steps(2)  # the spare in its place
        hosts.set_link(2, "down")
        run.wait_for_steps(3)  # alone
        hosts.set_link(1, "up")
        run.wait_for_steps(4)
        run.check_end([[1, 2], [1, 3], [1], [1, 2]], [2, 3])


def four_ranks(case):
    """4 hosts of one rank and a spare: 4 -> 3 -> 4."""
    with a_run(case, 5, 1, ranks="2:4") as (hosts, run):
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


def silent_host(case):
    """The ranks end the job before mpirun has noticed that a host is silent."""
    with a_run(case, 3, 1, ranks="2", keys=("parallel.timeout_s=1",)) as (hosts, run):
        hosts.set_link(1, "down")
        run.wait_for_steps(2)
        run.check_end([[1, 2], [1, 3]], [2])


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


def bad_input(case):
    program = Path(OPTIONS.trireme)

    def start(name, *more):
        return Run(case, hosts, 1, *more, ranks="1:2", out=name)

    with Hosts(3) as hosts:
        refused(start("too_many_spares", "--spares", "3"), r"--spares 3: .* 3 host\(s\)")
        change_agent(hosts, 2, "export ONEDNN_MAX_CPU_ISA=SSE41")
        refused(start("other_processor", "--spares", "1"),
                r"10\.77\.0\.3: other bits than 10\.77\.0\.1: .*instruction set .*, not ")
    with Hosts(3) as hosts:
        # Another file at the program's path, seen by one host alone: a byte of its build id is changed.
        other = case.folder / "another_program"
        content = bytearray(program.read_bytes())
        build_id = re.search(r"Build ID: ([0-9a-f]+)", subprocess.run(
            ["readelf", "-n", program], capture_output=True, text=True, check=True).stdout).group(1)
        at = content.index(bytes.fromhex(build_id))
        content[at] ^= 0xFF
        other.write_bytes(content)
        other.chmod(other.stat().st_mode | stat.S_IXUSR)
        change_agent(hosts, 2, f"mount --bind {other} {program}")
        changed = bytes(content[at:at + len(build_id) // 2]).hex()
        refused(start("other_build", "--spares", "1"),
                rf"10\.77\.0\.3: other bits than 10\.77\.0\.1: build id {changed}, not {build_id}")
    with Hosts(3) as hosts:
        change_agent(hosts, 1, "echo ssh: connect to host 10.77.0.2 port 22: Connection refused >&2; exit 255")
        change_agent(hosts, 2, "echo Host key verification failed. >&2; exit 255")
        refused(start("cannot_be_reached", "--spares", "1"), r"10\.77\.0\.2: ssh: connect .* Connection refused",
                r"10\.77\.0\.3: Host key verification failed\.")


def own_folders(case):
    """The output folder is another one on each host."""
    with Hosts(2) as hosts:
        private = case.folder / "private"
        private.mkdir()
        change_agent(hosts, 1, f"mount -t tmpfs none {private}")
        line = [OPTIONS.trireme, "train", case.job, "--out", private / "out", *sets(*SLOWER, "train.steps=3")]
        done = hosts.mpirun(1, line)
        said = rf"rank 1: host host2 does not see what rank 0 writes into {private}"
        assert done.returncode == 2 and re.search(said, done.stderr), f"{done.returncode}\n{done.stderr}"
        assert not (private / "out").exists(), "a folder is left"


def remove(folder):
    """While somebody may be about to end a file in it."""
    while folder.exists():
        shutil.rmtree(folder, ignore_errors=True)


def partner(case):
    """A lost host, and a lost file system with it: its partner has what it had. 2 hosts -> 2 others -> 1."""
    memory = case.folder / "memory"
    keys = ("checkpoint.partner=true", f"checkpoint.partner_folder={memory}")
    with a_run(case, 3, 2, ranks="2:4", keys=keys) as (hosts, run):
        def lose(host):
            for name in ("host1", f"host{host + 1}"):
                run.wait(lambda: list(memory.glob(f"{name}/*/step-*.shard")), f"a copy on {name}")
            hosts.set_link(host, "down")
            remove(memory / f"host{host + 1}")
            remove(run.out / "checkpoints")
            return run.last_step()
        run.wait_for_steps(2, after=lose(1))  # the spare in its place
        run.wait_for_steps(3, after=lose(2))  # alone
        run.check_end([[1, 2], [1, 3], [1]], [2, 3])
        from_memory = [event["what"] for event in run.events("memory")]
        assert len(from_memory) == 2, run.output()
        assert all("in the memory of host1 " in what for what in from_memory), from_memory


def partner_refused(case):
    """Memory that is full is a warning; a folder that cannot be made is an error that names host and key."""
    memory = case.folder / "memory"
    memory.mkdir()

    def line(folder):
        return [OPTIONS.trireme, "train", case.job, "--out", case.folder / "out",
                *sets(*SLOWER, "train.steps=20", "checkpoint.partner=true", f"checkpoint.partner_folder={folder}")]
    with Hosts(2) as hosts:
        change_agent(hosts, 1, f"mount -t tmpfs -o size=64k none {memory}")
        done = hosts.mpirun(1, line(memory))
        said = r"checkpoint of step 5 was not copied into the memory of hosts: rank 1: host host2: cannot reserve " \
               r".*No space left"
        assert done.returncode == 0 and re.search(said, done.stderr), f"{done.returncode}\n{done.stderr}"
        assert done.stderr.count("was not copied") == 1, done.stderr
        assert not list(memory.rglob("*.shard")), "the copies of a run that is done are left"
    with Hosts(2) as hosts:
        change_agent(hosts, 1, f"mount -t proc none {memory}")
        done = hosts.mpirun(1, line(memory / "below"))
        said = r"rank 1: checkpoint\.partner_folder = .* on host host2: "
        assert done.returncode == 2 and re.search(said, done.stderr), f"{done.returncode}\n{done.stderr}"


CASES = {"two_hosts": two_hosts, "four_ranks": four_ranks, "silent_host": silent_host, "bad_input": bad_input,
         "own_folders": own_folders, "partner": partner, "partner_refused": partner_refused}


def carry_out(name):
    case, begin = JobTest("setUp"), time.time()
    case.setUp()
    try:
        CASES[name](case)
    finally:
        case.doCleanups()
        case.tearDown()
    return f"{name}: as it should be, {time.time() - begin:.0f} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", required=True)
    parser.add_argument("--mpiexec", default="mpirun")
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("--at-once", type=int, default=1, help="cases at a time")
    parser.parse_args(namespace=OPTIONS)
    OPTIONS.trireme = os.path.abspath(OPTIONS.trireme)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        for text in at_once(carry_out, OPTIONS.case or list(CASES), OPTIONS.at_once):
            print(text, flush=True)
    except Unavailable as lack:
        # The form in which GoogleTest reports, so that the summary counts and lists it.
        print(f"spare_hosts.py: Skipped\n{lack}\n[  SKIPPED ] spare_hosts_check (0 ms)\n"
              "[  SKIPPED ] 1 test, listed below:")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
