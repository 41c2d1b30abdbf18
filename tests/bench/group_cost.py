#!/usr/bin/env python3
"""What tensor chunks cost on one rank: steps of GPT-2 124M in G groups beside those in one, in turn.

    tests/bench/group_cost.py --bench build/release/bin/gpt_train_bench [--groups 8] [--rounds 5] [--micro-batch 4]

Prints tokens a second of each run, medians with their range, and the ratio of each round. Exit code 1 where the median
of the ratios is below --least.
"""
import argparse
import json
import statistics
import subprocess
import sys

MODEL = ("--layers", "12", "--hidden", "768", "--heads", "12", "--vocab", "50257", "--context", "512")


def tokens_per_s(options, groups):
    line = [options.bench, *MODEL, "--micro-batch", str(options.micro_batch), "--threads", str(options.threads),
            "--precision", options.precision, "--steps", str(options.steps), "--warmup", "1",
            "--tensor-chunks", str(groups)]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["tokens_per_s"]


def text(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} .. {max(values):.{digits}f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True, help="the program gpt_train_bench")
    parser.add_argument("--groups", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3, help="that are timed, of each run")
    parser.add_argument("--micro-batch", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--least", type=float, default=0.96)
    options = parser.parse_args()
    one, many = [], []
    for i in range(options.rounds):
        # The order alternates, so that a machine that slows down favours neither.
        order = ((1, one), (options.groups, many))
        for groups, into in order if i % 2 == 0 else reversed(order):
            into.append(tokens_per_s(options, groups))
        print(f"round {i + 1}: {one[-1]:.1f} tokens/s in 1 group, {many[-1]:.1f} in {options.groups}: "
              f"{many[-1] / one[-1]:.4f}", flush=True)
    ratios = [b / a for a, b in zip(one, many)]
    print(f"1 group: {text(one, 1)}; {options.groups} groups: {text(many, 1)}; ratio {text(ratios, 4)}")
    return 0 if statistics.median(ratios) >= options.least else 1


if __name__ == "__main__":
    sys.exit(main())
