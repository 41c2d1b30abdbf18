#!/usr/bin/env python3
"""COCO's scores of random detections, computed by Trireme and by pycocotools, and non-maximum suppression beside a plain
implementation in NumPy.

    detection_parity.py --scores PATH/detection_scores [--sets 50]

The sets have crowds, classes without objects, classes without detections, equal scores, equal overlaps, objects at the
limits of size ranges, category ids with holes and pictures with more than 100 detections of a class. Exit code 1: a
value differs by more than 1e-6. Exit code 77 (skipped): pycocotools is missing; TRIREME_COCO_PYTHON names a Python
that has it.
"""

import argparse
import contextlib
import io
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import numpy
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval
except ImportError:
    python = os.environ.get("TRIREME_COCO_PYTHON")
    if python and not sys.flags.isolated:
        os.execv(python, [python, "-I", *sys.argv])
    print("skipped: this Python has no pycocotools; TRIREME_COCO_PYTHON names another (pip install pycocotools)")
    sys.exit(77)

BOUND = 1e-6
NAMES = ("AP", "AP50", "AP75", "AP small", "AP medium", "AP large", "AR1", "AR10", "AR100", "AR small", "AR medium",
         "AR large")


def random_box(rng):
    if rng.random() < 0.2:
        side = rng.choice((32, 96))
        return [float(rng.randrange(300)), float(rng.randrange(300)), float(side), float(side)]
    size = rng.choice((20, 80, 300))
    return [rng.uniform(0, 300), rng.uniform(0, 300), rng.uniform(1, size), rng.uniform(1, size)]


def near(rng, box, amount):
    x, y, width, height = box
    return [x + rng.uniform(-amount, amount) * width, y + rng.uniform(-amount, amount) * height,
            width * rng.uniform(1 - amount, 1 + amount), height * rng.uniform(1 - amount, 1 + amount)]


def random_set(seed):
    """Annotations and results in COCO's formats."""
    rng = random.Random(seed)
    categories = sorted(rng.sample(range(1, 90), rng.randint(1, 5)))
    with_objects = categories[:rng.randint(1, len(categories))]
    images = rng.sample(range(1, 1000), rng.randint(1, 12))
    annotations, results = [], []

    def score():
        return round(rng.random(), 1) if rng.random() < 0.5 else rng.random()

    for image in images:
        for category in with_objects:
            for _ in range(rng.choice((0, 0, 1, 2, 5, 12))):
                box = random_box(rng)
                area = box[2] * box[3] * rng.choice((1, 1, 0.7))
                annotations.append({"id": len(annotations) + 1, "image_id": image, "category_id": category, "bbox": box,
                                    "area": area, "iscrowd": int(rng.random() < 0.15), "segmentation": [[0, 0, 1.5, 2]]})
                for _ in range(rng.choice((0, 1, 1, 2, 4))):
                    found = box if rng.random() < 0.2 else near(rng, box, rng.choice((0.05, 0.2, 0.5)))
                    results.append({"image_id": image, "category_id": category, "bbox": found, "score": score()})
        for _ in range(rng.choice((0, 3, 10))):
            results.append({"image_id": image, "category_id": rng.choice(categories), "bbox": random_box(rng),
                            "score": score()})
    if rng.random() < 0.3:
        for _ in range(130):
            results.append({"image_id": images[0], "category_id": with_objects[0], "bbox": random_box(rng),
                            "score": score()})
    if not results:
        results.append({"image_id": images[0], "category_id": categories[0], "bbox": random_box(rng), "score": 0.5})
    rng.shuffle(results)
    truth = {"info": {}, "images": [{"id": i, "file_name": f"{i}.png", "width": 640, "height": 480} for i in images],
             "annotations": annotations, "categories": [{"id": c, "name": f"class {c}"} for c in reversed(categories)]}
    return truth, results


def expected_scores(truth, results):
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO()
        coco.dataset = truth
        coco.createIndex()
        evaluation = COCOeval(coco, coco.loadRes(results), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    precision = evaluation.eval["precision"][:, :, :, 0, 2]
    class_ap = [p[p > -1].mean() if (p > -1).any() else -1 for p in numpy.moveaxis(precision, 2, 0)]
    return list(evaluation.stats), class_ap


def check_set(program, folder, seed):
    truth, results = random_set(seed)
    for name, value in (("truth", truth), ("results", results)):
        (folder / f"{name}.json").write_text(json.dumps(value))
    ours = json.loads(subprocess.check_output([program, "scores", folder / "truth.json", folder / "results.json"]))
    stats, class_ap = expected_scores(truth, results)
    worst = 0.0
    pairs = list(zip(NAMES, ours["stats"], stats))
    pairs += [(f"AP of class {i}", a, b) for i, (a, b) in enumerate(zip(ours["class_ap"], class_ap, strict=True))]
    for name, value, expected in pairs:
        worst = max(worst, abs(value - expected))
        if abs(value - expected) > BOUND:
            print(f"set {seed}: {name} is {value}, pycocotools has {expected}")
    return worst, stats


def overlap(a, b):
    width = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    height = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    shared = max(width, 0) * max(height, 0)
    return shared / (a[2] * a[3] + b[2] * b[3] - shared)


def check_suppression(program, folder, seed):
    """Class by class, as torchvision.ops.batched_nms does."""
    results = random_set(seed)[1]
    (folder / "results.json").write_text(json.dumps(results))
    limit = 0.3 + 0.02 * (seed % 20)
    kept = json.loads(subprocess.check_output(
        [program, "suppress", folder / "results.json", str(limit), "100"]))
    expected = []
    for category in {r["category_id"] for r in results}:
        rest = sorted((i for i, r in enumerate(results) if r["category_id"] == category),
                      key=lambda i: (-results[i]["score"], i))
        while rest:
            expected.append(rest[0])
            rest = [i for i in rest[1:] if overlap(results[rest[0]]["bbox"], results[i]["bbox"]) <= limit]
    expected = sorted(expected, key=lambda i: (-results[i]["score"], i))[:100]
    expected = [{key: results[i][key] for key in ("bbox", "category_id", "score")} for i in expected]
    if kept != expected:
        print(f"set {seed}: suppression keeps {len(kept)} detections, expected {len(expected)}, or others")
    return kept == expected


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scores", required=True)
    parser.add_argument("--sets", type=int, default=50)
    arguments = parser.parse_args()
    program = pathlib.Path(arguments.scores).resolve()
    worst, same, scored = 0.0, 0, 0
    with tempfile.TemporaryDirectory() as name:
        for seed in range(arguments.sets):
            difference, stats = check_set(program, pathlib.Path(name), seed)
            worst = max(worst, difference)
            scored += 0 < stats[0] < 1
            same += check_suppression(program, pathlib.Path(name), seed)
    print(f"{arguments.sets} sets, {scored} with an AP between 0 and 1: largest difference {worst:.1e} (bound {BOUND})")
    print(f"non-maximum suppression: equal in {same} of {arguments.sets} sets")
    good = worst <= BOUND and same == arguments.sets and scored >= arguments.sets * 0.8
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
