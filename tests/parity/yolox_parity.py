#!/usr/bin/env python3
"""Compares YOLOX's blocks with PyTorch modules of our own, written from the paper (arXiv 2107.08430).

    torch_python.sh yolox_parity.py --trace PATH/yolox_trace

The modules move squares of 2 x 2 pixels to channels before the first convolution, as the paper's network does; the
blocks convolve 6 x 6 with stride 2. The main output of every block, the predictions, the gradients of a mean squared
error over all predictions and the running statistics must agree. Parameter counts of all sizes must be the published
ones. Exit code 1 when a figure is out of bounds, 77 (skipped) without PyTorch.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from torch import nn
from torch.nn import functional as F

from gpt_parity import Report, read_safetensors, relative
from resnet_parity import write_safetensors

# Relative bounds, of norms over a tensor.
OUTPUT, GRADIENT, LOSS, STATISTIC = 1e-4, 1e-3, 1e-5, 1e-5
SAMPLES, HEIGHT, WIDTH = 4, 96, 64
# (layers, width, separable, classes)
CASES = {"plain": (2, 16, False, 5), "separable": (1, 16, True, 3), "the width of tiny": (1, 24, False, 80)}
# Bottlenecks of a CSP layer, channels of the stem, separable; millions of parameters at 80 classes.
SIZES = {"nano": (1, 16, True, 0.91), "tiny": (1, 24, False, 5.06), "s": (1, 32, False, 9.0), "m": (2, 48, False, 25.3),
         "l": (3, 64, False, 54.2), "x": (4, 80, False, 99.1)}
# The blocks in order, and the prefixes of their tensors.
BLOCKS = [("stem", ["backbone.backbone.stem."])] + [(f"dark{i}", [f"backbone.backbone.dark{i}."]) for i in range(2, 6)]
BLOCKS += [(csp, [f"backbone.{csp}.", f"backbone.{conv}."]) for csp, conv in
           (("C3_p4", "lateral_conv0"), ("C3_p3", "reduce_conv1"), ("C3_n3", "bu_conv2"), ("C3_n4", "bu_conv1"))]
BLOCKS += [(f"head.{i}", [f"head.{part}.{i}." for part in ("stems", "cls_convs", "reg_convs", "cls_preds", "reg_preds",
                                                           "obj_preds")]) for i in (2, 1, 0)]


class Unit(nn.Module):
    def __init__(self, inputs, outputs, kernel=1, stride=1, groups=1):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.03)

    def forward(self, x):
        return F.silu(self.bn(self.conv(x)))


class Separable(nn.Module):
    def __init__(self, inputs, outputs, kernel, stride):
        super().__init__()
        self.dconv = Unit(inputs, inputs, kernel, stride, groups=inputs)
        self.pconv = Unit(inputs, outputs)

    def forward(self, x):
        return self.pconv(self.dconv(x))


def spatial(inputs, outputs, stride, separable):
    return Separable(inputs, outputs, 3, stride) if separable else Unit(inputs, outputs, 3, stride)


class Bottleneck(nn.Module):
    def __init__(self, width, residual, separable):
        super().__init__()
        self.conv1, self.conv2, self.residual = Unit(width, width), spatial(width, width, 1, separable), residual

    def forward(self, x):
        y = self.conv2(self.conv1(x))
        return x + y if self.residual else y


class Csp(nn.Module):
    def __init__(self, inputs, outputs, layers, residual, separable):
        super().__init__()
        half = outputs // 2
        self.conv1, self.conv2, self.conv3 = Unit(inputs, half), Unit(inputs, half), Unit(outputs, outputs)
        self.m = nn.Sequential(*(Bottleneck(half, residual, separable) for _ in range(layers)))

    def forward(self, x):
        return self.conv3(torch.cat([self.m(self.conv1(x)), self.conv2(x)], dim=1))


class Stem(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = Unit(12, width, 3)

    def forward(self, x):
        squares = [x[:, :, i::2, j::2] for j in range(2) for i in range(2)]
        return self.conv(torch.cat(squares, dim=1))


class PyramidPool(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1, self.conv2 = Unit(width, width // 2), Unit(2 * width, width)

    def forward(self, x):
        h = self.conv1(x)
        return self.conv2(torch.cat([h] + [F.max_pool2d(h, size, 1, size // 2) for size in (5, 9, 13)], dim=1))


class Darknet(nn.Module):
    def __init__(self, n, w, separable):
        super().__init__()
        self.stem = Stem(w)
        for stage, layers in ((2, n), (3, 3 * n), (4, 3 * n), (5, n)):
            out = w * 2 ** (stage - 1)
            parts = [spatial(out // 2, out, 2, separable)]
            if stage == 5:
                parts.append(PyramidPool(out))
            parts.append(Csp(out, out, layers, stage < 5, separable))
            setattr(self, f"dark{stage}", nn.Sequential(*parts))


class Backbone(nn.Module):
    def __init__(self, n, w, separable):
        super().__init__()
        self.backbone = Darknet(n, w, separable)
        c3, c4, c5 = 4 * w, 8 * w, 16 * w
        self.lateral_conv0, self.C3_p4 = Unit(c5, c4), Csp(2 * c4, c4, n, False, separable)
        self.reduce_conv1, self.C3_p3 = Unit(c4, c3), Csp(2 * c3, c3, n, False, separable)
        self.bu_conv2, self.C3_n3 = spatial(c3, c3, 2, separable), Csp(2 * c3, c4, n, False, separable)
        self.bu_conv1, self.C3_n4 = spatial(c4, c4, 2, separable), Csp(2 * c4, c5, n, False, separable)

    def forward(self, x):
        """The outputs of all blocks, by name."""
        out = {}
        for name in ("stem", "dark2", "dark3", "dark4", "dark5"):
            x = out[name] = getattr(self.backbone, name)(x)
        enlarge = lambda y: F.interpolate(y, scale_factor=2, mode="nearest")
        l5 = self.lateral_conv0(out["dark5"])
        out["C3_p4"] = self.C3_p4(torch.cat([enlarge(l5), out["dark4"]], dim=1))
        l4 = self.reduce_conv1(out["C3_p4"])
        out["C3_p3"] = self.C3_p3(torch.cat([enlarge(l4), out["dark3"]], dim=1))
        out["C3_n3"] = self.C3_n3(torch.cat([self.bu_conv2(out["C3_p3"]), l4], dim=1))
        out["C3_n4"] = self.C3_n4(torch.cat([self.bu_conv1(out["C3_n3"]), l5], dim=1))
        return out


class Head(nn.Module):
    def __init__(self, w, separable, classes):
        super().__init__()
        h = 4 * w
        branch = lambda: nn.Sequential(spatial(h, h, 1, separable), spatial(h, h, 1, separable))
        self.stems = nn.ModuleList(Unit(w * 2 ** (i + 2), h) for i in range(3))
        self.cls_convs = nn.ModuleList(branch() for _ in range(3))
        self.reg_convs = nn.ModuleList(branch() for _ in range(3))
        self.cls_preds = nn.ModuleList(nn.Conv2d(h, classes, 1) for _ in range(3))
        self.reg_preds = nn.ModuleList(nn.Conv2d(h, 4, 1) for _ in range(3))
        self.obj_preds = nn.ModuleList(nn.Conv2d(h, 1, 1) for _ in range(3))

    def forward(self, maps):
        rows = []
        for i, x in enumerate(maps):
            x = self.stems[i](x)
            box = self.reg_convs[i](x)
            y = torch.cat([self.reg_preds[i](box), self.obj_preds[i](box), self.cls_preds[i](self.cls_convs[i](x))], dim=1)
            rows.append(y.flatten(2).transpose(1, 2))
        return torch.cat(rows, dim=1)


class Yolox(nn.Module):
    def __init__(self, layers, width, separable, classes):
        super().__init__()
        self.backbone, self.head = Backbone(layers, width, separable), Head(width, separable, classes)

    def forward(self, x):
        out = self.backbone(x)
        out["head.0"] = self.head([out["C3_p3"], out["C3_n3"], out["C3_n4"]])
        # A head's block passes on the next finer map.
        out["head.2"], out["head.1"] = out["C3_n3"], out["C3_p3"]
        return out


STEM = "backbone.backbone.stem.conv.conv.weight"


def to_ours(name, tensor):
    """The stem's [O, 12, 3, 3] as [O, 3, 6, 6]."""
    if name != STEM:
        return tensor
    outputs = tensor.shape[0]
    return tensor.reshape(outputs, 2, 2, 3, 3, 3).permute(0, 3, 4, 2, 5, 1).reshape(outputs, 3, 6, 6).contiguous()


