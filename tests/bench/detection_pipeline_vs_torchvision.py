#!/usr/bin/env python3
"""Compares how fast Trireme and torchvision make training samples for a detector, and measures how long a step waits.

    tests/bench/detection_pipeline_vs_torchvision.py --bin build/release/bin [--rounds 3] [--peer PYTHON]

Writes JPEG files of 640 x 480 pixels with boxes. The programs run in turn: samples of 416 x 416 pixels with Mosaic, MixUp,
scale, shift, mirror and color jitter, from 2 workers, without training; the peer uses Pillow and torchvision in a
DataLoader. Then `trireme train` trains YOLOX-nano on them with 2 workers and 2 threads. Prints samples per second, their
ratio, and the share of a step that waits for data. Run it on an idle machine, with a Python that has torchvision.
"""

import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

PEER = pathlib.Path(__file__).resolve().parent / "peers" / "detection_pipeline_torchvision.py"
PICTURES, WIDTH, HEIGHT, CLASSES = 96, 640, 480, 3
JOB = """
[model]
name = "yolox"
size = "nano"
[data]
kind = "detection"
train = "pictures"
train_annotations = "instances.json"
image_size = 416
mosaic = 0.5
mixup = 0.2
scale = [0.6, 1.4]
shift = 0.1
hsv = [0.015, 0.3, 0.3]
max_boxes = 64
workers = 2
[train]
steps = 24
global_batch = 8
micro_batch = 8
[optimizer]
name = "sgd"
lr = 0.01
[parallel]
threads = 2
"""


def draw_pictures(folder):
    """Soft ellipses and grain, which cost a decoder what a photograph costs."""
    from PIL import Image, ImageDraw, ImageFilter
    (folder / "pictures").mkdir()
    images, annotations = [], []
    for number in range(PICTURES):
        rng = random.Random(number)
        picture = Image.effect_noise((WIDTH, HEIGHT), 60).convert("RGB")
        pen = ImageDraw.Draw(picture)
        for _ in range(7):
            width, height = rng.randrange(30, 300), rng.randrange(30, 240)
            x, y = rng.randrange(WIDTH - width), rng.randrange(HEIGHT - height)
            pen.ellipse((x, y, x + width, y + height), fill=tuple(rng.randrange(256) for _ in range(3)))
            annotations.append({"id": len(annotations) + 1, "image_id": number + 1, "iscrowd": 0, "area": width * height,
                                "category_id": rng.randrange(CLASSES) + 1, "bbox": [x, y, width, height]})
        picture.filter(ImageFilter.GaussianBlur(1)).save(folder / "pictures" / f"{number:04}.jpg", quality=90)
        images.append({"id": number + 1, "file_name": f"{number:04}.jpg", "width": WIDTH, "height": HEIGHT})
    categories = [{"id": i + 1, "name": f"class {i}"} for i in range(CLASSES)]
    (folder / "instances.json").write_text(
        json.dumps({"images": images, "annotations": annotations, "categories": categories}))


def samples_per_s(command, folder):
    done = subprocess.run([*command, "pictures", "instances.json"], cwd=folder, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(done.returncode)
    return json.loads(done.stdout)["samples_per_s"]


def waiting(trireme, folder):
    """(median step in ms, share of all steps' time that waits for data), after three steps."""
    (folder / "job.toml").write_text(JOB)
    subprocess.run([trireme, "train", "job.toml", "--out", "out"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    steps = [json.loads(line) for line in (folder / "out" / "metrics.jsonl").read_text().splitlines()]
    steps = [step for step in steps if "step_ms" in step][3:]
    return (statistics.median(step["step_ms"] for step in steps),
            sum(step["data_wait_ms"] for step in steps) / sum(step["step_ms"] for step in steps))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of trireme and detection_pipeline_bench")
    parser.add_argument("--peer", default=sys.executable, help="a Python with torchvision (default: this one)")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    programs = options.bin.resolve()
    ours, theirs = [str(programs / "detection_pipeline_bench")], [options.peer, "-B", str(PEER)]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        draw_pictures(folder)
        samples_per_s(ours, folder)  # loads the files into the page cache
        rounds = [(samples_per_s(ours, folder), samples_per_s(theirs, folder)) for _ in range(options.rounds)]
        step_ms, share = waiting(programs / "trireme", folder)
    for program, rates in (("trireme", [one for one, _ in rounds]), ("torchvision", [one for _, one in rounds])):
        print(f"{program:<12} {statistics.median(rates):7.1f} samples/s")
    ratios = sorted(one / other for one, other in rounds)
    print(f"{statistics.median(ratios):.2f} x torchvision (rounds {ratios[0]:.2f} to {ratios[-1]:.2f}; aim 2)")
    print(f"training: {step_ms:.0f} ms a step of 8 samples, {share:.2%} of the time waits for data (aim 2 %)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
