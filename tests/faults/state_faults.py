"""Bits that flip: in parameters, and in the optimizer's state, of a running rank."""
import struct
import time

from injection import Injection
from process_memory import change_element


class BitFlip(Injection):
    """A bit of a parameter changes in a rank's memory, right after a checkpoint."""

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
    """The same of the optimizer's state, which gradients are summed up in."""

    file = "optimizer.safetensors"


class NanParameter(BitFlip):
    """A parameter becomes NaN: the loss does, too, and the rank is still named."""

    def change(self, value):
        return b"\0\0\xc0\x7f"


class Spike(BitFlip):
    """A parameter of one rank becomes huge, and nobody verifies the state."""

    job_keys = ("train.steps=40", "train.on_spike=rollback")  # enough steps to know what a spike is
    first_step, last_step = 21, 29

    def start(self):
        return Injection.start(self)

    def change(self, value):
        return struct.pack("<f", 1e4)

    def strike(self):
        super().strike()
        self.culprit = r"is a spike: rolled back|the state after step \d+ differs between ranks"
