"""What a rank is doing, read from the memory that it shares with its neighbours (parallel/comm/rank_board.h).

Needs the Python standard library only, and the right to read the process's files: it is a descendant, or this is root.
"""
import mmap
import os
import struct
from pathlib import Path

HEADER = 8
# rank, process, busy, waits, waits_for, finished, ended; namespace, since; version; text
LINE = struct.Struct("<7i4xQqI4x240s")


class RankBoard:
    """The line of one rank. Raises OSError where there is none."""

    def __init__(self, pid):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            if "trireme-board" not in os.readlink(entry):
                continue
            with open(entry, "rb") as file:
                self.memory = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            break
        else:
            raise OSError(f"process {pid} has no board")
        for at in range(HEADER, len(self.memory) - LINE.size + 1, LINE.size):
            if LINE.unpack_from(self.memory, at)[1] == pid:
                self.at = at
                return
        raise OSError(f"process {pid} has no line on its board: has parallel/comm/rank_board.h changed?")

    def line(self):
        return LINE.unpack_from(self.memory, self.at)

    def is_busy(self):
        return self.line()[2] != 0

    def waits(self):
        return self.line()[3] != 0

    def action(self):
        return self.line()[10].split(b"\0")[0].decode(errors="replace")
