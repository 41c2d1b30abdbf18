#!/usr/bin/env python3
"""Tries gpu_gate.sh out without a GPU: its stages, its peers and its report, on a bundle made of a build folder.

    gpu_gate_test.py --bin build/release/bin --source . [unittest options]
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

OPTIONS = None


class GpuGate(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="trireme-gate-")
        self.root = pathlib.Path(self.folder.name)
        self.bundle = self.root / "bundle"
        self.bundle.mkdir()
        (self.bundle / "run").write_text(f'#!/bin/sh\nPATH={OPTIONS.bin}:$PATH\nexec "$@"\n')
        (self.bundle / "run").chmod(0o755)
        (self.bundle / "tests").mkdir()
        (self.bundle / "tests/bench").symlink_to(OPTIONS.source / "tests/bench")

    def tearDown(self):
        self.folder.cleanup()

    def run_gate(self, *arguments, **environment):
        return subprocess.run([self.bundle / "tests/bench/gpu_gate.sh", *arguments],
                              capture_output=True, text=True, timeout=280, env={**os.environ, **environment})

    def test_dry_run(self):
        has_torch = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode == 0
        ended = self.run_gate("--dry-run", str(self.root / "results"), TRIREME_GATE_PYTHON=sys.executable)
        gate = json.loads((self.root / "results/gate.json").read_text())
        stages = gate["stages"]
        for name, stage in stages.items():
            if name.startswith("pytorch_") and not has_torch:
                continue
            self.assertTrue(stage["ok"] or stage["status"].startswith("skipped: "), f"{name}: {stage}\n{ended.stdout}")
        self.assertEqual(ended.returncode, 0 if has_torch else 1, ended.stdout + ended.stderr)
        self.assertIn("backends", stages["doctor"]["result"])
        self.assertEqual(stages["parity"]["result"]["relative_error"], 0)
        self.assertEqual({n for n in stages if n.startswith("trireme_")},
                         {"trireme_" + run for run in ("124m_fp32", "124m_tf32", "124m_bf16", "124m_fp16", "350m_tf32",
                                                       "350m_bf16")})
        if has_torch:
            ours, theirs = (stages[who + "_124m_fp32"]["result"]["tokens_per_s"] for who in ("trireme", "pytorch"))
            self.assertEqual(gate["ratios"]["124m_fp32"]["speed"], ours / theirs)

    def test_without_time_every_stage_fails_and_is_reported(self):
        ended = self.run_gate("--dry-run", str(self.root / "results"), TRIREME_GATE_SECONDS="0",
                              TRIREME_GATE_PYTHON=sys.executable)
        self.assertEqual(ended.returncode, 1)
        gate = json.loads((self.root / "results/gate.json").read_text())
        self.assertEqual(gate["stages"]["doctor"]["status"], "124")

    def test_wrong_arguments_show_the_usage(self):
        for arguments in ([], ["--dry-run"], ["--help"], ["a", "b"]):
            ended = self.run_gate(*arguments)
            self.assertEqual(ended.returncode, 2, arguments)
            self.assertIn("gpu_gate.sh [--dry-run] RESULTS_FOLDER", ended.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--source", required=True, type=pathlib.Path)
    OPTIONS, rest = parser.parse_known_args()
    OPTIONS.bin, OPTIONS.source = OPTIONS.bin.resolve(), OPTIONS.source.resolve()
    unittest.main(argv=[sys.argv[0], *rest])
