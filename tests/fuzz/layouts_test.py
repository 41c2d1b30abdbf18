#!/usr/bin/env python3
"""The random layouts detect differences and too many refusals: the program under test has a fault.

    layouts_test.py --trireme build/release/bin/trireme --mpiexec mpirun [unittest options]
"""
import argparse
import functools
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from layout_draws import draw, to_toml  # noqa: E402

OPTIONS = argparse.Namespace()
LAYOUTS = Path(__file__).resolve().parent / "layouts"
SEED = 1
# A program that does something else first, except in the one-rank run.
FAULTY = """#!/bin/sh
case "$*" in
  "train job.toml --out one") ;;
  *) {fault} ;;
esac
exec {trireme} "$@"
"""


@functools.cache
def plain_draw():
    """Number of a draw whose layouts have several ranks and otherwise equal the one-rank run where a fault matters."""
    def plain(drawn):
        job, layouts = drawn.job, [run.layout for run in drawn.runs]
        return (job["model"]["name"] == "gpt" and job["precision"]["mode"] == "fp32"
                and job["optimizer"]["name"] == "adamw" and job["optimizer"]["lr"] < 1
                and not {"freeze", "on_spike"} & set(job["train"]) and "train.lora" not in job
                and all(layout.ranks > 1 for layout in layouts)
                and not any(layout.exact_memory or "parallel.offload" in layout.keys for layout in layouts))
    return str(next(number for number in range(100000) if plain(draw(SEED, number))))


class Layouts(unittest.TestCase):
    def play(self, fault, *more):
        """Exit code, output, and the folder of its draws."""
        folder = tempfile.TemporaryDirectory(prefix="trireme-layouts-test-")
        self.addCleanup(folder.cleanup)
        program = Path(folder.name) / "trireme"
        program.write_text(FAULTY.format(fault=fault, trireme=shlex.quote(OPTIONS.trireme)))
        program.chmod(0o755)
        result = subprocess.run([sys.executable, "-B", str(LAYOUTS), "--trireme", str(program), "--mpiexec",
                                 OPTIONS.mpiexec, "--seed", str(SEED), "--folder", folder.name, *more],
                                capture_output=True, text=True, timeout=240)
        self.assertEqual(result.stderr, "")
        return result.returncode, result.stdout, Path(folder.name)

    def test_the_same_bits_pass_and_leave_nothing(self):
        reports = tempfile.TemporaryDirectory(prefix="trireme-layouts-test-")
        self.addCleanup(reports.cleanup)
        report = Path(reports.name) / "report.json"
        code, text, folder = self.play(":", "--count", "2", "--report", str(report))
        self.assertEqual(code, 0, text)
        counts = json.loads(report.read_text())
        self.assertEqual(counts["draws"], 2)
        self.assertEqual(counts["equal"] + sum(counts["refused"].values()), counts["layouts"])
        self.assertEqual(counts["different"], [])
        self.assertRegex(text, rf"seed {SEED}: 2 draws, \d+ layouts .* 0 different")
        self.assertEqual([path.name for path in folder.iterdir()], ["trireme"])

    def test_a_difference_names_all_that_repeats_it(self):
        code, text, folder = self.play('set -- "$@" --set optimizer.weight_decay=0.02', "--only", plain_draw())
        self.assertEqual(code, 1, text)
        self.assertIn(f"tests/fuzz/layouts --seed {SEED} --only {plain_draw()}", text)
        self.assertRegex(text, r'step 1, line 1 of metrics.jsonl, state_hash: "\w{16}"\n  one rank: "\w{16}"')
        self.assertIn("[optimizer]\n", text)
        self.assertIn("train job.toml --out one\n", text)
        self.assertRegex(text, r"-np \d .*train job.toml --out layout\d --set ")
        kept = Path(re.search(r"^in (.*):$", text, re.MULTILINE).group(1))
        self.assertEqual(kept.parent.parent, folder)
        self.assertTrue((kept / "one" / "metrics.jsonl").exists())

    def test_a_prediction_that_is_off_is_a_difference(self):
        code, text, _ = self.play('[ $1 = plan ] || set -- "$@" --set parallel.offload=optimizer', "--only", plain_draw())
        self.assertEqual(code, 1, text)
        self.assertRegex(text, r"step 1, .*: measured .*\n  predicted .*\n  by \S*trireme plan job.toml --ranks \d")

    def test_refusals_want_a_reason_and_are_few(self):
        code, text, _ = self.play("exit 2", "--only", plain_draw())
        self.assertEqual(code, 1, text)
        self.assertIn("refused without a reason", text)
        refusal = "echo 'trireme: error: rank 0: no room for 17 cats' >&2; exit 2"
        code, text, _ = self.play(f"[ $1 = plan ] || {{ {refusal}; }}", "--only", plain_draw())
        self.assertEqual(code, 1, text)
        self.assertIn("refused, although `trireme plan` accepts it:\n", text)
        code, text, _ = self.play(refusal, "--only", plain_draw())
        self.assertEqual(code, 1, text)
        self.assertRegex(text, r"refused \d+ times: no room for N cats")
        self.assertIn("more than 30% of the layouts were refused", text)

    def test_a_draw_follows_from_seed_and_number(self):
        self.assertEqual(draw(SEED, 7), draw(SEED, 7))
        jobs = {to_toml(draw(seed, number).job) for seed in (1, 2) for number in range(50)}
        self.assertEqual(len(jobs), 100)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--trireme", required=True)
    parser.add_argument("--mpiexec", required=True)
    _, rest = parser.parse_known_args(namespace=OPTIONS)
    OPTIONS.trireme = os.path.abspath(OPTIONS.trireme)
    unittest.main(argv=[sys.argv[0], *rest])
