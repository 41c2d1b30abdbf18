#!/usr/bin/env python3
"""A folder of transformers through `trireme init`, `train` and `export`, and back into transformers.

    torch_python.sh round_trip_parity.py --trireme PATH/trireme --trace PATH/hf_trace --case llama|vit

llama: a Llama with a byte-level BPE tokenizer, a chat template and a generation_config.json learns three answers, as a
whole and then by adapters. The exported folders must give equal ids, the same template and settings, equal logits, and
generate() must write the answers and stop at the end token. vit: a ViT with labels and preprocessor_config.json learns
three colours. The exported folder must have the labels in the order of the class folders, the same preprocessing, equal
logits, and predict from the files of pictures what `trireme eval --predictions` wrote. Exit code 1 on a difference, 77
(skipped) without transformers, and for vit without Pillow.
"""

import argparse
import importlib.util
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import torch

from gpt_parity import read_safetensors, relative
from resnet_parity import write_safetensors

try:
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
except ImportError:
    print("skipped: this Python has no transformers and tokenizers; TRIREME_TORCH_PYTHON names another")
    sys.exit(77)

LOGITS = 1e-4  # relative
TEMPLATE = ("{{ bos_token }}{% for m in messages %}{{ '<|' + m.role + '|>' + m.content }}"
            "{% if m.role == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}")
QUESTIONS = ("What is the colour of the sky?", "What is the colour of grass?", "What is the colour of snow?")
ANSWERS = ("The sky is blue.", "Grass is green.", "White, as milk is.")
OTHER_ANSWERS = ("blue", "green", "white")
TEXTS = ("The sky", " two  spaces\n\n\tand lines", "naïve café, 日本語 👩‍👩‍👧", "<|user|>hi<|assistant|>", "",
         "12345 + 6")
COLOURS = {"red": (200, 40, 40), "green": (40, 180, 60), "blue": (50, 60, 210)}  # in the order of the base's labels
SIDE = 24


def expect(condition, text):
    if not condition:
        raise SystemExit("round_trip_parity.py: " + text)


class Trip:
    def __init__(self, args, folder):
        self.trireme, self.tracer, self.folder = args.trireme.resolve(), args.trace.resolve(), folder

    def run(self, *command):
        words = [str(word) for word in command]
        result = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, timeout=300)
        expect(result.returncode == 0, f"{command}: {result.stderr}")
        return result.stdout

    def train(self, out, *settings):
        """The job that `trireme init` wrote, on one thread, then its export to the folder `out`-hf."""
        overrides = [word for setting in settings for word in ("--set", setting)]
        self.run(self.trireme, "train", f"{out}.toml", "--out", out, "--set", "parallel.threads=1", *overrides)
        self.run(self.trireme, "export", out, "--format", "hf", "--out", f"{out}-hf")
        return self.folder / f"{out}-hf"

    def logits(self, place, name, inputs):
        write_safetensors(self.folder / "inputs.safetensors", {name: inputs})
        self.run(self.tracer, place, "inputs.safetensors", "logits.safetensors")
        return read_safetensors(self.folder / "logits.safetensors")["logits"]

    def load(self, auto, place):
        model, info = auto.from_pretrained(place, output_loading_info=True)
        expect(not any(info.values()), f"{place}: {info}")
        return model.float().eval()


def same_logits(what, ours, theirs):
    distance = relative(ours, theirs)
    print(f"{what}: logits differ by {distance:.1e}")
    expect(ours.shape == theirs.shape and distance <= LOGITS, f"{what}: logits differ by {distance}")


def save_llama(folder):
    special = ["<|begin|>", "<|end|>", "<|pad|>", "<|user|>", "<|assistant|>"]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(QUESTIONS + ANSWERS, trainers.BpeTrainer(
        vocab_size=320, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=special[0], eos_token=special[1],
                                                pad_token=special[2], extra_special_tokens=special[3:])
    fast.chat_template = TEMPLATE
    ids = {"bos_token_id": fast.bos_token_id, "eos_token_id": fast.eos_token_id, "pad_token_id": fast.pad_token_id}
    torch.manual_seed(2)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=len(fast), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=96, **ids))
    model.generation_config = transformers.GenerationConfig(**ids, do_sample=False, max_length=90)
    model.save_pretrained(folder)
    fast.save_pretrained(folder)


