#!/usr/bin/env python3
"""Makes a classification task from real text: are the words of a line in the author's order?

    examples/word_order.py TEXT FOLDER [--labelled N]

The first 80 % of the lines go to FOLDER/lines.txt, for masked language modelling. N of the other lines with six words or
more (default: 3000) go to FOLDER/order.tsv. Half of these have the label "whole", half "shuffled": all words but the
first and the last are in another order. The two files share no lines. `trireme data documents` reads both.
"""
import argparse
import pathlib
import random


def shuffled(line, numbers):
    """The words in another order, with the first and the last word in place."""
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
    # Lines whose inner words are all equal have only one order.
    judged = [line for line in lines[first_judged:] if len(line.split()) >= 6 and len(set(line.split()[1:-1])) > 1]
    numbers.shuffle(judged)
    if len(judged) < args.labelled:
        parser.error(f"{args.text} has {len(judged)} lines to judge, {args.labelled} are asked for")
    args.folder.mkdir(parents=True, exist_ok=True)
    (args.folder / "lines.txt").write_text("".join(line + "\n" for line in lines[:first_judged]), encoding="utf-8")
    rows = [f"whole\t{' '.join(line.split())}\n" if i % 2 == 0 else f"shuffled\t{shuffled(line, numbers)}\n"
            for i, line in enumerate(judged[:args.labelled])]
    numbers.shuffle(rows)  # so that any part of the file has both labels
    (args.folder / "order.tsv").write_text("".join(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
