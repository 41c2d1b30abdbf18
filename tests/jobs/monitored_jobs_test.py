#!/usr/bin/env python3
"""What a job shows to Prometheus and TensorBoard, beside its metrics.jsonl; the rules and the dashboard of
examples/monitoring, beside what a job shows.

    monitored_jobs_test.py --trireme build/release/bin/trireme --mpiexec mpirun [unittest options]
"""
import json
import os
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
import urllib.request
from pathlib import Path

from jobs import OPTIONS, JobTest, kill_job, main
from supervised import Supervised

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "monitoring"
SAMPLE = re.compile(r'^(\w+)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"(?:,|$)')
# Shown only by jobs that the tests below do not run.
ELSEWHERE = {"trireme_restarts_total", "trireme_samples_per_second", "trireme_eval_accuracy_ratio"}
NO_TENSORBOARD = "the package tensorboard is missing: pip install tensorboard, and run this with that Python"


def sets(*keys):
    return [part for key in keys for part in ("--set", key)]


def read_metrics(text):
    """{(name, labels but `run`): value} and {family: type} of a text in Prometheus's format, checked on the way."""
    if not text.endswith("\n"):
        raise ValueError("the text is cut off")
    samples, types, helped = {}, {}, set()
    for line in text.splitlines():
        if line.startswith("# HELP "):
            helped.add(line.split(" ")[2])
        elif line.startswith("# TYPE "):
            _, _, family, types_ = line.split(" ")
            if family in types or family not in helped:
                raise ValueError(f"{line}: twice, or without a help")
            types[family] = types_
        else:
            name, labels, value = SAMPLE.match(line).groups()
            labels = dict(LABEL.findall(labels or ""))
            if labels.pop("run", None) is None or not any(name.startswith(family) for family in types):
                raise ValueError(f"{line}: without a run, or of no family")
            key = (name, *sorted(labels.items()))
            if key in samples:
                raise ValueError(f"{line}: twice")
            samples[key] = float(value)
    return samples, types


