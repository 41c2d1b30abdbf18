#!/usr/bin/env python3
"""The peer of gpt_train_bench: the same GPT-2, trained by PyTorch on the CPU, in its idiom.

    gpt_pytorch.py --layers 12 --hidden 768 --heads 12 --vocab 50257 --context 512 --micro-batch 4 --threads 2

Prints one JSON object: milliseconds a step (median), tokens/s, loss. The tokens are random: time does not depend on
them.
"""

import argparse
import json
import math
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, hidden, heads, context):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.out = nn.Linear(hidden, hidden)
        self.register_buffer("future", torch.triu(torch.ones(context, context, dtype=torch.bool), 1), persistent=False)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in self.qkv(x).split(c, dim=2))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.shape[-1]))
        weights = F.softmax(scores.masked_fill(self.future[:t, :t], float("-inf")), dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, t, c))


class Layer(nn.Module):
    def __init__(self, hidden, heads, context):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(hidden), Attention(hidden, heads, context)
        self.norm2 = nn.LayerNorm(hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.tokens = nn.Embedding(args.vocab, args.hidden)
        self.positions = nn.Embedding(args.context, args.hidden)
        self.layers = nn.Sequential(*(Layer(args.hidden, args.heads, args.context) for _ in range(args.layers)))
        self.norm = nn.LayerNorm(args.hidden)
        self.head = nn.Linear(args.hidden, args.vocab, bias=False)
        for parameter in self.parameters():
            if parameter.dim() >= 2:
                nn.init.normal_(parameter, std=0.02)
        self.head.weight = self.tokens.weight

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        logits = self.head(self.norm(self.layers(x)))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in dict(layers=4, hidden=128, heads=4, vocab=256, context=64, micro_batch=12, threads=2, steps=20,
                            warmup=3).items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=value)
    parser.add_argument("--foreach", action="store_true", help="AdamW's multi-tensor form (slower on CPUs)")
    return parser.parse_args()


def main():
    args = parse_arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    model = Gpt(args)
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), foreach=args.foreach)
    data = torch.randint(args.vocab, (args.micro_batch, args.context + 1))
    inputs, targets = data[:, :-1].contiguous(), data[:, 1:].contiguous()

    step_ms = []
    for step in range(args.warmup + args.steps):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = model(inputs, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss_value = loss.item()
        if step >= args.warmup:
            step_ms.append((time.perf_counter() - start) * 1e3)
    median = statistics.median(step_ms)
    tokens = args.micro_batch * args.context
    print(json.dumps({
        "parameters": sum(p.numel() for p in model.parameters()), "tokens_per_step": tokens, "loss": loss_value,
        "step_ms": median, "min_step_ms": min(step_ms), "tokens_per_s": tokens * 1e3 / median, "all_step_ms": step_ms,
        "torch": torch.__version__, "capability": torch.__config__.show().split("capability usage: ")[1].split()[0],
    }))


if __name__ == "__main__":
    main()
