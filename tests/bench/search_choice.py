#!/usr/bin/env python3
"""The layout that `trireme plan --search` chooses, beside the fastest of all that were run.

    search_choice.py --program build/release/bin/trireme --cluster here.toml [--only REGEX] [--results choice.json]

`here.toml` describes this machine for four ranks (see step_times.py). Each job has four ranks and a limit of memory
that leaves out some layouts. Every layout of the search's candidates is trained for a few steps, those that do not fit
are refused by `trireme train`; the median step of the search's choice is divided by the least of all. `--rounds` go
through them in alternating order; of each layout the fastest one counts. Exit code 1: a choice is more than `--limit`
percent slower than the best.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from step_times import BERT, GPT_M, GPT_S, LLAMA, RESNET, VIT, own_job_file

RANKS = 4
JOBS = {  # keys of the job, bytes that a rank may use: between a third and nine tenths of the layouts need more
    "gpt-s": (GPT_S, 30 << 20),
    "gpt-s tight": (GPT_S, 25 << 20),
    "gpt-s bf16": (GPT_S | {"precision.mode": "bf16"}, 19 << 20),
    "gpt-m": (GPT_M, 110 << 20),
    "llama": (LLAMA, 52 << 20),
    "bert": (BERT, 72 << 20),
    "vit": (VIT, 50 << 20),
    "resnet18": (RESNET, 95 << 20),
}


def layouts():
    for pipeline in (1, 2, 4):
        schedules = [("1f1b", 1)] if pipeline == 1 else [("1f1b", 1), ("zb-h1", 1), ("interleaved", 2)]
        for schedule, chunks in schedules:
            for zero in range(4 if pipeline < RANKS else 1):
                for recompute in ({}, {"parallel.recompute": "selective"}, {"parallel.recompute_every": 1}):
                    yield {"parallel.pipeline": pipeline, "parallel.schedule": schedule, "parallel.chunks": chunks,
                           "parallel.zero": zero} | recompute


def name_of(layout):
    return " ".join(f"{key.split('.')[1]}={value}" for key, value in layout.items())


def train(arguments, job, folder):
    """Median milliseconds of a step; None where the job is refused."""
    command = ["mpirun", "-np", RANKS, "--oversubscribe", "--bind-to", "none", arguments.program, "train", job, "--out",
               folder]
    environment = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment)
    if done.returncode == 2:
        return None
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    lines = [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]
    return statistics.median([line["step_ms"] for line in lines if "step_ms" in line][2:])


def chosen(arguments, job):
    command = [arguments.program, "plan", job, "--cluster", arguments.cluster, "--search", "--ranks", RANKS, "--json"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)
    best = json.loads(done.stdout)["layouts"][0]
    layout = {"parallel.pipeline": best["pipeline"], "parallel.schedule": best["schedule"],
              "parallel.chunks": best["chunks"], "parallel.zero": best["zero"]}
    if best["recompute_every"]:
        layout["parallel.recompute_every"] = best["recompute_every"]
    if best["recompute"] != "none":
        layout["parallel.recompute"] = best["recompute"]
    return layout


def compare(arguments, keys, limit, scratch):
    """The search's choice and the milliseconds of every layout that ran."""
    common = keys | {"parallel.memory_limit": limit, "parallel.threads": 1}
    job = scratch / "job.toml"
    own_job_file(job, common)
    choice = chosen(arguments, job)
    every = list(layouts())
    if choice not in every:
        every.append(choice)
    steps_ms, number = {}, 0
    for turn in range(arguments.rounds):
        for layout in every if turn % 2 == 0 else every[::-1]:
            name = name_of(layout)
            if steps_ms.get(name, 0) is None:
                continue
            number += 1
            own_job_file(job, common | layout | {"train.steps": arguments.steps + 2, "parallel.oversubscribe": True})
            ms = train(arguments, job, scratch / f"run{number}")
            steps_ms[name] = ms if ms is None else min(ms, steps_ms.get(name, ms))
    return name_of(choice), {name: ms for name, ms in steps_ms.items() if ms is not None}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--limit", type=float, default=5)
    parser.add_argument("--results", type=Path, help="JSON: what was measured, by job; others in it are kept and shown")
    arguments = parser.parse_args()
    found = json.loads(arguments.results.read_text()) if arguments.results and arguments.results.exists() else {}
    for name, (keys, limit) in JOBS.items():
        if not re.search(arguments.only, name):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            choice, steps_ms = compare(arguments, keys, limit, Path(scratch))
        found[name] = {"choice": choice, "steps_ms": steps_ms}
        if arguments.results:
            arguments.results.write_text(json.dumps(found, indent=1) + "\n")
        print(f"{name}: {len(steps_ms)} layouts ran", file=sys.stderr, flush=True)
    worst = 0
    print("| job | layouts | chosen | ms | fastest | ms | chosen : fastest | place |\n" + "| --- " * 8 + "|")
    for name, case in found.items():
        steps_ms, choice = case["steps_ms"], case["choice"]
        best = min(steps_ms, key=steps_ms.get)
        ratio = steps_ms[choice] / steps_ms[best]
        worst = max(worst, ratio)
        place = sorted(steps_ms.values()).index(steps_ms[choice]) + 1
        print(f"| {name} | {len(steps_ms)} | {choice} | {steps_ms[choice]:.1f} | {best} | {steps_ms[best]:.1f} | "
              f"{ratio:.3f} | {place} |")
    return 1 if worst > 1 + arguments.limit / 100 else 0


if __name__ == "__main__":
    sys.exit(main())
