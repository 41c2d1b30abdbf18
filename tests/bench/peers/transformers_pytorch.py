#!/usr/bin/env python3
"""The peer of transformers_vs_pytorch.py and card_table.py: a GPT-2, Llama, BERT, ViT or LSTM, trained by PyTorch in its idiom.

    transformers_pytorch.py --model llama --layers 6 --hidden 288 --heads 6 --ffn 768 --vocab 32000 --context 256

Needs PyTorch 2. Attention by scaled_dot_product_attention, AdamW in its fused form where this PyTorch has it for CPUs;
--compile compiles the model; --precision bf16 and fp16 run it under torch.autocast, fp16 with a GradScaler. Prints one
JSON object: parameters, milliseconds a step (median), rate, peak bytes on a GPU, loss. The data are random: time does not
depend on them.
"""

import argparse
import json
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F


def attend(q, k, v, heads, kv_heads, causal):
    """[B, T, heads * D], keys and values of `kv_heads` heads, each read by as many query heads."""
    def split(x, count):
        return x.view(*x.shape[:2], count, -1).transpose(1, 2)

    q, k, v = split(q, heads), split(k, kv_heads), split(v, kv_heads)
    if kv_heads != heads:
        k, v = (x.repeat_interleave(heads // kv_heads, dim=1) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(2)


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.weight


def rotate(x, heads, cos, sin):
    """Turns the two halves of every head of [B, T, heads * D]; cos and sin are [T, 1, D / 2]."""
    first, second = x.view(*x.shape[:2], heads, -1).chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).flatten(2)


class LlamaLayer(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.heads, self.kv_heads = args.heads, args.kv_heads or args.heads
        width, kv_width = args.hidden, args.hidden // args.heads * self.kv_heads
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.q, self.k, self.v = (nn.Linear(width, w, bias=False) for w in (width, kv_width, kv_width))
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, args.ffn, bias=False) for _ in range(2))
        self.down = nn.Linear(args.ffn, width, bias=False)

    def forward(self, x, cos, sin):
        y = self.norm1(x)
        q, k = rotate(self.q(y), self.heads, cos, sin), rotate(self.k(y), self.kv_heads, cos, sin)
        x = x + self.out(attend(q, k, self.v(y), self.heads, self.kv_heads, causal=True))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.tokens = nn.Embedding(args.vocab, args.hidden)
        self.layers = nn.ModuleList(LlamaLayer(args) for _ in range(args.layers))
        self.norm, self.head = RmsNorm(args.hidden), nn.Linear(args.hidden, args.vocab, bias=False)
        if args.tied:
            self.head.weight = self.tokens.weight
        half = args.hidden // args.heads // 2
        angles = torch.outer(torch.arange(args.context), 10000.0 ** (-torch.arange(half) / half))
        self.register_buffer("cos", angles.cos()[:, None], persistent=False)
        self.register_buffer("sin", angles.sin()[:, None], persistent=False)

    def forward(self, tokens, targets):
        x = self.tokens(tokens)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


class BertLayer(nn.Module):
    def __init__(self, args):
        super().__init__()
        width, self.heads = args.hidden, args.heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def attention(self, x):
        return self.out(attend(*self.qkv(x).chunk(3, dim=-1), self.heads, self.heads, causal=False))

    def mlp(self, x):
        return self.down(F.gelu(self.up(x)))

    def forward(self, x):
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.mlp(x))


class Bert(nn.Module):
    """The loss of masked tokens; logits of all positions, as published."""

    def __init__(self, args):
        super().__init__()
        self.tokens, self.types = nn.Embedding(args.vocab, args.hidden), nn.Embedding(2, args.hidden)
        self.positions = nn.Parameter(torch.zeros(args.context, args.hidden))
        self.norm = nn.LayerNorm(args.hidden)
        self.layers = nn.Sequential(*(BertLayer(args) for _ in range(args.layers)))
        self.transform, self.head_norm = nn.Linear(args.hidden, args.hidden), nn.LayerNorm(args.hidden)
        self.bias = nn.Parameter(torch.zeros(args.vocab))

    def forward(self, tokens, targets):
        x = self.layers(self.norm(self.tokens(tokens) + self.positions + self.types.weight[0]))
        x = self.head_norm(F.gelu(self.transform(x)))
        logits = F.linear(x, self.tokens.weight, self.bias)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)


