#!/usr/bin/env python3
"""Trains UNets of diffusers and ours from the same folder on the same samples, and compares.

    torch_python.sh diffusers_parity.py --trace PATH/unet_trace

For every case diffusers saves a network; unet_trace reads the folder, predicts, trains and writes the folder of the
trained network, which diffusers loads. Predictions, gradients of the first step, losses of ten steps, and predictions of
the trained networks must agree. Values of config.json that change the network and that we do not have must be refused by
name. Exit code 1 when a figure is out of bounds, 77 (skipped) without diffusers.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import torch

from gpt_parity import Report, read_safetensors, relative
from resnet_parity import write_safetensors

try:
    from diffusers import UNet2DConditionModel, UNet2DModel
except ImportError:
    print("diffusers_parity.py: Skipped\nno diffusers here: pip install diffusers\n[  SKIPPED ] diffusers_parity.py (0 ms)")
    sys.exit(77)

# Relative bounds, of norms over a tensor.
PREDICTION, GRADIENT, LOSS, TRAINED = 1e-4, 1e-3, 1e-3, 1e-3
SAMPLES, MICRO_BATCH, STEPS, LR = 6, 2, 10, 0.02
SIDE, VECTORS = 16, 9

PLAIN = {"block_out_channels": (16, 32, 48), "layers_per_block": 1, "norm_num_groups": 8,
         "down_block_types": ("DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
         "up_block_types": ("UpBlock2D", "AttnUpBlock2D", "UpBlock2D")}
CONDITIONAL = {"block_out_channels": (16, 32, 48), "layers_per_block": 2, "norm_num_groups": 8,
               "cross_attention_dim": 20, "attention_head_dim": 4,
               "down_block_types": ("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
               "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D")}
CASES = {
    "UNet2DModel, defaults": (UNet2DModel, PLAIN),
    "UNet2DModel as ddpm-cifar10": (UNet2DModel, {**PLAIN, "flip_sin_to_cos": False, "freq_shift": 1,
                                                  "downsample_padding": 0, "attention_head_dim": None,
                                                  "norm_eps": 1e-6}),
    "UNet2DModel with classes, 2 units": (UNet2DModel, {**PLAIN, "num_class_embeds": 5, "layers_per_block": 2}),
    "UNet2DConditionModel as SD 1": (UNet2DConditionModel, CONDITIONAL),
    "UNet2DConditionModel as SD 2": (UNet2DConditionModel, {**CONDITIONAL, "attention_head_dim": (2, 4, 6),
                                                           "use_linear_projection": True}),
}
# A value, and the key that the refusal names.
REFUSED = [("UNet2DModel, defaults", {"resnet_time_scale_shift": "scale_shift"}),
           ("UNet2DModel, defaults", {"act_fn": "gelu"}),
           ("UNet2DModel, defaults", {"downsample_type": "resnet"}),
           ("UNet2DModel, defaults", {"center_input_sample": True}),
           ("UNet2DModel, defaults", {"flip_sin_to_cos": False}),
           ("UNet2DModel, defaults", {"mid_block_scale_factor": 2}),
           ("UNet2DConditionModel as SD 1", {"transformer_layers_per_block": 2}),
           ("UNet2DConditionModel as SD 1", {"only_cross_attention": True}),
           ("UNet2DConditionModel as SD 1", {"addition_embed_type": "text"}),
           ("UNet2DConditionModel as SD 1", {"conv_in_kernel": 5})]
NAMED = {"flip_sin_to_cos": "freq_shift"}  # which contradicts it


def samples_of(model, seed):
    generator = torch.Generator().manual_seed(seed)
    channels, classes = model.config.in_channels, model.config.num_class_embeds
    samples = {"inputs": torch.randn(SAMPLES, channels, SIDE, SIDE, generator=generator),
               "targets": torch.randn(SAMPLES, channels, SIDE, SIDE, generator=generator),
               "weights": 0.5 + torch.rand(SAMPLES, generator=generator),
               "timesteps": torch.randint(0, 1000, (SAMPLES,), generator=generator).float()}
    if isinstance(model, UNet2DConditionModel):
        samples["condition"] = torch.randn(SAMPLES, VECTORS, model.config.cross_attention_dim, generator=generator)
    elif classes:
        samples["classes"] = torch.randint(0, classes, (SAMPLES,), generator=generator).float()
    return samples


def predict(model, samples):
    if "condition" in samples:
        return model(samples["inputs"], samples["timesteps"], samples["condition"]).sample
    if "classes" in samples:
        return model(samples["inputs"], samples["timesteps"], samples["classes"].long()).sample
    return model(samples["inputs"], samples["timesteps"]).sample


def write_batch(path, samples):
    to_ours = {name: value.permute(0, 2, 3, 1).contiguous() if value.ndim == 4 else value
               for name, value in samples.items()}
    write_safetensors(path, to_ours)


def train(model, samples):
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    losses, gradients = [], {}
    for step in range(STEPS):
        optimizer.zero_grad()
        errors = (predict(model, samples) - samples["targets"]).square().mean(dim=(1, 2, 3))
        loss = (samples["weights"] * errors).mean()
        loss.backward()
        if step == 0:
            gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
        optimizer.step()
        losses.append(loss.item())
    return losses, gradients


def save(model, folder, changes=None):
    model.save_pretrained(folder / "unet")
    (folder / "model_index.json").write_text("{}")
    if changes:
        path = folder / "unet" / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def run_trace(trace, folder):
    return subprocess.run([trace, folder, str(MICRO_BATCH), str(STEPS), str(LR)], capture_output=True, text=True,
                          timeout=600)


def compare(report, name, trace, folder):
    kind, settings = CASES[name]
    torch.manual_seed(len(name))
    model = kind(**settings)
    samples = samples_of(model, 3)
    save(model, folder)
    write_batch(folder / "batch.safetensors", samples)
    result = run_trace(trace, folder)
    if result.returncode != 0:
        raise SystemExit(f"diffusers_parity.py: {name}: {result.stderr}")
    ours, record = read_safetensors(folder / "trace.safetensors"), json.loads((folder / "trace.json").read_text())
    with torch.no_grad():
        expected = predict(model, samples).permute(0, 2, 3, 1)
    report.check(f"{name}: prediction", relative(ours["prediction"], expected), PREDICTION)
    losses, gradients = train(model, samples)
    worst = max(
        (relative(ours["gradient." + tensor], torch.cat([gradients[part] for part in parts])), tensor)
        for tensor, parts in record["parts"].items())
    report.check(f"{name}: gradients of step 1, worst {worst[1]}", worst[0], GRADIENT)
    named = sum(len(parts) for parts in record["parts"].values())
    report.check(f"{name}: parameters without a counterpart", abs(named - len(gradients)), 0)
    loss = max(abs(a - b) / b for a, b in zip(record["losses"], losses))
    report.check(f"{name}: losses of {STEPS} steps", loss, LOSS)
    report.check(f"{name}: values left out", len(record["notes"]), 0)
    trained = kind.from_pretrained(folder / "trained" / "unet")
    with torch.no_grad():
        report.check(f"{name}: predictions after training", relative(predict(trained, samples), predict(model, samples)),
                     TRAINED)


def check_refusals(report, trace, folder):
    for number, (name, change) in enumerate(REFUSED):
        kind, settings = CASES[name]
        key = next(iter(change))
        place = folder / f"refused{number}"
        place.mkdir()
        save(kind(**settings), place, change)
        result = run_trace(trace, place)
        named = NAMED.get(key, key) in result.stderr and result.returncode == 1
        report.check(f"{key} = {change[key]} is refused by name", 0 if named else 1, 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trace", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    report = Report()
    with tempfile.TemporaryDirectory(prefix="trireme-diffusers-") as scratch:
        for number, name in enumerate(CASES):
            folder = pathlib.Path(scratch) / str(number)
            folder.mkdir()
            compare(report, name, arguments.trace, folder)
        check_refusals(report, arguments.trace, pathlib.Path(scratch))
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
