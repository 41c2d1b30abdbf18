#!/usr/bin/env python3
"""Tries gpu_gate.sh out without a GPU: its parts in a dry run on a bundle made of a build folder, and what becomes of
them on a card, with programs that only print.

    gpu_gate_test.py --bin build/release/bin --source . [unittest options]
"""

import argparse
import glob
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

OPTIONS = None


class GpuGate(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="trireme-gate-")
        self.root = pathlib.Path(self.folder.name)
        self.bundle = self.root / "bundle"
        self.bundle.mkdir()
        self.write_program(self.bundle / "run", f'PATH={self.root}/fakes:{OPTIONS.bin}:$PATH exec "$@"')
        self.write_program(self.bundle / "trireme", 'exec "$(dirname "$0")/run" trireme "$@"')
        (self.bundle / "tests").mkdir()
        (self.bundle / "share").mkdir()
        (self.bundle / "share/commit").write_text("0123abcd\n")
        (self.bundle / "tests/bench").symlink_to(OPTIONS.source / "tests/bench")

    def tearDown(self):
        self.folder.cleanup()

    def write_program(self, path, text):
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n" + text + "\n")
        path.chmod(0o755)

    def start(self, part, *options, **environment):
        return subprocess.Popen([self.bundle / "tests/bench/gpu_gate.sh", "--part", part, "--out", self.root / "gate",
                                 *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env={**os.environ, "TRIREME_GATE_PYTHON": sys.executable, **environment})

    def report(self, part):
        """The part's JSON, and the names of its logs."""
        with tarfile.open(self.root / "gate" / (part + ".tar.gz")) as archive:
            names = archive.getnames()
        return json.loads((self.root / "gate" / (part + ".json")).read_text()), names

    def run_part(self, part, *options, **environment):
        running = self.start(part, *options, **environment)
        text, _ = running.communicate(timeout=280)
        return running.returncode, text, *self.report(part)

    def dry_run(self, part):
        status, text, report, logs = self.run_part(part, "--dry-run")
        stages = report["stages"]
        # The peers of `table` need PyTorch 2.
        needed = "import torch" + (".nn; torch.nn.functional.scaled_dot_product_attention" if part == "table" else "")
        has_torch = subprocess.run([sys.executable, "-c", needed], capture_output=True).returncode == 0
        for name, stage in stages.items():
            if has_torch or not name.startswith("pytorch_"):
                self.assertIn(stage["state"], ("passed", "skipped"), f"{name}: {stage}\n{text}")
            if stage["state"] == "passed":
                self.assertIn(f"{part}/{name}.out", logs)
        self.assertEqual(status, 0 if has_torch or part not in ("bench-gpt", "bench-resnet", "table") else 1, text)
        self.assertEqual((report["part"], report["dry_run"]), (part, True))
        self.assertIn("backends", stages["doctor"]["result"])
        return stages, has_torch

    def test_dry_run_of_probe(self):
        stages, _ = self.dry_run("probe")
        self.assertGreater(stages["rates"]["result"]["sgemm_gflops"], 0)
        for job, call, precisions in (("gpt2_124m", "attention_fwd", ("bf16", "fp16", "fp8")),
                                      ("llama_grouped", "attention_bwd", ("bf16",)),
                                      ("resnet50", "conv2d_bwd_weight", ("bf16", "fp16"))):
            for precision in precisions:
                calls = stages[f"engines_{job}_{precision}"]["result"]
                self.assertIn(call, {line["call"] for line in calls})
                self.assertEqual(stages[f"native_engines_{job}_{precision}"]["result"], {"native": []})
        self.assertTrue(all(stages["step_bits"]["result"]["equal"].values()))

    def test_dry_run_of_state(self):
        stages, _ = self.dry_run("state")
        self.assertEqual(stages["parity"]["result"]["loss_errors"], [0] * 5)
        for precision in ("fp32", "tf32", "bf16", "fp16", "fp8"):
            self.assertTrue(all(stages["same_bits_" + precision]["result"]["equal"].values()))
        self.assertEqual(stages["grouped"]["state"], "passed")

    def test_dry_run_of_layouts(self):
        """They run: on CPUs, ranks need no card."""
        stages, _ = self.dry_run("layouts")
        layouts = {name: stage for name, stage in stages.items() if name.startswith("layout_")}
        self.assertGreaterEqual(len(layouts), 12)
        for i, (name, stage) in enumerate(layouts.items()):
            self.assertEqual(stage["result"], {"steps": 2 * (i + 1), "differing": []}, name)

    def test_dry_runs_of_benchmarks(self):
        for part, rate, run in (("bench-gpt", "tokens_per_s", "124m_fp16"), ("table", "images_per_s", "vit_l_bf16"),
                                ("bench-resnet", "images_per_s", "resnet50_bf16")):
            stages, has_torch = self.dry_run(part)
            if part == "bench-gpt":
                gain = stages["tuned_beside_124m_bf16"]["result"]
                self.assertEqual((gain["products"], gain["as_predicted"]), (0, True), "libraries of CPUs have no choice")
            row = stages["beside_" + run]["result"]
            self.assertTrue(row["as_predicted"])
            self.assertNotIn("bar", row, "speeds of a dry run mean nothing")
            if has_torch:
                ours, theirs = (stages[who + run]["result"][rate] for who in ("trireme_", "pytorch_"))
                self.assertEqual(row["speed"], ours / theirs)

    def test_dry_run_of_foresight(self):
        """On the CPU, from a description without measured calls."""
        cluster = self.root / "cpu.toml"
        cluster.write_text("""ranks_per_node = 1
            [devices.cpu]
            type = "cpu"
            peak_tflops = { fp32 = 0.1, tf32 = 0.1, fp16 = 0.1, bf16 = 0.1, fp8 = 0.1 }
            memory_gb = 8
            memory_gb_s = 10""")
        status, text, report, _ = self.run_part("foresight", "--dry-run", TRIREME_GATE_CLUSTER=str(cluster))
        self.assertEqual(status, 0, text)
        rows = report["stages"]["foreseen"]["result"]["rows"]
        self.assertEqual(len(rows), 10)
        for name, row in rows.items():
            self.assertGreater(row["predicted_ms"], 0, name)
            ours = report["stages"]["trireme_" + name]["result"]
            self.assertEqual(ours["peak_bytes"], ours["predicted_peak_bytes"], name)

    def test_dry_runs_of_what_wants_a_card(self):
        for part in ("tests", "conformance", "sanitize"):
            stages, _ = self.dry_run(part)
            self.assertEqual({stage["state"] for name, stage in stages.items() if name != "doctor"}, {"skipped"})

    def fake_card(self, architecture="sm_90", notes=(), devices=1):
        """Programs that print what they would on a card, at once."""
        device = {"name": "NVIDIA H200", "architecture": architecture}
        doctor = {"gpus": {"devices": [device] * devices, "problem": "" if devices else "the driver is asleep"}}
        (self.root / "doctor.json").write_text(json.dumps(doctor, indent=2) + "\n")
        call = json.dumps({"call": "attention_fwd", "notes": list(notes)})
        self.write_program(self.root / "fakes/trireme", f"""case "$*" in
          *--engines*) printf '%s\\n' '{call}' '{call}' ;;
          train*) mkdir -p "$4" && echo '{{"state_hash": "ab"}}' >"$4/summary.json"
            for i in $(seq 60); do echo '{{"step": 2, "state_hash": "ab", "tokens_per_s": 99.0, "step_ms": 9.0, "loss": 2.0,
              "peak_bytes": 60}}' | tr -d '\n'; echo; done >"$4/metrics.jsonl"
            echo 'step 1/2  loss 2.0  lr 1  50 tokens/s  ETA 1s'; echo 'step 2/2  loss 2.0  lr 1  101 tokens/s  ETA 0s' ;;
          plan*) echo '{{"groups": [{{"peak_bytes": 60}}], "time": {{"step_ms": 9.9}}}}' ;;
          *) cat {self.root}/doctor.json ;;
          esac""")
        run = json.dumps({"losses": [2.0], "grad_norms": [1.0], "state_hash": "ab", "tokens_per_s": 100.0,
                          "step_ms": 9.0, "flops_per_token": 8e8, "peak_bytes": 60, "predicted_peak_bytes": 60,
                          "tune_s": 2.0, "products": [{"candidate": 0}, {"candidate": 2}]})
        self.write_program(self.root / "fakes/gpt_train_bench", f"""echo '[warning] of a library'; echo '{run}'
          [ -z "$TRIREME_KERNEL_TRACE" ] || printf '%s\\t%s\\ta\\n' 0 50 50 99 99 100 >"$TRIREME_KERNEL_TRACE" """)

    def fake_peers(self):
        """What the other parts need on a card, PyTorch too."""
        images = json.dumps({"images_per_s": 100.0, "step_ms": 9.0, "peak_bytes": 60, "predicted_peak_bytes": 60})
        self.write_program(self.root / "fakes/resnet_train_bench", f"echo '{images}'")
        theirs = json.dumps({"images_per_s": 90.0, "tokens_per_s": 90.0, "peak_bytes": 80, "compiled": True})
        self.write_program(self.root / "fakes/python", f"""case $1 in
          */peers/*) case "$*" in *--compile*) echo '{theirs}' ;; *) exit 1 ;; esac ;;
          */card_table.py) if [ "$2" = theirs ]; then echo '{theirs}'; else exec {sys.executable} "$@"; fi ;;
          *) exec {sys.executable} "$@" ;;
          esac""")
        # mpirun -np N [one_card.sh] [compute-sanitizer options...] PROGRAM
        self.write_program(self.root / "fakes/mpirun", 'shift 2; exec "$@"')
        self.write_program(self.bundle / "tests/comm/one_card.sh", 'exec "$@"')
        self.write_program(self.root / "fakes/compute-sanitizer", """[ "$CUDA_MODULE_LOADING" = LAZY ] || exit 1
          while case $1 in -* | all | [0-9]* | no | *check) true ;; *) false ;; esac; do shift; done
          echo '========= Error: Race reported between Read access at cudnn_kernel+0x10'
          [ -z "${FAKE_RACE:-}" ] || echo "========= Error: Race reported between Write access at $FAKE_RACE+0x20"
          [ -n "${FAKE_NO_SUMMARY:-}" ] || echo '========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)'
          exec "$@" """)
        self.write_program(self.bundle / "run-tests", """mkdir -p "$TRIREME_TEST_LOGS"
          echo ok >"$TRIREME_TEST_LOGS/one.log" """)
        (self.bundle / "bin").mkdir()
        (self.bundle / "bin/libkernel_trace.so").write_text("")
        for program in ("nccl_gpt", "nccl_pipeline", "cuda_gpt_test", "cuda_resnet_test", "cuda_sixteen_bit_test",
                        "cuda_conformance_test"):
            self.write_program(self.root / "fakes" / program, """echo '{"state": "ab"}'""")

    def test_a_part_on_a_card(self):
        self.fake_card()
        status, text, report, _ = self.run_part("probe")
        self.assertEqual((status, report["state"], report["reason"]), (0, "passed", ""), text)
        self.assertEqual((report["card"], report["architecture"]), ("NVIDIA H200", "sm_90"))
        self.assertEqual(report["commit"], "0123abcd")
        self.assertEqual(len(report["stages"]["engines_gpt2_124m_bf16"]["result"]), 2)
        self.assertEqual(report["stages"]["step_recorded"]["result"]["state_hash"], "ab")

    def test_every_part_on_a_card(self):
        self.fake_card()
        self.fake_peers()
        expected = {
            "tests": {"sixteen_bit", "models", "communicators"}, "conformance": {"conformance"},
            "layouts": {"one_rank", "layout_one", "layout_sequence", "layout_zero_bubble", "layout_recorded"},
            "state": {"same_bits_bf16", "parity", "grouped", "same_state", "pipeline_state", "recorded_pipeline"},
            "bench-gpt": {"beside_124m_fp16", "native_trireme_124m_bf16", "tuned_beside_124m_bf16",
                          "kernel_share_recorded", "train_124m_bf16", "beside_350m_bf16"},
            "bench-resnet": {"beside_resnet50_bf16", "native_trireme_resnet50_fp16"},
            "table": {"beside_bert_fp16", "beside_vit_l_bf16", "trireme_llama_1.5b_fp8"},
            "sanitize": {"nccl", "races", "conformance_races"}}
        reports = {}
        for part, stages in expected.items():
            status, text, reports[part], logs = self.run_part(
                part, TRIREME_GATE_PYTHON=str(self.root / "fakes/python"),
                PATH=f"{self.root}/fakes:" + os.environ["PATH"])
            self.assertEqual((status, reports[part]["state"]), (0, "passed"), text)
            self.assertLessEqual(stages, set(reports[part]["stages"]))
            self.assertEqual({stage["state"] for stage in reports[part]["stages"].values()}, {"passed"})
            for folder in {"tests": ("",), "conformance": ("0/", "1/", "2/", "3/")}.get(part, ()):
                self.assertIn(f"{part}/tests/{folder}one.log", logs)
        gpt = reports["bench-gpt"]["stages"]
        beside = gpt["beside_124m_bf16"]["result"]
        self.assertEqual((beside["speed"], beside["bar"]), (100 / 90, 1))
        self.assertEqual(gpt["tuned_beside_124m_bf16"]["result"],
                         {"speed": 1.0, "step_ms": 9.0, "tuned_step_ms": 9.0, "tune_s": 2.0, "products": 2,
                          "faster_products": 1, "as_predicted": True})
        differences = gpt["train_124m_bf16"]["result"]["differences"]
        self.assertAlmostEqual(differences["metrics"], -0.01)
        self.assertAlmostEqual(differences["progress_line"], 0.01)
        self.assertEqual(gpt["kernel_share_recorded"]["result"]["bar"], 0.03)
        self.assertEqual(len(reports["state"]["stages"]["same_state"]["result"]), 3)

    def test_foresight_on_a_card(self):
        """10 % off, of what the table has measured; a row below its aim is traced."""
        self.fake_card()
        self.fake_peers()
        (self.root / "gate").mkdir()
        row = {"row": "vit_l_bf16", "images_per_s": 1000.0, "step_ms": 9.0, "aim": 1250}
        logs = self.root / "table"
        logs.mkdir()
        (logs / "trireme_vit_l_bf16.out").write_text(json.dumps(row) + "\n")
        with tarfile.open(self.root / "gate/table.tar.gz", "w:gz") as archive:
            archive.add(logs, "table")
        fake = (self.root / "fakes/trireme").read_text()
        traced = """[ -z "$TRIREME_KERNEL_TRACE" ] || printf '%s\\t%s\\ta\\n' 0 50 50 99 99 100 >"$TRIREME_KERNEL_TRACE"\n"""
        self.write_program(self.root / "fakes/trireme", fake.removeprefix("#!/bin/sh\n") + traced)
        status, text, report, _ = self.run_part("foresight", TRIREME_GATE_PYTHON=str(self.root / "fakes/python"),
                                                PATH=f"{self.root}/fakes:" + os.environ["PATH"])
        self.assertEqual((status, report["reason"]), (1, "not shown: foreseen"), text)
        stages = report["stages"]
        self.assertEqual(len(stages["foreseen"]["result"]["rows"]), 10)
        self.assertAlmostEqual(stages["foreseen"]["result"]["median_error_percent"], 10)
        self.assertNotIn("trireme_vit_l_bf16", stages)
        self.assertEqual([name for name in stages if name.startswith("trace_")], ["trace_vit_l_bf16"])
        self.assertEqual(stages["trace_vit_l_bf16"]["result"]["kernels"], 2)

    def test_a_missed_bar_fails_the_part(self):
        self.fake_card()
        self.fake_peers()
        slow = json.dumps({"images_per_s": 89.0, "step_ms": 9.0, "peak_bytes": 60, "predicted_peak_bytes": 60})
        self.write_program(self.root / "fakes/resnet_train_bench", f"echo '{slow}'")
        status, text, report, _ = self.run_part("bench-resnet", TRIREME_GATE_PYTHON=str(self.root / "fakes/python"))
        self.assertEqual((status, report["reason"]), (1, "not shown: beside_resnet50_fp16 beside_resnet50_bf16"), text)
        self.assertFalse(report["stages"]["beside_resnet50_fp16"]["result"]["holds"])

    def test_native_attention_and_convolutions_fail_on_hopper(self):
        note = 'cuda: cuDNN 9.19.0 has no fitting engine for {} (code "7"); the slower native kernel runs'
        for problem, architecture, expected in (("attention_fwd", "sm_90", 1), ("conv2d_bwd_weight", "sm_90", 1),
                                                ("attention_fwd", "sm_80", 0), ("layer_norm", "sm_90", 0)):
            self.fake_card(architecture, [note.format(problem)])
            status, text, report, _ = self.run_part("probe")
            self.assertEqual(status, expected, text)
            stage = report["stages"]["native_engines_resnet50_fp16"]
            self.assertEqual(stage["state"], "failed" if expected else "passed")
            self.assertIn(f"no fitting engine for {problem}", stage["result"]["native"][0])

    def native_kernels(self, architecture, text):
        """The exit status of the check, and what it found in a log with this text."""
        log = self.root / "stage.out"
        log.write_text(text)
        script = (f"cd {OPTIONS.source}/tests/bench/gate && part=x device=cuda seconds=9 out={self.root} bundle=. &&"
                  f". ./stages.sh && . ./jobs.sh && architecture={architecture} && native_kernels {log}")
        ended = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
        return ended.returncode, json.loads(ended.stdout)["native"]

    def test_products_of_gathered_windows_are_no_native_kernels(self):
        note = 'cuda: cuDNN 9.19.0 has no fitting engine for convolution, bf16 weight gradient (code "7"); {} run'
        served, native = note.format("products of gathered windows"), note.format("the slower native kernels")
        for logged in ("[warning] {}\n".format, lambda text: json.dumps({"call": "x", "notes": [text]}) + "\n"):
            self.assertEqual(self.native_kernels("sm_90", logged(served)), (0, []))
            status, found = self.native_kernels("sm_90", logged(served) + logged(native))
            self.assertEqual((status, len(found)), (1, 1), found)
            self.assertIn("slower native kernels run", found[0])
            self.assertEqual(self.native_kernels("sm_80", logged(native))[0], 0)
        for problem in ("bf16 attention with dropout; the slower native kernel runs",
                        "matmul of [40 x 23 x 36], e5m2 to fp32, extents that are no multiples of 16; it runs in bf16"):
            status, found = self.native_kernels("sm_90", f"[warning] cuda: no library takes {problem}\n")
            self.assertEqual((status, found), (1, [f"no library takes {problem}"]))
        both = json.dumps({"notes": [served, native]}) + "\n"
        self.assertEqual(self.native_kernels("sm_90", both)[0], 1)

    def test_races_of_our_kernels_fail_the_part(self):
        self.fake_card()
        self.fake_peers()
        for key, value in (("FAKE_RACE", "_ZN7trireme4cuda6kernelE"), ("FAKE_NO_SUMMARY", "1")):
            status, text, report, _ = self.run_part("sanitize", PATH=f"{self.root}/fakes:" + os.environ["PATH"],
                                                    **{key: value})
            self.assertEqual((status, report["reason"]), (1, "not shown: races conformance_races"), text)

    def test_what_is_skipped_on_a_card_has_shown_nothing(self):
        self.fake_card()
        status, text, report, _ = self.run_part("sanitize", PATH=self.path_without("compute-sanitizer"))
        if any(glob.glob(f"/usr/local/cuda*/{folder}/compute-sanitizer") for folder in ("bin", "compute-sanitizer")):
            self.skipTest("this machine has a compute-sanitizer in CUDA's folder")
        self.assertEqual((status, report["state"]), (1, "failed"), text)
        self.assertIn("races", report["reason"])

    def path_without(self, program):
        return ":".join(p for p in os.environ["PATH"].split(":") if not (pathlib.Path(p) / program).exists())

    @unittest.skipIf(glob.glob("/dev/nvidia[0-9]*"), "this machine has a GPU")
    def test_no_device(self):
        self.fake_card(devices=0)
        status, text, report, _ = self.run_part("probe")
        self.assertEqual((status, report["state"]), (77, "no device"), text)
        self.assertEqual(report["reason"], "no GPU: the driver is asleep")
        self.write_program(self.root / "fakes/trireme", "echo 'trireme needs a \\\\ \"library\"' >&2; exit 2")
        status, text, report, _ = self.run_part("probe")
        self.assertEqual((status, report["reason"]), (77, 'no GPU: trireme needs a \\ "library"'), text)

    def start_and_wait_for(self, log):
        """The probe, once the second stage has printed a line and half of another."""
        self.fake_card()
        self.write_program(self.root / "fakes/trireme", f"""case "$*" in
          *--no-measure*) cat {self.root}/doctor.json ;;
          *) printf '{{"call": "first"}}\\n{{"call": "sec'; touch {log}; exec sleep 30 ;;
          esac""")
        running = self.start("probe")
        self.addCleanup(running.stdout.close)
        deadline = time.monotonic() + 60
        while not log.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertTrue(log.exists())
        return running

    def test_what_is_cut_off_leaves_what_it_measured(self):
        running = self.start_and_wait_for(self.root / "log")
        running.send_signal(signal.SIGTERM)
        self.assertEqual(running.wait(timeout=30), 75)
        report, logs = self.report("probe")
        self.assertEqual((report["state"], list(report["stages"])), ("cut off", ["doctor", "rates"]))
        self.assertEqual(report["stages"]["doctor"]["state"], "passed")
        self.assertEqual(report["stages"]["rates"]["state"], "cut off")
        self.assertEqual(report["stages"]["rates"]["result"], {"call": "first"}, "half of a line says nothing")
        self.assertIn("probe/rates.out", logs)

    def test_no_signal_is_lost(self):
        """Whatever the script is at; bash forgets a signal where a command substitutes two others."""
        self.fake_card()
        self.write_program(self.root / "fakes/trireme", f"""case "$*" in
          *=fp32*) exec sleep 9 ;;
          *) cat {self.root}/doctor.json ;;
          esac""")
        for i in range(20):
            gate = self.root / f"gate{i}"
            running = self.start("probe", "--out", gate)
            while not (gate / "probe.json").exists():
                time.sleep(0.002)
            time.sleep(0.02 * i)
            running.send_signal(signal.SIGTERM)
            text, _ = running.communicate(timeout=60)
            self.assertEqual((running.returncode, "unexpected" in text), (75, False), text)
            self.assertEqual(json.loads((gate / "probe.json").read_text())["state"], "cut off")

    def test_what_is_killed_leaves_the_stages_before(self):
        running = self.start_and_wait_for(self.root / "log")
        running.kill()
        running.wait()
        report, logs = self.report("probe")
        self.assertEqual((report["state"], report["stages"]["rates"]), ("running", {"state": "running"}))
        self.assertEqual(report["stages"]["doctor"]["result"]["gpus"]["devices"][0]["name"], "NVIDIA H200")
        self.assertIn("probe/doctor.out", logs)

    def test_a_stage_that_hangs_is_cut_off_and_the_next_goes_on(self):
        self.fake_card()
        self.write_program(self.root / "fakes/gpt_train_bench", "exec sleep 30")
        status, text, report, _ = self.run_part("probe", TRIREME_GATE_SECONDS="12")
        self.assertEqual(status, 1, text)
        self.assertEqual(report["stages"]["step_recorded"]["status"], 124)
        self.assertEqual(report["stages"]["engines_gpt2_124m_fp32"]["error"], "no time left")
        self.assertLess(report["seconds"], 30)

    def test_wrong_arguments_show_the_usage(self):
        for arguments in ([], ["--dry-run"], ["--part"], ["--part", "all"], ["--part", "probe", "folder"],
                          ["--part", "probe", "--out"], ["--part", "probe", "--only", "doctor"]):
            ended = subprocess.run([self.bundle / "tests/bench/gpu_gate.sh", *arguments], capture_output=True,
                                   text=True, cwd=self.root, timeout=60)
            self.assertEqual(ended.returncode, 2, arguments)
            self.assertIn("gpu_gate.sh --part PART [--out DIR] [--dry-run]", ended.stderr)

    def test_help_is_no_mistake(self):
        ended = subprocess.run([self.bundle / "tests/bench/gpu_gate.sh", "--help"], capture_output=True, text=True)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assertIn("run probe, tests, bench-gpt and state", ended.stdout)
        self.assertNotIn("set -uo", ended.stdout)

    def beside(self, ours, theirs=None, *options):
        paths = []
        for name, run in (("ours", ours), ("theirs", theirs)):
            if run:
                paths.append(self.root / (name + ".json"))
                paths[-1].write_text(json.dumps(run) + "\n")
        check = OPTIONS.source / "tests/bench/gate/check.py"
        ended = subprocess.run([sys.executable, check, "beside", *options, *paths], capture_output=True, text=True)
        return ended.returncode, json.loads(ended.stdout)

    def test_runs_beside_pytorch(self):
        ours = {"tokens_per_s": 1e5, "step_ms": 80.0, "flops_per_token": 8e8, "peak_bytes": 60,
                "predicted_peak_bytes": 60}
        theirs = {"tokens_per_s": 8e4, "peak_bytes": 80, "compiled": True}
        card = ("--card", "NVIDIA H200", "--precision", "bf16")
        status, report = self.beside(ours, theirs, *card)
        self.assertEqual(status, 0)
        self.assertEqual((report["speed"], report["memory"], report["mfu"]), (1.25, 0.75, 8e13 / 989.4e12))
        for precision in ("bf16", "fp16", "tf32", "fp32"):
            slow = {**ours, "tokens_per_s": 79_999.0}
            status, report = self.beside(slow, theirs, "--precision", precision)
            self.assertEqual((status, report["bar"], report["holds"]), (1, 1.0, False), precision)
            self.assertEqual(self.beside(slow, theirs, "--precision", precision, "--device", "cpu")[0], 0)
        self.assertEqual(self.beside({**ours, "peak_bytes": 61}, theirs)[0], 1, "memory was not predicted")
        status, report = self.beside({**ours, "peak_bytes": 61})
        self.assertEqual((status, "speed" in report), (1, False))
        images = {"images_per_s": 10.0, "step_ms": 1.0, "peak_bytes": 1, "predicted_peak_bytes": 1}
        status, report = self.beside(images, {"images_per_s": 20.0, "peak_bytes": 0, "compiled": True})
        self.assertEqual((status, report["speed"]), (1, 0.5))

    def check(self, what, *runs):
        paths = []
        for i, run in enumerate(runs):
            paths.append(self.root / f"run{i}.json")
            paths[-1].write_text("[warning] of a library\n" + json.dumps(run) + "\n")
        return subprocess.run([sys.executable, OPTIONS.source / "tests/bench/gate/check.py", what, *paths],
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

    def test_layouts_are_compared_step_by_step(self):
        one, run = self.root / "one.jsonl", self.root / "run.jsonl"
        one.write_text("".join(json.dumps({"step": step, "state_hash": str(step)}) + "\n" for step in range(1, 5)))
        check = [sys.executable, OPTIONS.source / "tests/bench/gate/check.py", "layout", one, run]
        for steps, hashes, expected in (((1, 2), "12", 0), ((3, 4), "34", 0), ((1, 2), "13", 1), ((5,), "5", 1), ((), "", 1)):
            run.write_text("".join(json.dumps({"step": step, "state_hash": text}) + "\n"
                                   for step, text in zip(steps, hashes)))
            self.assertEqual(subprocess.run(check, capture_output=True).returncode, expected, hashes)

    def test_the_command_line_holds_the_benchmarks_rate(self):
        bench, metrics, output = (self.root / name for name in ("bench.out", "metrics.jsonl", "output.txt"))
        bench.write_text(json.dumps({"tokens_per_s": 478800.0}) + "\n")
        check = [sys.executable, OPTIONS.source / "tests/bench/gate/check.py", "train", bench, metrics, output]
        for steady, shown, expected in ((478e3, "478.8k", 0), (478e3, "240.1k", 1), (240e3, "478.8k", 1),
                                        (470e3, "0.47M", 0), (460e3, "478.8k", 1)):
            rates = [9e3, *[steady] * 5]
            metrics.write_text("".join(json.dumps({"step": i, "tokens_per_s": rate}) + "\n" for i, rate in enumerate(rates)))
            output.write_text(f"loading\nstep 1/6  loss 9  lr 1  9000 tokens/s  ETA 3s\n"
                              f"step 6/6  loss 9  lr 1  {shown} tokens/s  ETA 0s\ndone at step 6 of 6\n")
            self.assertEqual(subprocess.run(check, capture_output=True).returncode, expected, (steady, shown))

    def test_kernel_share(self):
        trace = self.root / "trace.sqlite"
        database = sqlite3.connect(trace)
        database.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, demangledName INTEGER)")
        database.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", [(1, "gemm"), (2, "sum")])
        # Between 100 and 200: busy from 100 to 130 (of a kernel that began earlier, and one inside of it), 150 to 200.
        database.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?)",
                             [(0, 10, 1), (90, 130, 1), (110, 120, 2), (150, 180, 1), (170, 200, 1)])
        database.commit()
        lines = self.root / "trace.tsv"
        lines.write_text("150\t180\tgemm\n0\t10\tgemm\n90\t130\tgemm\n110\t120\tsum\n170\t200\tgemm\n")
        for path in (trace, lines):
            share = json.loads(self.share_of(path).stdout)
            self.assertAlmostEqual(share["share_without_kernels"], 0.2)
            self.assertEqual([row[1:] for row in share["by_kernel"]], [[2, "gemm"], [1, "sum"]])
        self.assertEqual(self.share_of(lines, "--below", "0.21").returncode, 0)
        self.assertEqual(self.share_of(lines, "--below", "0.19").returncode, 1)
        lines.write_text(lines.read_text() + "lost 7\n")
        self.assertNotEqual(self.share_of(lines).returncode, 0, "a trace with holes says nothing")

    def share_of(self, trace, *options):
        return subprocess.run([sys.executable, OPTIONS.source / "tests/bench/gate/kernel_share.py", *options, trace],
                              capture_output=True, text=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, type=pathlib.Path)
    parser.add_argument("--source", required=True, type=pathlib.Path)
    OPTIONS, rest = parser.parse_known_args()
    OPTIONS.bin, OPTIONS.source = OPTIONS.bin.resolve(), OPTIONS.source.resolve()
    unittest.main(argv=[sys.argv[0], *rest])
