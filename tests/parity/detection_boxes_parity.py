#!/usr/bin/env python3
"""Boxes of augmented samples, computed by Trireme and with torchvision.transforms.v2, on a hundred seeds.

    torch_python.sh detection_boxes_parity.py --boxes PATH/detection_boxes [--seeds 100]

Each seed has eight random pictures and a sample of each kind: letterbox, mirror, scale and shift, Mosaic, MixUp and all
of them. Objects reach over the picture's edge, lie outside of it, are empty, tiny or crowds. The positions of the
pictures are computed here from the seed. torchvision clips, resizes, scales, shifts, crops, mirrors and removes the boxes
(clamp, resize, affine, crop, pad, horizontal_flip, sanitize). Exit code 1: a position or a box differs by more than 1e-6
pixels, or a box is missing or should not be there. Exit code 77 (skipped): torchvision is missing.
"""

import argparse
import collections
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import torch
    from torchvision import tv_tensors
    from torchvision.transforms.v2 import functional as F
    F.sanitize_bounding_boxes  # since 0.17
except (ImportError, AttributeError):
    print("detection_boxes_parity.py: Skipped\nno torchvision here: pip install torchvision, and set "
          "TRIREME_TORCH_PYTHON\n[  SKIPPED ] detection_boxes_parity.py (0 ms)")
    sys.exit(77)

from philox import philox

BOUND = 1e-6  # pixels
MIN_SIDE, MIN_VISIBLE = 2, 0.1
PLAIN = {"mosaic": 0, "mixup": 0, "scale": [1, 1], "mixup_scale": [0.5, 1.5], "shift": 0, "flip": 0}
KINDS = {"letterbox": {}, "mirror": {"flip": 1}, "scale and shift": {"scale": [0.4, 2.0], "shift": 0.2},
         "mosaic": {"mosaic": 1, "scale": [0.4, 1.6], "shift": 0.1}, "mixup": {"mixup": 1},
         "all": {"mosaic": 0.6, "mixup": 0.6, "scale": [0.3, 1.8], "mixup_scale": [0.3, 2.0], "shift": 0.15, "flip": 0.5}}

# A picture's map into the sample: x -> scale * x + (left, top); `shown` is the rectangle of whole pixels that is drawn.
# With `size` (height, width) the whole picture is resized to whole pixels instead, and the scales of both sides differ.
Placed = collections.namedtuple("Placed", "member scale left top shown mirror size")


def random_object(rng, width, height, label):
    kind = rng.random()
    w, h = rng.uniform(0.02, 0.7) * width, rng.uniform(0.02, 0.7) * height
    x, y = rng.uniform(0, width - w), rng.uniform(0, height - h)
    if kind < 0.2:  # over an edge
        x, y = rng.uniform(-w, width), rng.uniform(-h, height)
    elif kind < 0.25:  # outside
        x = width + rng.uniform(0, 9)
    elif kind < 0.3:  # empty
        w = 0
    elif kind < 0.45:  # tiny
        w, h = rng.uniform(0.2, 8), rng.uniform(0.2, 8)
    if rng.random() < 0.3:
        x, y, w, h = (float(round(value)) for value in (x, y, w, h))
    return [x, y, w, h, label, int(rng.random() < 0.08)]


def random_case(seed, kind):
    rng = random.Random(f"{seed} {kind}")
    pictures = []
    for member in range(8):
        width, height = rng.randint(20, 400), rng.randint(20, 400)
        objects = [random_object(rng, width, height, 100 * member + i) for i in range(rng.choice((0, 1, 3, 8)))]
        pictures.append({"size": [width, height], "objects": objects})
    return {"seed": seed, "side": rng.choice((64, 96, 416)), "options": PLAIN | KINDS[kind], "pictures": pictures}


class Draws:
    """Uniform numbers in the order of runtime/data/image_random.h, of the first sample of the first epoch."""

    def __init__(self, seed):
        self.seed, self.group, self.words = seed, 0, []

    def uniform(self, low=0.0, high=1.0):
        if not self.words:
            self.words = [int(word) for word in philox((self.group, 0, 0, 0xFFFF0021), self.seed)]
            self.group += 1
        return low + (high - low) * (self.words.pop(0) / 2 ** 32)


