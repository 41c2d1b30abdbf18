"""PyTorch beside a session in one process."""

import pathlib
import subprocess
import sys

import pytest


def test_weights_go_to_torch_and_back() -> None:
    script = pathlib.Path(__file__).parent / "torch_interchange.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip("the distribution's Python has no PyTorch: apt-get install python3-torch")
    assert done.returncode == 0, done.stderr