class VitLayer(BertLayer):
    """The same parts, each norm before its branch."""

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GptLayer(BertLayer):
    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        x = x + self.out(attend(q, k, v, self.heads, self.heads, causal=True))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """GPT-2: learned positions, and a head that shares the token embedding."""

    def __init__(self, args):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(args.vocab, args.hidden), nn.Embedding(args.context, args.hidden)
        self.layers = nn.Sequential(*(GptLayer(args) for _ in range(args.layers)))
        self.norm = nn.LayerNorm(args.hidden)

    def forward(self, tokens, targets):
        x = self.norm(self.layers(self.tokens(tokens) + self.positions.weight))
        return F.cross_entropy(F.linear(x, self.tokens.weight).flatten(0, 1), targets.flatten())


class Vit(nn.Module):
    """The classes are read from a class token before the patches."""

    def __init__(self, args):
        super().__init__()
        self.patches = nn.Conv2d(3, args.hidden, args.patch, stride=args.patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, args.hidden))
        self.positions = nn.Parameter(torch.zeros(1, (args.image_size // args.patch) ** 2 + 1, args.hidden))
        self.layers = nn.Sequential(*(VitLayer(args) for _ in range(args.layers)))
        self.norm, self.head = nn.LayerNorm(args.hidden, eps=1e-6), nn.Linear(args.hidden, args.classes)

    def forward(self, images, targets):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.class_token.expand(len(x), -1, -1), x), dim=1) + self.positions
        return F.cross_entropy(self.head(self.norm(self.layers(x)[:, 0])), targets)


class Lstm(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.encoder = nn.Embedding(args.vocab, args.hidden)
        self.rnn = nn.LSTM(args.hidden, args.hidden, args.layers, batch_first=True)
        self.decoder = nn.Linear(args.hidden, args.vocab)

    def forward(self, tokens, targets):
        return F.cross_entropy(self.decoder(self.rnn(self.encoder(tokens))[0]).flatten(0, 1), targets.flatten())


MODELS = {"gpt": Gpt, "llama": Llama, "bert": Bert, "vit": Vit, "lstm": Lstm}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, choices=MODELS)
    for name, value in dict(layers=2, hidden=128, heads=2, kv_heads=0, ffn=0, vocab=256, context=64, image_size=32,
                            patch=4, classes=10, micro_batch=4, threads=2, steps=3, warmup=1).items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=value)
    parser.add_argument("--tied", action="store_true", help="the head of a Llama shares the token embedding")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--precision", choices=("fp32", "bf16", "fp16"), default="fp32")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    return parser.parse_args()


def batch_of(args):
    if args.model == "vit":
        return (torch.randn(args.micro_batch, 3, args.image_size, args.image_size),
                torch.randint(args.classes, (args.micro_batch,)))
    tokens = torch.randint(args.vocab, (args.micro_batch, args.context + 1))
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    if args.model == "bert":
        targets = torch.where(torch.rand(targets.shape) < 0.15, targets, torch.full_like(targets, -1))
    return inputs, targets


def adamw(model):
    groups = [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    try:
        return torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.95), fused=True), True
    except (RuntimeError, TypeError):  # an older PyTorch has it for GPUs only, or not at all
        return torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.95)), False


def main():
    args = parse_arguments()
    on_gpu = args.device == "cuda"
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    model = MODELS[args.model](args).to(args.device)
    for parameter in model.parameters():
        if parameter.dim() >= 2:
            nn.init.normal_(parameter, std=0.02)
    optimizer, fused = adamw(model)
    inputs, targets = (x.to(args.device) for x in batch_of(args))
    # A CPU has no autocast to fp16: there the script is tried out in bf16.
    dtype = torch.float16 if args.precision == "fp16" and on_gpu else torch.bfloat16
    scaler = torch.amp.GradScaler("cuda") if args.precision == "fp16" and on_gpu else None
    run = torch.compile(model) if args.compile else model
    step_ms = []
    for step in range(args.warmup + args.steps):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(args.device, dtype=dtype, enabled=args.precision != "fp32"):
            loss = run(inputs, targets)
        (scaler.scale(loss) if scaler else loss).backward()
        if scaler:
            scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        loss_value = loss.item()
        if step >= args.warmup:
            step_ms.append((time.perf_counter() - start) * 1e3)
    median = statistics.median(step_ms)
    units = args.micro_batch * (1 if args.model == "vit" else args.context)
    print(json.dumps({"parameters": sum(p.numel() for p in model.parameters()), "loss": loss_value,
                      "step_ms": median, "all_step_ms": step_ms, "torch": torch.__version__, "fused_adamw": fused,
                      "images_per_s" if args.model == "vit" else "tokens_per_s": units * 1e3 / median,
                      "peak_bytes": torch.cuda.max_memory_allocated() if on_gpu else 0, "compiled": args.compile}))


if __name__ == "__main__":
    main()
