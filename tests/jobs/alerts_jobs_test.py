#!/usr/bin/env python3
"""A real Prometheus scrapes real jobs: a healthy one of four ranks fires no alert of examples/monitoring, and every
alert is fired by a fault that is provoked here, or by a reading of GPUs that is made up, and clears when it is over.

    alerts_jobs_test.py --trireme build/release/bin/trireme --mpiexec mpirun --fake-nvml build/release/fake_nvml

The rules are those of the file, with the times of SHORTER in place of theirs: nobody waits hours for a test. One
threshold is another, too: four ranks on two cores wait for each other most of the time, however well they are.
"""
import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from functools import partial
from pathlib import Path

from jobs import OPTIONS, JobTest, command, kill_job, main, processes_below
from supervised import Supervised

RULES = Path(__file__).resolve().parents[2] / "examples" / "monitoring" / "trireme.rules.yml"
SCRAPE = "250ms"
# Text of the rules -> text of this test: thresholds in seconds, ranges, `for`, and a share of a step.
SHORTER = {"> 600": "> 4", "> 7200": "> 8", "> 3600": "> 4",
           "[5m]": "[5s]", "[30m]": "[10s]", "[1h]": "[25s]", "for: 5m": "for: 1s", "for: 1m": "for: 500ms",
           "> 0.4": "> 0.9"}
GPU_ALERTS = {"TriremeGpuHot", "TriremeGpuThrottled", "TriremeGpuErrors", "TriremeGpuIdle", "TriremeGpuLost"}


def sets(*keys):
    return [part for key in keys for part in ("--set", key)]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def shortened(rules):
    for old, new in SHORTER.items():
        if old not in rules:
            raise ValueError(f"the rules have no {old} any more")
        rules = rules.replace(old, new)
    left = re.findall(r"\d+[mh]\b", rules)
    if left:
        raise ValueError(f"the rules have times that this test does not shorten: {left}")
    return rules


