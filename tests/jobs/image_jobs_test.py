#!/usr/bin/env python3
"""Jobs on images that reach the same state, whichever rank reads them.

    image_jobs_test.py --trireme build/release/bin/trireme --mpiexec mpirun [unittest options]
"""
import random
import struct
import subprocess
import zlib

from jobs import JobTest, command, main

JOB = """
[model]
name = "resnet20"
classes = 3
[data]
kind = "images"
train = "{folder}/train"
eval = "{folder}/test"
image_size = 12
crop = "resized"
[train]
steps = 4
global_batch = 16
micro_batch = 2
[optimizer]
name = "sgd"
lr = 0.05
schedule = "constant"
[parallel]
threads = 1
"""


def png(width, height, pixel):
    """An RGB picture; pixel(x, y) gives three bytes."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes(c for x in range(width) for c in pixel(x, y)) for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class ImageJobs(JobTest):
    def setUp(self):
        super().setUp()
        numbers = random.Random(5)
        for split, count in (("train", 39), ("test", 9)):
            for i in range(count):
                path = self.folder / split / "abc"[i % 3] / f"{i}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(png(numbers.randint(9, 30), numbers.randint(9, 30),
                                     lambda x, y, i=i: (x * 8 % 256, y * 8 % 256, (80 * (i % 3) + i) % 256)))
        self.job.write_text(JOB.format(folder=self.folder))

    def test_mixed_pictures_on_every_number_of_ranks(self):
        # 64 samples of 39 pictures: groups of neighbours that are mixed lie across passes, and across ranks.
        mixes = {"mixup": ("data.mixup=0.4",), "mosaic": ("data.mosaic=1",), "both": ("data.mixup=1", "data.mosaic=0.5")}
        states = set()
        for name, keys in mixes.items():
            sets = [part for key in keys for part in ("--set", key)]
            self.run_job(0, name, *sets, "--set", "data.workers=0")
            states.add(self.state(name))
            for ranks, more in ((2, ("data.workers=2", 'data.cache="1 MiB"')), (4, ("parallel.zero=2",))):
                out = f"{name}-{ranks}"
                self.run_job(ranks, out, *sets, *(part for key in more for part in ("--set", key)))
                self.assertEqual(self.state(out), self.state(name), f"{name} on {ranks} ranks")
                self.assertEqual([m["loss"] for m in self.metrics(out) if "loss" in m],
                                 [m["loss"] for m in self.metrics(name) if "loss" in m])
        self.assertEqual(len(states), 3)

    def test_predictions_of_any_number_of_ranks(self):
        self.run_job(0, "run")
        files = set()
        for ranks in (0, 2, 3):
            file = self.folder / f"predictions-{ranks}"
            subprocess.run(command(ranks, "eval", self.folder / "run", "--predictions", file), check=True,
                           capture_output=True, timeout=300)
            files.add(file.read_text())
        self.assertEqual([text.count("\n") for text in files], [9])

    def test_kept_pictures_are_part_of_the_prediction(self):
        cached = ("--set", 'data.cache="3 MiB"')
        plain, kept = self.plan(2)["groups"][0], self.plan(2, *cached)["groups"][0]
        self.assertEqual(kept["memory"]["data"], 3 << 20)
        self.assertEqual(kept["peak_bytes"], plain["peak_bytes"] + (3 << 20))
        self.run_job(2, "kept", *cached)
        for m in self.metrics("kept"):
            if "loss" in m:
                self.assertEqual(m["peak_bytes"], kept["peak_bytes"])
                self.assertEqual(m["memory"]["data"], 3 << 20)


if __name__ == "__main__":
    main()
