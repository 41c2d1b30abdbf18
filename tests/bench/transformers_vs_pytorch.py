#!/usr/bin/env python3
"""Trains the same GPT-2, Llama, BERT-base, ViT-B/16 and LSTMs with Trireme and with PyTorch on this machine's CPU, and compares.

    tests/bench/transformers_vs_pytorch.py --trireme build/release/bin/trireme --python python3 [--model llama] [--bf16]

The programs take turns, so that whatever else the machine does slows both: `trireme train` on synthetic data, as one rank
of all threads, and peers/transformers_pytorch.py, not compiled and, with --compile, compiled too. In fp32, and with
--bf16 in bf16 as well. Prints milliseconds a step, the ratio of each round, and parameters. Exit code 1 if the numbers
of parameters differ.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

PEER = pathlib.Path(__file__).resolve().parent / "peers" / "transformers_pytorch.py"
AIM = 1.3
BF16_AIM = 1.4  # fp32 steps over bf16 steps, on processors with bf16 instructions

# The settings of the job and of the peer for each model.
MODELS = {
    "gpt": dict(
        about="GPT-2 124M, context 512",
        job=dict(size="124m", seq_len=512, dropout=0.0),
        peer=dict(layers=12, hidden=768, heads=12, context=512, vocab=50257), micro_batch=4),
    "llama": dict(
        about="Llama: 8 layers, 512 wide, 8 heads of which 4 for keys and values, context 256, vocabulary 8192",
        job=dict(layers=8, hidden=512, heads=8, kv_heads=4, ffn=1408, seq_len=256, vocab=8192, tied=False),
        peer=dict(layers=8, hidden=512, heads=8, kv_heads=4, ffn=1408, context=256, vocab=8192), micro_batch=8),
    "bert": dict(
        about="BERT-base, masked language modelling, context 128",
        job=dict(size="base", seq_len=128),
        peer=dict(layers=12, hidden=768, heads=12, context=128, vocab=30522), micro_batch=8),
    "vit": dict(
        about="ViT-B/16, 1000 classes, images of 224 x 224",
        job=dict(size="b"),
        peer=dict(layers=12, hidden=768, heads=12, image_size=224, patch=16, classes=1000), micro_batch=8),
    "lstm-medium": dict(
        about="LSTM: 2 layers of 650 units, 35 steps, vocabulary 10000",
        job=dict(name="lstm", size="ptb-medium"),
        peer=dict(model="lstm", layers=2, hidden=650, context=35, vocab=10000), micro_batch=20),
    "lstm-large": dict(
        about="LSTM: 2 layers of 1500 units, 35 steps, vocabulary 10000",
        job=dict(name="lstm", size="ptb-large"),
        peer=dict(model="lstm", layers=2, hidden=1500, context=35, vocab=10000), micro_batch=20),
}


def toml(sections):
    def value(x):
        return json.dumps(x)
    return "\n".join(f"[{name}]\n" + "\n".join(f"{key} = {value(x)}" for key, x in keys.items())
                     for name, keys in sections.items())


def job_of(name, model, args, precision):
    return toml({
        "model": {"name": name, **model["job"]}, "data": {"kind": "synthetic"},
        "train": {"steps": args.warmup + args.steps, "global_batch": model["micro_batch"],
                  "micro_batch": model["micro_batch"]},
        "optimizer": {"lr": 1e-4, "weight_decay": 0.1, "betas": [0.9, 0.95], "schedule": "constant"},
        "precision": {"mode": precision},
        "parallel": {"threads": args.threads}, "checkpoint": {"resume": "never"}})


def ours(name, model, args, folder, precision):
    (folder / "job.toml").write_text(job_of(name, model, args, precision))
    out = folder / "out"
    done = subprocess.run([args.trireme, "train", folder / "job.toml", "--out", out], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"transformers_vs_pytorch: trireme ended with status {done.returncode}:\n{done.stdout}")
    steps = [json.loads(line)["step_ms"] for line in (out / "metrics.jsonl").read_text().splitlines()]
    summary = json.loads((out / "summary.json").read_text())
    return {"step_ms": statistics.median(steps[args.warmup:]), "parameters": summary["parameters"]}


def theirs(name, model, args, compiled, precision):
    settings = {"model": name, **model["peer"], "micro-batch": model["micro_batch"], "threads": args.threads,
                "steps": args.steps, "warmup": args.warmup, "precision": precision}
    words = [word for key, value in settings.items() for word in ("--" + key.replace("_", "-"), str(value))]
    command = [args.python, str(PEER), *words]
    done = subprocess.run(command + ["--compile"] * compiled, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"transformers_vs_pytorch: {' '.join(command)} ended with status {done.returncode}")
    return json.loads(done.stdout)


def compare(name, args):
    model, rounds = {**MODELS[name]}, []
    model["micro_batch"] = args.micro_batch or model["micro_batch"]
    precisions = ["fp32"] + ["bf16"] * args.bf16
    kinds = ["pytorch"] + ["pytorch, compiled"] * args.compile
    for _ in range(args.rounds):
        rounds.append({})
        for precision in precisions:
            with tempfile.TemporaryDirectory() as folder:
                rounds[-1]["trireme", precision] = ours(name, model, args, pathlib.Path(folder), precision)
            for kind in kinds:
                rounds[-1][kind, precision] = theirs(name, model, args, kind != "pytorch", precision)

    def show_ratio(text, slow, fast, aim):
        ratios = sorted(r[slow]["step_ms"] / r[fast]["step_ms"] for r in rounds)
        print(f"  {text} {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}; aim {aim})", flush=True)

    first = rounds[0]
    peer = first["pytorch", "fp32"]
    print(f"\n{model['about']}; {model['micro_batch']} samples a step, {args.threads} threads; load"
          f" {os.getloadavg()[0]:.1f}; PyTorch {peer['torch']}, AdamW"
          f" {'fused' if peer['fused_adamw'] else 'not fused'}")
    for kind, precision in first:
        median = statistics.median(r[kind, precision]["step_ms"] for r in rounds)
        print(f"  {kind + ' ' + precision:<23} {median:10.1f} ms/step,"
              f" {first[kind, precision]['parameters']} parameters")
    for precision in precisions:
        for kind in kinds:
            show_ratio(f"{precision}: {kind} : trireme", (kind, precision), ("trireme", precision), AIM)
    if args.bf16:
        show_ratio("trireme: fp32 : bf16", ("trireme", "fp32"), ("trireme", "bf16"), BF16_AIM)
    return first["trireme", "fp32"]["parameters"] == peer["parameters"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", required=True)
    parser.add_argument("--python", default="python3", help="a Python with PyTorch")
    parser.add_argument("--model", action="append", choices=MODELS, help="default: all")
    parser.add_argument("--micro-batch", type=int, help="samples a step; default: 8, and 20 of an LSTM")
    for name, value in dict(rounds=3, threads=2, steps=3, warmup=1).items():
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    args = parser.parse_args()
    same = [compare(name, args) for name in args.model or MODELS]
    if not all(same):
        sys.exit("transformers_vs_pytorch: parameters differ, so the times do not compare")


if __name__ == "__main__":
    main()
