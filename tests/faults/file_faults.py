"""Faults of files: disks that are full or read-only, checkpoints and data that are damaged."""
import os
import random
import resource
import signal
import struct
import subprocess
import time
import unittest

from injection import IN_BACKGROUND, Injection, Missed, Unavailable
from jobs import OPTIONS
from supervised import SmallDisk

NUM_TOKENS = 60_000
FILE_LIMIT = 100_000  # above metrics.jsonl at its end, below one file of a checkpoint


def write_shard(folder):
    """Tokens in the common layout: 256 numbers, then 16 bits a token."""
    shard, numbers = folder / "tokens.bin", random.Random(7)
    header = struct.pack("<256i", 20240520, 1, NUM_TOKENS, *[0] * 253)
    shard.write_bytes(header + struct.pack(f"<{NUM_TOKENS}H", *[numbers.randrange(64) for _ in range(NUM_TOKENS)]))
    return shard


class DiskFull(Injection):
    """A limit on the size of files stands for it: rank 0 cannot write its next checkpoint."""

    def strike(self):
        self.victim = 0
        pid = self.rank()
        self.begin = time.time()
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (FILE_LIMIT, FILE_LIMIT))
        self.culprit = r"checkpoints/\S*step-0000\d\d.*File too large"


class BackgroundDiskFull(Injection):
    """The same while a thread writes: of rank 0, which makes the files, or of another, which has a part of them."""

    keys = (IN_BACKGROUND,)

    def strike(self):
        pid = self.rank()
        self.begin = time.time()
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (FILE_LIMIT, FILE_LIMIT))
        self.culprit = rf"rank {self.victim}: .*checkpoints/\S*step-0000\d\d.*File too large"


class FullFileSystem(Injection):
    """The file system of the output folder is full for a minute; the supervisor waits."""

    def start(self):
        if self.disk is None:
            try:
                self.disk = SmallDisk(self.case, 24)
            except unittest.SkipTest as reason:
                raise Unavailable(reason)
        return super().start()

    def strike(self):
        self.begin = time.time()
        self.disk.fill()
        self.culprit = "No space left on device"

    def after_end(self):
        time.sleep(max(0, self.begin + OPTIONS.full_seconds - time.time()))
        self.disk.make_room()

    def judge(self, named):
        words = ("waiting for the disk, for up to", "the disk takes data again")
        return named and len(self.run.events("begin")) == 2 and all(text in self.run.output() for text in words)


class FileSystemStaysFull(FullFileSystem):
    """It stays full: the supervisor gives up. Later there is room, and the same command goes on."""

    options = ("--max-disk-minutes", "0.05")

    def strike(self):
        super().strike()
        self.first_output = self.run.end(expect=1)
        self.verdict, self.supervisor = time.time(), True
        self.disk.make_room()

    def judge(self, named):
        return named and "waited 3 s for the disk (--max-disk-minutes 0.05)" in self.first_output


class ReadOnlyOutput(Injection):
    """The folder of checkpoints becomes a read-only file system, until the job has ended for that."""

    def strike(self):
        folder = self.folder = self.run.out / "checkpoints"
        self.mount("--bind", folder, folder)
        self.case.addCleanup(self.unmount)
        self.begin = time.time()
        self.mount("-o", "remount,ro,bind", folder)
        self.culprit = r"checkpoints/?\S*.*Read-only file system"

    def mount(self, *words):
        try:
            done = subprocess.run(["mount", *words], capture_output=True, text=True)
        except FileNotFoundError as error:
            raise Unavailable(error)
        if done.returncode != 0:
            raise Unavailable(done.stderr.strip())

    def unmount(self):
        if os.path.ismount(self.folder) or self.is_bound():
            subprocess.run(["umount", "--lazy", self.folder], capture_output=True)

    def is_bound(self):
        with open("/proc/self/mountinfo") as mounts:
            return any(line.split()[4] == str(self.folder) for line in mounts)

    def after_end(self):
        self.unmount()


class DamagedCheckpoint(Injection):
    """A byte of the newest checkpoint changes; then a rank dies."""

    what = "was changed after it was written.*; changed: '"

    def damage(self, path):
        with open(path, "r+b") as file:
            file.seek(path.stat().st_size // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))

    def strike(self):
        self.damaged = self.newest()
        try:
            path = max(self.damaged.glob("*.safetensors"), key=lambda file: file.stat().st_size)
            self.damage(path)
        except (FileNotFoundError, ValueError):
            raise Missed  # two newer ones were saved meanwhile
        pid = self.rank()
        self.begin = time.time()
        os.kill(pid, signal.SIGKILL)
        self.dies(pid)
        verified = self.verify(self.damaged)
        if "no folder" in verified.stderr:
            raise Missed  # likewise
        self.case.assertEqual(verified.returncode, 1, verified)
        self.case.assertRegex(verified.stdout, rf"{self.damaged}  damaged: .*{path.name} {self.what}")

    def judge(self, named):
        second = (self.run.out / "attempts" / "attempt-0002.log").read_text()
        if self.damaged.name not in second:
            raise Missed  # a newer one was saved before the rank died
        return named and f"ignoring damaged checkpoint {self.damaged}" in second


class TornCheckpoint(DamagedCheckpoint):
    """A file of the newest checkpoint loses its end; then a rank dies."""

    what = r"has \d+ bytes, but its manifest says"

    def damage(self, path):
        os.truncate(path, path.stat().st_size * 2 // 3)


class MissingCheckpointFile(DamagedCheckpoint):
    what = "does not exist"

    def damage(self, path):
        path.unlink()


class TruncatedShard(Injection):
    """The tokens lose their end under the job, which names the file and cannot go on until they are back."""

    job_keys = ("data.kind=tokens",)

    @classmethod
    def prepare(cls, case):
        return (f"data.train={write_shard(case.folder)}",)

    def strike(self):
        shard = self.case.folder / "tokens.bin"
        whole = shard.read_bytes()
        self.begin = time.time()
        os.truncate(shard, 8192)
        self.culprit = rf"{shard}"
        self.run.end(expect=2)
        self.verdict, self.supervisor = time.time(), True
        shard.write_bytes(whole)

    def verdicts(self):
        # A rank that gets SIGBUS cannot name the file; the next attempt can.
        return [end["verdict"] for end in self.run.events("end")][:2]