def make_model(case):
    torch.manual_seed(7)
    model = Yolox(*case)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.2)
            module.running_mean.normal_(std=0.1)
            module.running_var.uniform_(0.5, 1.5)
    return model


def run_trace(trace, folder, case, state, blocks):
    prefixes = tuple(prefix for _, parts in BLOCKS[:blocks] for prefix in parts)
    write_safetensors(folder / "model.safetensors", {name: tensor for name, tensor in state.items() if name.startswith(prefixes)})
    layers, width, separable, classes = case
    subprocess.run([trace, folder, str(layers), str(width), str(int(separable)), str(classes), str(blocks)], check=True,
                   timeout=300)
    return read_safetensors(folder / "trace.safetensors"), json.loads((folder / "trace.json").read_text())


def compare(report, name, case, trace, folder):
    model = make_model(case)
    images = torch.randn(SAMPLES, 3, HEIGHT, WIDTH)
    rows = sum(HEIGHT // s * (WIDTH // s) for s in (8, 16, 32))
    targets = torch.randn(SAMPLES, rows, 5 + case[3])
    write_safetensors(folder / "batch.safetensors", {"inputs": images.permute(0, 2, 3, 1).contiguous(), "targets": targets})
    state = {n: to_ours(n, t) for n, t in model.state_dict().items() if not n.endswith("num_batches_tracked")}
    report.require(all(any(n.startswith(tuple(p)) for _, p in BLOCKS) for n in state), "a tensor belongs to no block")
    model.eval()
    with torch.no_grad():
        expected = model(images)
    for blocks, (block, _) in enumerate(BLOCKS, 1):
        ours, record = run_trace(trace, folder, case, state, blocks)
        theirs = expected[block] if block == "head.0" else expected[block].permute(0, 2, 3, 1)
        report.require(ours["output"].shape == theirs.shape, f"{block}: {ours['output'].shape} is not {theirs.shape}")
        report.check(f"{name}: output of {block}", relative(ours["output"], theirs), OUTPUT)

    # In fp64: gradients of PyTorch in fp32 are as far from these as ours.
    model.double().train()
    loss = F.mse_loss(model(images.double())["head.0"], targets.double())
    loss.backward()
    report.check(f"{name}: loss ({loss.item():.6f})", abs(record["loss"] / loss.item() - 1), LOSS)
    worst = {n: relative(ours["gradient." + n], to_ours(n, p.grad)) for n, p in model.named_parameters()}
    report.require(len(worst) == sum(n.startswith("gradient.") for n in ours), "gradients differ in number")
    which = max(worst, key=worst.get)
    report.check(f"{name}: gradients, worst {which}", worst[which], GRADIENT)
    worst = {n: relative(ours["statistic." + n], b) for n, b in model.named_buffers() if not n.endswith("num_batches_tracked")}
    which = max(worst, key=worst.get)
    report.check(f"{name}: statistics, worst {which}", worst[which], STATISTIC)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    report = Report()
    for size, (layers, width, separable, millions) in SIZES.items():
        parameters = sum(p.numel() for p in Yolox(layers, width, separable, 80).parameters())
        digits = 2 if millions < 9 else 1
        report.require(round(parameters / 1e6, digits) == millions, f"{size}: {parameters} are not {millions} M")
        print(f"{size}: {parameters} parameters")
    with tempfile.TemporaryDirectory(prefix="trireme-yolox-") as scratch:
        for name, case in CASES.items():
            compare(report, name, case, arguments.trace, pathlib.Path(scratch))
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
