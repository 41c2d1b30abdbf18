#!/usr/bin/env python3
"""What two or more runs of gpt_train_bench must have in common; prints one JSON object and fails when they do not.

    gate_check.py parity CPU.json OTHER.json     the same steps, but for rounding; the memory that was predicted
    gate_check.py same_bits RUN.json RUN.json... the same bits in every step and in the state
"""

import json
import pathlib
import sys

# fp32 on two devices: what the parity of models with PyTorch is held to, for losses; norms sum more.
LOSS_TOLERANCE, NORM_TOLERANCE = 1e-4, 1e-3


def relative_errors(expected, actual):
    return [abs(a - e) / abs(e) for e, a in zip(expected, actual)]


def parity(cpu, other):
    losses = relative_errors(cpu["losses"], other["losses"])
    norms = relative_errors(cpu["grad_norms"], other["grad_norms"])
    predicted = all(run["peak_bytes"] == run["predicted_peak_bytes"] for run in (cpu, other))
    report = {"loss_errors": losses, "grad_norm_errors": norms, "predicted_peak_bytes": other["predicted_peak_bytes"],
              "peak_bytes_cpu": cpu["peak_bytes"], "peak_bytes": other["peak_bytes"]}
    close = max(losses) < LOSS_TOLERANCE and max(norms) < NORM_TOLERANCE
    return report, close and predicted and cpu["peak_bytes"] == other["peak_bytes"]


def same_bits(*runs):
    keys = ("losses", "grad_norms", "state_hash")
    equal = {key: all(run[key] == runs[0][key] for run in runs) for key in keys}
    return {"equal": equal, "state_hash": runs[0]["state_hash"]}, all(equal.values())


if __name__ == "__main__":
    what, *paths = sys.argv[1:]
    # The last line: warnings may come before it.
    summary, passed = {"parity": parity, "same_bits": same_bits}[what](
        *(json.loads(pathlib.Path(path).read_text().strip().splitlines()[-1]) for path in paths))
    print(json.dumps(summary))
    sys.exit(not passed)
