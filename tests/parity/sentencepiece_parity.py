#!/usr/bin/env python3
"""A SentencePiece vocabulary of `trireme data text --train-tokenizer` through `trireme export`, read by transformers.

    torch_python.sh sentencepiece_parity.py --trireme PATH/trireme

AutoTokenizer of the exported folder must give the ids of `trireme data text` and the text back, and name the token that
ends a document. Exit code 1 when an id differs, 77 (skipped) without transformers and sentencepiece.
"""

import argparse
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile

missing = [name for name in ("transformers", "tokenizers", "sentencepiece", "google.protobuf")
           if importlib.util.find_spec(name.split(".")[0]) is None]
if missing:
    print(f"skipped: this Python has no {', '.join(missing)}; TRIREME_TORCH_PYTHON names another")
    sys.exit(77)

import transformers

from bpe_parity import TEXTS, our_ids

JOB = """
[model]
name = "{model}"
layers = 1
hidden = 16
heads = 2
seq_len = 16
[data]
kind = "tokens"
train = "data"
[train]
steps = 1
global_batch = 2
micro_batch = 2
[parallel]
threads = 1
"""
# transformers makes the token of these texts, and SentencePiece plain pieces.
SPECIAL_TEXTS = ("<s>", "</s>", "<unk>")


def run(trireme, folder, *arguments):
    result = subprocess.run([trireme, *arguments], cwd=folder, capture_output=True, text=True, timeout=300)
    if result.returncode != 0:
        raise SystemExit(f"{arguments}: {result.stderr}")


def compare(trireme, folder, exported):
    theirs = transformers.AutoTokenizer.from_pretrained(exported)
    texts = [text for text in TEXTS if text and "\0" not in text] + ["\n".join(TEXTS[:11]) * 3]
    texts += [path.read_text() for path in sorted(pathlib.Path(__file__).parent.glob("*.py"))]
    texts = [text for text in texts if not any(special in text for special in SPECIAL_TEXTS)]
    wrong = []
    for text in texts:
        ids = our_ids(trireme, folder / "data/tokenizer.model", text, folder)
        given = theirs(text)["input_ids"]
        if given != ids:
            wrong.append(f"{text[:40]!r}: {theirs.convert_ids_to_tokens(given)[:8]}, ours {theirs.convert_ids_to_tokens(ids)[:8]}")
        elif theirs.decode(ids) != text:
            wrong.append(f"{text[:40]!r} comes back as {theirs.decode(ids)[:40]!r}")
    end = json.loads((exported / "config.json").read_text())["eos_token_id"]
    if theirs.eos_token_id != end:
        wrong.append(f"eos_token_id is {end} in config.json, and {theirs.eos_token_id} of the tokenizer")
    for line in wrong:
        print("  " + line)
    print(f"{exported.name}: {type(theirs).__name__}, {len(texts)} texts, {len(wrong)} differences")
    return not wrong and len(texts) > 30


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", required=True)
    trireme = str(pathlib.Path(parser.parse_args().trireme).resolve())
    print(f"transformers {transformers.__version__}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for path in pathlib.Path(__file__).parent.glob("*.py"):
            (folder / "texts").mkdir(exist_ok=True)
            (folder / "texts" / path.name).write_text(path.read_text())
        run(trireme, folder, "data", "text", "texts", "--out", "data", "--train-tokenizer", "700")
        results = []
        for model in ("gpt", "llama"):
            (folder / "job.toml").write_text(JOB.format(model=model))
            run(trireme, folder, "train", "job.toml", "--out", f"run-{model}")
            run(trireme, folder, "export", f"run-{model}", "--format", "hf", "--out", f"exported-{model}")
            results.append(compare(trireme, folder, folder / f"exported-{model}"))
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
