#!/usr/bin/env python3
"""Compares the speed of training a ResNet with Trireme and with PyTorch on this machine's CPU.

    tests/bench/resnet_vs_pytorch.py --bench build/release/bin/resnet_train_bench [--rounds 3] [--model resnet50]

The programs run in turn. PyTorch uses channels-last, once as installed and once with a malloc that keeps freed memory.
Prints milliseconds per step, images/s, the ratio, and Trireme's share of the machine's sgemm rate, which is measured in
the same round (ResNet-50: 3 x 2 x 4.089e9 operations per image of 224 x 224 pixels). Run it on an idle machine.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
PEER = [str(FOLDER.parent / "parity" / "torch_python.sh"), str(FOLDER / "peers" / "resnet_pytorch.py")]
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
AIM = 1.4


def run(command, environment=None):
    done = subprocess.run(command, env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"resnet_vs_pytorch: '{' '.join(command)}' ended with status {done.returncode} {done.stdout}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True, help="path of the program resnet_train_bench")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", default="2")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--pixels", default="224")
    parser.add_argument("--micro-batch", default="16")
    parser.add_argument("--steps", default="2")
    args = parser.parse_args()
    sizes = ["--threads", args.threads, "--model", args.model, "--pixels", args.pixels, "--micro-batch",
             args.micro_batch, "--steps", args.steps]
    contenders = {"trireme": ([args.bench], {}), "pytorch as installed": (PEER, {}),
                  "pytorch, memory kept": (PEER, KEEP_MEMORY)}
    results, sgemm = {name: [] for name in contenders}, []
    for _ in range(args.rounds):
        sgemm.append(run([args.bench, "--sgemm", "--threads", args.threads])["sgemm_gflops"])
        for name, (command, environment) in contenders.items():
            results[name].append(run(command + sizes, environment))
    for name, reports in results.items():
        print(f"{name:<22} {statistics.median(r['step_ms'] for r in reports):9.1f} ms/step"
              f" {statistics.median(r['images_per_s'] for r in reports):7.2f} images/s"
              f"   fastest step {min(r['min_step_ms'] for r in reports):.1f} ms")
    ours = results["trireme"]
    for name in list(contenders)[1:]:
        ratios = sorted(theirs["step_ms"] / mine["step_ms"] for theirs, mine in zip(results[name], ours))
        print(f"{statistics.median(ratios):.2f} x {name} (rounds {ratios[0]:.2f} to {ratios[-1]:.2f}; aim {AIM})")
    if args.model == "resnet50" and args.pixels == "224":
        share = statistics.median(r["images_per_s"] * 6 * 4.089 / rate for r, rate in zip(ours, sgemm))
        print(f"{share:.0%} of the machine's sgemm rate, {statistics.median(sgemm):.0f} GFLOP/s")


if __name__ == "__main__":
    main()
