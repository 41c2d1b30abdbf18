#!/usr/bin/env python3
"""Draws a data set for object detection: circles, squares and triangles on a noisy background, with exact boxes.

    draw_shapes.py OUT [--train 500] [--eval 100] [--side 160] [--seed 1] [--texts]

Writes OUT/train/*.png and OUT/eval/*.png, and COCO's annotations OUT/instances_train.json and OUT/instances_eval.json.
With --texts each picture also has a text of boxes (class cx cy width height, as fractions) and each folder a
classes.txt. A box is the smallest rectangle of whole pixels that holds all pixels of its shape; shapes overlap by a
fifth of the smaller box at most. Needs the standard library only. The files follow from the arguments, byte by byte.
"""

import argparse
import json
import pathlib
import random
import struct
import sys
import zlib

CLASSES = ("circle", "square", "triangle")


def shape_rows(kind, x, y, size):
    """(row, first column, end column) of each row of a shape in the square of `size` pixels at x, y."""
    for row in range(size):
        middle = row + 0.5
        if kind == "square":
            yield y + row, x, x + size
            continue
        if kind == "circle":
            half = (max(0.0, (size / 2) ** 2 - (middle - size / 2) ** 2)) ** 0.5
        else:
            half = middle / 2
        first, end = round(x + size / 2 - half), round(x + size / 2 + half)
        if first < end:
            yield y + row, first, end


def box_of(rows):
    """[x, y, width, height] of the pixels, and their number."""
    left, top = min(r[1] for r in rows), min(r[0] for r in rows)
    width, height = max(r[2] for r in rows) - left, max(r[0] for r in rows) + 1 - top
    return [left, top, width, height], sum(end - first for _, first, end in rows)


def overlap(a, b):
    width = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    height = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    return max(width, 0) * max(height, 0) / min(a[2] * a[3], b[2] * b[3])


def draw_picture(rng, side):
    """The rows of an RGB picture, and its objects as (class, box, area)."""
    ground = [rng.randrange(60, 190) for _ in range(3)]
    rows = []
    for _ in range(side):
        noise = rng.randbytes(side * 3)
        rows.append(bytearray(ground[i % 3] + (value >> 3) - 16 for i, value in enumerate(noise)))
    objects = []
    for _ in range(rng.randint(1, 5)):
        kind = rng.randrange(len(CLASSES))
        size = rng.randint(max(8, side // 10), max(8, side * 2 // 5))
        x, y = rng.randint(0, side - size), rng.randint(0, side - size)
        colour = [(value + rng.choice((-1, 1)) * rng.randint(70, 120)) % 256 for value in ground]
        shape = list(shape_rows(CLASSES[kind], x, y, size))
        box, area = box_of(shape)
        if any(overlap(box, other) > 0.2 for _, other, _ in objects):
            continue
        for row, first, end in shape:
            rows[row][first * 3:end * 3] = bytes(colour) * (end - first)
        objects.append((kind, box, area))
    return rows, objects


def png(rows):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", len(rows[0]) // 3, len(rows), 8, 2, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + bytes(row) for row in rows), 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def text_of(objects, side):
    return "".join(f"{kind} {(x + width / 2) / side:.9f} {(y + height / 2) / side:.9f} {width / side:.9f} "
                   f"{height / side:.9f}\n" for kind, (x, y, width, height), _ in objects)


def draw_split(arguments, split, count):
    folder = arguments.out / split
    folder.mkdir(parents=True, exist_ok=True)
    images, annotations = [], []
    for index in range(count):
        rows, objects = draw_picture(random.Random(f"{arguments.seed} {split} {index}"), arguments.side)
        name = f"{index:06}.png"
        (folder / name).write_bytes(png(rows))
        images.append({"id": index + 1, "file_name": name, "width": arguments.side, "height": arguments.side})
        for kind, box, area in objects:
            annotations.append({"id": len(annotations) + 1, "image_id": index + 1, "category_id": kind + 1, "bbox": box,
                                "area": area, "iscrowd": 0})
        if arguments.texts:
            (folder / name).with_suffix(".txt").write_text(text_of(objects, arguments.side))
    if arguments.texts:
        (folder / "classes.txt").write_text("".join(f"{name}\n" for name in CLASSES))
    categories = [{"id": i + 1, "name": name} for i, name in enumerate(CLASSES)]
    text = json.dumps({"images": images, "annotations": annotations, "categories": categories})
    (arguments.out / f"instances_{split}.json").write_text(text)
    return len(annotations)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--train", type=int, default=500)
    parser.add_argument("--eval", type=int, default=100)
    parser.add_argument("--side", type=int, default=160)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--texts", action="store_true")
    arguments = parser.parse_args()
    if arguments.side < 32 or arguments.train < 1 or arguments.eval < 1:
        parser.error("pictures need a side of at least 32 pixels, and both splits at least one picture")
    for split, count in (("train", arguments.train), ("eval", arguments.eval)):
        print(f"{arguments.out / split}: {count} pictures, {draw_split(arguments, split, count)} objects")
    return 0


if __name__ == "__main__":
    sys.exit(main())
