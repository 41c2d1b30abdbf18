#!/usr/bin/env python3
"""What runs of a benchmark must have in common, and the bars of their speed: prints one JSON object, fails otherwise.

    check.py parity CPU.json OTHER.json     the same steps, but for rounding; the memory that was predicted
    check.py same_bits RUN.json RUN.json... the same bits in every step and in the state
    check.py tuned RUN.json TUNED.json      the gain of measured choices among products; the memory that was predicted
    check.py beside [OPTIONS] OURS.json [PYTORCH.json]
                                            as fast as PyTorch, where that ran; the memory that was predicted
    check.py layout ONE_RANK.jsonl RUN.jsonl
                                            the hash of the state after every step that both metrics files have
    check.py train BENCH.json METRICS.jsonl OUTPUT.txt
                                            the rate of `trireme train`, in its metrics and its last progress line, and
                                            the benchmark's, within 2 %


Of a .json file the last line counts: warnings may come before it.
"""

import argparse
import json
import pathlib
import re
import statistics
import sys

# fp32 on two devices: what the parity of models with PyTorch is held to, for losses; norms sum more.
LOSS_TOLERANCE, NORM_TOLERANCE = 1e-4, 1e-3
# Tokens/s or images/s over PyTorch's, at least, in every precision.
SPEED_BAR = 1.0
# Products per second on paper, dense, from NVIDIA's data sheets (H100 and H200: SXM).
HOPPER = {"fp32": 66.9e12, "tf32": 494.7e12, "fp16": 989.4e12, "bf16": 989.4e12}
PEAK_FLOPS = {"NVIDIA H200": HOPPER, "NVIDIA H100 80GB HBM3": HOPPER}
# Between rates of the same steps, measured by two programs.
RATE_TOLERANCE = 0.02
RATE_UNITS = {"": 1, "k": 1e3, "M": 1e6}
MFU_FORMULA = "tokens/s x (6 N + 6 L T C) / data sheet; N without the position table, causal attention counted by half"


def relative_errors(expected, actual):
    return [abs(a - e) / abs(e) for e, a in zip(expected, actual)]


def as_predicted(run):
    return run["peak_bytes"] == run["predicted_peak_bytes"]


def parity(cpu, other):
    losses = relative_errors(cpu["losses"], other["losses"])
    norms = relative_errors(cpu["grad_norms"], other["grad_norms"])
    report = {"loss_errors": losses, "grad_norm_errors": norms, "predicted_peak_bytes": other["predicted_peak_bytes"],
              "peak_bytes_cpu": cpu["peak_bytes"], "peak_bytes": other["peak_bytes"]}
    close = max(losses) < LOSS_TOLERANCE and max(norms) < NORM_TOLERANCE
    return report, close and as_predicted(cpu) and as_predicted(other) and cpu["peak_bytes"] == other["peak_bytes"]


def same_bits(*runs):
    keys = ("losses", "grad_norms", "state_hash")
    equal = {key: all(run[key] == runs[0][key] for run in runs) for key in keys}
    return {"equal": equal, "state_hash": runs[0]["state_hash"]}, all(equal.values())


def tuned(run, measured):
    """No bar: a table in which every first proposal stays is a result, too."""
    products = measured["products"]
    report = {"speed": measured["tokens_per_s"] / run["tokens_per_s"], "step_ms": run["step_ms"],
              "tuned_step_ms": measured["step_ms"], "tune_s": measured["tune_s"], "products": len(products),
              "faster_products": sum(product["candidate"] > 0 for product in products),
              "as_predicted": as_predicted(measured)}
    return report, report["as_predicted"] and run["peak_bytes"] == measured["peak_bytes"]


def beside(args, ours, theirs=None):
    """Speeds of a dry run mean nothing and are not judged."""
    rate = "images_per_s" if "images_per_s" in ours else "tokens_per_s"
    report = {rate: ours[rate], "step_ms": ours["step_ms"], "peak_bytes": ours["peak_bytes"],
              "as_predicted": as_predicted(ours)}
    report.update({f"{rate}_aim": ours["aim"], "aim_reached": ours[rate] >= ours["aim"],
                   "beside_known": {who: ours[rate] / known for who, known in ours["known"].items()}} if "aim" in ours else {})
    peak = PEAK_FLOPS.get(args.card, {}).get(args.precision)
    if peak and "flops_per_token" in ours:
        report.update(mfu=ours[rate] * ours["flops_per_token"] / peak, mfu_formula=MFU_FORMULA)
    if theirs:
        report.update({"pytorch_" + rate: theirs[rate]}, pytorch_peak_bytes=theirs["peak_bytes"],
                      pytorch_compiled=theirs["compiled"], speed=ours[rate] / theirs[rate])
        if theirs["peak_bytes"]:
            report["memory"] = ours["peak_bytes"] / theirs["peak_bytes"]
    if not theirs or args.device == "cpu":
        return report, report["as_predicted"]
    report.update(bar=SPEED_BAR, holds=report["speed"] >= SPEED_BAR)
    return report, report["as_predicted"] and report["holds"]


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def layout(one_rank, run):
    def hashes(path):
        return {line["step"]: line["state_hash"] for line in read_lines(path) if "state_hash" in line}

    expected, actual = hashes(one_rank), hashes(run)
    differing = [step for step in actual if actual[step] != expected.get(step)]
    return {"steps": max(actual, default=0), "differing": differing}, bool(actual) and not differing


def progress_rate(text):
    """Tokens or images/s of the last progress line."""
    rate, unit = re.findall(r"^step .* ([0-9.]+)([kM]?) (?:tokens|images|samples)/s", text, re.MULTILINE)[-1]
    return float(rate) * RATE_UNITS[unit]


def train(args, bench, metrics, output):
    """Median rates, without the first half of the steps. Speeds of a dry run mean nothing and are not judged."""
    bench = json.loads(bench.read_text().strip().splitlines()[-1])
    lines = read_lines(metrics)
    report = {"bench": bench["tokens_per_s"], "progress_line": progress_rate(output.read_text()),
              "metrics": statistics.median(line["tokens_per_s"] for line in lines[len(lines) // 2:])}
    report["differences"] = {key: report[key] / report["bench"] - 1 for key in ("metrics", "progress_line")}
    if args.device == "cpu":
        return report, True
    report.update(bar=RATE_TOLERANCE, holds=all(abs(x) <= RATE_TOLERANCE for x in report["differences"].values()))
    return report, report["holds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("parity", "same_bits", "tuned", "beside", "layout", "train"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--card", default="")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    args = parser.parse_args()
    by_path = {"layout": layout, "train": lambda *paths: train(args, *paths)}
    if args.what in by_path:
        report, passed = by_path[args.what](*args.files)
        print(json.dumps(report))
        return 0 if passed else 1
    runs = [json.loads(path.read_text().strip().splitlines()[-1]) for path in args.files]
    report, passed = {"parity": parity, "same_bits": same_bits, "tuned": tuned,
                      "beside": lambda *runs: beside(args, *runs)}[args.what](*runs)
    print(json.dumps(report))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
