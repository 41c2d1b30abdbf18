#!/usr/bin/env python3
"""Adapters beside PEFT: trains LoRA adapters here, exports them, and PEFT loads the folder beside the base's.

    torch_python.sh peft_parity.py --trireme PATH/trireme --trace PATH/hf_trace

For GPT-2, Llama, BERT and ViT: transformers saves a model, `trireme train` trains adapters of it (of ViT a new head,
too), `trireme export --format hf --adapters` writes a folder, and PeftModel.from_pretrained() loads it onto the base.
Its logits, and those after merge_and_unload(), are compared with those of the run. Exit code 1 when a figure is out of
bounds or PEFT finds a tensor missing or left over, 77 (skipped) without peft.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile
import warnings

import torch

from gpt_parity import read_safetensors, relative
from hf_parity import BERT, GPT, LLAMA, VIT, Comparison, randomize, run, transformers_library

LOGITS = 1e-5
# Targets, whole names of ours; more keys of [model].
CASES = {
    "gpt2": (GPT, ["*"], ""),
    "gpt2, some": (GPT, ["blocks.1.attention.qkv", "mlp.down"], ""),
    "llama": (LLAMA, ["attention.*", "mlp.gate_up"], ""),
    "llama, rsLoRA": (LLAMA, ["all-linear"], ""),
    "bert": (BERT, ["attention.qkv", "mlp.up"], ""),
    "vit": (VIT, ["*"], ""),
    "vit, new head": (VIT, ["in_proj"], "new_head = true\nclasses = 3\n"),
}

JOB = """
[model]
from = "hf:base"
init_from = "base"
{more}[data]
kind = "synthetic"
[train]
steps = 3
global_batch = 4
micro_batch = 2
lora = {{ rank = 4, alpha = 6, targets = {targets}, rank_stabilized = {stabilized} }}
[optimizer]
lr = 0.05
weight_decay = 0.0
schedule = "constant"
[parallel]
threads = 1
"""


def peft_library():
    os.environ["HF_HUB_OFFLINE"] = "1"  # all that is read lies here
    try:
        import peft
    except ImportError as error:
        print(f"no peft in {sys.executable} ({error}): pip install peft, and set TRIREME_TORCH_PYTHON")
        print("[  SKIPPED ] peft_parity.py (0 ms)\n[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] peft_parity.py")
        sys.exit(77)
    return peft


def compare(case, peft, comparison):
    config, targets, more = CASES[case]
    theirs, folder, args = comparison.theirs, comparison.folder, comparison.args
    comparison.draw_inputs(config)
    model = theirs.build(config)
    randomize(model)
    theirs.save(model, config, folder / "base", torch.float32, 1)
    (folder / "job.toml").write_text(JOB.format(
        targets=json.dumps(targets), more=more, stabilized=json.dumps("rsLoRA" in case)))
    run([args.trireme, "train", "job.toml", "--out", "run"], folder)
    run([args.trireme, "export", "run", "--format", "hf", "--adapters", "--out", "peft"], folder)
    trained = comparison.ours("run")

    base = theirs.load(folder / "base")[0]
    if more:  # of as many classes, as PEFT's users make it: transformers draws that head
        base = type(base).from_pretrained(folder / "base", num_labels=trained.shape[-1], ignore_mismatched_sizes=True).eval()
    before = theirs.logits(base, comparison.inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # of adapters that the model or the folder lacks
        adapted = peft.PeftModel.from_pretrained(base, folder / "peft").eval()
    saved = read_safetensors(folder / "peft" / "adapter_model.safetensors")
    loaded = peft.get_peft_model_state_dict(adapted, save_embedding_layers=False)
    comparison.report.require(saved.keys() == loaded.keys(), f"{case}: {sorted(saved.keys() ^ loaded.keys())}")
    comparison.report.require(all(torch.equal(saved[name], loaded[name]) for name in saved), f"{case}: other values")
    after = theirs.logits(adapted, comparison.inputs)
    comparison.report.require(relative(after, before) > 1e-2, f"{case}: the adapters change nothing")
    comparison.check(f"{case}: PEFT's model, {len(saved)} tensors", trained, after)
    comparison.check(f"{case}: merged by PEFT", trained, theirs.logits(adapted.merge_and_unload(), comparison.inputs))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", required=True, type=pathlib.Path)
    parser.add_argument("--trace", required=True, type=pathlib.Path)
    args = parser.parse_args()
    args.trireme, args.trace = args.trireme.resolve(), args.trace.resolve()
    peft = peft_library()
    torch.set_num_threads(1)  # small matrices
    theirs = transformers_library()
    print(f"PEFT {peft.__version__}, {theirs.name}")
    print(f"{'relative difference':<58} {'reached':>9}  bound")
    failed = False
    for case in CASES:
        with tempfile.TemporaryDirectory(prefix="trireme-parity-") as folder:
            comparison = Comparison(theirs, args, pathlib.Path(folder), bound=LOGITS)
            compare(case, peft, comparison)
            failed |= comparison.report.failed
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
