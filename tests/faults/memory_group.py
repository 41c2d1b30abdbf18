"""A control group of memory for one process: the kernel's OOM killer ends it as soon as it takes another page.

Needs the Python standard library only, and the right to make control groups (version 1 or 2).
"""
import os
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
LIMITS = {ROOT / "memory": "memory.limit_in_bytes", ROOT: "memory.max"}  # version 1, version 2


class MemoryGroup:
    """Raises OSError where there can be none."""

    def __init__(self):
        for parent, limit in LIMITS.items():
            self.folder, self.limit = parent / f"trireme-{os.getpid()}-{time.time_ns()}", limit
            if not parent.is_dir():
                continue
            try:
                self.folder.mkdir()
            except OSError:
                continue
            if (self.folder / limit).exists():
                return
            self.folder.rmdir()
        raise OSError("no control group of memory can be made here")

    def starve(self, pid):
        """What the process has stays charged to its former group; it gets nothing more."""
        (self.folder / self.limit).write_text("0")
        (self.folder / "cgroup.procs").write_text(str(pid))

    def remove(self):
        for _ in range(100):
            try:
                self.folder.rmdir()
                return
            except OSError:  # the process is not gone yet
                time.sleep(0.05)
