#!/usr/bin/env python3
"""The tokens and targets of `trireme data chat` beside those of Hugging Face's transformers.

    torch_python.sh chat_parity.py --trireme PATH/trireme

Six chat templates are written here in the style of ChatML, Llama 3, Qwen3, Mistral, Gemma 3 and Zephyr, each with and
without {% generation %} blocks. transformers gets the blocks (return_assistant_tokens_mask=True); trireme gets the
template without them and derives the targets from prefixes, and once more with them. 200 random conversations for each
style have empty turns, system prompts, Unicode, and words of the template in the text. Three more styles, Llama 2,
Mistral 0.1 and Gemma, have a sentencepiece model with control and user-defined symbols; they need the library
sentencepiece. Exit code 1 when a token or a target differs, 77 (skipped) where transformers is missing.
"""

import argparse
import array
import json
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import AutoTokenizer, PreTrainedTokenizerFast
except ImportError:
    print("skipped: this Python has no transformers and tokenizers; TRIREME_TORCH_PYTHON names another")
    sys.exit(77)

try:
    import sentencepiece
except ImportError:
    sentencepiece = None

PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
           r"|\s+(?!\S)|\s+")
# « and » stand for the ends of a {% generation %} block.
CHATML = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}"
          "{% if m.role == 'assistant' %}«{{ m.content + '<|im_end|>' }}»{% else %}{{ m.content + '<|im_end|>' }}{% endif %}"
          "{{ '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
LLAMA3 = ("{{ bos_token }}{% for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' }}"
          "{% set text = m.content | trim + '<|eot_id|>' %}{% if m.role == 'assistant' %}«{{ text }}»{% else %}{{ text }}"
          "{% endif %}{% endfor %}{% if add_generation_prompt %}"
          "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}")
# Thoughts are written only after the last question. Another question changes the text before it.
QWEN3 = ("{% set last = namespace(question=0) %}{% for m in messages %}{% if m.role == 'user' %}"
         "{% set last.question = loop.index0 %}{% endif %}{% endfor %}"
         "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}{% if m.role == 'assistant' %}«"
         "{% set parts = m.content.split('</think>') %}{% if loop.index0 > last.question %}"
         "{{ '<think>\\n' + (parts[0] | replace('<think>', '') | trim if parts | length > 1 else '') + '\\n</think>\\n\\n' }}"
         "{% endif %}{{ parts[-1] | trim + '<|im_end|>' }}»{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\\n' }}"
         "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
SYSTEM_FIRST = ("{% set system = '' %}{% set turns = messages %}{% if messages[0].role == 'system' %}"
                "{% set system = messages[0].content + '\\n\\n' %}{% set turns = messages[1:] %}{% endif %}{{ bos_token }}"
                "{% for m in turns %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
                "{{ raise_exception('roles must alternate') }}{% endif %}")
MISTRAL = (SYSTEM_FIRST + "{% if m.role == 'user' %}{{ '[INST] ' + (system if loop.first else '') + m.content + '[/INST]' }}"
           "{% else %}«{{ ' ' + m.content | trim + eos_token }}»{% endif %}{% endfor %}")
GEMMA3 = (SYSTEM_FIRST + "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' }}"
          "{% if m.role == 'user' %}{{ (system if loop.first else '') + m.content | trim + '<end_of_turn>' }}"
          "{% else %}«{{ m.content | trim + '<end_of_turn>' }}»{% endif %}{{ '\\n' }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}")
ZEPHYR = ("{% for m in messages %}{{ '<|' + m.role + '|>\\n' }}{% if m.role == 'assistant' %}«{{ m.content + eos_token }}»"
          "{% else %}{{ m.content + eos_token }}{% endif %}{{ '\\n' }}{% if loop.last and add_generation_prompt %}"
          "{{ '<|assistant|>\\n' }}{% endif %}{% endfor %}")
LLAMA2 = (SYSTEM_FIRST + "{% if m.role == 'user' %}{{ (bos_token if not loop.first else '') + '[INST] ' + "
          "(system if loop.first else '') + m.content | trim + ' [/INST]' }}"
          "{% else %}«{{ ' ' + m.content | trim + ' ' + eos_token }}»{% endif %}{% endfor %}")
# name: (template, bos, eos, other special tokens)
STYLES = {
    "chatml": (CHATML, None, "<|im_end|>", ["<|im_start|>"]),
    "llama3": (LLAMA3, "<|begin_of_text|>", "<|eot_id|>", ["<|start_header_id|>", "<|end_header_id|>"]),
    "qwen3": (QWEN3, None, "<|im_end|>", ["<|im_start|>", "<think>", "</think>"]),
    "mistral": (MISTRAL, "<s>", "</s>", ["[INST]", "[/INST]"]),
    "gemma3": (GEMMA3, "<bos>", "<eos>", ["<start_of_turn>", "<end_of_turn>"]),
    "zephyr": (ZEPHYR, "<s>", "</s>", []),
}
# name: (template, tokenizer class, settings of the sentencepiece model)
GEMMA_SYMBOLS = {"add_dummy_prefix": False, "user_defined_symbols": ["<start_of_turn>", "<end_of_turn>"], "pad_id": 0,
                 "eos_id": 1, "bos_id": 2, "unk_id": 3, "bos_piece": "<bos>", "eos_piece": "<eos>"}
PIECE_STYLES = {
    "llama2": (LLAMA2, "LlamaTokenizer", {}),
    "mistral0.1": (MISTRAL, "LlamaTokenizer", {}),
    "gemma": (GEMMA3, "GemmaTokenizer", GEMMA_SYMBOLS),
}
WORDS = ["the quick fox", "assistant", "user\n", "<|im_end|>", "<|im_start|>assistant\n", "[/INST]", "</s>", "{{ bos_token }}",
         "{% generation %}", "<end_of_turn>", "<|assistant|>", "naïve café", "日本語のテキスト", "👩‍👩‍👧‍👦🇩🇪", "e\u0301", "עברית", "\n\n- list\n",
         "  spaces  ", "\ttab", "<think>no</think>", "1234567 + 8 = ?", "I'll we've", "\\n \\u0041", "\"quoted\"", "\u00a0", "ﬁ²"]


def random_text(draw, least):
    return draw.choice(["", " ", "", "\n"]).join(draw.choice(WORDS) for _ in range(draw.randint(least, 6)))


def conversations(style, count=200):
    draw = random.Random(style)
    chats = []
    for _ in range(count):
        chat = [{"role": "system", "content": random_text(draw, 0)}] if draw.random() < 0.4 else []
        for _ in range(draw.randint(1, 4)):
            # An answer that begins with white space would share a token with the template's.
            answer = (random_text(draw, 1).lstrip() or "ok") + draw.choice(["", "", " ", "\n"])
            if style == "qwen3":
                thought = f"<think>{random_text(draw, 0)}</think>\n\n" if draw.random() < 0.5 else ""
                answer = thought + answer.replace("<think>", "").replace("</think>", "").strip() + "."
            chat += [{"role": "user", "content": random_text(draw, 0)}, {"role": "assistant", "content": answer}]
        if style != "qwen3" and draw.random() < 0.2:
            chat.append({"role": "user", "content": random_text(draw, 0)})
        chats.append(chat)
    return chats


def train_tokenizer(special):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=900, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=special,
                                  show_progress=False)
    sources = [path.read_text() for path in sorted(pathlib.Path(__file__).parent.glob("*.py"))]
    tokenizer.train_from_iterator(sources + WORDS * 3, trainer)
    return tokenizer


