#!/usr/bin/env python3
"""`trireme run` that goes on with other data than its checkpoint knows: refused at once, with exit code 2.

    changed_data_jobs_test.py --trireme build/release/bin/trireme --mpiexec mpirun [unittest options]

The column `run` of the table in launcher/design_notes.md.
"""
import os
import random
import shutil
import signal
import subprocess

import image_jobs_test
from jobs import OPTIONS, JobTest, main
from supervised import Supervised, read_lines, sets

TEXT_JOB = """
[model]
layers = 1
hidden = 16
heads = 2
seq_len = 8
[data]
train = "{folder}/tokens"
[train]
steps = 3
global_batch = 8
micro_batch = 4
[parallel]
threads = 1
"""


class ChangedDataJobs(JobTest):
    def supervise(self, out, *keys, expect=0):
        """The output of `trireme run`, and the events of this one."""
        before = len(read_lines(self.folder / out / "supervisor.jsonl"))
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        line = [OPTIONS.trireme, "run", self.job, "--out", self.folder / out, "--mpirun", OPTIONS.mpiexec, "--ranks", "2", *sets(*keys),
                "--", *root, "--oversubscribe", "--bind-to", "none"]
        result = subprocess.run([str(word) for word in line], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240)
        output = result.stdout + result.stderr
        self.assertEqual(result.returncode, expect, output)
        return output, read_lines(self.folder / out / "supervisor.jsonl")[before:]

    def check_refused(self, out, words, *keys):
        output, events = self.supervise(out, "train.steps=6", *keys, expect=2)
        self.assertRegex(output, rf"checkpoints/step-000003\b.*{words}")
        kinds = [event["event"] for event in events]
        self.assertEqual(kinds.count("begin"), 1, output)
        self.assertNotIn("restart", kinds, output)
        self.assertEqual([event["exit_code"] for event in events if event["event"] == "end"], [2], output)

    def check_meant(self, out, *keys):
        output, _ = self.supervise(out, "train.steps=6", "checkpoint.new_data=true", *keys)
        self.assertEqual(self.metrics(out)[-1]["step"], 6, output)

    def prepare(self, name, seed, *more):
        numbers = random.Random(seed)
        words = ["oar", "water", "stroke", "pull", "rowlock", "keel", "bow", "stern"]
        text = self.folder / f"{name}.txt"
        text.write_text("".join(f"{' '.join(numbers.choices(words, k=6))} {i}\n" for i in range(300)))
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([OPTIONS.trireme, "data", "text", text, "--out", folder, *more], check=True, capture_output=True)

    def test_other_text_and_another_tokenizer(self):
        self.job.write_text(TEXT_JOB.format(folder=self.folder))
        subwords = ("--train-tokenizer", "300")
        self.prepare("tokens", 1, *subwords)
        model = self.folder / "tokenizer.model"
        shutil.copy(self.folder / "tokens" / "tokenizer.model", model)
        self.prepare("held", 2, "--tokenizer", model)
        evaluated = f"data.eval={self.folder}/held"
        for out in ("run", "evaluated"):
            self.supervise(out, *((evaluated,) if out == "evaluated" else ()))

        self.prepare("held", 3, "--tokenizer", model)
        self.check_refused("evaluated", "other evaluation data: .*/held", evaluated)
        self.check_meant("evaluated", evaluated)

        self.prepare("tokens", 4, "--tokenizer", model)
        self.check_refused("run", "other training data: .*checkpoint.new_data = true")
        self.prepare("tokens", 4, *subwords)
        self.check_refused("run", "another tokenizer: sentencepiece of 300 tokens.*checkpoint.new_data = true")
        self.check_meant("run")

    def test_pictures_of_other_classes_or_seen_otherwise(self):
        self.job.write_text(image_jobs_test.JOB.format(folder=self.folder).replace("steps = 4", "steps = 3"))
        for i in range(24):
            path = self.folder / ("test" if i < 6 else "train") / "abc"[i % 3] / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(image_jobs_test.png(12 + i, 9, lambda x, y, i=i: (x * 8 % 256, y * 8 % 256, 10 * i)))
        for out in ("run", "larger", "darker"):
            self.supervise(out)
        self.check_refused("larger", "another view of pictures: data.image_size = 12", "data.image_size=16")
        self.check_meant("larger", "data.image_size=16")
        self.check_refused("darker", "another normalisation of pictures: data.mean", "data.mean=[0.5, 0.5, 0.5]")
        self.check_meant("darker", "data.mean=[0.5, 0.5, 0.5]")
        for split in ("train", "test"):
            (self.folder / split / "b").rename(self.folder / split / "x")
        self.check_refused("run", "'b'; only in data.train = .*: 'x'", "checkpoint.new_data=true")  # that no key allows

    def test_a_restart_on_data_that_was_exchanged_meanwhile(self):
        self.job.write_text(TEXT_JOB.format(folder=self.folder))
        self.prepare("tokens", 1)
        self.prepare("others", 2)
        run = Supervised(self, "run", keys=("train.micro_batch=4",))
        run.wait_for_step(8)
        (self.folder / "tokens").rename(self.folder / "before")
        (self.folder / "others").rename(self.folder / "tokens")
        os.kill(run.rank(1), signal.SIGKILL)
        output = run.end(expect=2)
        self.assertRegex(output, "was made with other training data: ")
        self.assertEqual([end["exit_code"] for end in run.events("end")], [137, 2], output)
        self.assertEqual(run.tagged(), [], "processes are left")


if __name__ == "__main__":
    main()