class MonitoredJobs(JobTest):
    def scrape(self, url):
        with urllib.request.urlopen(url, timeout=10) as answer:
            return read_metrics(answer.read().decode())

    def assert_is_line(self, samples, line):
        """The gauges of a step are the numbers of its line, to the digit."""
        for name, value in (("loss", line["loss"]), ("learning_rate", line["lr"]), ("step", line["step"]),
                            ("gradient_norm", line["grad_norm"]), ("loss_scale", line["loss_scale"]),
                            ("last_step_seconds", line["step_ms"] / 1e3), ("tokens_per_second", line["tokens_per_s"])):
            self.assertEqual(samples[f"trireme_{name}",], value, name)
        self.assertEqual(line["phase_s"]["data_wait"], line["data_wait_ms"] / 1e3)
        for phase, value in line["phase_s"].items():
            self.assertEqual(samples["trireme_last_step_phase_seconds", ("phase", phase)], value)
        self.assertEqual(samples["trireme_model_flops_per_second",], line["flops_per_s"])
        self.assertEqual(samples.get(("trireme_mfu_ratio",)), line["mfu"])  # none: faster than the measured peak
        if "rank_step_ms" in line:
            self.assertEqual(samples["trireme_slowest_rank",], line["slowest_rank"])
            self.assertEqual(samples["trireme_slowest_rank_excess_seconds",], line["slowest_excess_ms"] / 1e3)
            for number, value in enumerate(line["rank_step_ms"]):
                self.assertEqual(samples["trireme_rank_busy_seconds", ("rank", str(number))], value / 1e3)
        rank = ("rank", str(line["peak_rank"]))
        self.assertEqual(samples["trireme_memory_peak_bytes", rank], line["peak_bytes"])
        for category, value in line["memory"].items():
            self.assertEqual(samples["trireme_memory_category_peak_bytes", ("category", category), rank], value)

    def names_of_a_job(self):
        """With the GPUs of tests/support/fake_nvml.cc."""
        path = OPTIONS.fake_nvml + ":" + os.environ.get("LD_LIBRARY_PATH", "")
        gpus = self.folder / "gpus"
        gpus.write_text("0 xid 79\n")
        before = dict(os.environ)
        os.environ.update(LD_LIBRARY_PATH=path, FAKE_NVML_STATE=str(gpus))
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(before)))
        self.run_job(2, "names", *sets("train.steps=3", "checkpoint.every=2", 'data.eval="synthetic too"',
                                       "train.eval_batches=1", 'log.prometheus="a.prom"', 'log.gpus="all"'))
        return read_metrics((self.folder / "names" / "a.prom").read_text())[0]

    def test_file_and_lines_agree_and_add_up(self):
        self.run_job(2, "out", *sets("checkpoint.every=5", "parallel.zero=2", "precision.mode=fp16",
                                     "precision.scale_init=1e12", 'log.prometheus="a.prom"'))
        lines = self.metrics("out")
        samples, types = read_metrics((self.folder / "out" / "a.prom").read_text())
        self.assert_is_line(samples, lines[-1])

        def total(field):
            result = 0
            for line in lines:
                result += line[field]
            return result

        def seconds(field):  # added in the order of the steps, as doubles are
            result = 0.0
            for line in lines:
                result += line[field] / 1e3
            return result

        self.assertGreater(total("skipped"), 0)
        self.assertEqual(samples["trireme_skipped_steps_total",], total("skipped"))
        self.assertEqual(samples["trireme_sent_bytes_total",], total("comm_bytes"))
        self.assertEqual(samples["trireme_steps_total",], 20)
        self.assertEqual(samples["trireme_samples_total",], 20 * 16)
        self.assertEqual(samples["trireme_tokens_total",], 20 * 16 * 16)
        self.assertEqual(samples["trireme_step_seconds_count",], 20)
        self.assertEqual(samples["trireme_step_seconds_sum",], seconds("step_ms"))
        phases = {"data_wait", "forward", "backward", "exchange", "optimizer", "checkpoint"}
        for phase in phases - {"checkpoint"}:
            total_s = 0.0
            for line in lines:
                self.assertEqual(set(line["phase_s"]), phases)
                total_s += line["phase_s"][phase]
            self.assertEqual(samples["trireme_phase_seconds_total", ("phase", phase)], total_s)
        for line in lines:
            in_step = sum(seconds for phase, seconds in line["phase_s"].items() if phase != "checkpoint")
            self.assertLessEqual(in_step, line["step_ms"] / 1e3)
            self.assertEqual(len(line["rank_step_ms"]), 2)
            self.assertEqual(max(line["rank_step_ms"]), line["rank_step_ms"][line["slowest_rank"]])
            peak = samples.get(("trireme_peak_flops_per_second",))
            if line["mfu"] is not None and peak is not None:
                self.assertLessEqual(line["mfu"], 1)
                self.assertAlmostEqual(line["mfu"] * peak, line["flops_per_s"], delta=1)
        # Checkpoints after steps 5, 10 and 15 are in the lines of the steps that follow.
        self.assertEqual([line["step"] for line in lines if line["phase_s"]["checkpoint"] > 0], [6, 11, 16])
        self.assertEqual(samples["trireme_checkpoints_total",], 4)
        self.assertEqual(samples["trireme_last_checkpoint_step",], 20)
        self.assertEqual(samples["trireme_running",], 0)
        # The plan's prediction for rank 0 equals the measurement.
        self.assertEqual(samples["trireme_memory_predicted_peak_bytes",], lines[-1]["peak_bytes"])
        axes = [value for key, value in samples.items() if key[0] == "trireme_planned_step_sent_bytes"]
        self.assertEqual(sum(axes), lines[-1]["comm_bytes"])
        sent = [value for key, value in samples.items() if key[0] == "trireme_axis_sent_bytes_total"]
        self.assertEqual(sum(sent), total("comm_bytes"))
        self.assertEqual({family for family, kind in types.items() if kind == "counter"},
                         {family for family in types if family.endswith("_total")})
        self.assertEqual([path.name for path in (self.folder / "out").glob(".*prom*")], [])

    def test_over_http_during_the_run(self):
        process = self.start(0, "out", *sets("train.steps=1000000", 'log.listen="127.0.0.1:0"', "model.hidden=64",
                                             "checkpoint.every=100"))
        self.addCleanup(kill_job, process)
        for line in process.stdout:
            if "metrics at http://" in line:
                break
        url = line.split("metrics at ")[1].strip()
        threading.Thread(target=process.stdout.read, daemon=True).start()
        seen = []
        deadline = time.time() + 30
        while len({samples["trireme_step",] for samples, _ in seen}) < 20:
            self.assertLess(time.time(), deadline, "no steps")
            seen.append(self.scrape(url))
        # Another run cannot have the port.
        taken = url.split("/")[2]
        self.assertIn(f'log.listen = "{taken}"', self.run_job(0, "second", *sets(f'log.listen="{taken}"'), expect=2))
        os.kill(process.pid, signal.SIGUSR1)
        self.assertEqual(process.wait(timeout=60), 75)
        process.stderr.close()
        lines = {line["step"]: line for line in self.metrics("out")}
        for samples, _ in seen:
            if samples["trireme_step",] > 0:
                self.assert_is_line(samples, lines[samples["trireme_step",]])
        for (before, types), (after, _) in zip(seen, seen[1:]):
            for key, value in before.items():
                falls = types.get(key[0]) == "counter" or re.search("_(bucket|sum|count)$", key[0])
                self.assertFalse(falls and after[key] < value, key)

    def test_silent_clients_hold_nobody_up(self):
        process = self.start(0, "out", *sets("train.steps=300", 'log.listen="127.0.0.1:0"'))
        self.addCleanup(kill_job, process)
        for line in process.stdout:
            if "metrics at http://" in line:
                break
        host, port = line.split("/")[2].split(":")
        clients = []
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit[1], 4096), limit[1]))
        for _ in range(2000):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex((host, int(port)))
            clients.append(client)
        output, stderr = process.communicate(timeout=60)
        for client in clients:
            client.close()
        self.assertEqual(process.returncode, 0, stderr)
        self.assertIn("done at step 300", output)

    def test_what_is_refused_names_its_key(self):
        for key, named in (('log.prometheus="../a.prom"', "leads out of the output folder"),
                           ('log.prometheus="metrics.jsonl"', "ends in .prom"),
                           ('log.prometheus="/nowhere/a.prom"', "there is no folder /nowhere"),
                           ('log.listen="9464"', "127.0.0.1:9464"),
                           ('log.listen="192.0.2.1:9464"', "cannot listen there")):
            stderr = self.run_job(0, "refused", *sets(key, "train.steps=1"), expect=2)
            self.assertIn(key.split("=")[0] + " = ", stderr)
            self.assertIn(named, stderr)

    def test_an_open_address_is_warned_of_and_a_lost_folder_too(self):
        elsewhere = self.folder / "collector"
        elsewhere.mkdir()
        file = elsewhere / "a.prom"
        process = self.start(0, "out", *sets("train.steps=1000000", f'log.prometheus="{file}"', 'log.listen="0.0.0.0:0"'))
        self.addCleanup(kill_job, process)
        deadline = time.time() + 30
        while not file.exists():
            self.assertLess(time.time(), deadline)
            time.sleep(0.01)
        elsewhere.rename(self.folder / "moved")  # at once: the job writes into it all the time
        time.sleep(2.5)
        os.kill(process.pid, signal.SIGUSR1)
        _, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75, stderr)
        self.assertEqual(stderr.count("whoever reaches this address"), 1, stderr)
        self.assertEqual(stderr.count("log.prometheus: "), 1, stderr)

    def test_restarts_and_goodput(self):
        job = Supervised(self, "out", keys=('log.prometheus="a.prom"',))
        job.wait_for_step(12)
        os.kill(job.rank(1), signal.SIGKILL)
        job.end()
        samples, _ = read_metrics((self.folder / "out" / "a.prom").read_text())
        self.assertEqual(samples["trireme_restarts_total",], 1)
        # For repeated steps, metrics.jsonl has only the second time.
        self.assertAlmostEqual(samples["trireme_useful_seconds",], sum(line["step_ms"] for line in self.metrics("out")) / 1e3)
        self.assertEqual(samples["trireme_goodput_ratio",],
                         samples["trireme_useful_seconds",] / samples["trireme_wall_seconds",])
        self.assertLess(samples["trireme_steps_total",], 40)
        self.assertTrue(0 < samples["trireme_goodput_ratio",] < 1)

    def test_rules_and_dashboard_name_what_exists(self):
        names = {key[0] for key in self.names_of_a_job()} | ELSEWHERE
        for file in ("trireme.rules.yml", "trireme.dashboard.json"):
            used = set(re.findall(r"\btrireme_\w+", (EXAMPLES / file).read_text()))
            self.assertGreater(len(used), 10)
            self.assertEqual(used - names, set(), file)
        dashboard = json.loads((EXAMPLES / "trireme.dashboard.json").read_text())
        self.assertEqual(len({panel["id"] for panel in dashboard["panels"]}), len(dashboard["panels"]))

    def test_promtool_accepts_and_every_rule_fires_and_clears(self):
        if not shutil.which("promtool"):
            self.skipTest("promtool is missing: apt-get install prometheus")
        self.names_of_a_job()
        text = (self.folder / "names" / "a.prom").read_text()
        result = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stdout + result.stderr), (0, ""))
        for file in (EXAMPLES / "trireme.rules.yml", Path(__file__).with_name("trireme.rules.test.yml")):
            shutil.copy(file, self.folder)
        for command in (("check", "rules", "trireme.rules.yml"), ("test", "rules", "trireme.rules.test.yml")):
            result = subprocess.run(["promtool", *command], cwd=self.folder, capture_output=True, text=True)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_tensorboard_reads_every_scalar_after_a_kill(self):
        try:
            from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        except ImportError:
            self.skipTest(NO_TENSORBOARD)
        sets_ = sets("log.tensorboard=true", "checkpoint.every=10", "train.steps=1000000")
        process = self.start(0, "out", *sets_)
        self.addCleanup(kill_job, process)
        deadline = time.time() + 30
        while not (self.folder / "out" / "checkpoints" / "step-000020").exists():
            self.assertLess(time.time(), deadline)
            time.sleep(0.002)
        kill_job(process)
        process.communicate()
        killed = {line["step"]: line for line in self.metrics("out")}
        folder = self.folder / "out" / "tensorboard"
        (file,) = folder.iterdir()
        with open(file, "ab") as stream:  # a record that a kill cut off
            stream.write(struct.pack("<Q", 100) + b"half")
        self.assert_scalars(EventAccumulator(str(folder)), killed, of_a_kill=True)
        last = max(killed) + 5
        self.run_job(0, "out", *sets_, *sets(f"train.steps={last}"))
        lines = {line["step"]: line for line in self.metrics("out")}
        self.assertEqual(len(lines), last)
        self.assert_scalars(EventAccumulator(str(folder)), lines)

    def test_tensorboard_reads_histograms_and_hyperparameters(self):
        try:
            from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
            from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
        except ImportError:
            self.skipTest(NO_TENSORBOARD)
        self.run_job(0, "out", *sets("log.tensorboard=true", "train.steps=130", 'optimizer.betas=[0.9, 0.95]'))
        folder = self.folder / "out" / "tensorboard"
        accumulator = EventAccumulator(str(folder), size_guidance={"histograms": 0})
        accumulator.Reload()
        step_ms = [line["step_ms"] for line in self.metrics("out")]
        events = accumulator.Histograms("time/step_ms_histogram")
        self.assertEqual([event.step for event in events], [100, 130])
        for event, part in zip(events, (step_ms[:100], step_ms[100:])):
            histogram = event.histogram_value
            self.assertEqual((histogram.num, histogram.min, histogram.max), (len(part), min(part), max(part)))
            self.assertAlmostEqual(histogram.sum, sum(part))
            limits, counts = list(histogram.bucket_limit), list(histogram.bucket)
            below = [sum(1 for ms in part if ms < limit) for limit in limits]
            self.assertEqual([sum(counts[:number]) for number in range(1, len(counts) + 1)], below)
        info = {tag: accumulator.SummaryMetadata(f"_hparams_/session_{tag}_info").plugin_data
                for tag in ("start", "end")}
        self.assertEqual({data.plugin_name for data in info.values()}, {"hparams"})
        start = HParamsPluginData.FromString(info["start"].content).session_start_info
        keys = {name: getattr(value, value.WhichOneof("kind")) for name, value in start.hparams.items()}
        self.assertEqual(keys["optimizer.lr"], 0.01)
        self.assertEqual(keys["train.steps"], 130)
        self.assertEqual(keys["model.name"], "gpt")
        self.assertEqual(keys["optimizer.betas"], "[0.9, 0.95]")
        self.assertIs(keys["parallel.oversubscribe"], False)
        self.assertFalse({name for name in keys if name.startswith(("log.", "checkpoint."))})
        end = HParamsPluginData.FromString(info["end"].content).session_end_info
        self.assertEqual(end.status, 1)  # STATUS_SUCCESS
        self.assertGreaterEqual(end.end_time_secs, start.start_time_secs)

    def assert_scalars(self, accumulator, lines, of_a_kill=False):
        accumulator.Reload()
        for tag, field in (("train/loss", "loss"), ("train/lr", "lr"), ("train/grad_norm", "grad_norm"),
                           ("time/step_ms", "step_ms"), ("time/tokens_per_s", "tokens_per_s"),
                           ("time/mfu", "mfu"), ("time/flops_per_s", "flops_per_s"),
                           ("memory/peak_bytes", "peak_bytes")):
            known = tag in accumulator.Tags()["scalars"]
            scalars = {event.step: event.value for event in accumulator.Scalars(tag)} if known else {}
            # The line is written first: a kill between the two leaves one scalar less.
            missing = {step for step, line in lines.items() if line[field] is not None} - set(scalars)
            self.assertLessEqual(missing, {max(lines)} if of_a_kill else set())
            for step, value in scalars.items():
                self.assertEqual(value, struct.unpack("f", struct.pack("f", lines[step][field]))[0], (tag, step))


if __name__ == "__main__":
    main()
