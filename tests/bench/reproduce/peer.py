"""Whether a Python has PyTorch, and which."""
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


def peer_version(python):
    """PyTorch's, such as "2.9.1+cpu"; empty without."""
    if why_no_peer(python):
        return ""
    return subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True).stdout.strip()
