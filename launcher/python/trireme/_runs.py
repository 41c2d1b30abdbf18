"""Results of trainings, read from their output folders."""

from __future__ import annotations

import json
import pathlib
import tomllib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ._errors import Error


def _read_lines(path: pathlib.Path) -> list[dict[str, Any]]:
    """The records of a file; a line that is still being written is left out."""
    records = []
    with path.open(encoding="utf-8") as file:
        for line in file:
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue
            if isinstance(record, dict):
                records.append(record)
    return records


def _columns(records: Iterable[dict[str, Any]]) -> dict[str, npt.NDArray[Any]]:
    """Numbers of the records by key, NaN where a record has none; other values are left out."""
    rows = list(records)
    keys = dict.fromkeys(key for row in rows for key, value in row.items() if isinstance(value, (bool, int, float)))
    columns: dict[str, npt.NDArray[Any]] = {}
    for key in keys:
        values = [row.get(key) for row in rows]
        if all(type(value) is int for value in values):
            columns[key] = np.array(values, np.int64)
        else:
            columns[key] = np.array([np.nan if value is None else value for value in values], np.float64)
    return columns


def _flat(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


class Run:
    """The output folder of one training."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder

    @property
    def metrics(self) -> dict[str, npt.NDArray[Any]]:
        """Columns over the steps: step, loss, lr, grad_norm, step_ms, ..., as NumPy arrays of equal length."""
        return _columns(row for row in _read_lines(self.folder / "metrics.jsonl") if "loss" in row)

    @property
    def evaluations(self) -> dict[str, npt.NDArray[Any]]:
        """Columns over the evaluations: step, eval_loss, ..."""
        return _columns(row for row in _read_lines(self.folder / "metrics.jsonl") if "eval_loss" in row)

    @property
    def config(self) -> dict[str, Any]:
        """The resolved job, by section."""
        return tomllib.loads((self.folder / "config.toml").read_text(encoding="utf-8"))

    @property
    def summary(self) -> dict[str, Any]:
        """Final figures; empty while the training runs."""
        path = self.folder / "summary.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def differences(self, other: Run) -> dict[str, tuple[Any, Any]]:
        """Keys of the job whose values differ: name -> (here, there); None where a job lacks the key."""
        here, there = dict(_flat(self.config)), dict(_flat(other.config))
        return {key: (here.get(key), there.get(key)) for key in {**here, **there} if here.get(key) != there.get(key)}

    def __repr__(self) -> str:
        return f"<trireme.Run {self.folder}>"


def runs(folder: str | pathlib.Path) -> list[Run]:
    """The trainings in `folder` and below, by name; `folder` may be the output folder of one.

    Raises Error (code "invalid_input") if there is none.
    """
    root = pathlib.Path(folder)
    found = sorted(path.parent for path in root.rglob("metrics.jsonl"))
    if not found:
        raise Error(f"{root} holds no output folder of a training, which has a metrics.jsonl", file=str(root))
    return [Run(path) for path in found]
