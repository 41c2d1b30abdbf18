#!/usr/bin/env python3
"""The tool behind examples/reproduce.sh: its arithmetic, its errors, and one whole run with real jobs."""
import argparse
import csv
import json
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "reproduce"))
from compare import agreement, drift, find_worse, print_comparison  # noqa: E402
from experiment import ExperimentError, Figure, read_experiment, read_experiments  # noqa: E402
from expression import ExpressionError, evaluate, names  # noqa: E402
from intervals import median_interval, overlap  # noqa: E402
from library import PAGE, keep, machines_text, pages_differ, read_results, write_pages  # noqa: E402
from machine import why_no_cuda, why_no_namespaces  # noqa: E402
from job_runs import traced_bubble  # noqa: E402
from measure import DIFFERS, NOT_RUN, REPRODUCED, UNDECIDED, WITHIN_NOISE, basis_of, judge  # noqa: E402
from report import memory_rows, verdict_of  # noqa: E402

TINY = """
title = "tiny"
documented = "Recompute saves memory."
source = "none"
device = "any"
refuted_by = "more memory"
rounds = { quick = 2, full = 2 }
[job]
model = { layers = 4, hidden = 32, heads = 2, seq_len = 32, vocab = 31 }
data = { kind = "synthetic" }
train = { steps = 5, global_batch = 2, micro_batch = 2 }
[variants.plain]
[variants.every2]
set = { "parallel.recompute_every" = 2 }
[variants.refused]
refused = true
set = { "parallel.memory_limit" = 1000 }
[[figures]]
name = "activations"
value = "every2.memory.activations / plain.memory.activations"
reproduced_if = [0.0, 0.999]
[[figures]]
name = "predicted"
value = "plain.peak_bytes"
formula = "plain.plan.peak_bytes"
within = 0.0
[[figures]]
name = "refused"
value = "refused.exit_code"
reproduced_if = [2, 2]
[[plots]]
kind = "memory"
title = "memory"
[[plots]]
kind = "bars"
title = "time"
value = "step_ms"
unit = "ms"
[[plots]]
kind = "curve"
title = "loss"
value = "loss"
"""


MATRIX = """
[job]
model = { layers = 2, hidden = 32, heads = 2, vocab = 31 }
data = { kind = "synthetic" }
train = { steps = 4, global_batch = 2, micro_batch = 2 }
[model.gpt]
model = { name = "gpt" }
[model.llama]
model = { name = "llama" }
[batch."batch 2"]
[size."gpt 16"]
model = { seq_len = 16 }
[size."llama 32"]
model = { seq_len = 32 }
[optimizer.adamw]
[optimizer.none]
parallel = { memory_limit = 1000 }
[precision.fp32]
[precision.bf16]
precision = { mode = "bf16" }
"""


class Expressions(unittest.TestCase):
    def test_arithmetic_over_names(self):
        numbers = {"a.step_ms": 6.0, "p": 4}
        self.assertEqual(evaluate("(a.step_ms - p) / 2 ** 2 + max(p, 1)", numbers.__getitem__), 4.5)
        self.assertEqual(names("a.step_ms / max(p, 2)"), {"a.step_ms", "p"})

    def test_anything_else_is_refused(self):
        for text in ("__import__('os')", "a if b else c", "a[0]", "'x' + 'y'", "1 +"):
            with self.assertRaises(ExpressionError, msg=text):
                evaluate(text, lambda name: 1.0)


