#!/usr/bin/env python3
"""Makes a task from real text: is the order of a line's words the author's?

    examples/word_order.py TEXT FOLDER [--labelled N]

The first 80 % of the lines become FOLDER/lines.txt, for masked language modelling. Of the last 20 %, N lines of six words
or more (default: 3000) become FOLDER/order.tsv: half of them are "whole", half "shuffled", their words between the
first and the last in another order. No line that is judged was seen before. For `trireme data documents`.
"""
import argparse
import pathlib
import random


def shuffled(line, numbers):
    """The same words, first and last in their place, in another order."""
    first, *inner, last = line.split()
    order = inner[:]
    while order == inner:
        numbers.shuffle(order)
    return " ".join([first, *order, last])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--labelled", type=int, default=3000)
    args = parser.parse_args()
    lines = [line for line in args.text.read_text(encoding="utf-8").replace("\t", " ").split("\n") if line.strip()]
    numbers = random.Random(1)
    first_judged = len(lines) * 4 // 5
    # Inner words that are all the same have one order alone.
    judged = [line for line in lines[first_judged:] if len(line.split()) >= 6 and len(set(line.split()[1:-1])) > 1]
    numbers.shuffle(judged)
    if len(judged) < args.labelled:
        parser.error(f"{args.text} has {len(judged)} lines to judge, {args.labelled} are asked for")
    args.folder.mkdir(parents=True, exist_ok=True)
    (args.folder / "lines.txt").write_text("".join(line + "\n" for line in lines[:first_judged]), encoding="utf-8")
    rows = [f"whole\t{' '.join(line.split())}\n" if i % 2 == 0 else f"shuffled\t{shuffled(line, numbers)}\n"
            for i, line in enumerate(judged[:args.labelled])]
    numbers.shuffle(rows)  # so that any part of them has both labels
    (args.folder / "order.tsv").write_text("".join(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
