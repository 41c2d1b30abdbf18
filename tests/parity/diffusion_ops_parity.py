#!/usr/bin/env python3
"""The ops of diffusion networks beside PyTorch: results and gradients of random inputs.

    torch_python.sh diffusion_ops_parity.py --trace PATH/diffusion_ops_trace

diffusion_ops_trace writes the inputs, results and gradients of each op; PyTorch repeats them in fp32. Exit code 1 when a
figure is out of bounds.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import torch
from torch.nn import functional as F

from gpt_parity import Report, relative


def channels_first(x):
    return x.permute(0, 3, 1, 2)


def channels_last(x):
    return x.permute(0, 2, 3, 1)


def group_norm(x, weight, bias):
    return channels_last(F.group_norm(channels_first(x), 8, weight, bias, 1e-5))


def downsample(x, weight, bias):
    """As diffusers' Downsample2D."""
    return channels_last(F.conv2d(F.pad(channels_first(x), (0, 1, 0, 1)), weight, bias, stride=2))


def cross_attention(q, k, v):
    def heads(x):
        return x.view(x.shape[0], x.shape[1], 3, -1).transpose(1, 2)

    scores = heads(q) @ heads(k).transpose(2, 3) / math.sqrt(q.shape[2] / 3)
    return (scores.softmax(-1) @ heads(v)).transpose(1, 2).reshape(q.shape)


def squared_error(prediction, target):
    weights = torch.tensor([0.5, 1.0, 2.0, 0.25])
    return 0.25 * (weights * F.mse_loss(prediction, target.detach(), reduction="none").mean((1, 2, 3))).sum()


OPS = {
    "group_norm": group_norm,
    "group_norm_silu": lambda x, weight, bias: F.silu(group_norm(x, weight, bias)),
    "downsample": downsample,
    "upsample": lambda x: channels_last(F.interpolate(channels_first(x), scale_factor=2.0, mode="nearest")),
    "concat": lambda a, b: torch.cat([a, b], -1),
    "cross_attention": cross_attention,
    "squared_error": squared_error,
}


def time_embedding(timesteps, dim, cosine_first, shift):
    """Sinusoids of Ho et al. 2020, with the parameters of diffusers' embedding."""
    half = dim // 2
    exponents = -math.log(10000) * torch.arange(half, dtype=torch.float32) / (half - shift)
    angles = torch.tensor(timesteps)[:, None] * exponents.exp()[None]
    parts = [angles.cos(), angles.sin()] if cosine_first else [angles.sin(), angles.cos()]
    return torch.cat(parts, 1)


def tensors(described):
    return [torch.tensor(x["values"]).view(x["shape"]) for x in described or []]


def compare(report, case):
    """Every result and gradient of a case."""
    inputs = [x.requires_grad_() for x in tensors(case.get("inputs"))]
    parameters = [x.requires_grad_() for x in tensors(case.get("parameters"))]
    result = OPS[case["name"]](*inputs, *parameters)
    (seed,) = tensors([case["seed"]])
    (result * seed).sum().backward()
    (ours,) = tensors([case["result"]])
    report.check(f"{case['name']}: result", relative(ours, result.detach()), 1e-5)
    theirs = [x.grad for x in inputs + parameters if x.grad is not None]
    gradients = tensors(case.get("input_gradients")) + tensors(case.get("parameter_gradients"))
    report.require(len(gradients) == len(theirs), f"{case['name']}: {len(gradients)} gradients, not {len(theirs)}")
    for i, (got, expected) in enumerate(zip(gradients, theirs)):
        report.check(f"{case['name']}: gradient {i}", relative(got, expected), 1e-5)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trace.json"
        subprocess.run([arguments.trace, path], check=True)
        trace = json.loads(path.read_text())
    report = Report()
    assert {case["name"] for case in trace["cases"]} == set(OPS)
    for case in trace["cases"]:
        compare(report, case)
    time = trace["time"]
    for name, dim, cosine_first, shift in (("ddpm", 128, False, 1), ("sd", 320, True, 0)):
        ours = torch.tensor(time[name]).view(-1, dim)
        report.check(f"time embedding of {name}",
                     relative(ours, time_embedding(time["timesteps"], dim, cosine_first, shift)), 1e-4)
    sys.exit(1 if report.failed else 0)


if __name__ == "__main__":
    main()
