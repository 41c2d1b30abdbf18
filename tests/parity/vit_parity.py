#!/usr/bin/env python3
"""Trains a ViT or CCT and its PyTorch counterpart from the same weights on the same images, and compares them.

    torch_python.sh vit_parity.py --trace PATH/image_trace --case vit

`vit` is torchvision's VisionTransformer. `vit_mean` is the same with the mean of the tokens instead of a class token.
`cct` is defined in this file. All parameters, including biases and gains, get random values. Logits, the gradients of
step 1 and the losses of ten steps must agree. The file that image_trace saves must load with strict=True. Needs torch
and torchvision. Exit code 1: a value is out of bounds. Exit code 77 (skipped): torchvision is missing.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import torch
from torch import nn
from torch.nn import functional as F

from gpt_parity import Report, read_safetensors, relative
from resnet_parity import import_torchvision, write_safetensors

# Bounds of the relative error; logits and gradients are compared by the norm over a tensor.
LOGITS, GRADIENT, LOSS = 1e-4, 1e-3, 1e-3
STEPS, LR, PIXELS, MICRO_BATCH, ACCUMULATION = 10, 0.005, 32, 8, 2
LAYERS, WIDTH, HEADS, CLASSES = 3, 48, 3, 7  # as in image_trace.cc
NO_DECAY = ("class_token", "pos_embedding", "positions")
# Softmax over tokens is invariant to a constant added to all scores: the gradient is only rounding.
WITHOUT_EFFECT = ("head.pool.bias",)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.in_proj_weight = nn.Parameter(torch.empty(3 * WIDTH, WIDTH))
        self.out_proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        samples, tokens, _ = x.shape
        heads = F.linear(x, self.in_proj_weight).view(samples, tokens, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        q, k, v = heads
        weights = (q @ k.transpose(-2, -1) / math.sqrt(WIDTH // HEADS)).softmax(-1)
        return self.out_proj((weights @ v).transpose(1, 2).reshape(samples, tokens, WIDTH))


class CctLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.self_attention = Attention()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Identity(), nn.Linear(64, WIDTH))

    def forward(self, x):
        x = x + self.self_attention(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Tokenizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(64, WIDTH, 3, padding=1, bias=False)
        self.positions = nn.Parameter(torch.empty((PIXELS // 4) ** 2, WIDTH))

    def forward(self, images):
        x = images
        for conv in (self.conv1, self.conv2):
            x = F.max_pool2d(F.relu(conv(x)), 3, stride=2, padding=1)
        return x.flatten(2).transpose(1, 2) + self.positions


class Cct(nn.Module):
    """Hassani et al. 2021, with the names of trireme's parameters."""

    def __init__(self):
        super().__init__()
        self.tokenizer = Tokenizer()
        self.blocks = nn.ModuleList(CctLayer() for _ in range(LAYERS))
        self.head = nn.ModuleDict({"norm": nn.LayerNorm(WIDTH), "pool": nn.Linear(WIDTH, 1),
                                   "fc": nn.Linear(WIDTH, CLASSES)})

    def forward(self, images):
        x = self.tokenizer(images)
        for block in self.blocks:
            x = block(x)
        x = self.head["norm"](x)
        weights = self.head["pool"](x).softmax(dim=1)
        return self.head["fc"]((weights.transpose(1, 2) @ x).squeeze(1))


def torchvision_vit(torchvision):
    return torchvision.models.vision_transformer.VisionTransformer(
        image_size=PIXELS, patch_size=8, num_layers=LAYERS, num_heads=HEADS, hidden_dim=WIDTH, mlp_dim=2 * WIDTH,
        num_classes=CLASSES)


