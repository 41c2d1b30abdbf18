#!/usr/bin/env python3
"""What `checkpoint.verify_every` costs a step of the nano job: runs in turns without it and with it.

    verification_cost.py --trireme build/release/bin/trireme [--every 10] [--turns 5] [--steps 300] [--layouts 2,2:1,1]

A layout is a number of ranks, and after a colon a ZeRO stage, whose shards carry checksums. A step's time is that of
the median: with verification (K - 1) / K of the median of the steps in between and 1 / K of that of the steps that
look, so that a disturbance of the machine, which hits few steps, is in none of them. Each turn begins with the other
of the two.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

RECIPE = Path(__file__).parent / "nanogpt_recipe.toml"
WARM = 20  # steps that are left out
SETS = ("data.kind=synthetic", 'data.train=""', 'data.eval=""', "train.eval_every=0", "train.micro_batch=6",
        "optimizer.warmup_steps=0", "parallel.threads=1", "checkpoint.every=0", "log.every=100")


def step_times(options, folder, layout, every):
    ranks, _, zero = layout.partition(":")
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    launch = [options.mpiexec, *root, "--oversubscribe", "--bind-to", "none", "-np", ranks] if ranks != "1" else []
    keys = [*SETS, f"train.steps={options.steps}", f"checkpoint.verify_every={every}", f"parallel.zero={zero or 0}"]
    line = [*launch, options.trireme, "train", RECIPE, "--out", out, *(part for key in keys for part in ("--set", key))]
    done = subprocess.run([str(word) for word in line], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    lines = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    return {line["step"]: line["step_ms"] for line in lines if line.get("step", 0) > WARM and "step_ms" in line}


def ms_of_a_step(times, every):
    if every == 0:
        return statistics.median(times.values()), 0.0
    due = statistics.median(ms for step, ms in times.items() if step % every == 0)
    between = statistics.median(ms for step, ms in times.items() if step % every != 0)
    return between + (due - between) / every, due - between


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", type=Path, required=True)
    parser.add_argument("--mpiexec", default="mpirun")
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--layouts", default="2,2:1,1")
    options = parser.parse_args()
    print(f"checkpoint.verify_every = {options.every}, {options.turns} turns of {options.steps} steps; "
          f"load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        for layout in options.layouts.split(","):
            pairs = []
            for turn in range(options.turns):
                found = {}
                for every in (0, options.every) if turn % 2 == 0 else (options.every, 0):
                    found[every] = ms_of_a_step(step_times(options, Path(folder), layout, every), every)
                pairs.append((found[0][0], *found[options.every]))
            without, with_it, a_look = (statistics.median(column) for column in zip(*pairs))
            costs = sorted(100 * (pair[1] / pair[0] - 1) for pair in pairs)
            print(f"{layout:>4} rank(s): {without:.3f} ms a step, {with_it:.3f} with verification; a look takes "
                  f"{a_look:.3f} ms; cost {statistics.median(costs):+.2f} % ({costs[0]:+.2f} to {costs[-1]:+.2f}), "
                  f"of looks alone {100 * a_look / options.every / without:.2f} %", flush=True)


if __name__ == "__main__":
    main()
