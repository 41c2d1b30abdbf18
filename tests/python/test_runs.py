"""Results read back as columns, the examples, and the types of the package."""

import inspect
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import trireme
from conftest import JOB

ROOT = pathlib.Path(__file__).parents[2]


def test_columns(tmp_path: pathlib.Path) -> None:
    for name, lr in (("a", 1e-3), ("b", 2e-3)):
        job = trireme.Job.from_toml(JOB, {"optimizer.lr": lr, "train.eval_every": 3, "data.eval": "synthetic"})
        with trireme.Session(job) as session:
            list(session.train(tmp_path / name))
    first, second = trireme.runs(tmp_path)
    assert first.metrics["step"].tolist() == [1, 2, 3, 4, 5, 6] and first.metrics["step"].dtype == np.int64
    assert first.metrics["loss"].dtype == np.float64 and np.isfinite(first.metrics["loss"]).all()
    assert first.evaluations["step"].tolist() == [3, 6]
    assert first.summary["status"] == "done" and first.config["train"]["steps"] == 6
    assert first.differences(second) == {"optimizer.lr": (1e-3, 2e-3)}
    assert trireme.runs(tmp_path / "b")[0].folder == second.folder
    with pytest.raises(trireme.Error, match="metrics.jsonl"):
        trireme.runs(tmp_path / "c")


def test_every_public_name_is_documented() -> None:
    for name in trireme.__all__:
        value = getattr(trireme, name)
        assert inspect.getdoc(value), name
        for member, function in inspect.getmembers(value, inspect.isfunction):
            assert member.startswith("_") or inspect.getdoc(function), f"{name}.{member}"


@pytest.mark.parametrize("example", sorted(path.name for path in (ROOT / "examples/python").glob("*.py")))
def test_examples(example: str, tmp_path: pathlib.Path) -> None:
    # The program sets the same value: other tests may need the cores.
    environment = {**os.environ, "GOMP_SPINCOUNT": "20000"}
    subprocess.run([sys.executable, str(ROOT / "examples/python" / example)], check=True, cwd=tmp_path, env=environment)


def test_plot_of_memory(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("matplotlib")
    subprocess.run([sys.executable, str(ROOT / "examples/python/memory_of_layouts.py"), "plot.svg"], check=True, cwd=tmp_path)
    assert "MiB of the largest rank" in (tmp_path / "plot.svg").read_text()


def test_types() -> None:
    checked = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir=/dev/null",
                              str(ROOT / "examples/python"), str(ROOT / "launcher/python/trireme")],
                             capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