class Intervals(unittest.TestCase):
    def test_equal_values_have_no_width(self):
        self.assertEqual(median_interval([2.0, 2.0, 2.0]), (2.0, 2.0, 2.0))

    def test_the_interval_holds_the_median_and_is_repeatable(self):
        values = [1.0, 1.1, 0.9, 1.3, 1.05]
        middle, low, high = median_interval(values)
        self.assertEqual(middle, 1.05)
        self.assertTrue(0 <= low < middle < high)
        self.assertEqual(median_interval(values), (middle, low, high))

    def test_few_values_get_honest_intervals(self):
        for count, least in ((3, 0.88), (5, 0.94), (11, 0.94)):
            draw = random.Random(count)
            held = 0
            for _ in range(300):
                _, low, high = median_interval([draw.gauss(10, 1) for _ in range(count)])
                held += low <= 10 <= high
            self.assertGreater(held / 300, least, count)

    def test_no_bound_falls_below_zero(self):
        self.assertEqual(median_interval([0.0, 0.1, 5.0])[1], 0.0)
        self.assertLess(median_interval([-1.0, 0.1, 5.0])[1], 0.0)

    def test_verdicts(self):
        self.assertEqual(judge(0.5, 0.6, 0.7, [0.4, 0.8]), REPRODUCED)
        self.assertEqual(judge(0.5, 0.6, 0.9, [0.4, 0.8]), WITHIN_NOISE)
        self.assertEqual(judge(0.4, 0.6, 0.9, [0.5, 0.8]), UNDECIDED)  # its ends lie more than twice apart
        self.assertEqual(judge(0.0, 0.6, 1.1, [0.0, 1.0]), WITHIN_NOISE)  # of 0, nothing is a multiple
        self.assertEqual(judge(0.7, 0.85, 0.9, [0.4, 0.8]), UNDECIDED)
        self.assertEqual(judge(0.81, 0.85, 0.9, [0.4, 0.8]), DIFFERS)
        self.assertEqual(judge(0.1, 0.2, 0.39, [0.4, 0.8]), DIFFERS)
        self.assertTrue(overlap((1, 2), (2, 3)))


def results(step_ms, peak=100):
    rounds = [{"numbers": {"step_ms": one, "peak_bytes": peak}} for one in step_ms]
    return {"experiments": [{"name": "e", "variants": [{"name": "v", "rounds": rounds}]}]}


class Comparison(unittest.TestCase):
    def test_noise_is_not_worse(self):
        self.assertEqual(find_worse(results([10, 11, 12]), results([10.5, 11.5, 12.5])), [])

    def test_one_round_says_nothing_about_time(self):
        self.assertEqual(find_worse(results([10]), results([20])), [])

    def test_some_percent_are_the_session(self):
        self.assertEqual(find_worse(results([10.0, 10.1, 10.2]), results([10.5, 10.6, 10.7])), [])

    def test_a_slower_build_is_named(self):
        self.assertEqual(find_worse(results([10, 11, 12]), results([20, 21, 22])), [("e", "v", "step_ms", 11, 21)])

    def test_a_busy_machine_is_not_taken_for_a_worse_variant(self):
        def many(*slow):
            variants = [{"name": f"v{i}", "rounds": [{"numbers": {"step_ms": one * slow[i]}} for one in (10, 10.2, 10.1, 9.9, 9.8)]}
                        for i in range(len(slow))]
            return {"experiments": [{"name": "e", "variants": variants}]}

        usual, busy = many(*[1] * 9), many(*[1.5] * 9)
        self.assertEqual(find_worse(usual, busy), [])
        self.assertAlmostEqual(drift(usual, busy), 1.5)
        self.assertEqual([name[1] for name in find_worse(usual, many(*[1.5] * 8, 3))], ["v8"])

    def test_a_byte_more_is_named(self):
        self.assertEqual(find_worse(results([10], 100), results([10], 101)), [("e", "v", "peak_bytes", 100, 101)])


    def test_overlapping_intervals_are_counted(self):
        def figures(*ranges):
            return {"experiments": [{"name": name, "figures": [{"name": "f", "value": low, "low": low, "high": high}]}
                                    for name, low, high in ranges]}

        old = figures(("a", 1, 2), ("b", 1, 2), ("gone", 1, 2))
        self.assertEqual(agreement(old, figures(("a", 2, 3), ("b", 3, 4), ("new", 1, 2))), (["a"], [("b", "f")]))


KEPT = {"machine": {"processor": "P (1)", "cores": 2, "memory_bytes": 1, "gpu": None, "gpus": 0, "build": "b", "load": 1.5}, "full": False,
        "picture": {"title": "Peak", "unit": "MiB", "bars": [["nothing", 12.5], ["all", 2.0]]},
        "experiments": [{"name": "e", "title": "E", "reason": "", "memory": [{"predicted": 3, "measured": 3}], "figures": [
            {"name": "ratio", "unit": "", "documented": "2", "value": 2.0, "low": 1.5, "high": 2.5, "verdict": REPRODUCED,
             "because": "", "telling": True, "rounds": [2.0]}],
            "variants": [{"name": "v", "title": "v", "rounds": [{"folder": "x", "numbers": {"step_ms": 1.23456789}}]}]},
            {"name": "n", "title": "N", "reason": "it needs more", "figures": [], "variants": [], "memory": []}]}


