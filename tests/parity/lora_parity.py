#!/usr/bin/env python3
"""LoRA beside PyTorch: trains adapters of a GPT-2 and a Llama here and there, and loads what was exported.

    torch_python.sh lora_parity.py --trireme PATH/trireme --trace PATH/hf_trace

A model is saved as transformers does it, `trireme train` trains adapters of it by SGD on one sample, and PyTorch does
the same with layers as PEFT has them, written by us from the paper: y = x W^T + (alpha / r) (x A^T) B^T. Compared are
the gradients of step 1 (of B; A's are zero then, so that A is still as it was drawn), all adapters after three steps,
the logits of the adapted model, of the model that loads the merged folder, and of the one that loads PEFT's. Exit code
1 when a figure is out of bounds.
"""

import argparse
import json
import pathlib
import struct
import tempfile

import torch
from torch import nn
from torch.nn import functional as F

from gpt_parity import Report, read_safetensors, relative
from hf_models import Modules
from hf_parity import GPT, LLAMA, SGD_JOB, randomize, run
from resnet_parity import write_safetensors

RANK, ALPHA, RATE, TOKENS = 4, 6.0, 0.5, 24
# Our targets, which of their layers share A there: the parts of packed weights, and our tensor chunks.
PACKED = (("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), ("mlp.gate_proj", "mlp.up_proj"))
CASES = {"gpt2": (GPT, ["*"], (), 1),
         "gpt2_chunks": (GPT, ["*"], (), 4),
         "llama": (LLAMA, ["attention.qkv", "attention.out", "mlp.*"], PACKED, 1),
         "llama_chunks": (LLAMA, ["attention.qkv", "attention.out", "mlp.*"], PACKED, 2)}
PREFIX = "base_model.model."

LORA = "lora = {{ rank = {rank}, alpha = {alpha}, targets = {targets} }}"


class Adapted(nn.Module):
    """A linear layer and its adapter."""

    def __init__(self, layer, a, b):
        super().__init__()
        self.layer, self.a, self.b = layer, a, b

    def forward(self, x):
        return self.layer(x) + ALPHA / RANK * F.linear(F.linear(x, self.a), self.b)


def group_of(layer, shared):
    """The name of a layer's A."""
    for parts in shared:
        for part in parts:
            if layer.endswith("." + part):
                return layer[:-len(part)] + parts[0]
    return layer


def adapt(model, tensors, layers, shared, zero_b):
    """Puts the adapters of PEFT's folder into the model, whose other parameters are frozen. Returns them by name."""
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    matrices = {}
    for layer in layers:
        a, b = tensors[PREFIX + layer + ".lora_A.weight"], tensors[PREFIX + layer + ".lora_B.weight"]
        group = group_of(layer, shared)
        if group + ".A" in matrices:
            assert torch.equal(matrices[group + ".A"], a), layer
        else:
            matrices[group + ".A"] = nn.Parameter(a.clone())
        matrices[layer + ".B"] = nn.Parameter(torch.zeros_like(b) if zero_b else b.clone())
        parent, child = layer.rsplit(".", 1)
        siblings = model.get_submodule(parent)._modules
        siblings[child] = Adapted(siblings[child], matrices[group + ".A"], matrices[layer + ".B"])
    return matrices


def sgd_step(model, matrices, tokens):
    loss = F.cross_entropy(model(tokens[:, :-1].long()).flatten(0, 1), tokens[:, 1:].long().flatten())
    loss.backward()
    with torch.no_grad():
        for matrix in matrices.values():
            matrix -= RATE * matrix.grad
            matrix.grad = None


class Case:
    def __init__(self, name, args, folder):
        self.name, self.args, self.folder, self.report = name, args, folder, Report()
        self.config, self.targets, self.shared, self.chunks = CASES[name]

    def train(self, steps):
        """Our run of `steps` steps, and its adapters from PEFT's folder."""
        lora = LORA.format(rank=RANK, alpha=ALPHA, targets=json.dumps(self.targets))
        (self.folder / "job.toml").write_text(SGD_JOB.format(folder="base", steps=steps, rate=RATE, more=lora))
        run([self.args.trireme, "train", "job.toml", "--out", f"run-{steps}",
             "--set", f"model.tensor_chunks={self.chunks}"], self.folder)
        run([self.args.trireme, "export", f"run-{steps}", "--format", "hf", "--adapters", "--out", f"peft-{steps}"],
            self.folder)
        config = json.loads((self.folder / f"peft-{steps}" / "adapter_config.json").read_text())
        says = {"r": RANK, "lora_alpha": ALPHA, "task_type": "CAUSAL_LM", "peft_type": "LORA"}
        self.report.require(says.items() <= config.items(), f"adapter_config.json: {config}")
        return read_safetensors(self.folder / f"peft-{steps}" / "adapter_model.safetensors"), config["target_modules"]

    def check(self, what, ours, theirs, bound):
        self.report.require(ours.shape == theirs.shape, f"{what}: {ours.shape} {theirs.shape}")
        self.report.check(f"{self.name}: {what}", relative(ours, theirs), bound)

    def check_adapters(self, what, tensors, layers, matrices, bound, kinds, start):
        """Compares the change of the adapters since `start`, where B was zero."""
        worst = {kind: 0.0 for kind in kinds}
        for layer in layers:
            for kind in kinds:
                name = (group_of(layer, self.shared) if kind == "A" else layer) + "." + kind
                key = f"{PREFIX}{layer}.lora_{kind}.weight"
                before = start[key] if kind == "A" else torch.zeros_like(start[key])
                worst[kind] = max(worst[kind], relative(tensors[key] - before, matrices[name].detach() - before))
        for kind, figure in worst.items():
            self.report.check(f"{self.name}: {what} of {kind}, the worst of {len(layers)}", figure, bound)

    def compare(self):
        model = Modules.build(self.config)
        randomize(model)
        Modules.save(model, self.config, self.folder / "base", torch.float32, 1)
        tokens = torch.randint(0, self.config["vocab_size"], (1, TOKENS + 1),
                               generator=torch.Generator().manual_seed(3), dtype=torch.int32)
        header = struct.pack("<256i", 20240520, 1, TOKENS + 1, *[0] * 253)
        (self.folder / "tokens.bin").write_bytes(header + struct.pack(f"<{TOKENS + 1}H", *tokens[0].tolist()))

        first, layers = self.train(1)
        last, _ = self.train(3)
        matrices = adapt(model, first, layers, self.shared, zero_b=True)
        sgd_step(model, matrices, tokens)
        # B began at zero: what it is after a step is its gradient, but for the rate.
        self.check_adapters("gradient of step 1", first, layers, matrices, 1e-3, "B", first)
        for _ in range(2):
            sgd_step(model, matrices, tokens)
        self.check_adapters("three steps' change", last, layers, matrices, 1e-3, "AB", first)

        write_safetensors(self.folder / "inputs.safetensors", {"tokens": tokens[:, :-1].contiguous()})
        run([self.args.trace, "run-3", "inputs.safetensors", "logits.safetensors"], self.folder)
        ours = read_safetensors(self.folder / "logits.safetensors")["logits"]
        self.check("logits after step 3", ours, Modules.logits(model, tokens[:, :-1]), 1e-4)
        before = Modules.logits(Modules.load(self.folder / "base")[0], tokens[:, :-1])
        self.report.require(relative(ours, before) > 1e-2, f"{self.name}: training changed nothing")

        run([self.args.trireme, "export", "run-3", "--format", "hf", "--out", "merged"], self.folder)
        merged, _ = Modules.load(self.folder / "merged")
        self.check("logits of the merged folder", Modules.logits(merged, tokens[:, :-1]), ours, 1e-5)
        with_peft, _ = Modules.load(self.folder / "base")
        adapt(with_peft, last, layers, self.shared, zero_b=False)
        self.check("logits of the base with PEFT's folder", Modules.logits(with_peft, tokens[:, :-1]), ours, 1e-5)
        return not self.report.failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", required=True, type=pathlib.Path)
    parser.add_argument("--trace", required=True, type=pathlib.Path)
    args = parser.parse_args()
    args.trireme, args.trace = args.trireme.resolve(), args.trace.resolve()
    torch.set_num_threads(1)  # small matrices
    print(f"{'relative difference':<58} {'reached':>9}  bound")
    passed = True
    for name in CASES:
        with tempfile.TemporaryDirectory(prefix="trireme-parity-") as folder:
            passed = Case(name, args, pathlib.Path(folder)).compare() and passed
    raise SystemExit(0 if passed else 1)


if __name__ == "__main__":
    main()