def train_pieces(model, settings):
    """Writes a sentencepiece model as Llama's: BPE with bytes, no normalization, a dummy prefix."""
    sources = [path.read_text() for path in sorted(pathlib.Path(__file__).parent.glob("*.py"))]
    lines = [line for text in sources + WORDS * 3 for line in text.splitlines() if line.strip()]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=str(model / "tokenizer"), vocab_size=900, model_type="bpe",
        byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True,
        allow_whitespace_only_pieces=True, minloglevel=2, **settings)
    (model / "tokenizer.vocab").unlink()


def plain(template):
    return template.replace("«", "").replace("»", "")


def with_blocks(template):
    return template.replace("«", "{% generation %}").replace("»", "{% endgeneration %}")


def write_template(folder, template, in_config, bos, eos, **more):
    config = {"eos_token": eos} | ({"bos_token": bos} if bos else {}) | more
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    if in_config:
        config["chat_template"] = template
    else:
        (folder / "chat_template.jinja").write_text(template)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def shard(path):
    data = path.read_bytes()
    wide = int.from_bytes(data[:4], "little") == 20240801
    return array.array("I" if wide else "H", data[1024:]).tolist()


def run(trireme, folder, chats, targets):
    (folder / "chats.jsonl").write_text("".join(json.dumps({"messages": chat}) + "\n" for chat in chats))
    return subprocess.run([trireme, "data", "chat", folder / "chats.jsonl", "--tokenizer", folder / "model", "--out",
                           folder / "out", "--eval-fraction", "0", "--targets", targets], capture_output=True, text=True)


def ours(trireme, folder, chats, targets):
    """Tokens and marks of each conversation."""
    done = run(trireme, folder, chats, targets)
    if done.returncode != 0:
        raise SystemExit(f"trireme data chat failed: {done.stderr}")
    tokens, marks = shard(folder / "out" / "train.bin"), shard(folder / "out" / "train.targets")
    lengths = array.array("i", (folder / "out" / "train.documents").read_bytes()[1024:]).tolist()[::3]
    assert len(lengths) == len(chats) and sum(lengths) == len(tokens) == len(marks)
    result, at = [], 0
    for length in lengths:
        result.append((tokens[at:at + length], marks[at:at + length]))
        at += length
    return result


