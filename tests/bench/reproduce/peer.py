"""Whether a Python has PyTorch."""
import subprocess


def why_no_peer(python):
    """What is missing for runs of PyTorch; empty: nothing."""
    if not python:
        return "it needs a Python with PyTorch, named with --peer PYTHON"
    try:
        asked = subprocess.run([python, "-c", "import torch"], capture_output=True, text=True)
    except OSError as error:
        return f"--peer {python} cannot be run: {error.strerror}"
    if asked.returncode != 0:
        last = (asked.stderr.strip().splitlines() or ["no output"])[-1]
        return f"--peer {python} has no PyTorch ({last}): pip install torch, or Debian's python3-torch"
    return ""
