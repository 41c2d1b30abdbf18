#!/usr/bin/env python3
"""Puts what the stages of gpu_gate.sh have written into one gate.json, and prints the figures.

    gate_report.py [--dry-run] RESULTS_FOLDER

Reads stages.tsv (name, exit status or "skipped: why", seconds) and NAME.out of every stage: JSON, or text whose last
line is JSON. Fails when memory was not as predicted or a bar is missed, naming each; a dry run has no bars, since its
speeds mean nothing. Figures that were not measured are for stages.tsv to tell. `own_kernels` are the problems that cuDNN
had no engine for, of a stage and of all: right, but slower than they need be.
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


def fallbacks(paths):
    """What a library had no engine for, so that a slower native kernel ran: the warnings in these files, each once."""
    lines = (line for path in paths if path.exists() for line in path.read_text(errors="replace").splitlines())
    return sorted({line[line.index("cuDNN"):] for line in lines if "has no fitting engine" in line})


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
        slow = fallbacks([output, results / (name + ".err")])
        if slow:
            entry["own_kernels"] = slow
        stages[name] = entry
    return stages


# Products per second on paper, dense, from NVIDIA's data sheets (H100 and H200: SXM).
HOPPER = {"fp32": 66.9e12, "tf32": 494.7e12, "fp16": 989.4e12, "bf16": 989.4e12}
PEAK_FLOPS = {"NVIDIA H200": HOPPER, "NVIDIA H100 80GB HBM3": HOPPER}
MFU_FORMULA = "tokens/s x (6 N + 6 L T C) / data sheet; N without the position table, causal attention counted by half"


def card_name(stages):
    gpus = (stages.get("doctor", {}).get("result") or {}).get("gpus") or {}
    return next((card["name"] for card in gpus.get("devices", [])), None)


def compare(stages):
    """A row for every run of ours, beside PyTorch's where that ran: {"124m_bf16": {"tokens_per_s": ...}}."""
    peaks = PEAK_FLOPS.get(card_name(stages), {})
    rows = {}
    for name, entry in stages.items():
        ours = entry.get("result")
        if not name.startswith("trireme_") or not ours:
            continue
        run = name[len("trireme_"):]
        peak = peaks.get(run.split("_")[1])
        row = {"tokens_per_s": ours["tokens_per_s"], "peak_bytes": ours["peak_bytes"],
               "as_predicted": ours["peak_bytes"] == ours["predicted_peak_bytes"],
               "mfu": ours["tokens_per_s"] * ours["flops_per_token"] / peak if peak else None}
        theirs = stages.get("pytorch_" + run, {}).get("result")
        if theirs:
            speed = ours["tokens_per_s"] / theirs["tokens_per_s"]
            row.update(pytorch_tokens_per_s=theirs["tokens_per_s"], pytorch_peak_bytes=theirs["peak_bytes"],
                       speed=speed)
            if theirs["peak_bytes"]:
                row["memory"] = ours["peak_bytes"] / theirs["peak_bytes"]
        rows[run] = row
    return rows


# Tokens/s over PyTorch's, at least; in these precisions, in any size. Others are reported.
SPEED_BAR, JUDGED_PRECISIONS = 1.0, ("fp32", "tf32")
# Share of a recorded step's time in which no kernel runs, below.
IDLE_BAR = 0.03


def bars(stages, rows):
    """Every bar that has a figure: {"speed of 124m_fp32": {"value": 1.1, "bar": 1.0, "holds": True}}."""
    found = {}
    for run, row in rows.items():
        if "speed" in row and run.split("_")[1] in JUDGED_PRECISIONS:
            found["speed of " + run] = {"value": row["speed"], "bar": SPEED_BAR, "holds": row["speed"] >= SPEED_BAR}
    share = (stages.get("kernel_share_recorded", {}).get("result") or {}).get("share_without_kernels")
    if share is not None:
        found["share without kernels"] = {"value": share, "bar": IDLE_BAR, "holds": share < IDLE_BAR}
    return found


def main():
    is_dry_run = sys.argv[1] == "--dry-run"
    results = pathlib.Path(sys.argv[-1])
    stages = read_stages(results)
    rows = compare(stages)
    unpredicted = [run for run, row in rows.items() if not row["as_predicted"]]
    judged = {} if is_dry_run else bars(stages, rows)
    missed = [f"{what} is {bar['value']:.3f}, the bar {bar['bar']}" for what, bar in judged.items() if not bar["holds"]]
    gate = {"card": card_name(stages), "seconds": sum(stage["seconds"] for stage in stages.values()),
            "mfu_formula": MFU_FORMULA, "bars": judged, "runs": rows,
            "own_kernels": fallbacks(path for kind in ("*.out", "*.err", "tests/*.log") for path in results.glob(kind)),
            "stages": stages}
    (results / "gate.json").write_text(json.dumps(gate, indent=2) + "\n")
    print(json.dumps({key: value for key, value in gate.items() if key != "stages"}))
    if unpredicted:
        print("gate_report.py: peak memory is not what was predicted: " + ", ".join(unpredicted), file=sys.stderr)
    if missed:
        print("gate_report.py: bars missed: " + "; ".join(missed), file=sys.stderr)
    return 1 if unpredicted or missed else 0


if __name__ == "__main__":
    sys.exit(main())
