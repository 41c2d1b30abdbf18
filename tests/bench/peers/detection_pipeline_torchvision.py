#!/usr/bin/env python3
"""The peer of detection_pipeline_bench: the same samples made with Pillow and torchvision, in PyTorch's idiom.

    detection_pipeline_torchvision.py PICTURES ANNOTATIONS.json [--side 416] [--mosaic 0.5] [--mixup 0.2] [--workers 2]

A Dataset that decodes with Pillow and places, mirrors and jitters with torchvision.transforms.v2, read by a DataLoader of
processes. Prints JSON: samples per second. Exit code 77 without torchvision.
"""

import argparse
import json
import pathlib
import random
import sys
import time

try:
    import torch
    from PIL import Image
    from torchvision import tv_tensors
    from torchvision.transforms import v2
    from torchvision.transforms.v2 import functional as F
except ImportError as error:
    print(f"skipped: {error}: pip install torchvision pillow, and set TRIREME_TORCH_PYTHON", file=sys.stderr)
    sys.exit(77)

GREY = 114


class Samples(torch.utils.data.Dataset):
    def __init__(self, options):
        coco = json.loads(options.annotations.read_text())
        self.options, self.images = options, coco["images"]
        self.boxes = {image["id"]: [] for image in self.images}
        for one in coco["annotations"]:
            self.boxes[one["image_id"]].append(one["bbox"])
        self.jitter = v2.ColorJitter(brightness=0.3, saturation=0.3, hue=0.015)
        self.mirror = v2.RandomHorizontalFlip()
        self.clean = v2.SanitizeBoundingBoxes(min_size=2, labels_getter=None)

    def __len__(self):
        return self.options.batch * self.options.batches

    def read(self, index):
        """A picture that fits the side, and its boxes."""
        image = self.images[index % len(self.images)]
        picture = Image.open(self.options.pictures / image["file_name"]).convert("RGB")
        boxes = torch.tensor(self.boxes[image["id"]], dtype=torch.float32).reshape(-1, 4)
        boxes = tv_tensors.BoundingBoxes(boxes, format="XYWH", canvas_size=(picture.height, picture.width))
        return picture, boxes

    def placed(self, index, scale, at):
        """A picture of this scale on grey, with `at`(width, height) as its upper left corner."""
        side = self.options.side
        picture, boxes = self.read(index)
        fit = scale * min(side / picture.width, side / picture.height)
        size = [max(round(picture.height * fit), 1), max(round(picture.width * fit), 1)]
        left, top = (round(value) for value in at(size[1], size[0]))
        picture, boxes = F.pil_to_tensor(F.resize(picture, size)), F.resize(boxes, size)
        y, x = (min(max(first, 0), side - 1) for first in (top, left))
        bottom, right = max(min(top + size[0], side), y + 1), max(min(left + size[1], side), x + 1)
        cut, edges = [y - top, x - left, bottom - y, right - x], [x, y, side - right, side - bottom]
        return F.pad(F.crop(picture, *cut), edges, fill=GREY), F.pad(F.crop(boxes, *cut), edges), (y, x, bottom, right)

    def mosaic(self, index):
        side = self.options.side
        scale = random.uniform(0.6, 1.4)
        x, y = (side * (0.5 + random.uniform(-0.1, 0.1) + scale * random.uniform(-0.5, 0.5)) for _ in range(2))
        canvas = torch.full((3, side, side), GREY, dtype=torch.uint8)
        found = []
        for right, low in ((0, 0), (1, 0), (0, 1), (1, 1)):
            def corner(width, height):
                return x if right else x - width, y if low else y - height
            picture, boxes, (top, left, bottom, end) = self.placed(index, scale, corner)
            canvas[:, top:bottom, left:end] = picture[:, top:bottom, left:end]
            found.append(boxes)
            index = random.randrange(len(self.images))
        return canvas, tv_tensors.wrap(torch.cat([one.as_subclass(torch.Tensor) for one in found]), like=found[0])

    def single(self, index):
        side = self.options.side
        shift = [side * random.uniform(-0.1, 0.1) for _ in range(2)]
        return self.placed(index, random.uniform(0.6, 1.4),
                           lambda width, height: ((side - width) / 2 + shift[0], (side - height) / 2 + shift[1]))[:2]

    def __getitem__(self, index):
        side = self.options.side
        picture, boxes = self.mosaic(index) if random.random() < self.options.mosaic else self.single(index)
        if random.random() < self.options.mixup:
            other, more, _ = self.placed(random.randrange(len(self.images)), random.uniform(0.5, 1.5),
                                         lambda width, height: ((side - width) * random.random(),
                                                                (side - height) * random.random()))
            picture = ((picture.to(torch.int16) + other) // 2).to(torch.uint8)
            boxes = tv_tensors.wrap(torch.cat([boxes.as_subclass(torch.Tensor), more.as_subclass(torch.Tensor)]), like=boxes)
        picture, boxes = self.clean(*self.jitter(*self.mirror(tv_tensors.Image(picture), boxes)))
        return picture.as_subclass(torch.Tensor).to(torch.float32) / 255, boxes.as_subclass(torch.Tensor)


def collate(samples):
    return torch.stack([picture for picture, _ in samples]), [boxes for _, boxes in samples]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pictures", type=pathlib.Path)
    parser.add_argument("annotations", type=pathlib.Path)
    parser.add_argument("--side", type=int, default=416)
    parser.add_argument("--mosaic", type=float, default=0.5)
    parser.add_argument("--mixup", type=float, default=0.2)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--batches", type=int, default=24)
    options = parser.parse_args()
    torch.set_num_threads(1)  # workers are processes
    loader = torch.utils.data.DataLoader(Samples(options), options.batch, num_workers=options.workers, collate_fn=collate,
                                         multiprocessing_context="fork" if options.workers else None)
    batches = iter(loader)
    next(batches)  # the start of the processes does not count
    start = time.monotonic()
    count = sum(len(pictures) for pictures, _ in batches)
    print(json.dumps({"samples_per_s": count / (time.monotonic() - start)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
