#!/usr/bin/env python3
"""Detectors that reach the same state and the same scores on every layout.

    detection_jobs_test.py --trireme build/release/bin/trireme --mpiexec mpirun [unittest options]
"""
import json
import pathlib
import subprocess
import sys

from jobs import JobTest, command, main

DRAW = pathlib.Path(__file__).resolve().parents[2] / "examples" / "draw_shapes.py"
JOB = """
[model]
name = "yolox"
size = "nano"
[data]
kind = "detection"
train = "{folder}/shapes/train"
train_annotations = "{folder}/shapes/instances_train.json"
eval = "{folder}/shapes/eval"
image_size = 64
mosaic = 0.5
mixup = 0.5
mosaic_off_steps = 2
scale = [0.5, 1.5]
hsv = [0.1, 0.2, 0.2]
max_boxes = 16
[train]
steps = 4
global_batch = 8
micro_batch = 2
eval_every = 2
ema = 0.9
ema_tau = 3
[optimizer]
name = "sgd"
lr = 0.01
nesterov = true
[checkpoint]
every = 3
[parallel]
threads = 1
"""


class DetectionJobs(JobTest):
    def setUp(self):
        super().setUp()
        # COCO's file for training; the texts beside the pictures for evaluation.
        subprocess.run([sys.executable, "-B", DRAW, self.folder / "shapes", "--train", "21", "--eval", "7", "--side",
                        "64", "--texts"], check=True, stdout=subprocess.DEVNULL)
        self.job.write_text(JOB.format(folder=self.folder))

    def figures(self, out):
        keys = ("loss", "eval_loss", "eval_ap", "eval_ap50")
        return [{key: line[key] for key in keys if key in line} for line in self.metrics(out)]

    def test_layouts_and_resumes_give_one_state(self):
        self.run_job(0, "one", "--set", "data.workers=0")
        layouts = {"two": (2, "data.workers=2"), "zero": (2, "parallel.zero=2"), "stages": (2, "parallel.pipeline=2"),
                   "both": (4, "parallel.pipeline=2", "parallel.recompute_every=1")}
        for out, (ranks, *keys) in layouts.items():
            self.run_job(ranks, out, *(part for key in keys for part in ("--set", key)))
            self.assertEqual(self.state(out), self.state("one"), out)
            self.assertEqual(self.figures(out), self.figures("one"), out)
        # The mixed phase ends after step 2; the checkpoint is of step 3.
        self.run_job(2, "first", "--set", "train.steps=3", "--set", "data.mosaic_off_steps=1",
                     "--set", 'optimizer.schedule="constant"')
        self.run_job(0, "whole", "--set", 'optimizer.schedule="constant"')
        self.run_job(0, "first", "--set", 'optimizer.schedule="constant"')
        self.assertEqual(self.state("first"), self.state("whole"))

    def test_precisions_have_one_state_each(self):
        layouts = {"two": (2, "data.workers=4"), "stages": (2, "data.workers=1", "parallel.pipeline=2"),
                   "zero": (2, "data.workers=2", "parallel.zero=3", "parallel.recompute_every=1")}
        states = set()
        for mode in ("fp32", "tf32", "bf16", "fp16"):
            def run(ranks, out, *keys):
                common = (f"precision.mode={mode}", "precision.scale_init=1024", 'optimizer.schedule="constant"')
                used = [key for key in (*common, *keys) if mode == "fp16" or "scale" not in key]
                self.run_job(ranks, f"{mode}-{out}", *(part for key in used for part in ("--set", key)))
                return self.state(f"{mode}-{out}")
            state = run(0, "one", "data.workers=0")
            for out, (ranks, *keys) in layouts.items():
                self.assertEqual(run(ranks, out, *keys), state, f"{mode} {out}")
            # The mixed phase ends after step 2; the run resumes from step 1.
            run(2, "resumed", "train.steps=1", "data.mosaic_off_steps=0", "data.workers=3")
            self.assertEqual(run(0, "resumed"), state, f"{mode} resumed")
            self.assertEqual(json.loads((self.folder / f"{mode}-resumed" / "summary.json").read_text())["first_step"], 2)
            states.add(state)
        self.assertEqual(len(states), 4)

    def test_evaluations_write_the_same_detections(self):
        self.run_job(0, "run")
        texts = []
        for ranks in (0, 2):
            out = self.folder / f"found-{ranks}.json"
            subprocess.run(command(ranks, "eval", self.folder / "run", "--predictions", out), check=True,
                           stdout=subprocess.DEVNULL)
            texts.append(out.read_text())
        self.assertEqual(texts[0], texts[1])
        self.assertLessEqual({one["category_id"] for one in json.loads(texts[0])}, {0, 1, 2})


if __name__ == "__main__":
    main()
