#!/usr/bin/env python3
"""Compares YOLOX's loss with one of our own in PyTorch, written from the paper (arXiv 2107.08430).

    torch_python.sh yolox_loss_parity.py --trace PATH/yolox_trace

On random pictures, SimOTA must assign every anchor to the same object: pictures without objects, with objects that
overlap, with more objects than anchors, with equal costs. The parts of the loss and its gradient must agree. So must the
loss of a network and its gradients in a step of two micro-batches, from the same weights. PyTorch computes in fp64; costs
and overlaps are rounded to fp32 before they are compared, as the definition asks, so that equal costs are equal.
Exit code 1 when a figure is out of bounds, 77 (skipped) without PyTorch.
"""

import argparse
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

import torch
from torch.nn import functional as F

from gpt_parity import Report, read_safetensors, relative
from resnet_parity import write_safetensors
from yolox_parity import make_model, to_ours

LOSS, GRADIENT = 1e-3, 1e-3
PARTS, PICTURE_GRADIENT = 1e-6, 1e-5  # of an assignment's case
NUM_CASES, CLASSES = 200, 4
NETWORK = (1, 16, False, CLASSES)


def anchors(height, width):
    """x, y and stride of every anchor, [A, 3]."""
    rows = []
    for stride in (8, 16, 32):
        y, x = torch.meshgrid(torch.arange(height // stride), torch.arange(width // stride), indexing="ij")
        rows.append(torch.stack([x.flatten(), y.flatten(), torch.full((x.numel(),), stride)], dim=1))
    return torch.cat(rows).double()


def decode(predictions, grid):
    """Center x, center y, width, height in pixels."""
    return torch.cat([(predictions[:, :2] + grid[:, :2]) * grid[:, 2:], predictions[:, 2:4].exp() * grid[:, 2:]], dim=1)


def iou(a, b):
    """Of boxes [..., 4] that broadcast."""
    low = torch.maximum(a[..., :2] - a[..., 2:] / 2, b[..., :2] - b[..., 2:] / 2)
    high = torch.minimum(a[..., :2] + a[..., 2:] / 2, b[..., :2] + b[..., 2:] / 2)
    inter = (high - low).clamp(min=0).prod(-1)
    return inter / (a[..., 2:].prod(-1) + b[..., 2:].prod(-1) - inter)


@torch.no_grad()
def sim_ota(predictions, targets, grid):
    """The row of targets of every anchor, or -1."""
    objects = (targets[:, 0] >= 0).nonzero().flatten()
    result = torch.full((len(grid),), -1)
    if len(objects) == 0:
        return result
    boxes, labels = targets[objects, 1:], targets[objects, 0].long()
    offset = ((grid[:, :2] + 0.5) * grid[:, 2:] - boxes[:, None, :2]).abs()  # [G, A, 2]
    in_box = (offset < boxes[:, None, 2:] / 2).all(-1)
    near = (offset < 2.5 * grid[:, 2:]).all(-1)
    candidates = (in_box | near).any(0).nonzero().flatten()
    if len(candidates) == 0:
        return result
    rows = predictions[candidates]
    overlaps = iou(decode(rows, grid[candidates]), boxes[:, None])
    probability = (rows[:, 5:].sigmoid() * rows[:, 4:5].sigmoid()).sqrt().expand(len(objects), -1, -1)
    one_hot = F.one_hot(labels, rows.shape[1] - 5).double()[:, None].expand_as(probability)
    cost = F.binary_cross_entropy(probability, one_hot, reduction="none").sum(-1) - 3 * (overlaps + 1e-8).log()
    cost = cost.float().double() + 1e5 * ~(in_box & near)[:, candidates]
    overlaps = overlaps.float().double()
    taken = torch.zeros_like(cost, dtype=torch.bool)
    for g in range(len(objects)):
        k = max(1, int(overlaps[g].topk(min(10, len(candidates))).values.sum()))
        taken[g, cost[g].sort(stable=True).indices[:k]] = True
    several = taken.sum(0) > 1
    best = cost[:, several].sort(dim=0, stable=True).indices[0]
    taken[:, several] = F.one_hot(best, len(objects)).bool().T
    foreground = taken.any(0)
    result[candidates[foreground]] = objects[taken[:, foreground].long().argmax(0)]
    return result


def loss_parts(predictions, targets, l1_weight, grid):
    """Four sums and the objects of anchors; predictions and targets of one picture in fp64."""
    assigned = sim_ota(predictions, targets, grid)
    foreground = assigned >= 0
    rows, own, boxes = predictions[foreground], grid[foreground], targets[assigned[foreground]]
    overlap = iou(decode(rows, own), boxes[:, 1:])
    labels = F.one_hot(boxes[:, 0].long(), predictions.shape[1] - 5) * overlap.detach()[:, None]
    exact = torch.cat([boxes[:, 1:3] / own[:, 2:] - own[:, :2], (boxes[:, 3:] / own[:, 2:] + 1e-8).log()], dim=1)
    return [5 * (1 - overlap ** 2).sum(),
            F.binary_cross_entropy_with_logits(predictions[:, 4], foreground.double(), reduction="sum"),
            F.binary_cross_entropy_with_logits(rows[:, 5:], labels, reduction="sum"),
            l1_weight * (rows[:, :4] - exact).abs().sum()], assigned


def random_boxes(count, height, width):
    boxes = torch.rand(count, 5)
    boxes[:, 0] = (boxes[:, 0] * CLASSES).floor()
    boxes[:, 1:3] *= torch.tensor([width, height])
    boxes[:, 3:] = 4 + boxes[:, 3:] ** 2 * torch.tensor([width, height])
    return boxes


def random_case(index):
    """Every kind of picture in turn; values as fp32."""
    kind = ("usual", "none", "overlapping", "many", "equal")[index % 5]
    height, width = random.choice([32, 64, 96, 128]), random.choice([32, 64, 96, 128])
    if kind == "many":
        height = width = 32
    grid = anchors(height, width)
    count = {"usual": random.randint(1, 8), "none": 0, "overlapping": 6, "many": random.randint(22, 60), "equal": 5}[kind]
    targets = random_boxes(count, height, width)
    if kind == "overlapping":
        targets[:, 1:] = targets[:1, 1:] + 3 * torch.rand(count, 4)
    if kind == "equal":
        targets[:, 1:] = torch.tensor([width / 2, height / 2, 24, 24])
        targets[:, 0] = targets[:, 0] // 2
    predictions = torch.randn(len(grid), 5 + CLASSES)
    if kind == "equal":
        predictions[:] = random.choice([0.0, -4.5, 1.0])
        if index % 2:
            predictions[:, 5:] = torch.randn(CLASSES)
    elif count > 0:  # Half of the anchors predict an object roughly, so that objects want several.
        near = targets[torch.randint(count, (len(grid),)), 1:].double()
        exact = torch.cat([near[:, :2] / grid[:, 2:] - grid[:, :2], (near[:, 2:] / grid[:, 2:]).log()], dim=1)
        roughly = torch.rand(len(grid)) < 0.5
        predictions[roughly, :4] = (exact + 0.15 * torch.randn(len(grid), 4)).float()[roughly]
    padded = torch.full((count + 3, 5), 0.0)
    padded[:, 0] = -1
    padded[torch.randperm(count + 3)[:count]] = targets
    return {"predictions": predictions, "targets": padded, "size": torch.tensor([float(height), float(width)]),
            "l1_weight": torch.tensor([random.choice([0.0, 1.0, 0.5])])}


def compare_cases(report, cases, ours):
    different, foreground, worst_part, worst_gradient = 0, 0, 0.0, 0.0
    for i, case in enumerate(cases):
        height, width = (int(side) for side in case["size"])
        predictions = case["predictions"].double().requires_grad_()
        parts, assigned = loss_parts(predictions, case["targets"].double(), case["l1_weight"].item(), anchors(height, width))
        sum(parts).backward()
        different += int((ours[f"{i}.objects"].long() != assigned).sum())
        count = int((assigned >= 0).sum())
        foreground += count
        expected = torch.tensor([part.item() for part in parts] + [count])
        worst_part = max(worst_part, relative(ours[f"{i}.parts"].flatten(), expected))
        worst_gradient = max(worst_gradient, relative(ours[f"{i}.gradient"][0], predictions.grad))
    print(f"{len(cases)} pictures, {foreground} foreground anchors")
    report.check("anchors with another object", different, 0)
    report.check("parts of the loss, worst", worst_part, PARTS)
    report.check("gradient of a picture, worst", worst_gradient, PICTURE_GRADIENT)


def compare_network(report, model, batch, ours, record):
    height, width = batch["inputs"].shape[1:3]
    grid, micro, samples = anchors(height, width), 2, len(batch["inputs"])
    model.double().train()
    total, count = 0.0, 0
    for first in range(0, samples, micro):
        images = batch["inputs"][first:first + micro].permute(0, 3, 1, 2).double()
        for row, predictions in enumerate(model(images)["head.0"], first):
            parts, assigned = loss_parts(predictions, batch["targets"][row].double(), batch["target_weights"][row].item(), grid)
            total, count = total + sum(parts), count + int((assigned >= 0).sum())
    (total / count).backward()
    print(f"{count} foreground anchors in a step")
    report.check(f"loss ({total.item() / count:.6f})", abs(record["loss"] * count / total.item() - 1), LOSS)
    # The engine divides gradients by the count in the update; before, they are sums over anchors, by pictures.
    divisor = max(1, count) / samples
    worst = {n: relative(ours["gradient." + n] / divisor, to_ours(n, p.grad)) for n, p in model.named_parameters()}
    which = max(worst, key=worst.get)
    report.require(all(math.isfinite(figure) for figure in worst.values()), "a gradient is not finite")
    report.check(f"gradients, worst {which}", worst[which], GRADIENT)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    random.seed(5)
    model = make_model(NETWORK)  # seeds PyTorch
    cases = [random_case(i) for i in range(NUM_CASES)]
    targets = [random_boxes(4, 96, 64) for _ in range(4)]
    targets[1][:, 0], targets[2][1:, 0] = -1, -1
    batch = {"inputs": torch.randn(4, 96, 64, 3), "targets": torch.stack(targets),
             "target_weights": torch.tensor([1.0, 0.0, 1.0, 0.0])}
    report = Report()
    with tempfile.TemporaryDirectory(prefix="trireme-yolox-loss-") as scratch:
        folder = pathlib.Path(scratch)
        write_safetensors(folder / "batch.safetensors", batch)
        write_safetensors(folder / "cases.safetensors", {f"{i}.{n}": t for i, case in enumerate(cases) for n, t in case.items()})
        state = {n: to_ours(n, t) for n, t in model.state_dict().items() if not n.endswith("num_batches_tracked")}
        write_safetensors(folder / "model.safetensors", state)
        layers, width, separable, classes = NETWORK
        subprocess.run([arguments.trace, folder, str(layers), str(width), str(int(separable)), str(classes), "loss"], check=True,
                       timeout=300)
        ours, record = read_safetensors(folder / "trace.safetensors"), json.loads((folder / "trace.json").read_text())
    compare_cases(report, cases, ours)
    compare_network(report, model, batch, ours, record)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