def write_chats(trip, base, answers, name):
    lines = [json.dumps({"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]})
             for question, answer in zip(QUESTIONS, answers)]
    (trip.folder / f"{name}.jsonl").write_text("\n".join(lines * 8) + "\n")
    trip.run(trip.trireme, "data", "chat", f"{name}.jsonl", "--tokenizer", base, "--out", name, "--eval-fraction", "0")


def settings_of(generation):
    not_compared = ("transformers_version", "_from_model_config")
    return {name: value for name, value in generation.to_dict().items() if name not in not_compared}


def check_llama(trip, what, run, base, answers):
    before = transformers.AutoTokenizer.from_pretrained(trip.folder / base)
    after = transformers.AutoTokenizer.from_pretrained(trip.folder / f"{run}-hf")
    expect(type(after) is type(before) and len(after) == len(before), f"{what}: {after} for {before}")
    expect(after.special_tokens_map == before.special_tokens_map, f"{what}: {after.special_tokens_map}")
    expect(after.chat_template == before.chat_template == TEMPLATE, f"{what}: template {after.chat_template!r}")
    for text in (*TEXTS, *QUESTIONS):
        expect(after(text)["input_ids"] == before(text)["input_ids"], f"{what}: ids of {text!r} differ")
    model = trip.load(transformers.AutoModelForCausalLM, trip.folder / f"{run}-hf")
    kept = transformers.GenerationConfig.from_pretrained(trip.folder / base)
    expect(settings_of(model.generation_config) == settings_of(kept), f"{what}: {model.generation_config}")
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        expect(getattr(model.config, name) == getattr(before, name), f"{what}: {name} is {getattr(model.config, name)}")
    for question, answer in zip(QUESTIONS, answers):
        prompt = after.apply_chat_template([{"role": "user", "content": question}], add_generation_prompt=True,
                                           return_tensors="pt", return_dict=True)
        with torch.no_grad():
            written = model.generate(**prompt)[0, prompt["input_ids"].shape[1]:].tolist()
        expect(written[-1] == before.eos_token_id and after.decode(written[:-1]) == answer,
               f"{what}: {question} {after.decode(written)!r}, not {answer!r} and the end")
    tokens = torch.randint(0, len(after), (2, 48), generator=torch.Generator().manual_seed(3), dtype=torch.int32)
    with torch.no_grad():
        theirs = model(tokens.long()).logits
    same_logits(what, trip.logits(run, "tokens", tokens), theirs)
    print(f"{what}: ids, template, settings; {len(answers)} answers end with {before.eos_token}")


def llama(trip):
    save_llama(trip.folder / "base")
    write_chats(trip, "base", ANSWERS, "chats")
    trip.run(trip.trireme, "init", "llama", "--from", "hf:base", "--data", "chats", "--out", "whole.toml")
    trip.train("whole", "train.steps=150", "optimizer.lr=3e-3", "optimizer.warmup_steps=10")
    check_llama(trip, "whole", "whole", "base", ANSWERS)
    # An exported folder serves as a base like the first one.
    write_chats(trip, "whole-hf", OTHER_ANSWERS, "others")
    trip.run(trip.trireme, "init", "lora", "--from", "hf:whole-hf", "--data", "others", "--out", "adapted.toml")
    trip.train("adapted", "train.steps=150", "optimizer.lr=1e-2", "optimizer.warmup_steps=10")
    check_llama(trip, "adapted", "adapted", "base", OTHER_ANSWERS)


def write_pictures(folder, seed, count):
    """Plain colours with noise, of the side that the network sees: nobody resizes them."""
    from PIL import Image
    draw = random.Random(seed)
    for name, colour in COLOURS.items():
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = [max(0, min(255, value + draw.randint(-60, 60))) for _ in range(SIDE * SIDE) for value in colour]
            Image.frombytes("RGB", (SIDE, SIDE), bytes(pixels)).save(folder / name / f"{number}.png")


def save_vit(folder):
    labels = dict(enumerate(COLOURS))
    torch.manual_seed(4)
    model = transformers.ViTForImageClassification(transformers.ViTConfig(
        hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, image_size=SIDE, patch_size=8,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, id2label=labels,
        label2id={name: label for label, name in labels.items()}))
    model.save_pretrained(folder)
    transformers.ViTImageProcessor(size={"height": SIDE, "width": SIDE}, image_mean=[0.4, 0.45, 0.5],
                                   image_std=[0.3, 0.25, 0.2]).save_pretrained(folder)


def vit(trip):
    from PIL import Image
    save_vit(trip.folder / "base")
    write_pictures(trip.folder / "pictures/train", 1, 16)
    write_pictures(trip.folder / "pictures/test", 2, 6)
    trip.run(trip.trireme, "init", "images", "--from", "hf:base", "--data", "pictures", "--out", "tuned.toml")
    out = trip.train("tuned", "train.steps=40", "optimizer.lr=1e-3", "optimizer.warmup_steps=5", "train.eval_every=0")
    before, after = (transformers.AutoImageProcessor.from_pretrained(place) for place in (trip.folder / "base", out))
    for name in ("image_mean", "image_std", "do_resize", "do_rescale", "do_normalize", "rescale_factor", "resample"):
        got, wanted = getattr(after, name), getattr(before, name)
        expect(got == wanted, f"{name} is {got}, not {wanted}")
    expect(dict(after.size) == dict(before.size), f"size is {after.size}, not {before.size}")
    model = trip.load(transformers.AutoModelForImageClassification, out)
    expect(model.config.id2label == dict(enumerate(sorted(COLOURS))), f"labels {model.config.id2label}")
    expect(model.config.label2id == {name: label for label, name in model.config.id2label.items()}, "label2id differs")
    images = torch.randn((3, SIDE, SIDE, 3), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        theirs = model(images.permute(0, 3, 1, 2)).logits
    same_logits("vit", trip.logits("tuned", "images", images), theirs)
    trip.run(trip.trireme, "eval", "tuned", "--threads", "1", "--predictions", "predictions.jsonl")
    lines = [json.loads(line) for line in (trip.folder / "predictions.jsonl").read_text().splitlines()]
    right, worst = 0, 0.0
    for line in lines:
        picture = Image.open(trip.folder / line["picture"])
        with torch.no_grad():
            shares = model(**after(picture, return_tensors="pt")).logits.softmax(-1)[0]
        expect(model.config.id2label[int(shares.argmax())] == line["predicted"], f"{line}: theirs is {shares}")
        worst = max(worst, abs(shares.max().item() - line["probability"]))
        right += line["predicted"] == line["label"]
    print(f"vit: labels, preprocessing; {right} of {len(lines)} pictures right, probabilities differ by {worst:.1e}")
    expect(len(lines) == 18 and right >= 15, "the pictures were not learned")
    expect(worst < 1e-4, f"probabilities differ by {worst}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", required=True, type=pathlib.Path)
    parser.add_argument("--trace", required=True, type=pathlib.Path)
    parser.add_argument("--case", required=True, choices=("llama", "vit"))
    args = parser.parse_args()
    if args.case == "vit" and importlib.util.find_spec("PIL") is None:
        print("skipped: this Python has no Pillow; TRIREME_TORCH_PYTHON names another")
        sys.exit(77)
    print(f"transformers {transformers.__version__}, PyTorch {torch.__version__}")
    with tempfile.TemporaryDirectory(prefix="trireme-parity-") as folder:
        {"llama": llama, "vit": vit}[args.case](Trip(args, pathlib.Path(folder)))


if __name__ == "__main__":
    main()
