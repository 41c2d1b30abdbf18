#!/usr/bin/env python3
"""Trains the same GPT-2 with Trireme and with PyTorch on this machine's CPU, side by side, and compares.

    tests/bench/gpt_vs_pytorch.py --bench build/release/bin/gpt_train_bench [--config nano] [--config 124m]

The programs take turns, so that whatever else the machine does slows both. Trireme runs twice: as one rank of all
threads, and as a rank a thread (ranks are threads of one process, and share the optimizer state) with the same global
batch. PyTorch runs twice: as it is installed, and with the libraries and instruction sets that it is fastest with here,
found by trying. Prints milliseconds a step,
tokens/s, the ratio, and Trireme's share of the machine's sgemm rate, measured in the same round: (6 N + 6 L T C)
operations a token, N the weights of matrix products, the rest causal attention. Idle machines give steady figures.
"""

import argparse
import glob
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
PEER = [str(FOLDER.parent / "parity" / "torch_python.sh"), str(FOLDER / "peers" / "gpt_pytorch.py")]


def sizes(**options):
    return [word for name, value in options.items() for word in ("--" + name.replace("_", "-"), str(value))]


# The bar is what Trireme aims at. `trial` is what PyTorch's environments are compared on.
CONFIGS = {
    "nano": dict(
        about="nanoGPT's CPU recipe: 4 layers, 4 heads, 128 wide, context 64, batch 12, vocabulary 65", bar=3.0,
        model=sizes(layers=4, hidden=128, heads=4, vocab=65, context=64, micro_batch=12), timing=sizes(warmup=10, steps=60),
        trial=sizes(layers=4, hidden=128, heads=4, vocab=65, context=64, micro_batch=12, warmup=10, steps=30)),
    "124m": dict(
        about="GPT-2 124M: fp32, context 512, micro-batch 4, vocabulary 50257", bar=1.6,
        model=sizes(layers=12, hidden=768, heads=12, vocab=50257, context=512, micro_batch=4), timing=sizes(warmup=1, steps=2),
        trial=sizes(layers=1, hidden=768, heads=12, vocab=4096, context=512, micro_batch=4, warmup=1, steps=3)),
}


def run(command, environment=None):
    done = subprocess.run(command, env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"gpt_vs_pytorch: '{' '.join(command)}' ended with status {done.returncode} {done.stdout}")
    return json.loads(done.stdout)


def environments():
    """Ways to run PyTorch. OpenBLAS built with OpenMP shares PyTorch's threads. An OpenBLAS older than the processor
    falls back to AVX2, and PyTorch's own loops use AVX-512 only when told to. The C library gives large blocks back to
    the kernel, which clears the pages anew in every step, unless told otherwise."""
    choices = [[{"LD_LIBRARY_PATH": path} for path in glob.glob("/usr/lib/*/openblas-openmp")],
               [{"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}]]
    if " avx512f " in pathlib.Path("/proc/cpuinfo").read_text():
        choices.append([{"OPENBLAS_CORETYPE": "SkylakeX", "ATEN_CPU_CAPABILITY": "avx512"}])
    for chosen in itertools.product(*([{}] + options for options in choices)):
        yield {name: value for choice in chosen for name, value in choice.items()}


def fastest_environment(config, threads, candidates, repetitions=2):
    """The one with the fastest step of all, as other load only ever adds time."""
    best = {}
    for _, (index, environment) in itertools.product(range(repetitions), enumerate(candidates)):
        step_ms = run(PEER + config["trial"] + threads, environment)["min_step_ms"]
        best[index] = min(step_ms, best.get(index, step_ms))
    return candidates[min(best, key=best.get)]


def without(words, *names):
    """Options as `sizes` gives them, less some."""
    pairs = zip(words[::2], words[1::2])
    return [word for name, value in pairs if name not in names for word in (name, value)]


def own_commands(config, bench, threads):
    """Trireme's layouts by name. A rank a thread wants a micro-batch that divides."""
    layout = {"trireme": [bench] + config["model"] + config["timing"] + sizes(threads=threads)}
    micro_batch = int(config["model"][config["model"].index("--micro-batch") + 1])
    if threads > 1 and micro_batch % threads == 0:
        ranks = sizes(ranks=threads, threads=1, zero=1, micro_batch=micro_batch // threads)
        layout[f"trireme, {threads} ranks"] = ([bench] + without(config["model"], "--micro-batch") +
                                              config["timing"] + ranks)
    return layout


def describe(environment):
    return " ".join(f"{name}={value}" for name, value in environment.items()) or "as installed"


def compare(config, bench, threads, rounds, pinned):
    thread_words = sizes(threads=threads)
    environment = (pinned if pinned is not None
                   else fastest_environment(config, thread_words, list(environments())))
    peer = PEER + config["model"] + config["timing"] + thread_words
    own = own_commands(config, bench, threads)
    peers = {"pytorch at its best": environment, **({"pytorch as installed": {}} if environment else {})}
    print(f"\n{config['about']}\nPyTorch at its best: {describe(environment)}", flush=True)
    results = {name: [] for name in [*own, *peers]}
    sgemm = []
    for _ in range(rounds):
        sgemm.append(run([bench, "--sgemm"] + thread_words)["sgemm_gflops"])
        for name, command in own.items():
            results[name].append(run(command))
        for name, extra in peers.items():
            results[name].append(run(peer, extra))
    for name, reports in results.items():
        step_ms = statistics.median(r["step_ms"] for r in reports)
        print(f"  {name:<22} {step_ms:10.1f} ms/step {reports[0]['tokens_per_step'] * 1e3 / step_ms:10.0f} tokens/s"
              f"   fastest step {min(r['min_step_ms'] for r in reports):.1f} ms")
    for ours, theirs in itertools.product(own, peers):
        ratios = sorted(t["step_ms"] / o["step_ms"] for t, o in zip(results[theirs], results[ours]))
        print(f"  {ours}: {statistics.median(ratios):.2f} x {theirs} (rounds {ratios[0]:.2f} to {ratios[-1]:.2f};"
              f" aim {config['bar']:.1f})")
    for name in own:
        shares = [r["tokens_per_s"] * r["flops_per_token"] / (rate * 1e9) for r, rate in zip(results[name], sgemm)]
        print(f"  {name}: {statistics.median(shares):.0%} of the machine's sgemm rate,"
              f" {statistics.median(sgemm):.0f} GFLOP/s; {results[name][0]['flops_per_token'] / 1e6:.1f} MFLOP a token",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True, help="the program gpt_train_bench")
    parser.add_argument("--config", action="append", choices=CONFIGS, help="default: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--torch-env", nargs="*", metavar="NAME=VALUE",
                        help="PyTorch's environment, in place of trying which is fastest")
    args = parser.parse_args()
    pinned = dict(entry.split("=", 1) for entry in args.torch_env) if args.torch_env is not None else None
    for name in args.config or CONFIGS:
        compare(CONFIGS[name], args.bench, args.threads, args.rounds, pinned)


if __name__ == "__main__":
    main()
