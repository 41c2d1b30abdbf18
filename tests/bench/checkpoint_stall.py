#!/usr/bin/env python3
"""How long training stands still for a checkpoint of GPT-2 124M: in the foreground, with checkpoint.background, and with
checkpoint.partner beside that.

    tests/bench/checkpoint_stall.py --trireme build/release/bin/trireme [--rounds 2] [--ranks 1] [--out DIR]

The stall is phase_s.checkpoint of metrics.jsonl. Beside it the steps during which a thread writes, against the others
of the same run: a writer takes time of the cores that train. The last checkpoint of a run is always in the foreground,
and is not counted. Needs the Python standard library only.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

# Keys of [checkpoint].
KINDS = {"foreground": {"background": "false"}, "background": {"background": "true"},
         "with copies": {"background": "true", "partner": "true"}}
JOB = Path(__file__).resolve().parent / "gpt2_124m.toml"
MINUTE = 60.0


class Hidden(threading.Thread):
    """Looks how long checkpoints are under way: their folders are hidden until they are whole."""

    def __init__(self, checkpoints):
        super().__init__(daemon=True)
        self.checkpoints, self.seconds, self.end = checkpoints, [], threading.Event()
        self.start()

    def run(self):
        since = None
        while not self.end.wait(0.01):
            hidden = self.checkpoints.is_dir() and any(name.startswith(".tmp") for name in os.listdir(self.checkpoints))
            if hidden and since is None:
                since = time.monotonic()
            elif not hidden and since is not None:
                self.seconds.append(time.monotonic() - since)
                since = None

    def stop(self):
        self.end.set()
        self.join()
        return self.seconds


def run(options, kind, folder):
    """metrics.jsonl of a run, its state, and the seconds until its checkpoints were whole; its folder is gone."""
    out = folder / "out"
    keys = ["precision.mode=fp32", "train.global_batch=%d" % options.ranks, "train.micro_batch=1", f"model.seq_len={options.tokens}",
            f"train.steps={options.steps}", f"checkpoint.every={options.every}", "checkpoint.keep=1",
            *(f"checkpoint.{key}={value}" for key, value in KINDS[kind].items()), f"parallel.zero={options.zero}"]
    line = [options.trireme, "train", str(JOB), "--out", str(out), *(part for key in keys for part in ("--set", key))]
    if options.ranks > 1:
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        line = [options.mpiexec, *root, "--bind-to", "none", "--oversubscribe", "-np", str(options.ranks), *line]
    hidden = Hidden(out / "checkpoints")
    result = subprocess.run(line, capture_output=True, text=True)
    whole = hidden.stop()
    if result.returncode != 0:
        sys.exit(result.stderr)
    lines = [json.loads(text) for text in (out / "metrics.jsonl").read_text().splitlines()]
    state = json.loads((out / "summary.json").read_text())["state_hash"]
    shutil.rmtree(out)
    return lines, state, whole[:-1]  # the last one is that of the end


def figures(options, lines):
    """Stalls in seconds; steps in which a checkpoint may be under way, and the others, in ms."""
    stalls = [line["phase_s"]["checkpoint"] for line in lines if line["phase_s"]["checkpoint"] > 0]
    shadow, clear = [], []
    for line in lines[1:]:
        after = (line["step"] - 1) % options.every
        if line["step"] > options.every:
            (shadow if after < options.every // 2 else clear).append(line["step_ms"])
    return stalls, shadow, clear


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trireme", required=True)
    parser.add_argument("--mpiexec", default="mpirun")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--zero", type=int, default=0)
    parser.add_argument("--steps", type=int, default=13)
    parser.add_argument("--every", type=int, default=4, help="steps between checkpoints")
    parser.add_argument("--tokens", type=int, default=512, help="of a sample")
    parser.add_argument("--out", default=None, help="a folder on the disk that is to be measured (default: a temporary one)")
    options = parser.parse_args()
    options.trireme = os.path.abspath(options.trireme)
    folder = Path(tempfile.mkdtemp(dir=options.out))
    found, states = {kind: ([], [], [], []) for kind in KINDS}, set()
    try:
        for _ in range(options.rounds):
            for kind in KINDS:
                lines, state, whole = run(options, kind, folder)
                states.add(state)
                for kept, new in zip(found[kind], (*figures(options, lines), whole)):
                    kept.extend(new)
    finally:
        shutil.rmtree(folder)
    print("                 saves  stall, s: median  largest  at one a minute   whole after, s   steps while written, later: ms")
    for kind, (stalls, shadow, clear, whole) in found.items():
        middle = statistics.median(stalls)
        print(f"{kind:15} {len(stalls):>6} {middle:>17.3f} {max(stalls):>8.3f} "
              f"{100 * middle / MINUTE:>14.2f} %   {statistics.median(whole):>14.1f}   {statistics.median(shadow):>14.0f} {statistics.median(clear):>11.0f}")
    print(f"states: {', '.join(sorted(states))}")
    return 0 if len(states) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
