"""A small job that the tests share."""

import pathlib

import numpy as np
import pytest
import trireme

JOB = """
[model]
name = "gpt"
layers = 2
hidden = 32
heads = 2
seq_len = 16
vocab = 64
[data]
kind = "synthetic"
[train]
steps = 6
global_batch = 8
micro_batch = 2
seed = 3
[optimizer]
name = "adamw"
lr = 1e-3
grad_clip = 1.0
[parallel]
threads = 1
oversubscribe = true
"""


@pytest.fixture
def job() -> trireme.Job:
    return trireme.Job.from_toml(JOB)


@pytest.fixture
def job_file(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "small.toml"
    path.write_text(JOB)
    return path


class Tokens:
    """A data set of random rows, which notes the order in which they are read."""

    fingerprint = "rows of generator 5"

    def __init__(self, count: int = 20) -> None:
        self.rows = np.random.default_rng(5).integers(0, 64, (count, 17), dtype=np.int32)
        self.order: list[int] = []

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        self.order.append(index)
        return self.rows[index, :-1], self.rows[index, 1:]


@pytest.fixture
def tokens() -> Tokens:
    return Tokens()


def batch(seed: int, count: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets [count, 16] int32."""
    rows = np.random.default_rng(seed).integers(0, 64, (count, 17), dtype=np.int32)
    return np.ascontiguousarray(rows[:, :-1]), np.ascontiguousarray(rows[:, 1:])
