#!/usr/bin/env python3
"""Jobs that reach the same state on every layout.

    layouts_jobs_test.py --trireme build/release/bin/trireme --mpiexec mpirun [unittest options]
"""
import json
import os
import subprocess
import tomllib
from pathlib import Path

from jobs import IMAGE_JOB, OPTIONS, JobTest, command, kill_job, main


class LayoutJobs(JobTest):
    def test_the_same_state_on_every_number_of_ranks(self):
        self.run_job(0, "one")
        losses = [m["loss"] for m in self.metrics("one") if "loss" in m]
        self.assertEqual(len(losses), 20)
        for ranks in (1, 2, 4):
            self.run_job(ranks, f"np{ranks}")
            self.assertEqual(self.state(f"np{ranks}"), self.state("one"), f"{ranks} ranks")
            self.assertEqual([m["loss"] for m in self.metrics(f"np{ranks}") if "loss" in m], losses)
        self.run_job(0, "other", "--set", "train.seed=2")
        self.assertNotEqual(self.state("other"), self.state("one"))

    def test_the_same_state_in_every_pipeline(self):
        small = ("--set", "train.steps=8")
        for mode in ("fp32", "bf16"):
            precision = ("--set", f"precision.mode={mode}", *small)
            self.run_job(0, f"one-{mode}", *precision)
            losses = [m["loss"] for m in self.metrics(f"one-{mode}") if "loss" in m]
            cases = [(4, ("pipeline=4", "pipeline_cut=blocks")), (4, ("pipeline=2", "schedule=gpipe", "zero=1")),
                     (4, ("pipeline=4", "schedule=zb-h1", "pipeline_cut=blocks")),
                     (2, ("pipeline=2", "schedule=interleaved", "chunks=2"))]
            if mode == "fp32":
                cases += [(4, ("pipeline=2", "recompute_every=1", "zero=3", 'pipeline_cut="1"')),
                          (4, ("pipeline=2", "schedule=zb-h1", "recompute_every=1", "zero=3"))]
            for ranks, keys in cases:
                sets = [part for key in keys for part in ("--set", f"parallel.{key}")]
                out = f"{mode}-np{ranks}-" + "-".join(keys).replace('"', "").replace("=", "")
                self.run_job(ranks, out, *precision, *sets)
                self.assertEqual(self.state(out), self.state(f"one-{mode}"), keys)
                steps = [m for m in self.metrics(out) if "loss" in m]
                self.assertEqual([m["loss"] for m in steps], losses, keys)
                groups = self.plan(ranks, *precision, *sets)["groups"]
                largest = max(groups, key=lambda group: group["peak_bytes"])
                for m in steps:
                    self.assertEqual(m["peak_bytes"], largest["peak_bytes"], keys)
                    self.assertIn(m["peak_rank"], largest["ranks"], keys)
                    self.assertEqual(m["comm_bytes"], groups[0]["comm_bytes"], keys)

    def test_a_bert_has_the_same_state_and_the_planned_memory_on_every_layout(self):
        self.job.write_text("""
[model]
name = "bert"
layers = 3
hidden = 32
heads = 2
vocab = 61
seq_len = 12
dropout = 0.1
[data]
kind = "synthetic"
eval = "synthetic"
[train]
steps = 6
global_batch = 8
micro_batch = 1
eval_batches = 2
[parallel]
threads = 1
""")
        self.run_job(0, "one")
        expected = [(m.get("loss"), m.get("eval_loss")) for m in self.metrics("one")]
        for ranks, keys in ((2, ()), (4, ("zero=3",)), (2, ("pipeline=2",)), (4, ("pipeline=2", "zero=2", "schedule=zb-h1")),
                            (2, ("zero=1", "recompute_every=1"))):
            sets = [part for key in keys for part in ("--set", f"parallel.{key}")]
            out = f"np{ranks}-" + "-".join(keys).replace("=", "")
            self.run_job(ranks, out, *sets)
            self.assertEqual(self.state(out), self.state("one"), keys)
            self.assertEqual([(m.get("loss"), m.get("eval_loss")) for m in self.metrics(out)], expected, keys)
            planned = max(group["peak_bytes"] for group in self.plan(ranks, *sets)["groups"])
            self.assertEqual({m["peak_bytes"] for m in self.metrics(out) if "loss" in m}, {planned}, keys)

    def test_bert_classifies_documents_from_a_pretrained_encoder(self):
        lines = []
        for i in range(200):  # letters of one half of the alphabet
            word = "".join(chr((97 if i % 2 else 110) + (i * 7 + j * j) % 13) for j in range(2 + i % 13))
            lines.append(f"{'early' if i % 2 else 'late'}\t{word}\t{word[::-1]}\n")
        (self.folder / "lines.tsv").write_text("".join(lines))
        subprocess.run([OPTIONS.trireme, "data", "documents", str(self.folder / "lines.tsv"), "--out",
                        str(self.folder / "data"), "--eval-fraction", "0.2"], check=True, capture_output=True, timeout=60)
        self.job.write_text(f"""
[model]
name = "bert"
layers = 2
hidden = 32
heads = 2
seq_len = 32
dropout = 0.1
[data]
kind = "documents"
train = "{self.folder / "data"}"
eval = "{self.folder / "data"}"
pack = true
[train]
steps = 20
global_batch = 8
micro_batch = 2
eval_every = 20
[optimizer]
lr = 3e-3
[parallel]
threads = 1
""")
        self.run_job(0, "mlm")
        layouts = ((2, ("zero=3",)), (2, ("pipeline=2",)), (4, ("pipeline=2", "zero=1", "recompute_every=1")))
        for pack in ("true", "false"):
            tune = ("--set", "model.task=classify", "--set", f"data.pack={pack}", "--set", "train.steps=40",
                    "--set", f"model.init_from={self.folder / 'mlm'}")
            one = "one-" + pack
            stdout, stderr = self.start(0, one, *tune).communicate(timeout=240)
            self.assertIn("drawn from train.seed: head.pooler.weight", stdout, stderr)
            top1 = [m["eval_top1"] for m in self.metrics(one) if "eval_top1" in m]
            self.assertGreater(top1[-1], 0.9)
            for ranks, keys in layouts:
                sets = [*tune, *(part for key in keys for part in ("--set", f"parallel.{key}"))]
                out = f"{pack}-np{ranks}-" + "-".join(keys).replace("=", "")
                self.run_job(ranks, out, *sets)
                self.assertEqual(self.state(out), self.state(one), keys)
                planned = max(group["peak_bytes"] for group in self.plan(ranks, *sets)["groups"])
                self.assertEqual({m["peak_bytes"] for m in self.metrics(out) if "loss" in m}, {planned}, keys)
            done = subprocess.run([OPTIONS.trireme, "eval", str(self.folder / one), "--json"], check=True,
                                  capture_output=True, text=True, timeout=60)
            self.assertEqual(json.loads(done.stdout)["top1"], top1[-1])

    IN_CHUNKS = ("--set", "model.heads=4", "--set", "model.tensor_chunks=4")

    def test_tensor_ranks_come_to_the_same_state_in_the_planned_memory(self):
        short = (*self.IN_CHUNKS, "--set", "train.steps=6")
        self.run_job(0, "one", *short)
        losses = [m["loss"] for m in self.metrics("one") if "loss" in m]
        for ranks, keys in ((2, ("tensor=2",)), (4, ("tensor=4", "recompute_every=1")),
                            (4, ("tensor=2", "zero=3", "recompute=selective")),
                            (4, ("tensor=4", "sequence=true", "recompute=selective")),
                            (4, ("tensor=2", "sequence=true", "pipeline=2", "schedule=zb-h1")),
                            (4, ("tensor=2", "pipeline=2", "schedule=zb-h1", "recompute=selective"))):
            sets = [part for key in keys for part in ("--set", f"parallel.{key}")]
            out = f"np{ranks}-" + "-".join(keys).replace("=", "")
            self.run_job(ranks, out, *short, *sets)
            self.assertEqual(self.state(out), self.state("one"), keys)
            steps = [m for m in self.metrics(out) if "loss" in m]
            self.assertEqual([m["loss"] for m in steps], losses, keys)
            groups = self.plan(ranks, *short, *sets)["groups"]
            self.assertEqual({m["peak_bytes"] for m in steps}, {max(g["peak_bytes"] for g in groups)}, keys)
            self.assertEqual({m["comm_bytes"] for m in steps}, {groups[0]["comm_bytes"]}, keys)
        refusal = self.run_job(0, "one", *short, "--set", "train.steps=8", "--set", "model.tensor_chunks=2", expect=2)
        self.assertIn("was made with model.tensor_chunks = 4, and the job has 2", " ".join(refusal.split()))

    CLUSTER = """
name = "four cores"
ranks_per_node = 4
[devices.core]
type = "cpu"
inside = "bus"
peak_tflops = { fp32 = 0.1 }
memory_gb = 1
memory_gb_s = 10
[links.bus]
latency_us = 5
gb_s = 4
[host]
overlap = 0
launch_us = 2
"""

    def test_a_searched_layout_comes_to_the_same_state(self):
        auto = ("--set", "parallel=auto", "--set", "checkpoint.every=2")
        self.run_job(0, "one", "--set", "train.steps=6")
        self.run_job(0, "four", "--set", "train.steps=4")
        # Too little memory for a layout of data ranks only.
        limit = max(group["peak_bytes"] for group in self.plan(4, "--set", "parallel.zero=1")["groups"])
        tight = ("--set", f"parallel.memory_limit={limit}")
        words = self.run_job(4, "auto", "--set", "train.steps=4", *auto, *tight)
        self.assertEqual(words.count('parallel.layout = "auto" on 4 ranks: '), 1, words)
        self.assertEqual(self.state("auto"), self.state("four"))
        # The chosen layout, given explicitly.
        chosen = tomllib.loads((self.folder / "auto" / "config.toml").read_text())["parallel"]
        self.assertEqual(chosen["layout"], "given")
        self.assertTrue(chosen["pipeline"] > 1 or chosen["zero"] > 0, chosen)
        by_hand = [part for key, value in chosen.items() for part in ("--set", f"parallel.{key}={json.dumps(value)}")]
        self.run_job(4, "hand", "--set", "train.steps=4", *by_hand)
        self.assertEqual(self.state("hand"), self.state("auto"))
        for key in ("peak_bytes", "comm_bytes"):
            self.assertEqual(*({m[key] for m in self.metrics(out) if "loss" in m} for out in ("hand", "auto")))
        # It resumes with another layout, from a cluster description and with one key kept.
        (self.folder / "cluster.toml").write_text(self.CLUSTER)
        named = ("--set", f"parallel.cluster={self.folder / 'cluster.toml'}")
        words = self.run_job(2, "auto", "--set", "train.steps=6", *auto, *named, "--set", "parallel.pipeline=2")
        self.assertIn("cluster.toml (core)", words)
        self.assertEqual(self.state("auto"), self.state("one"))
        self.assertEqual(json.loads((self.folder / "auto" / "summary.json").read_text())["layout"]["pipeline"], 2)

    def test_a_layout_that_cannot_be_searched_is_refused(self):
        (self.folder / "cluster.toml").write_text(self.CLUSTER)
        a100 = Path(__file__).resolve().parents[2] / "examples" / "clusters" / "a100-80.toml"
        for ranks, keys, reason in (
                (2, ("parallel.memory_limit=1000",), "no layout fits; closest is tensor = 1, "),
                (2, (f"parallel.cluster={a100}",), "is a cuda, and the ranks compute on a cpu"),
                (0, ("parallel.pipeline=3",), "no layout with parallel.pipeline = 3 divides these ranks"),
                (0, ("parallel.cluster=none.toml",), "none.toml"),
                (0, (f"parallel.cluster={self.folder / 'cluster.toml'}", "precision.mode=bf16"), "peak_tflops.bf16")):
            sets = [part for key in keys for part in ("--set", key)]
            refusal = self.run_job(ranks, "refused", "--set", "parallel=auto", *sets, expect=2)
            self.assertIn(reason, " ".join(refusal.split()))
            self.assertEqual(refusal.count("error: "), 1, refusal)

    def test_a_sequence_that_cannot_be_shared_is_refused(self):
        for ranks, keys, reason in (
                (0, ("parallel.sequence=true",), "parallel.sequence = true needs parallel.tensor = 2 or more"),
                (2, ("parallel.tensor=2", "parallel.sequence=true", "model.seq_len=15"),
                 "parallel.tensor = 2 ranks cannot share model.seq_len = 15 tokens equally"),
                (2, ("parallel.tensor=2", "parallel.sequence=true", "model.tensor_chunks=1"),
                 "the model has one tensor chunk")):
            sets = [part for key in keys for part in ("--set", key)]
            refusal = self.run_job(ranks, "refused", *self.IN_CHUNKS, *sets, expect=2)
            self.assertIn(reason, " ".join(refusal.split()))

    def test_a_killed_job_goes_on_with_other_tensor_ranks(self):
        keeps = (*self.IN_CHUNKS, "--set", "checkpoint.every=1")
        process, _ = self.start_and_wait_for_steps(4, "moved", *keeps, "--set", "parallel.tensor=4")
        kill_job(process)
        done = max(int(path.name.split("-")[1]) for path in (self.folder / "moved" / "checkpoints").glob("step-??????"))
        for more, ranks, tensor, sequence in ((1, 2, 2, "true"), (2, 4, 2, "false"), (3, 0, 1, "false")):
            self.run_job(ranks, "moved", *keeps, "--set", f"train.steps={done + more}", "--set",
                         f"parallel.tensor={tensor}", "--set", f"parallel.sequence={sequence}")
        self.run_job(0, "one", *self.IN_CHUNKS, "--set", f"train.steps={done + 3}")
        self.assertEqual(self.state("moved"), self.state("one"))

    def test_a_model_that_one_rank_cannot_hold_trains_in_tensor_ranks(self):
        job = (*self.IN_CHUNKS, "--set", "model.hidden=64", "--set", "train.global_batch=1", "--set",
               "train.micro_batch=1", "--set", "train.steps=2")
        shared = ("--set", "parallel.tensor=4")
        limit = max(group["peak_bytes"] for group in self.plan(4, *job, *shared)["groups"])
        limited = (*job, "--set", f"parallel.memory_limit={limit}")
        remedy = self.plan(1, *limited)["fit"]["remedy"]
        self.assertEqual((remedy["tensor"], remedy["ranks"]), (4, 4))
        refusal = self.run_job(0, "alone", *limited, expect=2)
        self.assertIn("with parallel.tensor = 4 and 4 ranks it fits", " ".join(refusal.split()))
        self.run_job(4, "shared", *limited, *shared)
        self.assertEqual({m["peak_bytes"] for m in self.metrics("shared") if "loss" in m}, {limit})

    def test_a_gpt_of_24_layers_learns_the_same_in_4_stages(self):
        root = Path(__file__).resolve().parents[2]
        text = [str(path) for path in (root / "README.md", *sorted(root.glob("*/README.md")))]
        subprocess.run([OPTIONS.trireme, "data", "text", *text, "--out", str(self.folder / "text")], check=True,
                       capture_output=True, timeout=60)
        self.job.write_text(f"""
[model]
layers = 24
hidden = 48
heads = 2
seq_len = 32
[data]
kind = "tokens"
train = "{self.folder / "text"}"
eval = "{self.folder / "text"}"
[train]
steps = 24
global_batch = 16
micro_batch = 2
eval_every = 12
eval_batches = 2
[optimizer]
lr = 2e-3
schedule = "constant"
warmup_steps = 4
[parallel]
threads = 1
recompute_every = 2
""")
        self.run_job(0, "one")
        self.run_job(4, "stages", "--set", "parallel.pipeline=4")
        self.assertEqual(self.state("stages"), self.state("one"))
        one, stages = self.metrics("one"), self.metrics("stages")
        for key in ("loss", "eval_loss"):
            self.assertEqual([m[key] for m in stages if key in m], [m[key] for m in one if key in m])
        losses = [m["loss"] for m in stages if "loss" in m]
        self.assertEqual(len(losses), 24)
        late = sorted(losses[-8:])[4]  # the median: a step may be far off
        self.assertLess(late, losses[0] - 1.5)  # from 256 equally likely bytes to letters

    def test_a_checkpoint_moves_between_pipelines(self):
        self.run_job(0, "one", "--set", "train.steps=8")
        for steps, ranks, keys in ((3, 4, ("pipeline=2", "zero=1")), (6, 2, ()), (8, 3, ("pipeline=3",))):
            sets = [part for key in keys for part in ("--set", f"parallel.{key}")]
            batch = ("--set", "train.micro_batch=2")
            self.run_job(ranks, "moved", "--set", f"train.steps={steps}", *batch, *sets)
        self.assertEqual(self.state("moved"), self.state("one"))

    def test_a_network_with_running_statistics_trains_in_stages(self):
        self.job.write_text(IMAGE_JOB)
        self.run_job(0, "one")
        stages = ("--set", "parallel.pipeline=2", "--set", "parallel.zero=2", "--set", "parallel.schedule=interleaved",
                  "--set", "parallel.chunks=2", "--set", "parallel.pipeline_cut=measured")
        self.run_job(4, "moved", "--set", "train.steps=2", *stages)
        self.run_job(2, "moved", "--set", "train.steps=3", "--set", "parallel.pipeline=2")
        self.assertEqual(self.state("moved"), self.state("one"))
        evaluated = subprocess.run(command(0, "eval", self.folder / "moved", "--json"), capture_output=True, text=True,
                                   timeout=60)
        self.assertEqual(evaluated.returncode, 0, evaluated.stderr)
        self.assertEqual(json.loads(evaluated.stdout)["loss"], self.metrics("one")[-1]["eval_loss"])

    def test_the_same_state_under_every_kind_of_sharding(self):
        self.run_job(0, "one")
        for ranks, keys in ((2, ("zero=1",)), (4, ("zero=2", "group_min_bytes=1MiB")),
                            (4, ("zero=2", "accumulate_unsharded=false")), (2, ("zero=3", "recompute_every=1")),
                            (2, ("zero=3", "keep_gathered=false")), (2, ("zero=3", "accumulate_unsharded=false")),
                            (4, ("zero=3", "prefetch_depth=2", "progress_thread=true")),
                            (2, ("zero=1", "offload=optimizer"))):
            sets = [part for key in keys for part in ("--set", f"parallel.{key}")]
            out = f"np{ranks}-" + "-".join(keys).replace("=", "")
            self.run_job(ranks, out, *sets)
            self.assertEqual(self.state(out), self.state("one"), keys)
            steps = [m for m in self.metrics(out) if "loss" in m]
            groups = self.plan(ranks, *sets)["groups"]
            predicted = groups[0]
            for m in steps:
                self.assertEqual(m["peak_bytes"], max(group["peak_bytes"] for group in groups), keys)
                self.assertEqual(m["comm_bytes"], predicted["comm_bytes"], keys)
                self.assertGreater(m["comm_wait_ms"], 0)
                self.assertLess(m["comm_wait_ms"], m["step_ms"])

    def test_sharded_accumulation_sends_no_more_than_unsharded(self):
        self.run_job(0, "one", "--set", "train.steps=8")
        sent = {}
        for zero in (1, 2, 3):
            self.run_job(4, f"zero{zero}", "--set", "train.steps=8", "--set", f"parallel.zero={zero}", "--set",
                         "train.micro_batch=1")
            sent[zero] = self.metrics(f"zero{zero}")[-1]["comm_bytes"]
        self.assertEqual(sent, {1: sent[1], 2: sent[1], 3: sent[1]})
        config = (self.folder / "zero3" / "config.toml").read_text()
        self.assertIn("accumulate_unsharded = true\nkeep_gathered = true\n", config)
        layout = json.loads((self.folder / "zero3" / "summary.json").read_text())["layout"]
        self.assertTrue(layout["accumulate_unsharded"] and layout["keep_gathered"])
        # A checkpoint can be resumed with any choice of what is kept.
        other = ("--set", "train.micro_batch=2", "--set", "parallel.zero=3", "--set", "parallel.keep_gathered=false")
        self.run_job(4, "moved", "--set", "train.steps=3", *other)
        self.run_job(2, "moved", "--set", "train.steps=5", *other[:4])
        self.run_job(4, "moved", "--set", "train.steps=8", *other[:4], "--set", "parallel.accumulate_unsharded=false")
        self.assertEqual(self.state("moved"), self.state("one"))

    def test_resumes_on_another_number_of_ranks(self):
        self.run_job(0, "whole")
        self.run_job(2, "parts", "--set", "train.steps=7")
        self.run_job(4, "parts", "--set", "train.steps=13")
        self.run_job(0, "parts")
        self.assertEqual(self.state("parts"), self.state("whole"))
        self.assertEqual([m["step"] for m in self.metrics("parts") if "loss" in m], list(range(1, 21)))

    def test_every_precision_has_the_same_state_on_every_layout(self):
        course = {}
        for mode in ("tf32", "bf16", "fp16"):
            # A first scale that is too large, so that steps are skipped, on every rank the same ones.
            sets = ("--set", f"precision.mode={mode}", "--set", "precision.scale_init=67108864",
                    "--set", "precision.scale_interval=5")
            self.run_job(0, f"{mode}-one", *sets)
            course[mode] = [(m["loss"], m["loss_scale"], m["skipped"]) for m in self.metrics(f"{mode}-one")
                            if "loss" in m]
            self.assertEqual(any(skipped for _, _, skipped in course[mode]), mode == "fp16")
            for ranks, more in ((2, "parallel.zero=3"), (4, "parallel.recompute_every=1")):
                out = f"{mode}-np{ranks}"
                self.run_job(ranks, out, *sets, "--set", more, "--set", "train.steps=8")
                self.run_job(4 // ranks * 2, out, *sets, "--set", more)
                self.assertEqual(self.state(out), self.state(f"{mode}-one"), out)
                self.assertEqual([(m["loss"], m["loss_scale"], m["skipped"]) for m in self.metrics(out)
                                  if "loss" in m], course[mode], out)
        self.assertNotEqual(course["tf32"], course["bf16"])

    def test_doctor_measures_all_reduces_between_the_ranks(self):
        for ranks in (0, 1, 2, 4):
            report = subprocess.run(command(ranks, "doctor", "--json"), capture_output=True, text=True, timeout=120)
            self.assertEqual(report.returncode, 0, report.stderr)
            measured = json.loads(report.stdout)["all_reduce"]
            if ranks < 2:  # nobody to talk to
                self.assertIsNone(measured)
                continue
            self.assertEqual((measured["ranks"], measured["communicator"]), (ranks, "mpi"))
            sizes = [size["bytes"] for size in measured["sizes"]]
            self.assertEqual((sizes, sizes[0], sizes[-1]), (sorted(sizes), 4 << 10, 64 << 20))
            for size in measured["sizes"]:
                factor = 2 * (ranks - 1) / ranks
                self.assertGreater(size["algorithm_gb_per_s"], 0)
                self.assertAlmostEqual(size["bus_gb_per_s"] / size["algorithm_gb_per_s"], factor, places=9)

    def test_doctor_measures_ranks_that_share_cores(self):
        ranks = len(os.sched_getaffinity(0)) + 2
        if ranks > 8:
            self.skipTest(f"{ranks} ranks, which this machine's cores need to be shared, are many for a test")
        file = self.folder / "here.toml"
        # As if ranks with a core each had been measured.
        file.write_text(self.CLUSTER.replace('type = "cpu"', 'type = "cpu"\nthreads = 1'))
        done = subprocess.run(command(ranks, "doctor", "--measure", file), capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        cluster = tomllib.loads(file.read_text())
        shared = cluster["devices"][f"core-{ranks}-ranks"]
        self.assertEqual((shared["ranks"], shared["calls_of"]), (ranks, "core"))
        self.assertIn(shared["inside"], cluster["links"])
        self.assertTrue(0 <= cluster["host"]["waiting_share"] <= 1)
        # A file that is no description is refused before anything is measured.
        file.write_text("speed = 3\n")
        done = subprocess.run(command(ranks, "doctor", "--measure", file), capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("here.toml:1", done.stderr)


if __name__ == "__main__":
    main()