def shown_pixels(left, top, width, height, window):
    """The whole pixels (left, top, right, bottom) within a picture's rectangle and a window; None: there are none."""
    shown = [math.ceil(max(left, window[0]) - 1e-6), math.ceil(max(top, window[1]) - 1e-6),
             math.floor(min(left + width, window[2]) + 1e-6), math.floor(min(top + height, window[3]) + 1e-6)]
    return shown if shown[0] < shown[2] and shown[1] < shown[3] else None


class Expected:
    """Where the pictures of a sample stand."""

    def __init__(self, case):
        self.draws, self.side, self.options = Draws(case["seed"]), case["side"], case["options"]
        self.sizes = [picture["size"] for picture in case["pictures"]]

    def fit(self, member):
        return min(self.side / length for length in self.sizes[member])

    def partner(self, taken):
        free = [member for member in range(len(self.sizes)) if member not in taken]
        return free[int(self.draws.uniform() * len(free))]

    def place(self, member, scale, left, top, window, mirror=False):
        width, height = (scale * length for length in self.sizes[member])
        shown = shown_pixels(left, top, width, height, window)
        return [Placed(member, scale, left, top, shown, mirror, None)] if shown else []

    def mosaic(self):
        side, draws = self.side, self.draws
        meet = [draws.uniform(-0.5, 0.5) * side for _ in range(2)]
        zoom = draws.uniform(*self.options["scale"])
        middle = [side * (0.5 + draws.uniform(-self.options["shift"], self.options["shift"])) for _ in range(2)]
        x, y = (m + zoom * off for m, off in zip(middle, meet))
        window = [max(0, m - zoom * side) for m in middle] + [min(side, m + zoom * side) for m in middle]
        members, placed = [], []
        for right, low in ((0, 0), (1, 0), (0, 1), (1, 1)):
            members.append(self.partner(members) if members else 0)
            scale = zoom * self.fit(members[-1])
            width, height = (scale * length for length in self.sizes[members[-1]])
            placed += self.place(members[-1], scale, x if right else x - width, y if low else y - height, window)
        return placed

    def single(self):
        side, (width, height), fit = self.side, self.sizes[0], self.fit(0)
        zoom = self.draws.uniform(*self.options["scale"])
        shift = [side * self.draws.uniform(-self.options["shift"], self.options["shift"]) for _ in range(2)]
        if zoom == 1 and shift == [0, 0]:
            size = [min(max(math.floor(length * fit + 1e-6), 1), side) for length in (height, width)]
            return [Placed(0, None, 0, 0, [0, 0, size[1], size[0]], False, size)]
        left = width * fit / 2 + shift[0] - zoom * fit * width / 2
        top = height * fit / 2 + shift[1] - zoom * fit * height / 2
        return self.place(0, zoom * fit, left, top, [0, 0, side, side])

    def mixed(self):
        member = self.partner([0])
        scale = self.draws.uniform(*self.options["mixup_scale"]) * self.fit(member)
        width, height = (scale * length for length in self.sizes[member])
        left, top = (self.side - width) * self.draws.uniform(), (self.side - height) * self.draws.uniform()
        placed = self.place(member, scale, left, top, [0, 0, self.side, self.side])
        return [one._replace(mirror=self.draws.uniform() < self.options["flip"]) for one in placed]

    def layers(self):
        layers = [self.mosaic() if self.draws.uniform() < self.options["mosaic"] else self.single()]
        if self.draws.uniform() < self.options["mixup"]:
            layers.append(self.mixed())
        mirror = self.draws.uniform() < self.options["flip"]
        layers[0] = [one._replace(mirror=mirror) for one in layers[0]]
        return layers


