#!/usr/bin/env python3
"""The token ids of `trireme data text` beside those of Hugging Face's tokenizers, for byte-level BPE vocabularies.

    torch_python.sh bpe_parity.py --trireme PATH/trireme [--vocabulary FOLDER|tokenizer.json]...

Two vocabularies are trained here by that library, cut as GPT-2's and as Llama 3's; others (GPT-2's, Llama 3's) may be named.
Those two are also held to published ids. Exit code 1 when an id differs, 77 (skipped) where the library is missing.
"""

import argparse
import array
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

try:
    import tokenizers
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
except ImportError:
    print("skipped: this Python has no tokenizers; TRIREME_TORCH_PYTHON names another")
    sys.exit(77)

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
SPECIAL = "<|endoftext|>"
TEXTS = [
    "Hello world", "Hello, world!", "  leading and   inner  spaces \t\t and tabs ", "line\r\nends\n\n\nof\rall kinds\n",
    "I'll we've they'RE don't 'quoted' it's", "1234567890 3.14159 1,000,000 ½ ² ٣ 〇", "naïve café Ünïcödé ﬁ ſ İ",
    "你好，世界！ 日本語のテキスト 한국어 ไทย हिन्दी עברית العربية", "🚢🚣‍♀️👩‍👩‍👧‍👦 🇩🇪 ☃️ e\u0301", "a\u00a0b\u2003c\u3000d\u200be\ufefff",
    "def f(x):\n\tif x >= 10 and y != 'z':\n        return {\"a\": [1, 2]}  # done\n", "<|endoftext|>between<|endoftext|><|end",
    "a\u180e b\x1c c\x85d \u2028e", "\u1c89\U00031350x\u0301\u00b2", "def f():\n    return\t\t1<|im_start|>",
    "x" * 1000 + " " * 100 + "ab" * 500, "\x00\x01\x7f control", "ends with spaces   ", "",
]
# (size of the vocabulary, text): published for GPT-2 and for Llama 3.
PUBLISHED = {
    (50257, "Hello world"): [15496, 995],
    (50257, "Hello, world!"): [15496, 11, 995, 0],
    (128256, "Hello world"): [9906, 1917],
    (128256, "Hello, world!"): [9906, 11, 1917, 0],
}


def train(folder, llama3):
    tokenizer = Tokenizer(models.BPE(ignore_merges=llama3))
    if llama3:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=1500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=[SPECIAL], show_progress=False)
    sources = [path.read_text() for path in sorted(pathlib.Path(__file__).parent.glob("*.py"))]
    tokenizer.train_from_iterator(sources + TEXTS * 3, trainer)
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def split_files(folder, to):
    """The same vocabulary as vocab.json and merges.txt."""
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    to.mkdir()
    (to / "vocab.json").write_text(json.dumps(model["vocab"]))
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    (to / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    return to


def added_files(split, to):
    """As transformers' slow tokenizers save added tokens."""
    shutil.copytree(split, to)
    size = len(json.loads((to / "vocab.json").read_text()))
    (to / "added_tokens.json").write_text(json.dumps({"    ": size, "\t\t": size + 1, "<|im_start|>": size + 2}))
    (to / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "GPT2Tokenizer"}))
    return to


def random_text(seed):
    draw = random.Random(seed)
    ranges = [(9, 127), (0x80, 0x24f), (0x300, 0x5ff), (0x1680, 0x1fff), (0x2000, 0x30ff), (0xa000, 0xd7ff), (0x10000, 0x323af)]
    return "".join(chr(draw.randint(*draw.choice(ranges))) for _ in range(20000))


def load(path):
    path = pathlib.Path(path)
    if path.is_dir() and not (path / "tokenizer.json").exists():
        tokenizer = Tokenizer(models.BPE.from_file(str(path / "vocab.json"), str(path / "merges.txt")))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.add_special_tokens([AddedToken(SPECIAL, special=True)])
        if (path / "added_tokens.json").exists():
            tokenizer.add_tokens([AddedToken(token) for token in json.loads((path / "added_tokens.json").read_text())])
        return tokenizer
    return Tokenizer.from_file(str(path / "tokenizer.json" if path.is_dir() else path))


def our_ids(trireme, vocabulary, text, folder):
    (folder / "in.txt").write_bytes(text.encode())
    out = folder / "out"
    subprocess.run([trireme, "data", "text", folder / "in.txt", "--tokenizer", vocabulary, "--out", out,
                    "--eval-fraction", "0"], check=True, stdout=subprocess.DEVNULL)
    data = (out / "train.bin").read_bytes()
    wide = int.from_bytes(data[:4], "little") == 20240801
    return array.array("I" if wide else "H", data[1024:]).tolist()


def compare(trireme, name, vocabulary, folder):
    theirs = load(vocabulary)
    texts = [text for text in TEXTS if text and "\0" not in text] + ["\n".join(TEXTS[:11]) * 3]
    texts += [random_text(seed) for seed in range(3)]
    wrong = 0
    for text in texts:
        ids, expected = our_ids(trireme, vocabulary, text, folder), theirs.encode(text, add_special_tokens=False).ids
        published = PUBLISHED.get((theirs.get_vocab_size(), text), expected)
        if ids != expected or ids != published:
            wrong += 1
            first = next((i for i, (a, b) in enumerate(zip(ids, expected)) if a != b), min(len(ids), len(expected)))
            print(f"  {name}: {text[:60]!r}: at token {first} {ids[first:first + 5]}, expected {expected[first:first + 5]}")
    print(f"{name}: {theirs.get_vocab_size()} tokens, {len(texts) - wrong} of {len(texts)} texts have equal ids")
    return wrong == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", required=True)
    parser.add_argument("--vocabulary", action="append", default=[], help="a folder or tokenizer.json; may be repeated")
    options = parser.parse_args()
    print(f"tokenizers {tokenizers.__version__}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        gpt2, llama3 = train(folder / "gpt2", llama3=False), train(folder / "llama3", llama3=True)
        split = split_files(gpt2, folder / "split")
        cases = [("cut as GPT-2's", gpt2), ("cut as Llama 3's", llama3),
                 ("vocab.json and merges.txt", split), ("with added_tokens.json", added_files(split, folder / "added"))]
        cases += [(path, path) for path in options.vocabulary]
        results = [compare(options.trireme, name, path, folder) for name, path in cases]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
