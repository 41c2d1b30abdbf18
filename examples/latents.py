#!/usr/bin/env python3
"""Writes shards of latents for data.kind = "latents", and decodes latents to pictures.

    latents.py demo OUT                                     small shards without a model: OUT/train and OUT/eval
    latents.py encode PICTURES OUT --model MODEL            with the autoencoder and the text encoder of MODEL
    latents.py decode FILE OUT --model MODEL                PNG files of the latents in FILE

A shard is a safetensors file with

    latents         [N, h, w, c]  fp32, fp16 or bf16: channels last, multiplied by the autoencoder's scaling factor
    condition       [N, L, D]     likewise; optional: vectors for cross-attention
    classes         [N]           int32; optional
    null_condition  [L, D]        optional, in the first shard: stands for "no condition"

`demo` needs numpy. The others need torch, diffusers, transformers and Pillow; MODEL is a folder of Stable Diffusion in
diffusers' format. The text of PICTURES/name.jpg is in PICTURES/name.txt; without it the text is empty.
"""

import argparse
import json
import pathlib
import struct

import numpy

DTYPES = {"float32": "F32", "float16": "F16", "int32": "I32"}


def write_shard(path, tensors):
    """Arrays by name, as a safetensors file."""
    header, offset = {}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": DTYPES[str(array.dtype)], "shape": list(array.shape),
                        "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(numpy.ascontiguousarray(array).tobytes())


def demo(args):
    """Waves whose direction is in the condition."""
    random = numpy.random.default_rng(1)
    vectors = random.standard_normal((2, 8, 16))
    side = numpy.arange(16) / 16
    for part, shards, count in (("train", 2, 128), ("eval", 1, 64)):
        for shard in range(shards):
            angle = random.uniform(0, numpy.pi, count)
            along = numpy.cos(angle)[:, None, None] * side[None, :, None] + numpy.sin(angle)[:, None, None] * side
            phase = random.uniform(0, 2 * numpy.pi, (count, 1, 1, 4))
            latents = numpy.sin(12 * along[..., None] + phase)
            condition = numpy.einsum("nk,kld->nld", numpy.stack([numpy.cos(angle), numpy.sin(angle)], 1), vectors)
            write_shard(args.out / part / f"shard-{shard:05}.safetensors",
                        {"latents": latents.astype("float16"), "condition": condition.astype("float16"),
                         "null_condition": numpy.zeros((8, 16), "float16")})


def encode(args):
    import torch
    from diffusers import AutoencoderKL
    from PIL import Image
    from transformers import CLIPTextModel, CLIPTokenizer
    vae = AutoencoderKL.from_pretrained(args.model, subfolder="vae").eval()
    tokenizer = CLIPTokenizer.from_pretrained(args.model, subfolder="tokenizer")
    text_encoder = CLIPTextModel.from_pretrained(args.model, subfolder="text_encoder").eval()

    def vectors_of(texts):
        tokens = tokenizer(texts, padding="max_length", truncation=True, return_tensors="pt").input_ids
        return text_encoder(tokens)[0].half().numpy()

    files = sorted(f for f in args.pictures.rglob("*") if f.suffix.lower() in (".jpg", ".jpeg", ".png"))
    with torch.no_grad():
        for shard, first in enumerate(range(0, len(files), args.shard)):
            latents, texts = [], []
            for file in files[first:first + args.shard]:
                picture = Image.open(file).convert("RGB")
                side = min(picture.size)
                left, top = (picture.width - side) // 2, (picture.height - side) // 2
                picture = picture.crop((left, top, left + side, top + side)).resize((args.size, args.size))
                pixels = torch.from_numpy(numpy.asarray(picture, "float32") / 127.5 - 1).permute(2, 0, 1)[None]
                latent = vae.encode(pixels).latent_dist.mean * vae.config.scaling_factor
                latents.append(latent[0].permute(1, 2, 0).half().numpy())
                text = file.with_suffix(".txt")
                texts.append(text.read_text().strip() if text.exists() else "")
            tensors = {"latents": numpy.stack(latents), "condition": vectors_of(texts)}
            if shard == 0:
                tensors["null_condition"] = vectors_of([""])[0]
            write_shard(args.out / f"shard-{shard:05}.safetensors", tensors)


def decode(args):
    import torch
    from diffusers import AutoencoderKL
    from PIL import Image
    from safetensors.torch import load_file
    vae = AutoencoderKL.from_pretrained(args.model, subfolder="vae").eval()
    args.out.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        for i, latent in enumerate(load_file(args.file)["latents"].float()):
            pixels = vae.decode(latent.permute(2, 0, 1)[None] / vae.config.scaling_factor).sample[0]
            pixels = ((pixels.permute(1, 2, 0) + 1) * 127.5).clamp(0, 255).round().byte().numpy()
            Image.fromarray(pixels).save(args.out / f"{i:05}.png")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("demo")
    command.add_argument("out", type=pathlib.Path)
    command.set_defaults(run=demo)
    command = commands.add_parser("encode")
    command.add_argument("pictures", type=pathlib.Path)
    command.add_argument("out", type=pathlib.Path)
    command.add_argument("--model", required=True)
    command.add_argument("--size", type=int, default=512, help="side of the pictures in pixels")
    command.add_argument("--shard", type=int, default=1024, help="latents in a shard")
    command.set_defaults(run=encode)
    command = commands.add_parser("decode")
    command.add_argument("file", type=pathlib.Path)
    command.add_argument("out", type=pathlib.Path)
    command.add_argument("--model", required=True)
    command.set_defaults(run=decode)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
