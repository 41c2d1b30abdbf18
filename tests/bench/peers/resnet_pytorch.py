#!/usr/bin/env python3
"""Trains torchvision's ResNet with PyTorch, channels-last, for comparison with resnet_train_bench.

On a GPU (`--device cuda`), 16-bit modes use autocast, and fp16 a GradScaler. The next batch is uploaded from pinned
memory while a step computes.

    resnet_pytorch.py --model resnet50 --pixels 224 --micro-batch 16 --threads 2

Prints one JSON object: milliseconds per step (median), images/s, peak bytes, loss.
"""

import argparse
import json
import math
import statistics
import time

import torch
import torchvision


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--pixels", type=int, default=224)
    parser.add_argument("--micro-batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--math", choices=("fp32", "tf32", "fp16", "bf16"), default="fp32")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cpu")
    parser.add_argument("--compile", action="store_true")
    return parser.parse_args()


def main():
    args = parse_arguments()
    on_gpu = args.device == "cuda"
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    if on_gpu:
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = args.math != "fp32"
        torch.set_float32_matmul_precision("highest" if args.math == "fp32" else "high")
    model = getattr(torchvision.models, args.model)().to(args.device, memory_format=torch.channels_last).train()
    fused = {"fused": True} if on_gpu else {}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, weight_decay=1e-4, **fused)
    # CPUs do not support autocast to fp16. There fp16 runs as bf16, only to test this script.
    dtype = torch.float16 if args.math == "fp16" and on_gpu else torch.bfloat16
    autocast = torch.autocast(args.device, dtype=dtype, enabled=args.math in ("fp16", "bf16"))
    grad_scaler = torch.amp.GradScaler if hasattr(torch.amp, "GradScaler") else torch.cuda.amp.GradScaler  # before 2.3
    scaler = grad_scaler(enabled=args.math == "fp16" and on_gpu)
    run = torch.compile(model) if args.compile else model
    host_images = torch.randn(args.micro_batch, 3, args.pixels, args.pixels).to(memory_format=torch.channels_last)
    host_labels = torch.randint(0, 1000, (args.micro_batch,))
    upload_stream = None
    if on_gpu:
        host_images, host_labels = host_images.pin_memory(), host_labels.pin_memory()
        upload_stream = torch.cuda.Stream()

    def upload():
        """Loads the next batch; on a GPU, in a separate stream."""
        if not on_gpu:
            return host_images, host_labels
        with torch.cuda.stream(upload_stream):
            return [part.to(args.device, non_blocking=True) for part in (host_images, host_labels)]

    batch = upload()
    step_ms = []
    for step in range(args.warmup + args.steps):
        if step == args.warmup and on_gpu:
            torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        images, labels = batch
        if on_gpu:
            torch.cuda.current_stream().wait_stream(upload_stream)
            for part in batch:
                part.record_stream(torch.cuda.current_stream())
        batch = upload()
        optimizer.zero_grad(set_to_none=True)
        with autocast:
            loss = torch.nn.functional.cross_entropy(run(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        loss_value = loss.item()
        if on_gpu:
            torch.cuda.synchronize()
        if step >= args.warmup:
            step_ms.append((time.perf_counter() - start) * 1e3)
    median = statistics.median(step_ms)
    print(json.dumps({
        "step_ms": median, "min_step_ms": min(step_ms), "images_per_s": args.micro_batch * 1e3 / median,
        "loss": loss_value if math.isfinite(loss_value) else None, "all_step_ms": step_ms, "torch": torch.__version__, "compiled": args.compile,
        "peak_bytes": torch.cuda.max_memory_allocated() if on_gpu else 0, "math": args.math, "device": args.device,
    }))


if __name__ == "__main__":
    main()
