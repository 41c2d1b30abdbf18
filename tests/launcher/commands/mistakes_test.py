#!/usr/bin/env python3
"""Typical mistakes of mistakes.json: each is refused with exit code 2 and one message that names the mistake.

    mistakes_test.py --trireme build/release/bin/trireme

An entry has `set` (overrides of a sound job), `job` (a file of its own) or `command`. `names` are parts of the message."""
import argparse
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOUND = """[model]
name = "gpt"
layers = 2
hidden = 32
heads = 4
vocab = 64
seq_len = 16
[data]
kind = "synthetic"
[train]
steps = 4
global_batch = 4
micro_batch = 2
[parallel]
threads = 1
"""


class Mistakes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "notes.txt").write_text("some words of text\n" * 200)

    def run_program(self, *words):
        return subprocess.run([ARGUMENTS.trireme, *words], cwd=self.folder, capture_output=True, text=True, timeout=120,
                              stdin=subprocess.DEVNULL)

    def test_the_job_without_a_mistake_runs(self):
        (self.folder / "job.toml").write_text(SOUND)
        result = self.run_program("train", "job.toml", "--out", "out")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_each_message_names_the_mistake(self):
        mistakes = json.loads((HERE / "mistakes.json").read_text())
        self.assertGreaterEqual(len(mistakes), 40)
        for one in mistakes:
            with self.subTest(one["mistake"]):
                (self.folder / "job.toml").write_text(one.get("job", SOUND))
                sets = [word for key in one.get("set", ()) for word in ("--set", key)]
                result = self.run_program(*one.get("command", ("train", "job.toml", "--out", "out", *sets)))
                self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
                self.assertEqual(result.stderr.count("error:"), 1, result.stderr)
                for part in one["names"]:
                    self.assertIn(part, result.stderr)
                self.assertFalse((self.folder / "out").exists(), "a refused job leaves a folder")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--trireme", required=True)
    ARGUMENTS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
