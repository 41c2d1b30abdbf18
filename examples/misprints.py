#!/usr/bin/env python3
"""Makes a task from real text: does a line have misprints?

    examples/misprints.py TEXT FOLDER [--labelled N]

The first 80 % of the lines become FOLDER/lines.txt, for masked language modelling. Of the last 20 %, N lines of six words
or more (default: 3000) become FOLDER/misprints.tsv: half of them are "right", in half two letters, of two words, are
others, "wrong". No line that is judged was seen before. For `trireme data documents`.
"""
import argparse
import pathlib
import random
import string

MISPRINTS = 2


def places_of(line):
    """Of the lower-case letters within longer words: those that may become others, by word."""
    places, start = [], 0
    for word in line.split(" "):
        inner = [start + i for i in range(1, len(word) - 1) if word[i] in string.ascii_lowercase]
        if len(word) >= 4 and inner:
            places.append(inner)
        start += len(word) + 1
    return places


def misprinted(line, numbers):
    letters = list(line)
    for inner in numbers.sample(places_of(line), MISPRINTS):
        place = numbers.choice(inner)
        letters[place] = numbers.choice([c for c in string.ascii_lowercase if c != letters[place]])
    return "".join(letters)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--labelled", type=int, default=3000)
    args = parser.parse_args()
    lines = [line for line in args.text.read_text(encoding="utf-8").replace("\t", " ").split("\n") if line.strip()]
    numbers = random.Random(1)
    first_judged = len(lines) * 4 // 5
    judged = [line for line in (" ".join(line.split()) for line in lines[first_judged:])
              if len(line.split()) >= 6 and len(places_of(line)) >= MISPRINTS]
    numbers.shuffle(judged)
    if len(judged) < args.labelled:
        parser.error(f"{args.text} has {len(judged)} lines to judge, {args.labelled} are asked for")
    args.folder.mkdir(parents=True, exist_ok=True)
    (args.folder / "lines.txt").write_text("".join(line + "\n" for line in lines[:first_judged]), encoding="utf-8")
    rows = [f"right\t{line}\n" if i % 2 == 0 else f"wrong\t{misprinted(line, numbers)}\n"
            for i, line in enumerate(judged[:args.labelled])]
    numbers.shuffle(rows)  # so that any part of them has both labels
    (args.folder / "misprints.tsv").write_text("".join(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
