"""Flips bits of a running rank: in parameters, optimizer state, gradients and messages."""
import struct
import time
from pathlib import Path

from injection import Injection, Unavailable
from jobs import OPTIONS
from process_memory import change_element


class BitFlip(Injection):
    """Flips a bit of a parameter in a rank's memory, right after a checkpoint."""

    file = "model.safetensors"

    def start(self):
        self.keys = ("checkpoint.verify_every=2", f"parallel.zero={self.numbers.choice((0, 0, 1, 2, 3))}")
        return super().start()

    def change(self, value):
        bit = self.numbers.randrange(8, 31)
        return (int.from_bytes(value, "little") ^ 1 << bit).to_bytes(4, "little")

    def strike(self):
        pid, tried = self.rank(), self.newest()
        while True:
            checkpoint = self.wait_until(lambda: self.newest() != tried and self.newest())
            tried, self.begin = checkpoint, time.time()
            if change_element(pid, checkpoint / self.file, self.numbers, self.change):
                break
        self.culprit = rf"silent corruption: .* rank {self.victim} on "


class OptimizerBitFlip(BitFlip):
    """Flips a bit of the optimizer state, in which gradients accumulate."""

    file = "optimizer.safetensors"


class NanParameter(BitFlip):
    """Sets a parameter to NaN. The loss becomes NaN, too; the error must still name the rank."""

    def change(self, value):
        return b"\0\0\xc0\x7f"


class Spike(BitFlip):
    """Makes a parameter of one rank huge, without checkpoint.verify_every."""

    job_keys = ("train.steps=40", "train.on_spike=rollback")  # the detector needs 16 steps
    first_step, last_step = 21, 29

    def start(self):
        return Injection.start(self)

    def change(self, value):
        return struct.pack("<f", 1e4)

    def strike(self):
        super().strike()
        self.culprit = r"is a spike: rolled back|the state after step \d+ differs between ranks"


class MessageBitFlip(Injection):
    """Flips a bit of a message in transit, with any ZeRO stage or with pipeline stages."""

    kind = "message"
    KEYS = ("parallel.zero=0", "parallel.zero=1", "parallel.zero=2", "parallel.zero=3", "parallel.pipeline=2")

    def start(self):
        library = Path(OPTIONS.trireme).parent / "libmpi_bit_flips.so"
        if not library.exists():
            raise Unavailable(f"{library} is not built: target mpi_bit_flips")
        self.order = self.case.folder / "flip"
        self.environment = {"LD_PRELOAD": str(library), "TRIREME_BIT_FLIP": str(self.order)}
        self.keys = ("checkpoint.verify_every=2", self.numbers.choice(self.KEYS))
        return super().start()

    def strike(self):
        done = self.order.with_name("flip.done")
        order = self.order.with_suffix(".new")
        order.write_text(f"{self.victim} {self.kind} {self.numbers.randrange(1 << 40)}\n")
        order.rename(self.order)
        self.wait_until(done.exists)
        self.begin = done.stat().st_ctime
        self.culprit = self.pattern()

    def pattern(self):
        return rf"messages arrived changed from rank {self.victim} on \S+ to rank {1 - self.victim} on "


class GradientBitFlip(MessageBitFlip):
    """Flips a bit of a summed gradient on one rank. With zero = 0 the ranks differ from then on."""

    kind = "gradient"
    KEYS = ("parallel.zero=0",)

    def pattern(self):
        return r"silent corruption: after step \d+ the state of rank 0 on \S+ or rank 1 on "
