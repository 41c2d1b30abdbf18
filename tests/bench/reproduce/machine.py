"""The facts about this machine that decide a measurement: what results are kept by."""
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

NET = Path(__file__).resolve().parents[2] / "net"


def _processor():
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    found = re.search(r"model name\s*:\s*(.+)", text)
    return found.group(1).strip() if found else platform.machine()


def _gpu():
    if not shutil.which("nvidia-smi"):
        return None
    asked = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True,
                           text=True)
    return asked.stdout.strip().split("\n")[0] if asked.returncode == 0 and asked.stdout.strip() else None


def num_gpus():
    if not shutil.which("nvidia-smi"):
        return 0
    return subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True).stdout.count("GPU ")


def why_no_cuda(trireme):
    """What is missing for jobs on a GPU; empty: nothing."""
    if not num_gpus():
        return "it needs an NVIDIA GPU with its driver, and nvidia-smi lists none here"
    doctor = subprocess.run([str(trireme), "doctor", "--no-measure", "--json"], capture_output=True, text=True).stdout
    if '"cuda"' not in doctor:
        return "it needs a build with CUDA (cmake --preset cuda), named with --trireme"
    return ""


def why_no_namespaces():
    """What is missing for hosts as network namespaces; empty: nothing."""
    sys.path.insert(0, str(NET))
    try:
        from hosts import Hosts, Unavailable
    except ImportError:
        return "it needs hosts as network namespaces: tests/net of a source tree"
    try:
        with Hosts(1, rate="1gbit"):
            return ""
    except (Unavailable, RuntimeError) as lack:
        return f"it needs network namespaces as hosts with slow links: {lack}"


def cores():
    """Those that this process may use."""
    return len(os.sched_getaffinity(0))


def memory_bytes():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def machine_facts(trireme):
    """What a figure belongs to: hardware, the program by its digest, and how busy the machine is."""
    return {"processor": _processor(), "cores": cores(), "memory_bytes": memory_bytes(), "gpu": _gpu(), "gpus": num_gpus(),
            "load": round(os.getloadavg()[0], 1),
            "system": platform.platform(), "build": hashlib.sha256(Path(trireme).read_bytes()).hexdigest()[:16]}


def same_hardware(one, other):
    return all(one.get(key) == other.get(key) for key in ("processor", "cores", "gpu"))