def last_run(marks):
    """The last block of ones, where blocks are apart."""
    end = len(marks)
    while end and not marks[end - 1]:
        end -= 1
    begin = end
    while begin and marks[begin - 1]:
        begin -= 1
    return [1 if begin <= i < end else 0 for i in range(len(marks))]


def theirs(oracle, chats):
    result = []
    for chat in chats:
        made = oracle.apply_chat_template(chat, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
        result.append((list(made["input_ids"]), list(made["assistant_masks"])))
    return result


def compare(what, got, expected, chats):
    wrong = sum(a != b for a, b in zip(got, expected))
    targets = sum(sum(marks) for _, marks in expected)
    print(f"{what}: {len(got)} conversations, {targets} targets of {sum(len(t) for t, _ in expected)} tokens, {wrong} differ")
    for (tokens, marks), (want_tokens, want_marks), chat in zip(got, expected, chats):
        if tokens != want_tokens or marks != want_marks:
            print(f"  {json.dumps(chat)}\n  got  {tokens}\n       {marks}\n  want {want_tokens}\n       {want_marks}")
            break
    return wrong


def check_style(trireme, name, folder):
    template, bos, eos, special = STYLES[name]
    folder.mkdir()
    model = folder / "model"
    model.mkdir()
    tokenizer = train_tokenizer(([bos] if bos else []) + [eos] + special)
    tokenizer.save(str(model / "tokenizer.json"))
    oracle = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=bos, eos_token=eos)
    oracle.chat_template = with_blocks(template)
    chats = conversations(name)
    expected = theirs(oracle, chats)
    last = [(tokens, last_run(marks)) for tokens, marks in expected]
    if name != "qwen3":  # a turn of the user that follows has another block of zeros only
        chosen = [i for i, chat in enumerate(chats) if chat[-1]["role"] == "assistant"]
    else:
        chosen = range(len(chats))
    wrong = 0
    write_template(model, with_blocks(template), in_config=True, bos=bos, eos=eos)
    wrong += compare(f"{name}, with blocks", ours(trireme, folder, chats, "assistant"), expected, chats)
    write_template(model, plain(template), in_config=False, bos=bos, eos=eos)
    if name == "qwen3":
        refused = run(trireme, folder, chats, "assistant")
        if refused.returncode == 0 or "cannot be derived exactly" not in refused.stderr:
            print(f"{name}: several turns without blocks were not refused: {refused.stderr}")
            wrong += 1
        single = [i for i, chat in enumerate(chats) if sum(m["role"] == "assistant" for m in chat) == 1]
        wrong += compare(f"{name}, prefixes of one turn", ours(trireme, folder, [chats[i] for i in single], "assistant"),
                         [expected[i] for i in single], [chats[i] for i in single])
    else:
        wrong += compare(f"{name}, prefixes", ours(trireme, folder, chats, "assistant"), expected, chats)
    some = [chats[i] for i in chosen]
    wrong += compare(f"{name}, last turn", ours(trireme, folder, some, "last"), [last[i] for i in chosen], some)
    everything = [(tokens, [0] + [1] * (len(tokens) - 1)) for tokens, _ in expected]
    wrong += compare(f"{name}, all", ours(trireme, folder, chats, "all"), everything, chats)
    return wrong


def check_pieces(trireme, name, folder):
    template, tokenizer_class, settings = PIECE_STYLES[name]
    bos, eos = settings.get("bos_piece", "<s>"), settings.get("eos_piece", "</s>")
    model = folder / "model"
    model.mkdir(parents=True)
    train_pieces(model, settings)
    (model / "config.json").write_text(json.dumps({"model_type": "gemma" if "Gemma" in tokenizer_class else "llama"}))
    config = {"tokenizer_class": tokenizer_class, "unk_token": "<unk>"}
    write_template(model, with_blocks(template), in_config=True, bos=bos, eos=eos, **config)
    oracle = AutoTokenizer.from_pretrained(model)
    chats = conversations(name)
    expected = theirs(oracle, chats)
    wrong = compare(f"{name}, with blocks", ours(trireme, folder, chats, "assistant"), expected, chats)
    write_template(model, plain(template), in_config=False, bos=bos, eos=eos, **config)
    return wrong + compare(f"{name}, prefixes", ours(trireme, folder, chats, "assistant"), expected, chats)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trireme", required=True)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wrong = sum(check_style(arguments.trireme, name, pathlib.Path(folder) / name) for name in STYLES)
        if sentencepiece is None:
            print("left out: this Python has no sentencepiece, which llama2, mistral0.1 and gemma need")
        else:
            wrong += sum(check_pieces(arguments.trireme, name, pathlib.Path(folder) / name) for name in PIECE_STYLES)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
