#!/usr/bin/env python3
"""Step times foreseen from a description of this machine, beside measured ones.

    trireme doctor --measure here.toml
    for N in 2 4; do mpirun -np $N --oversubscribe --bind-to none trireme doctor --measure here.toml; done
    step_times.py --program build/release/bin/trireme --cluster here.toml [--only REGEX] [--list] [--markdown]
                  [--part 1/4] [--results steps.json [--again]]

Each job is planned with `trireme plan --cluster` and trained for a few steps on synthetic data. Measured is the median
step after two that are not counted, as metrics.jsonl has it. No job has a shape of the models that `doctor --measure`
runs. Jobs of more ranks than cores are left out unless `--oversubscribe`. `--part` runs a part of the jobs;
`--results` adds what was measured to a file and shows all that it has: of several runs of a job the fastest. `--again`
foresees the jobs of that file anew and runs none, `--skip-known` runs those that it lacks. Exit code 1: a job failed, or the median error is above `--limit` percent.
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

SYNTHETIC = {"data.kind": "synthetic", "log.every": 1, "optimizer.schedule": "constant"}
GPT_S = SYNTHETIC | {"model.name": "gpt", "model.layers": 4, "model.hidden": 192, "model.heads": 6, "model.vocab": 1000,
                     "model.seq_len": 96, "train.global_batch": 16, "train.micro_batch": 4}
GPT_M = SYNTHETIC | {"model.name": "gpt", "model.layers": 6, "model.hidden": 384, "model.heads": 6, "model.vocab": 3000,
                     "model.seq_len": 160, "train.global_batch": 8, "train.micro_batch": 2}
LLAMA = SYNTHETIC | {"model.name": "llama", "model.layers": 4, "model.hidden": 320, "model.heads": 5, "model.ffn": 864,
                     "model.vocab": 2000, "model.seq_len": 128, "train.global_batch": 8, "train.micro_batch": 2}
VIT = SYNTHETIC | {"model.name": "vit", "model.layers": 4, "model.hidden": 256, "model.heads": 4, "model.ffn": 1024,
                   "model.patch": 8, "model.image_size": 96, "data.image_size": 96, "model.classes": 20,
                   "train.global_batch": 16, "train.micro_batch": 4}
RESNET = SYNTHETIC | {"model.name": "resnet18", "data.image_size": 48, "model.classes": 20, "optimizer.name": "sgd",
                      "train.global_batch": 16, "train.micro_batch": 4}
BERT = SYNTHETIC | {"model.name": "bert", "model.layers": 4, "model.hidden": 320, "model.heads": 5, "model.vocab": 2500,
                    "model.seq_len": 112, "train.global_batch": 16, "train.micro_batch": 4}
RESNET50 = RESNET | {"model.name": "resnet50", "train.global_batch": 8, "train.micro_batch": 4}
MODELS = {"gpt-s": GPT_S, "gpt-m": GPT_M, "llama": LLAMA, "bert": BERT, "vit": VIT, "resnet18": RESNET, "resnet50": RESNET50}
PRECISIONS = ["fp32", "bf16", "fp16", "tf32"]
LAYOUTS = {  # ranks, keys of [parallel]
    "data2": (2, {}),
    "zero1": (2, {"zero": 1}),
    "zero2": (2, {"zero": 2}),
    "zero3": (2, {"zero": 3}),
    "gpipe": (2, {"pipeline": 2, "schedule": "gpipe"}),
    "1f1b": (2, {"pipeline": 2}),
    "data4": (4, {}),
    "1f1b-data2": (4, {"pipeline": 2}),
    "zero3-4": (4, {"zero": 3}),
    "tensor2": (2, {"tensor": 2}),  # of layers in two tensor chunks
}


def cases():
    """name -> (ranks, keys)"""
    jobs = {}
    for model, keys in MODELS.items():
        for precision in PRECISIONS if model == "gpt-s" else ["fp32", "bf16"]:
            jobs[f"{model} {precision}"] = (1, keys | {"precision.mode": precision})
        jobs[f"{model} recompute"] = (1, keys | {"parallel.recompute_every": 1})
        half = keys["train.micro_batch"] // 2
        jobs[f"{model} micro-batch {half}"] = (1, keys | {"train.micro_batch": half})
        for layout, (ranks, parallel) in LAYOUTS.items():
            if ranks > 2 and model not in ("gpt-s", "bert", "vit"):
                continue
            if model.startswith("resnet") and layout in ("gpipe", "zero2"):
                continue
            if "tensor" in parallel and keys.get("model.heads", 1) % parallel["tensor"] != 0:
                continue
            chunks = {"model.tensor_chunks": parallel["tensor"]} if "tensor" in parallel else {}
            jobs[f"{model} {layout}"] = (ranks, keys | chunks | {f"parallel.{key}": value for key, value in parallel.items()})
    return jobs


def sets(keys):
    words = []
    for key, value in keys.items():
        words += ["--set", f"{key}={json.dumps(value) if isinstance(value, bool) else value}"]
    return words


def run(command, **kwargs):
    done = subprocess.run(command, capture_output=True, text=True, **kwargs)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def predicted(arguments, job, ranks, keys, threads):
    command = [arguments.program, "plan", job, "--ranks", ranks, "--cluster", arguments.cluster, "--json",
               "--set", f"parallel.threads={threads}"]
    return json.loads(run([str(word) for word in command + sets(keys)]))["time"]


def own_job_file(job, keys):
    """A job file of its own: keys of one family are refused with another one's name."""
    sections = {}
    for key, value in keys.items():
        section, name_of_key = key.split(".")
        sections.setdefault(section, {})[name_of_key] = value
    lines = []
    for section, part in sections.items():
        lines += [f"[{section}]"] + [f"{key} = {json.dumps(value)}" for key, value in part.items()]
    job.write_text("\n".join(lines) + "\n")