class Library(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.file = keep(KEPT, self.root)

    def test_results_are_kept_by_machine_and_comparable(self):
        self.assertEqual(self.file.parent.name, "p-1-2-cores")
        kept = json.loads(self.file.read_text())
        self.assertEqual(kept["experiments"][0]["variants"][0]["rounds"], [{"numbers": {"step_ms": 1.23456789}}])
        self.assertEqual(find_worse(kept, kept), [])
        self.assertEqual(find_worse(kept, KEPT), [])
        self.assertEqual(agreement(kept, kept), (["e"], []))

    def test_bytes_are_kept_whole(self):
        exact = 123456789012345.0
        results = json.loads(json.dumps(KEPT))
        results["experiments"][0]["variants"][0]["rounds"][0]["numbers"] = {"peak_bytes": exact}
        kept = json.loads(keep(results, self.root).read_text())
        self.assertEqual(kept["experiments"][0]["variants"][0]["rounds"][0]["numbers"], {"peak_bytes": int(exact)})

    def test_a_part_of_the_experiments_is_not_kept(self):
        with self.assertRaisesRegex(ExperimentError, "--only e"):
            keep(KEPT | {"only": ["e"]}, self.root)

    def test_what_is_no_result_is_refused(self):
        for text in ("", "[]", "{}", '{"experiments": [1]}', '{"experiments": [], "machine": {}}'):
            (self.root / "bad.json").write_text(text)
            with self.assertRaisesRegex(ExperimentError, "bad.json"):
                read_results(self.root / "bad.json")
        with self.assertRaisesRegex(ExperimentError, "--quick"):
            print_comparison(KEPT, KEPT | {"full": True})

    def test_machines_stand_side_by_side(self):
        other = KEPT | {"machine": KEPT["machine"] | {"processor": "Q"}}
        text = machines_text([self.file, keep(other, self.root)])
        self.assertIn("| P (1), 2 cores | Q, 2 cores |", text)
        self.assertIn("| E | ratio | 2 | 2 (1.5 to 2.5), reproduced | 2 (1.5 to 2.5), reproduced |", text)
        self.assertIn("not run: it needs more", text)

    def test_pages_are_generated_and_a_stale_one_is_named(self):
        self.assertEqual(len(pages_differ(self.root)), 2)
        write_pages(self.root)
        self.assertEqual(pages_differ(self.root), [])
        page = (self.root / PAGE).read_text()
        self.assertIn("| E | ratio | 2 | 2 (1.5 to 2.5) |", page)
        self.assertIn("in 1 of 1 runs", page)
        (self.root / PAGE).write_text(page.replace("1.5", "1.6"))
        self.assertEqual(pages_differ(self.root), [PAGE])

    def test_the_pages_of_this_tree_are_those_of_its_results(self):
        self.assertEqual(pages_differ(HERE.parents[1]), [])


class Labels(unittest.TestCase):
    def test_figures_of_a_plan_alone_are_labelled(self):
        for value, basis in (("a.plan.bubble", "simulated"), ("8 * a.plan.state_bytes", "predicted"), ("a.bubble", ""),
                             ("a.peak_bytes / b.plan.peak_bytes", ""), ("2 * p", "")):
            self.assertEqual(basis_of(Figure("f", value)), basis, value)

    def test_noise_belongs_to_a_figure(self):
        def verdict(*verdicts):
            return verdict_of({"reason": "", "figures": [{"verdict": one} for one in verdicts]})

        self.assertEqual(verdict(REPRODUCED, UNDECIDED), REPRODUCED)
        self.assertEqual(verdict(WITHIN_NOISE, UNDECIDED, REPRODUCED), WITHIN_NOISE)
        self.assertEqual(verdict(DIFFERS, UNDECIDED), DIFFERS)
        self.assertEqual(verdict(UNDECIDED, UNDECIDED), UNDECIDED)
        self.assertEqual(verdict(NOT_RUN, NOT_RUN), NOT_RUN)

    def test_the_bubble_of_a_trace(self):
        def span(rank, category, start, length, thread=0):
            return {"ph": "X", "pid": rank, "tid": thread, "cat": category, "ts": start, "dur": length}

        # Two stages and two micro-batches: each rank computes 2/3 of the time. The update and the messages do not count.
        spans = [span(0, "forward", 0, 1), span(0, "forward", 1, 1), span(1, "forward", 1, 1), span(1, "backward", 2, 2),
                 span(1, "forward", 4, 1), span(1, "backward", 5, 2), span(0, "backward", 4, 2), span(0, "backward", 7, 2),
                 span(0, "update", 9, 5), span(1, "communication", 0, 1, thread=1)]
        self.assertAlmostEqual(traced_bubble({"traceEvents": [*spans, {"ph": "M", "pid": 0, "tid": 0}]}), 1 - 12 / 18)
        self.assertIsNone(traced_bubble({"traceEvents": spans[-2:]}))


class Memory(unittest.TestCase):
    def test_a_round_that_differs_is_not_hidden_by_others(self):
        rounds = [{"variant": "v", "predicted": 8, "measured": measured} for measured in (8, 9, 8)]
        results = {"experiments": [{"name": "e", "memory": rounds}], "matrix": []}
        self.assertEqual(memory_rows(results), [("e", "v", 8, 9)])
        self.assertEqual(memory_rows({"experiments": [{"name": "e", "memory": rounds[:1]}], "matrix": []}),
                         [("e", "v", 8, 8)])


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "tiny.toml"

    def check_refused(self, text, *parts):
        self.path.write_text(text)
        with self.assertRaises(ExperimentError) as caught:
            read_experiment(self.path)
        for part in (str(self.path), *parts):
            self.assertIn(part, str(caught.exception))

    def test_what_is_wrong_is_named(self):
        self.check_refused(TINY.replace("refuted_by", "refuted_bye"), "refuted_bye", "known:")
        self.check_refused(TINY.replace('title = "tiny"\n', ""), "title missing")
        self.check_refused(TINY.replace("every2.memory.act", "every3.memory.act"), "every3", "figure 'activations'")
        self.check_refused(TINY.replace("reproduced_if = [2, 2]", ""), "figure 'refused'", "reproduced_if")
        self.check_refused(TINY.replace('kind = "bars"', 'kind = "pie"'), "pie", "bars")
        self.check_refused(TINY.replace("[job]", "needs = { gpus = 1 }\n[job]"), "gpus", "cores")
        self.check_refused(TINY.replace("[variants.every2]", "[variants.every2]\npeer = \"jax\""), "jax", "eager")
        self.check_refused(TINY.replace("[variants.every2]", "[variants.every2]\nresumes = { of = \"every2\", step = 1 }"),
                           "every2", "another variant")
        self.check_refused(TINY.replace("[variants.every2]", "[variants.every2]\nranks = 3\nranks_per_host = 2"), "3 ranks")
        self.check_refused(TINY.replace('kind = "bars"', 'kind = "waterfall"\nvariants = ["plane"]'), "time", "in order")
        self.check_refused(TINY.replace("[variants.plain]", "[variants.pl-ain]"), "pl-ain")
        self.check_refused(TINY.replace("rounds = { quick = 2", 'rounds = { quick = "2"'), "rounds")
        self.check_refused(TINY.replace('value = "plain.peak_bytes"', 'value = "sqrt(plain.peak_bytes)"'), "sqrt", "log2")
        self.check_refused(TINY.replace('name = "predicted"', 'name = "activations"'), "activations")
        self.check_refused(TINY.replace('title = "tiny"', 'title = 5'), "title", "a text")
        self.check_refused("title = ", "")

    def test_all_that_are_shipped_are_whole(self):
        experiments = read_experiments(HERE.parents[1] / "examples" / "reproduce")
        self.assertGreater(len(experiments), 10)
        for experiment in experiments:
            self.assertTrue(experiment.documented and experiment.source)


class WholeRun(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.experiments = self.folder / "experiments"
        self.experiments.mkdir()
        (self.experiments / "tiny.toml").write_text(TINY)

    def reproduce(self, *options, code=0):
        command = [sys.executable, str(HERE / "reproduce"), "--experiments", str(self.experiments), "--out",
                   str(self.folder / "out"), "--trireme", ARGUMENTS.trireme, *options]
        run = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        return run.stdout + run.stderr

    def read(self):
        return json.loads((self.folder / "out" / "results.json").read_text())["experiments"]

    def test_figures_come_from_the_files_that_are_kept(self):
        self.reproduce()
        (result,) = self.read()
        self.assertEqual([figure["verdict"] for figure in result["figures"]], [REPRODUCED] * 3)
        runs = self.folder / "out" / "runs" / "tiny"
        peaks = [json.loads((runs / name / "round0" / "out" / "summary.json").read_text())["memory"]["activations"]
                 for name in ("every2", "plain")]
        self.assertEqual(result["figures"][0]["value"], peaks[0] / peaks[1])
        page = (self.folder / "out" / "report.html").read_text()
        self.assertEqual(page.count("<svg"), 3)
        self.assertNotIn("src=", page)  # nothing is loaded from elsewhere
        self.assertIn("| tiny | refused |", (self.folder / "out" / "report.md").read_text())

    def test_an_interrupted_run_goes_on(self):
        self.reproduce()
        record = self.folder / "out" / "runs" / "tiny" / "plain" / "round0" / "train.json"
        before = record.stat().st_mtime_ns
        (self.folder / "out" / "runs" / "tiny" / "every2" / "round1" / "train.json").unlink()
        self.reproduce("--resume")
        self.assertEqual(record.stat().st_mtime_ns, before)
        self.assertEqual(len(self.read()[0]["variants"][1]["rounds"]), 2)

    def test_too_little_memory_is_a_reason_and_no_failure(self):
        (self.experiments / "tiny.toml").write_text(TINY.replace("[variants.plain]", "parallel = { memory_limit = 1000 }\n[variants.plain]"))
        self.reproduce()
        (result,) = self.read()
        self.assertRegex(result["reason"], "plain needs [0-9,]+ bytes a rank")

    def test_failures_are_named_and_the_rest_is_reported(self):
        (self.experiments / "broken.toml").write_text(TINY.replace("layers = 4", "layers = -4"))
        self.assertIn("broken failed", self.reproduce(code=1))
        self.assertEqual([bool(result["reason"]) for result in self.read()], [True, False])

    def test_a_matrix_has_every_combination(self):
        (self.experiments / "matrix.toml").write_text(MATRIX)
        self.reproduce("--only", "matrix")
        with open(self.folder / "out" / "matrix.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), 8)  # a size is of the model that it is named for
        self.assertEqual([row["outcome"] for row in rows], ["ran", "ran", "does not fit", "does not fit"] * 2)
        for row in rows[:2]:
            self.assertEqual(row["peak_bytes"], row["predicted_bytes"])
        self.assertEqual((self.folder / "out" / "report.html").read_text().count("<svg"), 2)

    def test_a_variant_resumes_from_another(self):
        text = TINY.replace("[variants.refused]", """[variants.resumed]
resumes = { of = "plain", step = 2 }
[variants.refused]""").replace("[variants.plain]", "[variants.plain]\nset = { checkpoint.every = 2, checkpoint.keep = 0 }")
        figure = '[[figures]]\nname = "again"\nvalue = "resumed.last_loss"\nformula = "plain.last_loss"\nwithin = 0.0\n'
        (self.experiments / "tiny.toml").write_text(text.replace("[[plots]]", figure + "[[plots]]", 1))
        self.reproduce()
        self.assertEqual(self.read()[0]["figures"][-1]["verdict"], REPRODUCED)

    def test_hosts_with_slow_links_or_the_reason(self):
        (self.experiments / "tiny.toml").write_text(TINY.replace(
            "[variants.every2]", '[variants.every2]\nranks = 2\nlink = "1gbit"').replace("micro_batch = 2", "micro_batch = 1"))
        self.reproduce()
        (result,) = self.read()
        self.assertEqual(result["reason"], why_no_namespaces())
        if not result["reason"]:
            self.assertIn("on_hosts.py --hosts 2", result["variants"][1]["rounds"][0]["command"])

    def test_without_a_gpu_each_experiment_says_so(self):
        reason = why_no_cuda(ARGUMENTS.trireme)
        self.reproduce("--gpu")
        self.assertIn("it is about a CPU", self.read()[0]["reason"])
        if reason:
            self.reproduce("--gpu", "--only", "tiny")
            self.assertEqual(self.read()[0]["reason"], reason)
            self.assertIn("not run: it needs", (self.folder / "out" / "report.md").read_text())

    def test_a_gpu_is_rehearsed_on_the_cpu(self):
        (self.experiments / "tiny.toml").write_text(TINY.replace(
            "[job]", 'needs = { gpu = true }\ndry = { "model.layers" = 2 }\n[job]').replace("recompute_every\" = 2", "recompute_every\" = 1"))
        self.reproduce("--gpu", "--dry-run")
        (result,) = self.read()
        self.assertEqual(result["reason"], "")
        self.assertEqual([len(variant["rounds"]) for variant in result["variants"]], [1, 1, 1])
        text = (self.folder / "out/runs/tiny/plain/round0/job.toml").read_text()
        self.assertIn('parallel.device = "cpu"', text)
        self.assertIn("model.layers = 2", text)
        self.assertIn("--dry-run", self.reproduce("--dry-run", code=2))

    def test_pytorch_stands_beside_or_says_what_is_missing(self):
        (self.experiments / "tiny.toml").write_text(TINY.replace("[variants.refused]", """[variants.eager]
peer = "eager"
[variants.compiled]
peer = "compiled"
[variants.refused]""").replace("[[plots]]", """[[figures]]
name = "eager"
value = "eager.parameters / plain.parameters"
formula = "1"
within = 0.0
[[figures]]
name = "compiled"
value = "compiled.step_ms"
reproduced_if = [0, 1e9]
[[plots]]""", 1))
        self.reproduce()
        self.assertEqual([figure["because"] for figure in self.read()[0]["figures"][3:]],
                         ["it needs a Python with PyTorch, named with --peer PYTHON"] * 2)
        self.reproduce("--peer", sys.executable)
        eager, compiled = self.read()[0]["figures"][3:]
        try:
            import torch
        except ImportError:
            self.assertIn("no PyTorch", eager["because"])
            return
        self.assertEqual(eager["verdict"], REPRODUCED)
        if not hasattr(torch, "compile"):
            self.assertEqual(compiled["verdict"], NOT_RUN)
            self.assertIn("no torch.compile", compiled["because"])

    def test_an_unknown_name_is_refused(self):
        self.assertIn("there are tiny", self.reproduce("--only", "tinny", code=2))

    def test_a_missing_program_is_refused(self):
        self.assertIn("--trireme", self.reproduce("--trireme", str(self.folder / "nothing"), code=2))
        self.assertIn("is no trireme", self.reproduce("--trireme", "/bin/true", code=2))

    def test_options_that_make_no_sense_are_refused_before_anything_runs(self):
        (self.folder / "file").write_text("")
        self.assertIn("cannot be written", self.reproduce("--out", str(self.folder / "file" / "out"), code=2))
        self.assertIn("leave --only out", self.reproduce("--only", "tiny", "--keep", code=2))
        self.assertIn("--compare OLD.json or --keep", self.reproduce("--of", str(self.folder / "file"), code=2))
        self.assertIn("no results.json", self.reproduce("--compare", str(self.folder / "file"), code=2))
        self.assertFalse((self.folder / "out" / "runs").exists())


if __name__ == "__main__":
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        # The form in which GoogleTest reports, so that the summary counts and lists it.
        print("reproduce_test: Skipped\nthis Python has no matplotlib: third_party/install.sh --report\n"
              "[  SKIPPED ] reproduce_test (0 ms)\n[  SKIPPED ] 1 test, listed below:")
        sys.exit(77)
    parser = argparse.ArgumentParser()
    parser.add_argument("--trireme", default=str(HERE.parents[1] / "build/release/bin/trireme"))
    ARGUMENTS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
