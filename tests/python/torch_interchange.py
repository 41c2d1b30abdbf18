"""Weights from a session to a module of PyTorch and back, without a file; samples as tensors. Exit code 77 without PyTorch.

Run by test_torch.py under the interpreter of the wheel, with the distribution's PyTorch behind its packages.
"""

import sys

sys.path.append("/usr/lib/python3/dist-packages")
try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError:
    sys.exit(77)
import numpy as np
import trireme
from conftest import JOB, batch
from trireme import _data


class Attention(nn.Module):
    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden), heads

    def forward(self, x):  # type: ignore[no-untyped-def]
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in self.qkv(x).split(c, 2))
        scores = q @ k.transpose(-2, -1) / (c // self.heads) ** 0.5
        scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2, self.attention = nn.LayerNorm(hidden), nn.LayerNorm(hidden), Attention(hidden, heads)
        self.mlp = nn.ModuleDict({"up": nn.Linear(hidden, 4 * hidden), "down": nn.Linear(4 * hidden, hidden)})

    def forward(self, x):  # type: ignore[no-untyped-def]
        x = x + self.attention(self.norm1(x))
        return x + self.mlp["down"](F.gelu(self.mlp["up"](self.norm2(x)), approximate="tanh"))


class Embedding(nn.Module):
    def __init__(self, vocab: int, length: int, hidden: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Parameter(torch.zeros(vocab, hidden)), nn.Parameter(torch.zeros(length, hidden))


class Gpt(nn.Module):
    """GPT-2 with Trireme's names."""

    def __init__(self, vocab: int, length: int, hidden: int, heads: int, layers: int) -> None:
        super().__init__()
        self.embedding = Embedding(vocab, length, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads) for _ in range(layers))
        self.head = nn.ModuleDict({"norm": nn.LayerNorm(hidden)})

    def forward(self, tokens):  # type: ignore[no-untyped-def]
        x = F.embedding(tokens, self.embedding.tokens) + self.embedding.positions[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return F.linear(self.head["norm"](x), self.embedding.tokens)


module = Gpt(64, 16, 32, 2, 2)
tensors = [torch.from_dlpack(array) for array in batch(1)]
with trireme.Session(trireme.Job.from_toml(JOB), local=2) as session:
    copies = _data.num_copies
    session.step(*tensors)
    assert _data.num_copies == copies, "int32 tensors are read in place"
    module.load_state_dict({name: torch.from_dlpack(array) for name, array in session.state_dict().items()})
    with torch.no_grad():
        expected = module(tensors[0].long())
    logits = session.logits(tensors[0])
    difference = float(np.abs(np.from_dlpack(expected) - logits).max())
    print(f"logits differ by {difference:.2g}")
    assert difference < 1e-5 * np.abs(logits).max()
    before = session.state_hash()
    changed = {name: np.from_dlpack(value.detach()) for name, value in module.state_dict().items()}
    session.load_state_dict(changed)
    assert session.state_hash() == before, "the weights came back bit for bit"
    # One step of plain SGD in PyTorch, then the weights go back.
    F.cross_entropy(module(tensors[0].long()).flatten(0, 1), tensors[1].long().flatten()).backward()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter -= 0.1 * parameter.grad
    session.load_state_dict(module.state_dict())
    with torch.no_grad():
        expected = module(tensors[0].long())
    logits = session.logits(tensors[0])
    assert float(np.abs(np.from_dlpack(expected) - logits).max()) < 1e-5 * np.abs(logits).max()
