#!/usr/bin/env python3
"""Trains an LSTM of characters with Trireme and with PyTorch from the same weights on the same batches, and compares the loss curves.

    torch_python.sh lstm_curve_parity.py --trace PATH/gpt_trace                         a small model, READMEs of this project
    torch_python.sh lstm_curve_parity.py --trace PATH/gpt_trace --text FILE --full      2 x 512 units, 300 steps; minutes
    torch_python.sh lstm_curve_parity.py ... --seeds 11 12 13                           default: 11

Each seed has its own weights and order of samples. Needs torch and numpy. Exit code 1 if a loss of any step differs by
more than 1e-3.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch

from gpt_parity import Report, build, read_safetensors, train

LOSS = 1e-3  # largest difference of a step
ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXTS = ("runtime", "kernels", "parallel", "models", "launcher", "tests", "examples")  # their READMEs


def write_tokens(path, text):
    """A token shard with one token for each byte."""
    header = numpy.zeros(256, dtype="<i4")
    header[:3] = 20240520, 1, len(text)
    path.write_bytes(header.tobytes() + numpy.frombuffer(text, dtype=numpy.uint8).astype("<u2").tobytes())


def compare(args, seed, report):
    case = "lstm_text" if args.full else "lstm_short_text"
    with tempfile.TemporaryDirectory(prefix="trireme-parity-") as folder:
        write_tokens(pathlib.Path(folder) / "train.bin", args.text)
        subprocess.run([args.trace, case, folder, str(seed)], check=True)
        stem = pathlib.Path(folder) / case
        config, tensors = json.loads(stem.with_suffix(".json").read_text()), read_safetensors(stem.with_suffix(".safetensors"))
    model = build(config, {n[len("initial."):]: t for n, t in tensors.items() if n.startswith("initial.")})
    theirs = [loss for _, loss, _, _ in train(config, model, tensors["inputs"], tensors["targets"])]
    ours = [step["loss"] for step in config["steps"]]
    report.require(len(ours) == len(theirs) == (300 if args.full else 100), f"{len(ours)} and {len(theirs)} steps")
    report.require(ours[-1] < 0.8 * ours[0], f"the loss did not fall: {ours[0]} to {ours[-1]}")
    differences = [abs(a - b) for a, b in zip(ours, theirs)]
    last = max(1, len(ours) // 10)
    print(f"seed {seed}: mean loss of the last {last} steps {sum(ours[-last:]) / last:.4f}, PyTorch "
          f"{sum(theirs[-last:]) / last:.4f}")
    report.check(f"seed {seed}: loss of any step (worst: step {differences.index(max(differences)) + 1})",
                 max(differences), LOSS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", required=True, help="the program gpt_trace")
    parser.add_argument("--text", type=pathlib.Path, help="a text file; default: READMEs of this project")
    parser.add_argument("--full", action="store_true", help="2 x 512 units, 300 steps")
    parser.add_argument("--seeds", type=int, nargs="+", default=[11])
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    args.text = args.text.read_bytes() if args.text else b"".join((ROOT / room / "README.md").read_bytes() for room in TEXTS)
    torch.set_num_threads(args.threads)
    print(f"PyTorch {torch.__version__}")
    report = Report()
    for seed in args.seeds:
        compare(args, seed, report)
    if report.failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
