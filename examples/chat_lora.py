#!/usr/bin/env python3
"""Writes made-up conversations and a chat template: the data of chat_lora.toml.

    examples/chat_lora.py FOLDER [--model DIR]

FOLDER/chats.jsonl gets 200 conversations of one or two questions about words. The answers follow from the questions,
so a model can learn the rule and answer questions that it has not seen. With --model, the template is written into the
folder of an exported model, as DIR/chat_template.jinja. The template has no special tokens, so that it fits a model of
bytes: a turn ends with an empty line.
"""
import argparse
import json
import pathlib
import random

TEMPLATE = """{% for message in messages %}{{ message.role + ': ' + message.content + '\\n\\n' }}{% endfor %}\
{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"""
WORDS = ("anchor bench bow canvas crew deck drum ferry gull harbour hull island keel lamp mast north oar pier quay rope "
         "rudder sail shore stern storm tide tiller vessel wave wind").split()
QUESTIONS = {
    "Repeat {a}.": "{a}",
    "Say {a} twice.": "{a} {a}",
    "First of {a}, {b}?": "{a}",
    "Last of {a}, {b}?": "{b}",
}


def turns(draw):
    """A question of a user and its answer."""
    question = draw.choice(sorted(QUESTIONS))
    a, b = draw.sample(WORDS, 2)
    return [{"role": "user", "content": question.format(a=a, b=b)},
            {"role": "assistant", "content": QUESTIONS[question].format(a=a, b=b)}]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--model", type=pathlib.Path)
    args = parser.parse_args()
    draw = random.Random(1)
    chats = [turns(draw) + (turns(draw) if draw.random() < 0.5 else []) for _ in range(200)]
    args.folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps({"messages": messages}) + "\n" for messages in chats)
    (args.folder / "chats.jsonl").write_text(lines, encoding="utf-8")
    if args.model:
        (args.model / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")


if __name__ == "__main__":
    main()
