#!/usr/bin/env python3
"""Steps of one small GPT between hosts whose links are slow: seconds a step, and bytes on each host's wire.

    slow_link.py --trireme build/release/bin/trireme [--rate 100mbit] [--rounds 3] [--steps 8]
    slow_link.py --trireme build/release/bin/trireme --check      a test: few steps on fast links, no time is looked at

Layouts are taken in turn, in rounds, so that what else the machine does affects all of them. Exit code 77, which CTest
counts as skipped, where the machine gives no right to make network namespaces.
"""
import argparse
import json
import shutil
import signal
import statistics
import sys
import tempfile
from pathlib import Path

from hosts import Hosts, Unavailable, run as run_tool

JOB = """
[model]
layers = 4
hidden = 256
heads = 4
vocab = 512
seq_len = 32
[data]
kind = "synthetic"
[train]
global_batch = 8
micro_batch = 1
[optimizer]
lr = 1e-3
schedule = "constant"
warmup_steps = 0
[parallel]
threads = 1
"""
LAYOUTS = {"zero = 0, canonical": ("parallel.zero=0",), "zero = 1, canonical": ("parallel.zero=1",),
           "zero = 0, fast": ("parallel.zero=0", 'parallel.reduction="fast"')}


class Job:
    """Runs on `hosts`."""

    def __init__(self, hosts, trireme, ranks_per_host):
        self.hosts = hosts
        self.trireme = trireme
        self.ranks_per_host = ranks_per_host

    def run(self, keys, steps):
        folder = Path(tempfile.mkdtemp(prefix="trireme-slow-link-"))
        try:
            (folder / "job.toml").write_text(JOB)
            sets = [part for key in (*keys, f"train.steps={steps}") for part in ("--set", key)]
            before = self.hosts.sent_bytes()
            done = self.hosts.mpirun(self.ranks_per_host,
                                     [self.trireme, "train", folder / "job.toml", "--out", folder / "run", *sets])
            if done.returncode != 0:
                raise RuntimeError(f"{keys}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
            sent = [after - start for start, after in zip(before, self.hosts.sent_bytes())]
            lines = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
            summary = json.loads((folder / "run/summary.json").read_text())
            return {"step_s": [line["step_ms"] / 1e3 for line in lines if "step_ms" in line], "sent": sent,
                    "comm_bytes": lines[-1]["comm_bytes"], "hash": summary["state_hash"]}
        finally:
            shutil.rmtree(folder)

    def step_bytes(self, keys, steps):
        """By host, what its wire carries in a step: starting, and the checkpoint at the end, are taken off."""
        short, long = self.run(keys, 1), self.run(keys, 1 + steps)
        return [(b - a) / steps for a, b in zip(short["sent"], long["sent"])], long


def measure(options):
    """The first step of a run, for which the token bucket is full, is not counted."""
    print("| hosts x ranks | layout | seconds a step: median (least .. most) | MB a step on the busiest wire |")
    print("| --- | --- | --- | --- |")
    for count, ranks_per_host in ((4, 1), (2, 2)):
        with Hosts(count, options.rate, options.burst, options.latency) as hosts:
            job = Job(hosts, options.trireme, ranks_per_host)
            seconds = {name: [] for name in LAYOUTS}
            sent = {}
            for _ in range(options.rounds):
                for name, keys in LAYOUTS.items():
                    sent[name], run = job.step_bytes(keys, options.steps)
                    seconds[name] += run["step_s"][1:]
            for name, times in seconds.items():
                print(f"| {count} x {ranks_per_host} | {name} | {statistics.median(times):.2f} ({min(times):.2f} .. "
                      f"{max(times):.2f}) | {max(sent[name]) / 1e6:.1f} |", flush=True)


def check(options):
    """Links without a limit: equal bits on all layouts, and no host sends more than metrics.jsonl records."""
    with Hosts(4) as hosts:
        job = Job(hosts, options.trireme, 1)
        hashes = {}
        for name, keys in LAYOUTS.items():
            sent, run = job.step_bytes(keys, 3)
            if "fast" not in name:
                hashes[name] = run["hash"]
            for host, on_wire in enumerate(sent):
                ratio = on_wire / run["comm_bytes"]
                print(f"{name}: host {host + 1} sends {on_wire:.0f} B a step, {ratio:.3f} of what metrics.jsonl says")
                # Headers and acknowledgements come on top, and the start varies by a few kilobytes. A second copy of
                # anything would add half of the total.
                assert 0.97 <= ratio < 1.15, name
        assert len(set(hashes.values())) == 1, f"the state differs: {hashes}"
    left = [name for name in run_tool("ip", "netns", "list").split() if name.startswith(hosts.prefix)]
    assert not left, f"left behind: {left}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", required=True, type=Path)
    parser.add_argument("--rate", default="100mbit")
    parser.add_argument("--burst", default="128kb")
    parser.add_argument("--latency", default="50ms")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    options.trireme = options.trireme.resolve()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        check(options) if options.check else measure(options)
    except Unavailable as lack:
        # The form in which GoogleTest reports, so that the summary counts and lists it.
        print(f"slow_link.py: Skipped\n{lack}\n[  SKIPPED ] slow_link_check (0 ms)\n"
              "[  SKIPPED ] 1 test, listed below:")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
