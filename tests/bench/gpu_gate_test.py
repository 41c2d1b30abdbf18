#!/usr/bin/env python3
"""Tries gpu_gate.sh out without a GPU: its stages, its peers and its report, on a bundle made of a build folder.

    gpu_gate_test.py --bin build/release/bin --source . [unittest options]
"""

import argparse
import json
import os
import pathlib
import sqlite3
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
        self.assertEqual(stages["parity"]["result"]["loss_errors"], [0] * 5)
        self.assertTrue(all(stages["same_bits"]["result"]["equal"].values()))
        runs = {size + "_" + mode for size in ("124m", "350m") for mode in ("fp32", "tf32", "bf16", "fp16")}
        self.assertEqual(set(gate["runs"]), runs)
        self.assertFalse([name for name in stages if name.startswith("sanitize_")])
        for run, row in gate["runs"].items():
            self.assertTrue(row["as_predicted"], run)
        if has_torch:
            ours, theirs = (stages[who + "_124m_fp32"]["result"]["tokens_per_s"] for who in ("trireme", "pytorch"))
            self.assertEqual(gate["runs"]["124m_fp32"]["speed"], ours / theirs)

    def test_only_plays_what_matches(self):
        ended = self.run_gate("--dry-run", "--only", "sanitize|doctor", str(self.root / "results"),
                              TRIREME_GATE_PYTHON=sys.executable)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        stages = json.loads((self.root / "results/gate.json").read_text())["stages"]
        self.assertTrue(stages["doctor"]["ok"])
        self.assertEqual({name for name in stages if name != "doctor"},
                         {"sanitize_" + name for name in ("sixteen_bit", "gpt", "resnet", "nccl", "races", "conformance",
                                                          "conformance_races")})

    def test_what_shows_nothing_is_not_green(self):
        for only, status, message in [("nosuch", 2, "no stage matches"), ("sanitize", 1, "not shown")]:
            ended = self.run_gate("--dry-run", "--only", only, str(self.root / only), TRIREME_GATE_PYTHON=sys.executable)
            self.assertEqual(ended.returncode, status, ended.stdout + ended.stderr)
            self.assertIn(message, ended.stderr)

    def report_of(self, *options, **stages):
        results = self.root / "report"
        results.mkdir(exist_ok=True)
        for name, result in stages.items():
            (results / f"{name}.out").write_text(json.dumps(result))
        (results / "stages.tsv").write_text("".join(f"{name}\t0\t1\n" for name in stages))
        ended = subprocess.run([sys.executable, OPTIONS.source / "tests/bench/gate_report.py", *options, results],
                               capture_output=True, text=True)
        return ended, json.loads((results / "gate.json").read_text())

    def test_the_report_of_a_card(self):
        doctor = {"gpus": {"devices": [{"name": "NVIDIA H200"}]}}
        ours = {"tokens_per_s": 1e5, "flops_per_token": 8e8, "peak_bytes": 60, "predicted_peak_bytes": 60}
        theirs = {"tokens_per_s": 8e4, "peak_bytes": 80}
        ended, gate = self.report_of(doctor=doctor, trireme_124m_bf16=ours, pytorch_124m_bf16=theirs,
                                     trireme_350m_fp32=ours)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(gate["runs"]["124m_bf16"],
                         {"tokens_per_s": 1e5, "peak_bytes": 60, "as_predicted": True, "mfu": 8e13 / 989.4e12,
                          "pytorch_tokens_per_s": 8e4, "pytorch_peak_bytes": 80, "speed": 1.25, "memory": 0.75})
        self.assertEqual(gate["bars"], {}, "bf16 is not judged")
        self.assertNotIn("speed", gate["runs"]["350m_fp32"])

    def test_a_missed_bar_fails_and_is_named(self):
        def run(speed):
            return {"tokens_per_s": speed, "flops_per_token": 8e8, "peak_bytes": 60, "predicted_peak_bytes": 60}
        held = dict(trireme_124m_fp32=run(100.0), pytorch_124m_fp32={"tokens_per_s": 100.0, "peak_bytes": 80},
                    trireme_350m_tf32=run(101.0), pytorch_350m_tf32={"tokens_per_s": 100.0, "peak_bytes": 80},
                    kernel_share_recorded={"share_without_kernels": 0.029},
                    kernel_share_enqueued={"share_without_kernels": 0.5})
        ended, gate = self.report_of(**held)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual({what: bar["holds"] for what, bar in gate["bars"].items()},
                         {"speed of 124m_fp32": True, "speed of 350m_tf32": True, "share without kernels": True})
        for stage, result, named in (("trireme_124m_fp32", run(99.9), "speed of 124m_fp32 is 0.999, the bar 1.0"),
                                     ("trireme_350m_tf32", run(50.0), "speed of 350m_tf32 is 0.500"),
                                     ("kernel_share_recorded", {"share_without_kernels": 0.03},
                                      "share without kernels is 0.030, the bar 0.03")):
            ended, gate = self.report_of(**{**held, stage: result})
            self.assertEqual(ended.returncode, 1, stage)
            self.assertIn(named, ended.stderr)
            self.assertEqual([bar["holds"] for bar in gate["bars"].values()].count(False), 1)
            ended, gate = self.report_of("--dry-run", **{**held, stage: result})
            self.assertEqual((ended.returncode, gate["bars"]), (0, {}), "speeds of a dry run mean nothing")

    def test_slower_kernels_are_named(self):
        (self.root / "report/tests").mkdir(parents=True)
        warning = "cuDNN 9.19.0 has no fitting engine for {} ({}); the slower native kernel runs"
        attention = warning.format("attention", "no engine is proposed")
        convolution = warning.format("convolution", "no engine is proposed")
        (self.root / "report/doctor.err").write_text(f"[warning] cuda: {attention}\n" * 2 + "something else\n")
        (self.root / "report/tests/a.log").write_text(f"[warning] cuda: {convolution}\n")
        ended, gate = self.report_of(doctor={})
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(gate["stages"]["doctor"]["own_kernels"], [attention])
        self.assertEqual(gate["own_kernels"], [attention, convolution])

    def test_memory_that_was_not_predicted_fails(self):
        ended, _ = self.report_of(trireme_124m_fp32={"tokens_per_s": 1.0, "flops_per_token": 1.0, "peak_bytes": 61,
                                                     "predicted_peak_bytes": 60})
        self.assertEqual(ended.returncode, 1)
        self.assertIn("124m_fp32", ended.stderr)

    def check(self, what, *runs):
        paths = []
        for i, run in enumerate(runs):
            paths.append(self.root / f"run{i}.json")
            paths[-1].write_text("[warning] of a library\n" + json.dumps(run) + "\n")
        return subprocess.run([sys.executable, OPTIONS.source / "tests/bench/gate_check.py", what, *paths],
                              capture_output=True, text=True).returncode

    def test_differences_are_seen(self):
        run = {"losses": [2.0, 1.5], "grad_norms": [1.0, 2.0], "peak_bytes": 9, "predicted_peak_bytes": 9,
               "state_hash": "ab"}
        self.assertEqual(self.check("parity", run, run), 0)
        self.assertEqual(self.check("same_bits", run, run, run), 0)
        for key, value in (("losses", [2.001, 1.5]), ("grad_norms", [1.0, 2.1]), ("peak_bytes", 8)):
            self.assertEqual(self.check("parity", run, {**run, key: value}), 1, key)
        for key, value in (("losses", [2.0, 1.50001]), ("grad_norms", [1.0, 2.00001]), ("state_hash", "ac")):
            self.assertEqual(self.check("same_bits", run, run, {**run, key: value}), 1, key)

    def test_kernel_share(self):
        trace = self.root / "trace.sqlite"
        database = sqlite3.connect(trace)
        database.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER)")
        # Between 100 and 200: busy from 100 to 130 (of a kernel that began earlier, and one inside of it), 150 to 200.
        database.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?)",
                             [(0, 10), (90, 130), (110, 120), (150, 180), (170, 200)])
        database.commit()
        lines = self.root / "trace.tsv"
        lines.write_text("150\t180\n0\t10\n90\t130\n110\t120\n170\t200\n")
        for path in (trace, lines):
            share = self.share_of(path)
            self.assertAlmostEqual(json.loads(share.stdout)["share_without_kernels"], 0.2)
        lines.write_text(lines.read_text() + "lost 7\n")
        self.assertNotEqual(self.share_of(lines).returncode, 0, "a trace with holes says nothing")

    def share_of(self, trace):
        return subprocess.run([sys.executable, OPTIONS.source / "tests/bench/kernel_share.py", trace],
                              capture_output=True, text=True)

    def test_without_time_every_stage_fails_and_is_reported(self):
        ended = self.run_gate("--dry-run", str(self.root / "results"), TRIREME_GATE_SECONDS="0",
                              TRIREME_GATE_PYTHON=sys.executable)
        self.assertEqual(ended.returncode, 1)
        gate = json.loads((self.root / "results/gate.json").read_text())
        self.assertEqual(gate["stages"]["doctor"]["status"], "124")

    def test_wrong_arguments_show_the_usage(self):
        for arguments in ([], ["--dry-run"], ["--help"], ["a", "b"], ["--only", "", "a"]):
            ended = self.run_gate(*arguments)
            self.assertEqual(ended.returncode, 2, arguments)
            self.assertIn("gpu_gate.sh [--dry-run] [--only REGEX] RESULTS_FOLDER", ended.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--source", required=True, type=pathlib.Path)
    OPTIONS, rest = parser.parse_known_args()
    OPTIONS.bin, OPTIONS.source = OPTIONS.bin.resolve(), OPTIONS.source.resolve()
    unittest.main(argv=[sys.argv[0], *rest])
