#!/usr/bin/env python3
"""Trains a UNet with Trireme and with diffusers from the same weights on the same samples, and compares the losses.

    torch_python.sh diffusion_curve_parity.py --trireme PATH/trireme              pictures drawn here
    torch_python.sh diffusion_curve_parity.py ... --pictures cifar10/train        class folders; needs Pillow
    torch_python.sh diffusion_curve_parity.py ... --seeds 1 2 3 --prediction v    default: 1, epsilon

The order of the samples, timesteps, noise and class dropout are computed here from the seed, by the counters of
`runtime/base/rng.h`, `runtime/data/permutation.h`, `runtime/diffusion`. Exit code 1 if the loss of any step or any
band of noise differs by more than 1e-3 of its size, 77 (skipped) without diffusers.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch

from gpt_parity import Report, relative
from philox import philox
from resnet_parity import write_safetensors

try:
    from diffusers import DDPMScheduler, UNet2DModel
except ImportError:
    print("diffusion_curve_parity.py: Skipped\nno diffusers here: pip install diffusers\n"
          "[  SKIPPED ] diffusion_curve_parity.py (0 ms)")
    sys.exit(77)

LOSS = 1e-3  # relative
STEPS, BATCH, SIDE, CLASSES, DROPOUT, BANDS = 100, 16, 32, 10, 0.1, 10
TRAIN_SAMPLES, EVAL_SAMPLES, EVALUATED = 300, 200, 160
NETWORK = {"sample_size": SIDE, "block_out_channels": (16, 32, 48), "layers_per_block": 1, "norm_num_groups": 8,
           "attention_head_dim": None, "num_class_embeds": CLASSES + 1,
           "down_block_types": ("DownBlock2D", "DownBlock2D", "AttnDownBlock2D"),
           "up_block_types": ("AttnUpBlock2D", "UpBlock2D", "UpBlock2D")}
JOB = """
[model]
from = "hf:{folder}/start"
init_from = "{folder}/start"
[data]
kind = "latents"
train = "{folder}/train.safetensors"
eval = "{folder}/eval.safetensors"
[diffusion]
prediction = "{prediction}"
class_dropout = {dropout}
[train]
steps = {steps}
global_batch = {batch}
micro_batch = 8
seed = {seed}
eval_every = {steps}
eval_batches = {eval_batches}
[optimizer]
name = "adamw"
lr = 1e-3
betas = [0.9, 0.999]
weight_decay = 0.01
schedule = "cosine"
warmup_steps = 10
grad_clip = 1.0
"""


def permuted(size, seed, epoch, position):
    """Permutation of runtime/data/permutation.h."""
    bits = (size - 1).bit_length()
    left_bits, right_bits = bits // 2, bits - bits // 2
    value = position
    while True:
        left, right = value >> right_bits, value & ((1 << right_bits) - 1)
        for turn in range(0, 8, 2):
            left ^= int(philox((right, turn, epoch, 0xFFFF0001), seed)[0]) & ((1 << left_bits) - 1)
            right ^= int(philox((left, turn + 1, epoch, 0xFFFF0001), seed)[0]) & ((1 << right_bits) - 1)
        value = left << right_bits | right
        if value < size:
            return value


def draws_of(stream, seed, index, group=0):
    return [int(word) for word in philox((group, index, 0, stream), seed)]


def below(bound, word):
    return bound * word >> 32


def normal(stream, seed, index, elems):
    words = philox((numpy.arange((elems + 3) // 4), index, 0, stream), seed)
    numbers = []
    for first, second in ((words[0], words[1]), (words[2], words[3])):
        radius = numpy.sqrt(-2 * numpy.log((first.astype("f8") + 0.5) / 2.0 ** 32))
        angle = 2 * numpy.pi * second.astype("f8") / 2.0 ** 32
        numbers += [radius * numpy.cos(angle), radius * numpy.sin(angle)]
    return numpy.stack(numbers, 1).ravel()[:elems].astype("f4")


def train_draw(seed, index):
    """(position in the file, timestep, whether the class is dropped, noise)."""
    position = permuted(TRAIN_SAMPLES, seed, index // TRAIN_SAMPLES, index % TRAIN_SAMPLES)
    words = draws_of(0xFFFF0030, seed, index)
    return (position, below(1000, words[0]), words[1] < DROPOUT * 2.0 ** 32,
            normal(0xFFFF0031, seed, index, 3 * SIDE * SIDE))


def eval_draw(place):
    """Of sample `place` of the evaluation."""
    position = place * EVAL_SAMPLES // EVALUATED
    band = (below(BANDS, draws_of(0xFFFF0032, 0, place // BANDS, 1)[0]) + place) % BANDS
    timestep = 100 * band + below(100, draws_of(0xFFFF0032, 0, place)[0])
    return position, timestep, False, normal(0xFFFF0033, 0, position, 3 * SIDE * SIDE)


def drawn_pictures(count, generator):
    """Waves whose direction and colours depend on the class, with values in [-1, 1]."""
    classes = generator.integers(0, CLASSES, count)
    y, x = numpy.mgrid[:SIDE, :SIDE] / SIDE
    angle = numpy.pi * classes / CLASSES
    along = numpy.cos(angle)[:, None, None] * x + numpy.sin(angle)[:, None, None] * y
    phase = generator.uniform(0, 2 * numpy.pi, (count, 1, 1, 3))
    return numpy.sin(8 * along[..., None] + phase).astype("f4"), classes


def read_pictures(folder, count, generator):
    from PIL import Image
    files = sorted(folder.glob("*/*"))
    names = sorted({file.parent.name for file in files})
    chosen = [files[i] for i in generator.choice(len(files), count, replace=False)]
    pixels = [numpy.asarray(Image.open(file).convert("RGB").resize((SIDE, SIDE)), "f4") / 127.5 - 1 for file in chosen]
    return numpy.stack(pixels), numpy.array([names.index(file.parent.name) for file in chosen])


class Samples:
    """A file of clean pictures, and noised batches of it."""

    def __init__(self, path, pictures, classes, prediction):
        write_safetensors(path, {"latents": torch.from_numpy(pictures), "classes": torch.from_numpy(classes).int()})
        self.pictures, self.classes, self.prediction = pictures, classes, prediction
        self.schedule = DDPMScheduler(beta_schedule="linear", beta_start=1e-4, beta_end=0.02)

    def noised(self, draws):
        positions, timesteps, drops, noises = zip(*draws)
        def to_theirs(values):
            return torch.from_numpy(numpy.stack(values).reshape(-1, SIDE, SIDE, 3)).permute(0, 3, 1, 2)
        clean, noise, t = to_theirs([self.pictures[i] for i in positions]), to_theirs(noises), torch.tensor(timesteps)
        targets = {"epsilon": noise, "x0": clean, "v": self.schedule.get_velocity(clean, noise, t)}
        labels = torch.tensor([CLASSES if drop else int(self.classes[i]) for i, drop in zip(positions, drops)])
        return self.schedule.add_noise(clean, noise, t), t, labels, targets[self.prediction]


def errors_of(model, batch):
    noisy, timesteps, labels, targets = batch
    return (model(noisy, timesteps, labels).sample - targets).square().mean(dim=(1, 2, 3))


def train(model, samples, seed, rates):
    spared = [p for p in model.parameters() if p.ndim == 1]
    decayed = [p for p in model.parameters() if p.ndim > 1]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.01}, {"params": spared, "weight_decay": 0.0}],
                                  betas=(0.9, 0.999), eps=1e-8)
    losses = []
    for step, rate in enumerate(rates):
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        batch = samples.noised([train_draw(seed, step * BATCH + i) for i in range(BATCH)])
        loss = errors_of(model, batch).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def band_means(model, samples):
    draws = [eval_draw(place) for place in range(EVALUATED)]
    with torch.no_grad():
        errors = torch.cat([errors_of(model, samples.noised(draws[i:i + 20])) for i in range(0, EVALUATED, 20)])
    bands = torch.tensor([timestep // 100 for _, timestep, _, _ in draws])
    return [errors[bands == band].double().mean().item() for band in range(BANDS)]


def run(trireme, folder, *arguments):
    result = subprocess.run([trireme, *arguments], cwd=folder, capture_output=True, text=True, timeout=1800)
    if result.returncode != 0:
        raise SystemExit(f"diffusion_curve_parity.py: {' '.join(arguments)}: {result.stderr}")


def largest(ours, theirs):
    """The largest relative difference, and its index."""
    return max((abs(a - b) / abs(b), i) for i, (a, b) in enumerate(zip(ours, theirs)))


def compare(args, seed, report, folder):
    generator = numpy.random.default_rng(seed)
    read = (lambda count: read_pictures(args.pictures, count, generator)) if args.pictures else (
        lambda count: drawn_pictures(count, generator))
    samples = Samples(folder / "train.safetensors", *read(TRAIN_SAMPLES), args.prediction)
    evaluated = Samples(folder / "eval.safetensors", *read(EVAL_SAMPLES), args.prediction)
    torch.manual_seed(seed)
    model = UNet2DModel(**NETWORK)
    model.save_pretrained(folder / "start" / "unet")
    (folder / "start" / "model_index.json").write_text("{}")
    (folder / "job.toml").write_text(JOB.format(folder=folder, prediction=args.prediction, dropout=DROPOUT, steps=STEPS,
                                                batch=BATCH, seed=seed, eval_batches=EVALUATED // BATCH))
    run(args.trireme, folder, "train", "job.toml", "--out", "out", "--set", f"parallel.threads={args.threads}")
    lines = [json.loads(line) for line in (folder / "out" / "metrics.jsonl").read_text().splitlines()]
    steps, bands = [line for line in lines if "loss" in line], lines[-1]["eval_noise_bands"]
    losses = train(model, samples, seed, [line["lr"] for line in steps])
    report.require(len(steps) == STEPS, f"{len(steps)} steps")
    report.require(losses[-1] < 0.8 * losses[0], f"the loss did not fall: {losses[0]} to {losses[-1]}")
    worst, step = largest([line["loss"] for line in steps], losses)
    report.check(f"seed {seed}: loss of any step (worst: step {step + 1})", worst, LOSS)
    expected = band_means(model, evaluated)
    worst, band = largest(bands, expected)
    report.check(f"seed {seed}: loss of any band (worst: band {band})", worst, LOSS)
    report.check(f"seed {seed}: loss of the evaluation",
                 abs(lines[-1]["eval_loss"] / (sum(expected) / BANDS) - 1), LOSS)
    print("bands, ours:      " + " ".join(f"{loss:.4f}" for loss in bands))
    print("bands, diffusers: " + " ".join(f"{loss:.4f}" for loss in expected))
    run(args.trireme, folder, "export", "out", "--format", "diffusers", "--out", "trained")
    mine = UNet2DModel.from_pretrained(folder / "trained" / "unet")
    batch = evaluated.noised([eval_draw(place) for place in range(20)])
    with torch.no_grad():
        predictions = [network(*batch[:3]).sample for network in (mine, model)]
    print(f"predictions after {STEPS} steps differ by {relative(*predictions):.1e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", type=pathlib.Path, required=True)
    parser.add_argument("--pictures", type=pathlib.Path, help="class folders; default: pictures drawn here")
    parser.add_argument("--prediction", choices=("epsilon", "v", "x0"), default="epsilon")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    args.trireme = args.trireme.resolve()
    torch.set_num_threads(args.threads)
    report = Report()
    for seed in args.seeds:
        with tempfile.TemporaryDirectory(prefix="trireme-parity-") as folder:
            compare(args, seed, report, pathlib.Path(folder))
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