class MeanVit(nn.Module):
    """torchvision's ViT with the mean of the tokens instead of a class token."""

    def __init__(self, torchvision):
        super().__init__()
        whole = torchvision_vit(torchvision)
        self.conv_proj, self.encoder, self.heads = whole.conv_proj, whole.encoder, whole.heads
        self.encoder.pos_embedding = nn.Parameter(torch.empty(1, (PIXELS // 8) ** 2, WIDTH))

    def forward(self, images):
        x = self.conv_proj(images).flatten(2).transpose(1, 2)
        return self.heads(self.encoder(x).mean(dim=1))


def make_model(torchvision, case):
    torch.manual_seed(5)
    model = Cct() if case == "cct" else torchvision_vit(torchvision) if case == "vit" else MeanVit(torchvision)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                fan_in = parameter[0].numel()
                parameter.normal_(std=0.1 if name.endswith(NO_DECAY) else 1.5 / math.sqrt(fan_in))
            else:
                parameter.normal_(mean=1.0 if name.endswith(("ln_1.weight", "ln_2.weight", "ln.weight", "norm.weight"))
                                  else 0.0, std=0.2)
    return model


def decays(name, parameter):
    return parameter.dim() > 1 and not name.endswith(NO_DECAY)


def train(model, images, labels):
    """Yields (loss, gradients) of every step."""
    named = list(model.named_parameters())
    optimizer = torch.optim.SGD([{"params": [p for n, p in named if decays(n, p)], "weight_decay": 1e-4},
                                 {"params": [p for n, p in named if not decays(n, p)], "weight_decay": 0.0}],
                                lr=LR, momentum=0.9, nesterov=True)
    model.train()
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = 0.0
        for x, y in zip(images.split(MICRO_BATCH), labels.split(MICRO_BATCH)):
            part = F.cross_entropy(model(x), y, reduction="sum") / len(labels)
            part.backward()
            loss += part.item()
        yield loss, {name: p.grad.clone() for name, p in model.named_parameters()}
        optimizer.step()


def compare(torchvision, args, folder):
    model = make_model(torchvision, args.case)
    write_safetensors(folder / "model.safetensors", model.state_dict())
    subprocess.run([args.trace, args.case, str(folder), str(PIXELS), str(MICRO_BATCH), str(ACCUMULATION), str(STEPS),
                    str(LR)], check=True)
    trace = read_safetensors(folder / "trace.safetensors")
    ours = json.loads((folder / "trace.json").read_text())["losses"]
    images = trace["inputs"].permute(0, 3, 1, 2).contiguous()
    labels = trace["targets"].long()
    report = Report()
    model.eval()
    with torch.no_grad():
        report.check("logits", relative(trace["logits"], model(images[:MICRO_BATCH])), LOGITS)
    make_model(torchvision, args.case).load_state_dict(read_safetensors(folder / "out" / "model.safetensors"), strict=True)
    for step, (loss, gradients) in enumerate(train(model, images, labels)):
        report.check(f"loss of step {step + 1} ({loss:.6f})", abs(ours[step] / loss - 1), LOSS)
        if step > 0:
            continue
        for name in WITHOUT_EFFECT:
            if name in gradients:
                report.check(f"gradient of {name}, which has no effect", max(gradients.pop(name).norm().item(),
                                                                    trace["gradient." + name].norm().item()), 1e-5)
        worst = {name: relative(trace["gradient." + name], gradient) for name, gradient in gradients.items()}
        name = max(worst, key=worst.get)
        report.check(f"gradient of {name}, the worst of {len(worst)}", worst[name], GRADIENT)
        expected = {"vit": 44, "vit_mean": 43, "cct": 41}[args.case]
        report.require(len(worst) == expected, f"{len(worst)} gradients were compared, not {expected}")
    report.require(ours[-1] < 0.95 * ours[0], f"the loss did not fall: {ours}")
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", required=True, help="path of the program image_trace")
    parser.add_argument("--case", required=True, choices=["vit", "vit_mean", "cct"])
    args = parser.parse_args()
    torchvision = import_torchvision()
    print(f"PyTorch {torch.__version__}, torchvision {torchvision.__version__}")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="trireme-parity-") as folder:
        report = compare(torchvision, args, pathlib.Path(folder))
    if report.failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
