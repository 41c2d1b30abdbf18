#!/usr/bin/env python3
"""The peer of resnet_train_bench: torchvision's ResNet, trained by PyTorch on the CPU, channels-last.

    resnet_pytorch.py --model resnet50 --pixels 224 --micro-batch 16 --threads 2

Prints one JSON object: milliseconds a step (median), images/s, loss.
"""

import argparse
import json
import statistics
import time

import torch
import torchvision


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--pixels", type=int, default=224)
    parser.add_argument("--micro-batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    model = getattr(torchvision.models, args.model)().to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    images = torch.randn(args.micro_batch, 3, args.pixels, args.pixels).to(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (args.micro_batch,))
    step_ms = []
    for step in range(args.warmup + args.steps):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        if step >= args.warmup:
            step_ms.append((time.perf_counter() - start) * 1e3)
    median = statistics.median(step_ms)
    print(json.dumps({"step_ms": median, "min_step_ms": min(step_ms), "images_per_s": args.micro_batch * 1e3 / median,
                      "loss": loss.item()}))


if __name__ == "__main__":
    main()