def measured(arguments, job, ranks, keys, threads, folder):
    keys = keys | {"train.steps": arguments.steps + 2, "parallel.threads": threads}
    if ranks > arguments.cores:
        keys |= {"parallel.oversubscribe": True}
    train = [arguments.program, "train", job, "--out", folder] + sets(keys)
    if ranks > 1:
        train = ["mpirun", "-np", ranks, "--oversubscribe", "--bind-to", "none"] + train
    environment = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    run([str(word) for word in train], env=environment)
    lines = [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]
    times = [line["step_ms"] for line in lines if "step_ms" in line][2:]
    return statistics.median(times)


def table(rows, markdown):
    header = ["job", "ranks", "predicted ms", "measured ms", "error %"]
    lines = [header] + [[n, str(r), f"{p:.2f}", f"{m:.2f}", f"{100 * (p / m - 1):+.1f}"] for n, r, p, m in rows]
    if markdown:
        lines.insert(1, ["---"] * len(header))
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return "\n".join(f"{line[0]:<26}{line[1]:>6}" + "".join(f"{cell:>14}" for cell in line[2:]) for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--cluster")
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    parser.add_argument("--oversubscribe", action="store_true")
    parser.add_argument("--limit", type=float, default=float("inf"))
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--part", default="1/1", help="K/N: every N-th job, from the K-th on")
    parser.add_argument("--results", type=Path, help="JSON: measured medians of steps by job")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--skip-known", action="store_true")
    arguments = parser.parse_args()
    chosen = {name: case for name, case in cases().items() if re.search(arguments.only, name)}
    if not arguments.oversubscribe:
        chosen = {name: case for name, case in chosen.items() if case[0] <= arguments.cores}
    part, parts = map(int, arguments.part.split("/"))
    chosen = dict(list(chosen.items())[part - 1::parts])
    if arguments.list:
        print("\n".join(chosen))
        return 0
    steps_ms = {}
    if arguments.results and arguments.results.exists():
        steps_ms = json.loads(arguments.results.read_text())
    if arguments.again or arguments.skip_known:
        chosen = {name: case for name, case in chosen.items() if name not in steps_ms and not arguments.again}
    shown = list(chosen)
    rows, failed = [], []
    with tempfile.TemporaryDirectory() as scratch:
        job = Path(scratch) / "job.toml"
        for number, name in enumerate(shown + [name for name in steps_ms if name not in shown]):
            ranks, keys = cases()[name]
            threads = max(1, arguments.cores // ranks)
            own_job_file(job, keys)
            try:
                if name in chosen:
                    took = measured(arguments, job, ranks, {}, threads, Path(scratch) / f"run{number}")
                    steps_ms.setdefault(name, []).append(took)
                    print(f"{name}: {took:.2f} measured", file=sys.stderr, flush=True)
                    if arguments.results:
                        arguments.results.write_text(json.dumps(steps_ms, indent=1) + "\n")
                foreseen = predicted(arguments, job, ranks, {}, threads)["step_ms"]
                rows.append((name, ranks, foreseen, min(steps_ms[name])))
            except RuntimeError as error:
                failed.append(name)
                print(f"{name}: {error}", file=sys.stderr, flush=True)
    if not rows:
        return 1
    print(table(rows, arguments.markdown))
    errors = [abs(p / m - 1) for _, _, p, m in rows]
    worst = max(rows, key=lambda row: abs(row[2] / row[3] - 1))
    print(f"\n{len(rows)} jobs, absolute error: median {100 * statistics.median(errors):.1f} %, mean "
          f"{100 * statistics.mean(errors):.1f} %, worst {100 * max(errors):.1f} % ({worst[0]})")
    for name, (ranks, _) in chosen.items():
        if ranks > arguments.cores:
            print(f"{name}: {ranks} ranks on {arguments.cores} cores, oversubscribed")
    return 1 if failed or 100 * statistics.median(errors) > arguments.limit else 0


if __name__ == "__main__":
    sys.exit(main())
