#!/usr/bin/env python3
"""Trains the same jobs with two builds and compares their bits: what a change of structure must leave alone.

    same_bits.py --old OTHER/bin/trireme --new build/release/bin/trireme [--only REGEX] [--jobs 2] [--keep DIR]

A job's steps are compared by loss, gradient norm, loss scale, evaluation loss and `state_hash`, digit for digit. Where a
change redefines what the hash covers, `--without-hash` compares the rest. Exit code 0: all equal, 1: some differ.
"""
import argparse
import concurrent.futures
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

GPT = {"model.layers": 4, "model.hidden": 24, "model.heads": 2, "model.vocab": 61, "model.seq_len": 12,
       "model.dropout": 0.1, "data.kind": "synthetic", "data.eval": "synthetic", "train.steps": 4, "train.global_batch": 16,
       "train.micro_batch": 2, "train.eval_every": 2, "train.eval_batches": 2, "optimizer.lr": 1e-2,
       "optimizer.schedule": "cosine", "log.state_hash_every": 1, "parallel.threads": 1}
UNTIED = {"model.tied": False}
RESNET = {"model.name": "resnet20", "data.kind": "synthetic", "data.eval": "synthetic", "data.image_size": 8,
          "train.steps": 3, "train.global_batch": 8, "train.micro_batch": 2, "train.eval_every": 3, "train.eval_batches": 1,
          "optimizer.name": "sgd", "optimizer.lr": 1e-1, "log.state_hash_every": 1, "parallel.threads": 1}
CHUNKS = {"model.hidden": 32, "model.heads": 8, "model.tensor_chunks": 8}
MODELS = {"gpt": GPT, "untied": GPT | UNTIED, "chunks": GPT | CHUNKS, "resnet": RESNET}
PRECISIONS = {"fp32": {}, "tf32": {"precision.mode": "tf32"}, "bf16": {"precision.mode": "bf16"},
              "fp16": {"precision.mode": "fp16", "precision.scale_init": 2.0 ** 18},
              "fp16-grad": {"precision.mode": "fp16", "precision.grad_dtype": "fp16"}}
OPTIMIZERS = {"adamw": {"optimizer.name": "adamw", "optimizer.weight_decay": 0.1},
              "sgd": {"optimizer.name": "sgd", "optimizer.grad_clip": 0.0}}
LAYOUTS = {  # ranks, keys of [parallel]
    "one": (1, {}),
    "data2": (2, {}),
    "data3": (3, {"micro": True}),
    "zero1": (2, {"zero": 1}),
    "zero2": (4, {"zero": 2}),
    "zero3": (2, {"zero": 3, "prefetch_depth": 2}),
    "recompute": (2, {"zero": 3, "recompute_every": 2}),
    "merged": (2, {"zero": 2, "group_min_bytes": 20000, "accumulate_unsharded": True}),
    "gpipe": (2, {"pipeline": 2, "schedule": "gpipe"}),
    "1f1b": (4, {"pipeline": 2, "zero": 1}),
    "interleaved": (2, {"pipeline": 2, "schedule": "interleaved", "chunks": 2, "recompute_every": 1}),
    "zb-h1": (4, {"pipeline": 2, "schedule": "zb-h1", "zero": 2}),
    "fast": (2, {"reduction": "fast"}),
    "fast-zero1": (2, {"reduction": "fast", "zero": 1}),
}
COMPARED = ("loss", "grad_norm", "loss_scale", "skipped", "eval_loss", "eval_top1")


def cases():
    """Every layout with gpt in fp32, and every model x precision on layouts taken in turn; optimizers alternate."""
    layouts = itertools.cycle(LAYOUTS)
    optimizers = itertools.cycle(OPTIMIZERS)
    chosen = [("gpt", "fp32", layout) for layout in LAYOUTS]
    for model, precision in itertools.product(MODELS, PRECISIONS):
        if (model, precision) != ("gpt", "fp32"):
            chosen += [(model, precision, next(layouts)) for _ in range(3)]
    for model, precision, layout in chosen:
        ranks, parallel = LAYOUTS[layout]
        keys = MODELS[model] | PRECISIONS[precision]
        if model != "resnet":
            keys = keys | OPTIMIZERS[next(optimizers)]
        if parallel.get("micro"):  # three ranks want a batch that they divide
            keys = keys | {"train.global_batch": 6 * keys["train.micro_batch"]}
        if parallel.get("reduction") == "fast" and "grad" in precision:
            continue  # 16-bit gradients want the canonical sum
        keys = keys | {f"parallel.{key}": value for key, value in parallel.items() if key != "micro"}
        yield f"{model}-{precision}-{layout}", ranks, keys


def train(binary, ranks, keys, folder, mpirun):
    folder.mkdir(parents=True)
    (folder / "job.toml").write_text("\n".join(f"{key} = {json.dumps(value)}" for key, value in keys.items()) + "\n")
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    start = [mpirun, *root, "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", "-np", str(ranks)]
    done = subprocess.run([*(start if ranks > 1 else []), binary, "train", "job.toml", "--out", "out"], cwd=folder,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        return f"exit code {done.returncode}: {done.stderr.strip()[-300:]}"
    lines = [json.loads(line) for line in (folder / "out/metrics.jsonl").read_text().splitlines()]
    return lines + [json.loads((folder / "out/summary.json").read_text())]


def difference(old, new, fields):
    """The first difference in words, or None. A job that both builds refuse compares nothing, and is a difference."""
    for side, result in (("old", old), ("new", new)):
        if isinstance(result, str):
            return f"{side}: {result}"
    if len(old) != len(new):
        return f"{len(old)} lines of metrics became {len(new)}"
    for before, after in zip(old, new):
        for field in fields:
            if before.get(field) != after.get(field):
                return f"step {before.get('step', 'last')}: {field} {before.get(field)} became {after.get(field)}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", required=True, type=lambda path: str(Path(path).resolve(strict=True)))
    parser.add_argument("--new", required=True, type=lambda path: str(Path(path).resolve(strict=True)))
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--only", default="", help="a regular expression of job names")
    parser.add_argument("--jobs", type=int, default=2, help="jobs that run at the same time")
    parser.add_argument("--keep", type=Path, help="keep the runs in this folder, which must not exist")
    parser.add_argument("--without-hash", action="store_true")
    options = parser.parse_args()
    fields = COMPARED if options.without_hash else (*COMPARED, "state_hash")
    chosen = [case for case in cases() if re.search(options.only, case[0])]
    with tempfile.TemporaryDirectory() as temporary, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        root = options.keep or Path(temporary)

        def compare(case):
            name, ranks, keys = case
            old, new = (train(binary, ranks, keys, root / name / side, options.mpirun)
                        for side, binary in (("old", options.old), ("new", options.new)))
            return name, difference(old, new, fields)

        differing = 0
        for name, found in pool.map(compare, chosen):
            differing += found is not None
            print(f"{name}: {found or 'equal'}", flush=True)
    print(f"{len(chosen)} jobs, {differing} differ")
    return 1 if differing or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