def areas(boxes):
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def boxes_of(picture, placed, side):
    """[x, y, width, height, label] of the objects that remain, by torchvision."""
    width, height = picture["size"]
    objects = [one for one in picture["objects"] if not one[5]]
    if not objects:
        return []
    boxes = tv_tensors.BoundingBoxes(torch.tensor([one[:4] for one in objects], dtype=torch.float64), format="XYWH",
                                     canvas_size=(height, width))
    boxes = F.clamp_bounding_boxes(F.convert_bounding_box_format(boxes, new_format="XYXY"))
    if placed.size:
        boxes = F.resize(boxes, placed.size)
    else:
        # affine clips to its canvas, and the picture may begin left of the sample.
        boxes = tv_tensors.wrap(boxes.as_subclass(torch.Tensor) + 1e5, like=boxes, canvas_size=(10 ** 6, 10 ** 6))
        start = [1e5 * (1 - placed.scale) + placed.left, 1e5 * (1 - placed.scale) + placed.top]
        boxes = F.affine(boxes, angle=0, translate=start, scale=placed.scale, shear=[0, 0], center=[0, 0])
        boxes = tv_tensors.wrap(boxes.as_subclass(torch.Tensor) - 1e5, like=boxes)
    whole = areas(boxes.as_subclass(torch.Tensor))
    left, top, right, bottom = placed.shown
    boxes = F.crop(boxes, top, left, bottom - top, right - left)
    boxes = F.pad(boxes, [left, top, side - right, side - bottom])
    if placed.mirror:
        boxes = F.horizontal_flip(boxes)
    _, large_enough = F.sanitize_bounding_boxes(boxes, min_size=MIN_SIDE)
    plain = boxes.as_subclass(torch.Tensor)
    visible = areas(plain) >= MIN_VISIBLE * whole
    return [[*F.convert_bounding_box_format(boxes, new_format="XYWH")[i].tolist(), objects[i][4]]
            for i in range(len(objects)) if large_enough[i] and visible[i]]


def part_error(part, placed, side):
    """The largest difference of a part's rectangles from where the picture should stand; infinite: another picture."""
    left, top, right, bottom = placed.shown
    at = [side - right if placed.mirror else left, top, right - left, bottom - top]
    if part["member"] != placed.member or part["mirror"] != placed.mirror or part["at"] != at:
        return math.inf
    if placed.size:
        return 0
    source = [(left - placed.left) / placed.scale, (top - placed.top) / placed.scale, (right - left) / placed.scale,
              (bottom - top) / placed.scale]
    return max(abs(a - b) for a, b in zip(part["from"], source))


def compare(case, found):
    """(largest difference, boxes, objects of the pictures)."""
    expected = Expected(case).layers()
    if [len(layer) for layer in found] != [len(layer) for layer in expected]:
        return math.inf, 0, 0
    worst, boxes, objects = 0.0, 0, 0
    for part, placed in ((a, b) for ours, theirs in zip(found, expected) for a, b in zip(ours, theirs)):
        picture = case["pictures"][placed.member]
        rows = boxes_of(picture, placed, case["side"])
        worst = max(worst, part_error(part, placed, case["side"]))
        if [row[4] for row in part["boxes"]] != [row[4] for row in rows]:
            return math.inf, boxes, objects
        worst = max([worst, *(abs(a - b) for ours, theirs in zip(part["boxes"], rows) for a, b in zip(ours, theirs))])
        boxes += len(rows)
        objects += len(picture["objects"])
    return worst, boxes, objects


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--boxes", required=True)
    parser.add_argument("--seeds", type=int, default=100)
    arguments = parser.parse_args()
    torch.set_default_dtype(torch.float64)  # of the ratios by which torchvision resizes boxes
    cases = [(kind, random_case(seed, kind)) for kind in KINDS for seed in range(arguments.seeds)]
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "cases.json"
        file.write_text(json.dumps([case for _, case in cases]))
        found = json.loads(subprocess.check_output([pathlib.Path(arguments.boxes).resolve(), file]))
    good = True
    for kind in KINDS:
        results = [(case["seed"], *compare(case, layers)) for (name, case), layers in zip(cases, found) if name == kind]
        wrong = [seed for seed, worst, _, _ in results if worst > BOUND]
        boxes, objects = sum(row[2] for row in results), sum(row[3] for row in results)
        good = good and not wrong and 0 < boxes < objects
        print(f"{kind}: {boxes} boxes of {objects} objects, largest difference {max(row[1] for row in results):.1e} pixels "
              f"(bound {BOUND}); {len(wrong)} of {len(results)} samples differ" + (f": seeds {wrong[:9]}" if wrong else ""))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
