#!/usr/bin/env python3
"""Takes torchvision's ResNet-18 through a run and back: every parameter as it was, every name one that PyTorch knows.

    torch_python.sh export_parity.py --trireme PATH/trireme

The run starts from torchvision's own weights (model.init_from) and takes a step of a size that changes no parameter, so
that `trireme export` must give back the same bits; running statistics move. Needs torch and torchvision. Exit code 1
when something differs, 77 (skipped) without torchvision.
"""

import argparse
import pathlib
import subprocess
import tempfile

import torch

from gpt_parity import read_safetensors
from resnet_parity import import_torchvision, write_safetensors

JOB = """
[model]
name = "resnet18"
classes = 7
init_from = "torch.safetensors"
[data]
kind = "synthetic"
image_size = 64
[train]
steps = 1
global_batch = 4
micro_batch = 2
[optimizer]
name = "sgd"
lr = 1e-30
weight_decay = 0
[parallel]
threads = 1
"""


def expect(condition, text):
    if not condition:
        raise SystemExit("export_parity.py: " + text)


def run(trireme, folder, *arguments):
    return subprocess.run([trireme, *arguments], cwd=folder, capture_output=True, text=True, timeout=120)


def round_trip(torchvision, trireme, folder):
    torch.manual_seed(3)
    model = torchvision.models.resnet18(num_classes=7)
    for name, buffer in model.named_buffers():
        if name.endswith("running_var"):
            buffer.uniform_(0.5, 1.5)
    for parameter in model.parameters():
        if parameter.dim() == 1:  # at 0 the smallest step would show
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    write_safetensors(folder / "torch.safetensors", before)
    (folder / "job.toml").write_text(JOB)
    for arguments in (("train", "job.toml", "--out", "out"), ("export", "out", "--out", "ours.safetensors")):
        result = run(trireme, folder, *arguments)
        expect(result.returncode == 0, f"{arguments}: {result.stderr}")

    after = read_safetensors(folder / "ours.safetensors")
    model.load_state_dict(after, strict=True)
    parameters = {name for name, _ in model.named_parameters()}
    expect(len(parameters) == 62, f"{len(parameters)} parameters were compared, not 62")
    for name in parameters:
        expect(torch.equal(after[name], before[name]), f"{name} has changed on its way")
    statistics = [name for name in before if "running_" in name]
    expect(len(statistics) == 40, f"{len(statistics)} statistics were compared, not 40")
    for name in statistics:
        expect(torch.isfinite(after[name]).all() and not torch.equal(after[name], before[name]),
               f"{name} did not move, or not to a number")
        # Once by a tenth of each of two micro-batches: most of the first value is still in it.
        if name.endswith("running_var"):
            expect((after[name] > 0.8 * before[name]).all(), f"{name} did not start from torchvision's")
    print("62 parameters have the same bits; 40 running statistics went on from theirs")


def refusals(trireme, folder):
    whole = read_safetensors(folder / "ours.safetensors")
    name = "layer3.0.downsample.0.weight"
    for case, tensors, text in (
            ("missing", {n: t for n, t in whole.items() if n != name}, f"has no tensor '{name}'"),
            ("other", {**whole, "layer5.weight": torch.zeros(3)}, "holds the tensor 'layer5.weight'"),
            ("shape", {**whole, name: whole[name].reshape(128, 256, 1, 1)},
             f"tensor '{name}' is F32 [128, 256, 1, 1], this model needs F32 [256, 128, 1, 1]")):
        write_safetensors(folder / f"{case}.safetensors", tensors)
        result = run(trireme, folder, "train", "job.toml", "--out", case, "--set", f"model.init_from={case}.safetensors")
        expect(result.returncode == 2 and text in result.stderr, f"{case}: {result.returncode}, {result.stderr}")
        expect("model.init_from" in result.stderr, result.stderr)
    print("a missing, a foreign and a misshapen tensor are named")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", required=True, type=pathlib.Path)
    args = parser.parse_args()
    torchvision = import_torchvision()
    print(f"PyTorch {torch.__version__}, torchvision {torchvision.__version__}")
    with tempfile.TemporaryDirectory(prefix="trireme-parity-") as folder:
        round_trip(torchvision, args.trireme.resolve(), pathlib.Path(folder))
        refusals(args.trireme.resolve(), pathlib.Path(folder))


if __name__ == "__main__":
    main()
