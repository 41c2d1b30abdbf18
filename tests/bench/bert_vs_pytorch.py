#!/usr/bin/env python3
"""Trains the same small BERT on a text with Trireme and with PyTorch, two seeds each, and compares the masked losses.

    tests/parity/torch_python.sh tests/bench/bert_vs_pytorch.py --trireme build/release/bin/trireme --text FILE

Each program draws its own weights, windows and masks: bytes in windows of 64, of which 15 % are targets, 80/10/10. All
are evaluated by PyTorch on the windows of the text's last tenth, with the same masks. The means over the seeds may be no
farther apart than the seeds of one program, or than twice the sampling error of their difference. Exit code 1 when they
are.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import torch
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "parity"))
from gpt_parity import build, read_safetensors, train  # noqa: E402

VOCAB, MASK, CONTEXT, BATCH = 257, 256, 64, 32  # bytes and the mask token
SHAPE = {"layers": 2, "hidden": 128, "heads": 2}
OPTIMIZER = {"weight_decay": 0.1, "betas": [0.9, 0.99]}
PEAK, FLOOR, WARMUP = 2e-3, 2e-4, 50

JOB = """
[model]
name = "bert"
layers = {layers}
hidden = {hidden}
heads = {heads}
seq_len = {context}
[data]
train = "text"
eval = "text"
[train]
steps = {steps}
global_batch = {batch}
micro_batch = {batch}
seed = {seed}
[optimizer]
lr = {peak}
min_lr = {floor}
weight_decay = {weight_decay}
betas = {betas}
warmup_steps = {warmup}
grad_clip = 1.0
[parallel]
threads = {threads}
"""


def ours(args, seed, folder):
    job, out = folder / f"{seed}.toml", folder / f"out{seed}"
    job.write_text(JOB.format(**SHAPE, **OPTIMIZER, context=CONTEXT, steps=args.steps, batch=BATCH, seed=seed, peak=PEAK,
                              floor=FLOOR, warmup=WARMUP, threads=args.threads))
    subprocess.run([args.trireme, "train", job, "--out", out], cwd=folder, check=True, capture_output=True)
    checkpoint, = (out / "checkpoints").glob("step-*")
    return read_safetensors(checkpoint / "model.safetensors")


def masked(tokens, generator):
    """Inputs and targets, -1 where a token is none."""
    chosen, kind = (torch.rand(tokens.shape, generator=generator) for _ in range(2))
    noise = torch.randint(0, VOCAB, tokens.shape, generator=generator)
    inputs = torch.where(kind < 0.8, torch.full_like(tokens, MASK), torch.where(kind < 0.9, noise, tokens))
    is_target = chosen < 0.15
    return torch.where(is_target, inputs, tokens), torch.where(is_target, tokens, torch.full_like(tokens, -1))


def initial_weights(generator):
    width, weights = SHAPE["hidden"], {}

    def matrix(name, *shape):
        weights[name] = torch.randn(shape, generator=generator) * 0.02

    def linear(name, out, into):
        matrix(name + ".weight", out, into)
        weights[name + ".bias"] = torch.zeros(out)

    def norm(name):
        weights[name + ".weight"], weights[name + ".bias"] = torch.ones(width), torch.zeros(width)

    for name, rows in (("tokens", VOCAB), ("positions", CONTEXT), ("types", 2)):
        matrix("embedding." + name, rows, width)
    norm("embedding.norm")
    for i in range(SHAPE["layers"]):
        for name, out, into in (("attention.qkv", 3, 1), ("attention.out", 1, 1), ("mlp.up", 4, 1), ("mlp.down", 1, 4)):
            linear(f"blocks.{i}.{name}", out * width, into * width)
        norm(f"blocks.{i}.norm1")
        norm(f"blocks.{i}.norm2")
    linear("head.transform", width, width)
    norm("head.norm")
    weights["head.bias"] = torch.zeros(VOCAB)
    return weights


def config_of(args):
    return {**SHAPE, **OPTIMIZER, "bert": True, "llama": None, "classes": 0, "optimizer": "adamw", "epsilon": 1e-8, "grad_clip": 1.0,
            "micro_batch": BATCH, "peak_lr": PEAK, "floor_lr": FLOOR, "warmup_steps": WARMUP, "total_steps": args.steps}


def theirs(args, seed, training):
    generator = torch.Generator().manual_seed(seed)
    starts = torch.randint(0, len(training) - CONTEXT, (args.steps, BATCH, 1), generator=generator)
    inputs, targets = masked(training[starts + torch.arange(CONTEXT)], generator)
    config = config_of(args)
    model = build(config, initial_weights(generator))
    for _ in train(config, model, inputs, targets):
        pass
    return model.weights


def losses_of(args, weights, evaluation):
    """Of every target, with the same masks for all weights."""
    windows = evaluation[:len(evaluation) // CONTEXT * CONTEXT].view(-1, CONTEXT)
    inputs, targets = masked(windows, torch.Generator().manual_seed(0))
    model = build(config_of(args), weights)
    with torch.no_grad():
        return torch.cat([F.cross_entropy(model.logits(x)[y >= 0], y[y >= 0], reduction="none")
                          for x, y in zip(inputs.split(64), targets.split(64))])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", required=True, type=pathlib.Path)
    parser.add_argument("--text", required=True, type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    args.trireme = args.trireme.resolve()
    torch.set_num_threads(args.threads)
    data = args.text.read_bytes()
    cut = len(data) - len(data) // 10
    training, evaluation = (torch.tensor(list(part)) for part in (data[:cut], data[cut:]))
    reached = {"Trireme": [], "PyTorch": []}
    with tempfile.TemporaryDirectory(prefix="trireme-bert-") as name:
        folder = pathlib.Path(name)
        subprocess.run([args.trireme, "data", "text", args.text.resolve(), "--out", folder / "text"], check=True,
                       capture_output=True)
        for seed in (1, 2):
            reached["Trireme"].append(losses_of(args, ours(args, seed, folder), evaluation))
            reached["PyTorch"].append(losses_of(args, theirs(args, seed, training), evaluation))
            figures = {name: losses[-1].mean().item() for name, losses in reached.items()}
            print(f"seed {seed}: masked loss", ", ".join(f"{x:.4f} of {name}" for name, x in figures.items()), flush=True)
    ours_by_target, theirs_by_target = (torch.stack(losses).mean(0) for losses in reached.values())
    apart = ours_by_target - theirs_by_target
    difference, sampling = abs(apart.mean().item()), 2 * (apart.std() / len(apart) ** 0.5).item()
    spread = max(abs((first - second).mean().item()) for first, second in reached.values())
    print(f"means {difference:.4f} apart; seeds of one are {spread:.4f} apart, sampling {sampling:.4f}")
    if difference > max(spread, sampling):
        sys.exit("the programs differ by more than their seeds do")


if __name__ == "__main__":
    main()
