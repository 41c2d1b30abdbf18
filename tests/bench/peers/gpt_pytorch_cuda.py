#!/usr/bin/env python3
"""The peer of `gpt_train_bench --device cuda`: the same GPT-2 in PyTorch at its best on one GPU (`--compile`, fused
AdamW, scaled_dot_product_attention) in the same precision: fp16 and bf16 as autocast, fp16 with a GradScaler.

    gpt_pytorch_cuda.py --layers 12 --hidden 768 --heads 12 --vocab 50304 --context 1024 --micro-batch 8 --math bf16 \
      --compile

Prints one JSON object: milliseconds a step (median), tokens/s, peak bytes, loss. `--device cpu` computes on `--threads`
cores; AdamW is fused there from PyTorch 2.4 on, attention from 2.0 on.
"""

import argparse
import json
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F


def attend(q, k, v):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    future = torch.ones(q.shape[-2:-1] * 2, dtype=torch.bool, device=q.device).triu(1)  # before PyTorch 2.0
    scores = (q @ k.transpose(-2, -1)) / q.shape[-1] ** 0.5
    return F.softmax(scores.masked_fill(future, float("-inf")), dim=-1) @ v


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(c, dim=2))
        y = attend(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(args.vocab, args.hidden), nn.Embedding(args.context, args.hidden)
        self.blocks = nn.Sequential(*(Block(args.hidden, args.heads) for _ in range(args.layers)))
        self.norm, self.head = nn.LayerNorm(args.hidden), nn.Linear(args.hidden, args.vocab, bias=False)
        for parameter in self.parameters():
            if parameter.dim() >= 2:
                nn.init.normal_(parameter, std=0.02)
        self.head.weight = self.tokens.weight

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        logits = self.head(self.norm(self.blocks(x)))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in dict(layers=12, hidden=768, heads=12, vocab=50304, context=1024, micro_batch=8, steps=20,
                            warmup=5, threads=1).items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=value)
    parser.add_argument("--math", choices=("fp32", "tf32", "fp16", "bf16"), default="fp32")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--compile", action="store_true")
    return parser.parse_args()


def main():
    args = parse_arguments()
    on_gpu = args.device == "cuda"
    if args.compile and not hasattr(torch, "compile"):
        raise SystemExit(f"error: PyTorch {torch.__version__} has no torch.compile; 2.0 has")
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    fused = on_gpu or version >= (2, 4)
    torch.set_num_threads(args.threads)
    torch.set_float32_matmul_precision("highest" if args.math == "fp32" else "high")
    torch.manual_seed(1)
    model = Gpt(args).to(args.device)
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.99), **({"fused": True} if fused else {}))
    # A CPU has no autocast to fp16: there the script is tried out in bf16.
    dtype = torch.float16 if args.math == "fp16" and on_gpu else torch.bfloat16
    autocast = torch.autocast(args.device, dtype=dtype, enabled=args.math in ("fp16", "bf16"))
    grad_scaler = torch.amp.GradScaler if hasattr(torch.amp, "GradScaler") else torch.cuda.amp.GradScaler  # before 2.3
    scaler = grad_scaler(enabled=args.math == "fp16" and on_gpu)
    run = torch.compile(model) if args.compile else model
    data = torch.randint(args.vocab, (args.micro_batch, args.context + 1), device=args.device)
    inputs, targets = data[:, :-1].contiguous(), data[:, 1:].contiguous()

    step_ms = []
    for step in range(args.warmup + args.steps):
        if step == args.warmup and on_gpu:
            torch.cuda.reset_peak_memory_stats()
        if on_gpu:
            torch.cuda.synchronize()
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with autocast:
            loss = run(inputs, targets)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        loss_value = loss.item()
        if step >= args.warmup:
            step_ms.append((time.perf_counter() - start) * 1e3)
    median = statistics.median(step_ms)
    tokens = args.micro_batch * args.context
    print(json.dumps({
        "parameters": sum(p.numel() for p in model.parameters()), "tokens_per_step": tokens, "loss": loss_value,
        "step_ms": median, "min_step_ms": min(step_ms), "tokens_per_s": tokens * 1e3 / median, "all_step_ms": step_ms,
        "peak_bytes": torch.cuda.max_memory_allocated() if on_gpu else 0,
        "reserved_bytes": torch.cuda.max_memory_reserved() if on_gpu else 0,
        "torch": torch.__version__, "compiled": args.compile, "fused_adamw": fused, "math": args.math, "device": args.device,
    }))


if __name__ == "__main__":
    main()
