#!/usr/bin/env python3
"""Puts what the stages of gpu_gate.sh have written into one gate.json, and prints the figures.

    gate_report.py RESULTS_FOLDER

Reads stages.tsv (name, exit status or "skipped: why", seconds) and NAME.out of every stage: JSON, or text whose last
line is JSON.
"""

import json
import pathlib
import sys


def parse(text):
    """The JSON of a stage's output: all of it, or its last line. None where there is none."""
    for candidate in (text, (text.strip().splitlines() or [""])[-1]):
        try:
            return json.loads(candidate)
        except ValueError:
            pass
    return None


def read_stages(results):
    stages = {}
    for line in (results / "stages.tsv").read_text().splitlines():
        name, status, seconds = line.split("\t")
        entry = {"ok": status == "0", "status": status, "seconds": int(seconds)}
        output = results / (name + ".out")
        if output.exists():
            text = output.read_text()
            result = parse(text)
            if result is not None:
                entry["result"] = result
            else:
                entry["last_line"] = (text.strip().splitlines() or [""])[-1]
        stages[name] = entry
    return stages


def compare(stages):
    """Ours over PyTorch's for every run that both have: {"124m_bf16": {"speed": 1.2, "memory": 0.8}}."""
    ratios = {}
    for name, entry in stages.items():
        if not name.startswith("trireme_"):
            continue
        run = name[len("trireme_"):]
        ours, theirs = entry.get("result"), stages.get("pytorch_" + run, {}).get("result")
        if ours and theirs:
            ratios[run] = {"speed": ours["tokens_per_s"] / theirs["tokens_per_s"]}
            if theirs["peak_bytes"]:
                ratios[run]["memory"] = ours["peak_bytes"] / theirs["peak_bytes"]
    return ratios


def main():
    results = pathlib.Path(sys.argv[1])
    stages = read_stages(results)
    gate = {"seconds": sum(stage["seconds"] for stage in stages.values()), "ratios": compare(stages), "stages": stages}
    (results / "gate.json").write_text(json.dumps(gate, indent=2) + "\n")
    print(json.dumps({key: value for key, value in gate.items() if key != "stages"}))


if __name__ == "__main__":
    main()