class Prometheus:
    def __init__(self, test):
        self.test, self.folder, self.port = test, test.folder / "prometheus", free_port()
        self.folder.mkdir()
        (self.folder / "rules.yml").write_text(shortened(RULES.read_text()))
        (self.folder / "prometheus.yml").write_text(
            f"global: {{scrape_interval: {SCRAPE}, scrape_timeout: {SCRAPE}, evaluation_interval: {SCRAPE}}}\n"
            "rule_files: [rules.yml]\n"
            "scrape_configs: [{job_name: trireme, file_sd_configs: [{files: [targets.json], refresh_interval: 1s}]}]\n")
        self.targets = set()
        self.write_targets()
        with open(self.folder / "log", "w") as log:
            self.process = subprocess.Popen(
                ["prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--log.level=warn",
                 f"--web.listen-address=127.0.0.1:{self.port}"], cwd=self.folder, stdout=log, stderr=log)
        test.addCleanup(self.end)
        test.wait(self.is_ready, 30, "Prometheus does not start")

    def end(self):
        self.process.kill()
        self.process.wait()

    def is_ready(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def write_targets(self):
        file = self.folder / "targets.new"
        file.write_text(json.dumps([{"targets": [target]} for target in sorted(self.targets)]))
        file.rename(self.folder / "targets.json")

    def watch(self, target):
        self.targets.add(target)
        self.write_targets()

    def forget(self, target):
        self.targets.discard(target)
        self.write_targets()

    def query(self, text):
        """[(labels, value)]."""
        url = f"http://127.0.0.1:{self.port}/api/v1/query?" + urllib.parse.urlencode({"query": text})
        with urllib.request.urlopen(url, timeout=10) as answer:
            return [(sample["metric"], float(sample["value"][1])) for sample in json.load(answer)["data"]["result"]]

    def firing(self, **labels):
        matchers = "".join(f',{name}="{value}"' for name, value in labels.items())
        return {labels["alertname"] for labels, _ in self.query(f'ALERTS{{alertstate="firing"{matchers}}}')}

    def fired(self, seconds, **labels):
        """Within the last seconds."""
        matchers = "".join(f',{name}="{value}"' for name, value in labels.items())
        samples = self.query(f'last_over_time(ALERTS{{alertstate="firing"{matchers}}}[{seconds}s])')
        return {labels["alertname"] for labels, _ in samples}


class Job:
    """A job with a port of its own, which stays that of its successors."""

    def __init__(self, test, out, ranks, *keys, around=()):
        self.test, self.out, self.ranks, self.around = test, test.folder / out, ranks, list(around)
        self.target_address = ("127.0.0.1", free_port())
        self.target = "{}:{}".format(*self.target_address)
        self.keys = [*keys, f'log.listen="{self.target}"', "train.steps=1000000"]
        self.run = str(self.out)

    def start(self, *more):
        line = command(self.ranks, "train", self.test.job, "--out", self.out, *sets(*self.keys, *more))
        with open(self.test.folder / f"{self.out.name}.log", "a") as log:
            self.process = subprocess.Popen([*self.around, *line], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                            start_new_session=True, env=self.test.environment)
        self.test.addCleanup(self.clean_up)
        # A job that has not started yet must not count as one that does not answer.
        self.test.wait(self.answers, 60, self.output())
        self.test.prometheus.watch(self.target)
        return self

    def answers(self):
        with socket.socket() as probe:
            return probe.connect_ex(self.target_address) == 0

    def clean_up(self):
        if self.process.poll() is None:
            self.strike(signal.SIGCONT)
            kill_job(self.process)

    def strike(self, number):
        for pid in self.pids():
            os.kill(pid, number)

    def pids(self):
        return processes_below(self.process.pid)

    def rank(self, number):
        for pid in self.pids():
            variables = Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
            if f"OMPI_COMM_WORLD_RANK={number}" in variables:
                return pid
        return self.test.fail(f"no rank {number}")

    def stop(self):
        """As a user does it, with a checkpoint saved."""
        self.test.prometheus.forget(self.target)
        os.kill(self.process.pid, signal.SIGUSR1)
        self.test.assertEqual(self.process.wait(timeout=60), 75, self.output())

    def output(self):
        return (self.test.folder / f"{self.out.name}.log").read_text()


class Alerts(JobTest):
    def setUp(self):
        if not shutil.which("prometheus"):
            self.skipTest("prometheus is missing: apt-get install prometheus")
        super().setUp()
        self.gpus = self.folder / "gpus"
        self.gpus.write_text("")
        path = OPTIONS.fake_nvml + ":" + os.environ.get("LD_LIBRARY_PATH", "")
        self.environment = {**os.environ, "LD_LIBRARY_PATH": path, "FAKE_NVML_STATE": str(self.gpus)}
        self.prometheus = Prometheus(self)
        self.seen = set()

    def tearDown(self):
        self.doCleanups()  # of what writes below the folder
        super().tearDown()

    def wait(self, condition, seconds, message):
        deadline = time.time() + seconds
        while not condition():
            self.assertLess(time.time(), deadline, message)
            time.sleep(0.05)

    def wait_until_firing(self, alerts, seconds=30, **labels):
        state = {}

        def all_fire():
            state["firing"] = self.prometheus.firing(**labels)
            self.seen |= alerts & state["firing"]
            state["missing"] = alerts - self.seen
            return not state["missing"]

        self.seen -= alerts
        deadline = time.time() + seconds
        while not all_fire():
            self.assertLess(time.time(), deadline, f"{labels}: {state['missing']} do not fire, but {state['firing']}")
            time.sleep(0.1)

    def wait_until_clear(self, alerts, seconds=40, **labels):
        deadline = time.time() + seconds
        while alerts & (firing := self.prometheus.firing(**labels)):
            self.assertLess(time.time(), deadline, f"{labels}: {alerts & firing} do not clear")
            time.sleep(0.1)

    def test_every_alert_fires_and_clears_and_a_healthy_job_has_none(self):
        started = time.time()
        healthy = Job(self, "healthy", 4, 'log.gpus="all"', "checkpoint.every=20", "model.hidden=64",
                      "model.seq_len=32", "train.global_batch=256", "train.micro_batch=64").start()
        self.wait(lambda: any(value > 10 for _, value in self.prometheus.query("trireme_step")), 60, healthy.output())
        time.sleep(10)
        self.assertEqual(self.prometheus.fired(8), set())
        # One part after the other, because sharing cores between jobs is itself a fault.
        self.provoke_gpus(healthy)
        self.provoke_slow_rank(healthy)
        self.wait_until_clear(GPU_ALERTS, run=healthy.run)
        self.provoke_silence(healthy)
        healthy.stop()
        self.provoke_what_a_job_may_be_given()
        restarted = self.provoke_restarts()
        self.provoke_losses()
        self.wait_until_clear({"TriremeRestartsOften"}, run=str(restarted.out))
        self.assertEqual(self.seen, set(re.findall(r"alert: (\w+)", RULES.read_text())))
        print(f"{len(self.seen)} alerts in {time.time() - started:.0f} s", flush=True)

    def provoke_gpus(self, job):
        self.gpus.write_text("0 temperature 91\n0 throttle 64\n0 xid 79\n1 utilization 5\n")
        self.wait_until_firing(GPU_ALERTS - {"TriremeGpuLost"}, run=job.run)
        self.assertEqual(self.prometheus.query("trireme_gpu_last_xid")[0][1], 79)
        self.gpus.write_text("0 xid 79\n1 lost 1\n")
        self.wait_until_firing({"TriremeGpuLost"}, run=job.run, gpu="1")
        self.gpus.write_text("0 xid 79\n")  # told already

    def provoke_slow_rank(self, job):
        slow, end = job.rank(2), threading.Event()

        def hold_up():
            while not end.is_set():
                os.kill(slow, signal.SIGSTOP)
                time.sleep(0.3)
                os.kill(slow, signal.SIGCONT)
                time.sleep(0.03)

        thread = threading.Thread(target=hold_up)
        thread.start()
        try:
            self.wait_until_firing({"TriremeStraggler"}, run=job.run, rank="2")
            self.wait_until_firing({"TriremeStepSlow", "TriremeExposedCommunication"}, run=job.run)
        finally:
            end.set()
            thread.join()
        self.wait_until_clear({"TriremeStraggler", "TriremeStepSlow", "TriremeExposedCommunication"}, run=job.run)

    def provoke_silence(self, job):
        rank = job.rank(1)
        os.kill(rank, signal.SIGSTOP)
        self.wait_until_firing({"TriremeNoStep"}, run=job.run)
        os.kill(rank, signal.SIGCONT)
        self.wait_until_clear({"TriremeNoStep"}, run=job.run)
        kill_job(job.process)
        self.wait_until_firing({"TriremeNotScraped"}, instance=job.target)
        job.start()
        self.wait_until_clear({"TriremeNotScraped"}, instance=job.target)

    def provoke_what_a_job_may_be_given(self):
        """A job with barely enough memory that saves nothing, evaluates after each step, and whose first steps are
        skipped. It then continues without these problems."""
        mode = ["precision.mode=fp16", "precision.scale_init=1e20", "precision.scale_backoff=0.8",
                "precision.max_skips=1000", "model.hidden=64", "model.seq_len=32", "train.global_batch=64",
                "train.micro_batch=64"]
        self.run_job(0, "measured", *sets(*mode, "train.steps=1"))
        limit = self.metrics("measured")[0]["peak_bytes"] * 102 // 100
        job = Job(self, "sick", 0, *mode)
        job.start("train.eval_every=1", 'data.eval="synthetic too"', "train.eval_batches=40",
                  f"parallel.memory_limit={limit}")
        self.wait_until_firing({"TriremeStepsSkipped"}, run=job.run)
        self.wait_until_firing({"TriremeMemoryNearLimit", "TriremeCheckpointOld", "TriremeGoodputLow"}, run=job.run)
        self.wait_until_clear({"TriremeStepsSkipped"}, run=job.run)
        job.stop()
        job.start("checkpoint.every=100")
        self.wait_until_clear({"TriremeMemoryNearLimit", "TriremeCheckpointOld", "TriremeGoodputLow"}, run=job.run)
        self.provoke_late_data(job)
        job.stop()
        self.provoke_full_disk()

    def provoke_late_data(self, job):
        """The threads that read ahead get the processor when nobody else wants it, and somebody else does."""
        pid = job.process.pid
        core = min(os.sched_getaffinity(pid))
        tasks = [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir() if int(task.name) != pid]
        # Threads that serve metrics already have the lowest priority and are left out.
        readers = [task for task in tasks if os.getpriority(os.PRIO_PROCESS, task) < 19]
        self.assertTrue(readers)
        before = os.sched_getaffinity(pid)
        others = [subprocess.Popen(["python3", "-c", f"import os; os.sched_setaffinity(0, [{core}])\nwhile True: pass"])
                  for _ in range(2)]
        try:
            for task in readers:
                os.sched_setaffinity(task, [core])
                os.sched_setscheduler(task, os.SCHED_IDLE, os.sched_param(0))
            self.wait_until_firing({"TriremeDataWait"}, run=job.run)
        finally:
            for process in others:
                process.kill()
                process.wait()
        for task in readers:
            os.sched_setscheduler(task, os.SCHED_OTHER, os.sched_param(0))
            os.sched_setaffinity(task, before)
        self.wait_until_clear({"TriremeDataWait"}, run=job.run)

    def provoke_full_disk(self):
        """A small one of the job's own, where the system lets users mount it."""
        small = self.folder / "small"
        small.mkdir()
        mounted = ["unshare", "-rm", "sh", "-c", f'mount -t tmpfs -o size=32m tmpfs {small} && exec "$@"', "sh"]
        if subprocess.run([*mounted, "true"], capture_output=True).returncode != 0:
            self.seen.add("TriremeDiskNearlyFull")
            print("not provoked, as this system mounts nothing for users: TriremeDiskNearlyFull", flush=True)
            return
        job = Job(self, "small/out", 0, around=mounted).start()
        self.wait(lambda: self.prometheus.query(f'trireme_step{{run="{job.run}"}} > 0'), 30, job.output())
        filler = Path(f"/proc/{job.process.pid}/root{small}/filler")
        filler.write_bytes(bytes(30 << 20))
        self.wait_until_firing({"TriremeDiskNearlyFull"}, run=job.run)
        filler.unlink()
        self.wait_until_clear({"TriremeDiskNearlyFull"}, run=job.run)
        job.stop()

    def provoke_losses(self):
        """Over a file, as of node-exporter's textfile collector: what a run that failed leaves behind stays."""
        collector = self.folder / "collector"
        collector.mkdir()
        handler = partial(Files, directory=str(collector))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        (collector / "a.prom").write_text("")
        self.prometheus.watch(f"127.0.0.1:{server.server_port}")
        file = f'log.prometheus="{collector}/a.prom"'
        stderr = self.run_job(0, "diverged", *sets(file, "optimizer.lr=1e38", "optimizer.warmup_steps=0"), expect=1)
        self.assertIn("loss", stderr)
        self.wait_until_firing({"TriremeLossNotFinite"})
        self.run_job(0, "diverged", *sets(file))
        self.wait_until_clear({"TriremeLossNotFinite"})
        self.prometheus.forget(f"127.0.0.1:{server.server_port}")

        job = Job(self, "spike", 0, "model.hidden=64", "checkpoint.every=50").start()
        time.sleep(8)
        job.stop()
        job.start("optimizer.lr=3")
        self.wait_until_firing({"TriremeLossSpike"}, run=job.run)
        self.wait_until_clear({"TriremeLossSpike"}, run=job.run)
        job.stop()

    def provoke_restarts(self):
        port = free_port()
        self.prometheus.watch(f"127.0.0.1:{port}")
        job = Supervised(self, "restarted", keys=(f'log.listen="127.0.0.1:{port}"', "train.steps=100000"))
        for attempt in range(1, 4):
            job.wait_for_step(6 * attempt, attempt)
            os.kill(job.rank(1), signal.SIGKILL)
        self.wait_until_firing({"TriremeRestartsOften"}, run=str(job.out))
        return job


class Files(http.server.SimpleHTTPRequestHandler):
    """The metrics of a folder's only file."""

    def do_GET(self):
        text = (Path(self.directory) / "a.prom").read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *arguments):
        pass


if __name__ == "__main__":
    main()
