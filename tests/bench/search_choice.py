#!/usr/bin/env python3
"""The layout that `trireme plan --search` chooses, beside the fastest of all that can run.

    search_choice.py --program build/release/bin/trireme --cluster here.toml [--only REGEX] [--results choice.json]

`here.toml` describes this machine for four ranks (see step_times.py). Each job has four ranks and a limit of memory
that leaves out some layouts. The search's choice is written down before anything runs. Then every layout is trained
for a few steps; those that do not fit are refused by `trireme train`. The choice, and what came within `--margin`
percent of the fastest, go on: for more steps, and `--rounds` rounds in alternating order. Of each the fastest round
counts, as the median of its steps, so that layouts that are compared were run equally often. What noise made slower
than the margin in its first run is not seen again. Aims at four minutes a job on two cores. Exit code 1: a choice is
more than `--limit` percent slower than the best.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from step_times import BERT, GPT_M, GPT_S, LLAMA, RESNET, VIT, own_job_file

RANKS = 4
JOBS = {  # keys of the job, bytes that a rank may use: between a third and nine tenths of the layouts need more
    "gpt-s": (GPT_S, 30 << 20),
    "gpt-s tight": (GPT_S, 25 << 20),
    "gpt-s bf16": (GPT_S | {"precision.mode": "bf16"}, 19 << 20),
    "gpt-m": (GPT_M, 110 << 20),
    "llama": (LLAMA, 52 << 20),
    "llama bf16": (LLAMA | {"precision.mode": "bf16"}, 50 << 20),
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


def train(arguments, job, scratch, keys, steps):
    """Median milliseconds of `steps` steps after one that is not counted; None where the job is refused."""
    own_job_file(job, keys | {"train.steps": steps + 1, "parallel.oversubscribe": True})
    folder = tempfile.mkdtemp(dir=scratch)
    command = ["mpirun", "-np", RANKS, "--oversubscribe", "--bind-to", "none", arguments.program, "train", job, "--out",
               folder]
    environment = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment)
    if done.returncode == 2:
        return None
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    lines = [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]
    shutil.rmtree(folder)
    return statistics.median([line["step_ms"] for line in lines if "step_ms" in line][1:])


def plan(arguments, job, *more):
    command = [arguments.program, "plan", job, "--cluster", arguments.cluster, "--ranks", RANKS, "--json", *more]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)
    return json.loads(done.stdout)


def chosen(arguments, job):
    best = plan(arguments, job, "--search")["layouts"][0]
    layout = {"parallel.pipeline": best["pipeline"], "parallel.schedule": best["schedule"],
              "parallel.chunks": best["chunks"], "parallel.zero": best["zero"]}
    if best["recompute_every"]:
        layout["parallel.recompute_every"] = best["recompute_every"]
    if best["recompute"] != "none":
        layout["parallel.recompute"] = best["recompute"]
    return layout


def say(text):
    print(text, file=sys.stderr, flush=True)


def compare(arguments, name, keys, limit, scratch, save):
    """The search's choice, the milliseconds of every layout in the first round, of the finalists in the others, and
    what was foreseen of these. `save` gets what is known, and the choice before the rest."""
    common = keys | {"parallel.memory_limit": limit, "parallel.threads": 1}
    job = scratch / "job.toml"
    own_job_file(job, common)
    choice = chosen(arguments, job)
    say(f"{name}: chosen is {name_of(choice)}")
    save({"choice": name_of(choice)})
    every = {name_of(layout): layout for layout in layouts()} | {name_of(choice): choice}
    started, first = time.monotonic(), {}
    for number, (text, layout) in enumerate(every.items(), 1):
        ms = train(arguments, job, scratch, common | layout, arguments.first_steps)
        if ms is not None:
            first[text] = ms
        say(f"{name}: {number} of {len(every)}, {time.monotonic() - started:.0f} s: {text}: "
            + ("refused" if ms is None else f"{ms:.1f} ms"))
    if name_of(choice) not in first:
        raise RuntimeError(f"{name}: the choice was refused: {name_of(choice)}")
    near = min(first.values()) * (1 + arguments.margin / 100)
    finalists = [text for text in sorted(first, key=first.get) if first[text] <= near or text == name_of(choice)]
    final = {}
    for turn in range(arguments.rounds):
        for text in finalists if turn % 2 == 0 else finalists[::-1]:
            ms = train(arguments, job, scratch, common | every[text], arguments.steps)
            final[text] = min(ms, final.get(text, ms))
        best = min(final, key=final.get)
        say(f"{name}: round {turn + 1} of {len(finalists)} finalists, {time.monotonic() - started:.0f} s: the best is "
            f"{best}, {final[best]:.1f} ms; chosen {final[name_of(choice)]:.1f} ms")
    foreseen = {}
    for text in finalists:
        own_job_file(job, common | every[text])
        foreseen[text] = plan(arguments, job)["time"]["step_ms"]
    save({"choice": name_of(choice), "first_ms": first, "steps_ms": final, "foreseen_ms": foreseen})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--first-steps", type=int, default=3)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--margin", type=float, default=15, help="percent")
    parser.add_argument("--limit", type=float, default=5)
    parser.add_argument("--results", type=Path, help="JSON: what was measured, by job; others in it are kept and shown")
    arguments = parser.parse_args()
    found = json.loads(arguments.results.read_text()) if arguments.results and arguments.results.exists() else {}
    for name, (keys, limit) in JOBS.items():
        if not re.search(arguments.only, name):
            continue

        def save(case, name=name):
            found[name] = case
            if arguments.results:
                arguments.results.write_text(json.dumps(found, indent=1) + "\n")

        with tempfile.TemporaryDirectory() as scratch:
            compare(arguments, name, keys, limit, Path(scratch), save)
    worst = 0
    print("| job | layouts | chosen | ms | foreseen | fastest | ms | foreseen | chosen : fastest | place |\n"
          + "| --- " * 10 + "|")
    for name, case in found.items():
        if "steps_ms" not in case:
            continue
        steps_ms, foreseen, choice = case["steps_ms"], case["foreseen_ms"], case["choice"]
        best = min(steps_ms, key=steps_ms.get)
        ratio = steps_ms[choice] / steps_ms[best]
        worst = max(worst, ratio)
        place = sorted(steps_ms.values()).index(steps_ms[choice]) + 1
        print(f"| {name} | {len(case['first_ms'])} | {choice} | {steps_ms[choice]:.1f} | {foreseen[choice]:.1f} | "
              f"{best} | {steps_ms[best]:.1f} | {foreseen[best]:.1f} | {ratio:.3f} | {place} |")
    return 1 if worst > 1 + arguments.limit / 100 else 0


if __name__ == "__main__":
    sys.exit(main())
