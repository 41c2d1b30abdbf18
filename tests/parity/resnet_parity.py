#!/usr/bin/env python3
"""Trains torchvision's ResNet-50 and ours from the same weights on the same images, and compares.

    torch_python.sh resnet_parity.py --trace PATH/image_trace [--pixels 64] [--micro-batch 8] [--accumulation 2] [--bias 2]

Writes torchvision's weights, with running statistics that are not the first ones, to a safetensors file in its names;
the trace loads it, trains, and saves it again in the same names. Logits, gradients, running statistics and losses
must agree, and the saved file must load strictly. Residual branches start small (bn3.weight = 0.1), which keeps the
network from multiplying rounding errors, and the biases of norms at +-2 of their gains, three of four positive: so few
of the rectifiers' inputs lie next to their kink, where rounding alone decides a whole gradient (README.md beside this
file; --bias 0 is torchvision's own start). Needs torch, torchvision and numpy. Exit code 1 when a figure is out of
bounds, 77 (skipped) without torchvision.
"""

import argparse
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

import torch
from torch.nn import functional as F

from gpt_parity import Report, read_safetensors, relative

# Relative bounds, of norms over a tensor.
LOGITS, GRADIENT, STATISTIC, LOSS = 1e-4, 1e-3, 1e-5, 1e-3
STEPS, LR = 10, 0.0005


def import_torchvision():
    try:
        import torchvision
    except ImportError:
        print("no torchvision: apt-get install python3-torchvision"
              + (" (with CI=true that is a failure)" if os.environ.get("CI") == "true" else ""))
        print("[  SKIPPED ] resnet_parity.py (0 ms)\n[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] resnet_parity.py")
        sys.exit(1 if os.environ.get("CI") == "true" else 77)
    return torchvision


def write_safetensors(path, tensors):
    dtypes = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int32: "I32", torch.int64: "I64"}
    header, offset = {}, 0
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": dtypes[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            tensor = tensor.contiguous()  # NumPy has no bfloat16
            file.write((tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy().tobytes())


def make_model(torchvision, bias):
    torch.manual_seed(5)
    model = torchvision.models.resnet50()
    for module in model.modules():
        if hasattr(module, "bn3"):
            torch.nn.init.constant_(module.bn3.weight, 0.1)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            sign = torch.where(torch.rand_like(module.bias) < 0.75, 1.0, -1.0)
            with torch.no_grad():
                module.bias.copy_(bias * module.weight * sign)
    for name, buffer in model.named_buffers():
        if name.endswith("running_mean"):
            buffer.normal_(std=0.1)
        elif name.endswith("running_var"):
            buffer.uniform_(0.5, 1.5)
    return model


def make_optimizer(model):
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 1e-4},
              {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0}]
    return torch.optim.SGD(groups, lr=LR, momentum=0.9, nesterov=True)


def train(model, images, labels, micro_batch):
    """Yields (loss, gradients) of every step."""
    optimizer = make_optimizer(model)
    model.train()
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = 0.0
        for x, y in zip(images.split(micro_batch), labels.split(micro_batch)):
            part = F.cross_entropy(model(x), y, reduction="sum") / len(labels)
            part.backward()
            loss += part.item()
        yield loss, {name: p.grad.clone() for name, p in model.named_parameters()}
        optimizer.step()


def compare(torchvision, args, folder):
    model = make_model(torchvision, args.bias)
    write_safetensors(folder / "model.safetensors", model.state_dict())
    subprocess.run([args.trace, "resnet50", str(folder), str(args.pixels), str(args.micro_batch), str(args.accumulation),
                    str(STEPS), str(LR)], check=True)
    trace = read_safetensors(folder / "trace.safetensors")
    ours = json.loads((folder / "trace.json").read_text())["losses"]
    images = trace["inputs"].permute(0, 3, 1, 2).contiguous()
    labels = trace["targets"].long()
    report = Report()
    model.eval()
    with torch.no_grad():
        report.check("logits", relative(trace["logits"], model(images[:args.micro_batch])), LOGITS)
    fresh = torchvision.models.resnet50()
    fresh.load_state_dict(read_safetensors(folder / "out" / "model.safetensors"), strict=True)

    worst = {}
    for step, (loss, gradients) in enumerate(train(model, images, labels, args.micro_batch)):
        report.check(f"loss of step {step + 1} ({loss:.6f})", abs(ours[step] / loss - 1), LOSS)
        if step > 0:
            continue
        for name, gradient in gradients.items():
            worst[name] = relative(trace["gradient." + name], gradient)
        name = max(worst, key=worst.get)
        report.require(len(worst) == 161, f"{len(worst)} gradients were compared, not 161")
        report.check(f"gradient of {name}, the worst of {len(worst)}", worst[name], GRADIENT)
        statistics = {n: relative(trace["statistic." + n], b) for n, b in model.named_buffers()
                      if not n.endswith("num_batches_tracked")}
        name = max(statistics, key=statistics.get)
        report.require(len(statistics) == 106, f"{len(statistics)} statistics were compared, not 106")
        report.check(f"{name}, the worst of {len(statistics)}", statistics[name], STATISTIC)
    report.require(ours[-1] < 0.9 * ours[0], f"the loss did not fall: {ours}")
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", required=True, help="the program image_trace")
    parser.add_argument("--pixels", type=int, default=64)
    parser.add_argument("--micro-batch", type=int, default=8)
    parser.add_argument("--accumulation", type=int, default=2)
    parser.add_argument("--bias", type=float, default=2.0, help="of batch norms, in units of their gains")
    args = parser.parse_args()
    torchvision = import_torchvision()
    print(f"PyTorch {torch.__version__}, torchvision {torchvision.__version__}")
    torch.set_num_threads(2)
    with tempfile.TemporaryDirectory(prefix="trireme-parity-") as folder:
        report = compare(torchvision, args, pathlib.Path(folder))
    if report.failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
