"""Runs `trireme plan` and `trireme train`, keeps every file and command, and reads the numbers back from those files."""
import hashlib
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from machine import NET, cores

PEER = Path(__file__).resolve().parents[1] / "peers" / "gpt_pytorch_cuda.py"

END_S = 15  # for a run that is interrupted
WARM_UP_STEPS = 3  # left out of medians: first uses, page faults


class RunFailed(RuntimeError):
    """With the error, the exit code and the command's file."""


def job_text(job):
    """A job file of dotted keys; JSON's strings, numbers, booleans and lists are TOML's."""
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in sorted(job.items()))


def _most(groups, key):
    return max(group[key] for group in groups)


def plan_numbers(plan):
    """The largest rank's."""
    groups = plan["groups"]
    memory = {name: max(group["memory"][name] for group in groups) for name in groups[0]["memory"]}
    return {"peak_bytes": _most(groups, "peak_bytes"), "comm_bytes": _most(groups, "comm_bytes"),
            "state_bytes": _most(groups, "state_bytes"), "memory": memory, "bubble": plan["bubble_share"],
            "parameters": plan["parameters"]}


def run_numbers(out):
    """Medians over the steps after the warm-up, of what a run wrote."""
    summary = json.loads((out / "summary.json").read_text())
    steps = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    steps = [step for step in steps if "step_ms" in step]
    timed = steps[WARM_UP_STEPS:] or steps
    numbers = {key: statistics.median(step[key] for step in timed)
               for key in ("step_ms", "tokens_per_s", "data_wait_ms", "comm_wait_ms", "comm_bytes")
               if key in timed[0]}
    last = steps[-max(1, len(steps) // 10):]
    numbers |= {"loss": statistics.mean(step["loss"] for step in last), "wall_s": summary["wall_s"],
                "peak_bytes": summary["peak_bytes"], "memory": summary["memory"], "steps": len(steps),
                "parameters": summary["parameters"], "skipped_steps": summary["skipped_steps"]}
    # Starting, ending and checkpoints: what of the run is in no step.
    numbers |= {"last_loss": steps[-1]["loss"],
                "outside_ms": 1000 * summary["wall_s"] - sum(step["step_ms"] for step in steps)}
    bubbles = [traced_bubble(json.loads(path.read_text())) for path in out.glob("trace*.json")]
    if bubbles:
        numbers["bubble"] = statistics.median(bubbles)
    for key in ("eval_loss", "eval_top1", "eval_ap", "eval_ap50"):
        if summary.get(key) is not None:
            numbers[key] = summary[key]
    return numbers


def engines_numbers(path):
    """Sums over the calls of a forward pass."""
    calls = [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")]
    forward = [call for call in calls if call["pass"] == "forward"]
    return {"forward_us": sum(call["calls"] * call["us"] for call in forward),
            "unfused_us": sum(call["calls"] * call.get("unfused_us", call["us"]) for call in forward)}


def traced_bubble(trace):
    """The part of ranks x time without a forward or backward, from the first to the last of them in a trace of `train`.
    None without such spans."""
    events = [event for event in trace["traceEvents"] if event["ph"] == "X" and event["tid"] == 0 and event["cat"] != "update"]
    if not events:
        return None
    start, end = min(event["ts"] for event in events), max(event["ts"] + event["dur"] for event in events)
    ranks = len({event["pid"] for event in trace["traceEvents"]})
    return 1 - sum(event["dur"] for event in events) / (ranks * (end - start))


def _wait_for(process):
    """Its exit code. Whoever is interrupted gives it time to end its ranks and to take its network down."""
    try:
        return process.wait()
    except BaseException:
        process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        raise


class JobRunner:
    """`folder` receives a folder for each run. A finished run is not run again while program and job are the same."""

    def __init__(self, trireme, folder, digest, mpiexec="mpirun", peer=""):
        self.trireme, self.folder, self.digest, self.mpiexec = str(trireme), folder, digest, mpiexec
        self.peer_python = peer
        self.started = 0  # processes; what an earlier run has left is not counted

    def plan(self, experiment, variant, job):
        place = self.folder / experiment.name / variant.name
        command = [self.trireme, "plan", "job.toml", "--ranks", str(variant.ranks), "--json"]
        return self._once(place, "plan", command, job, variant, lambda: plan_numbers(json.loads((place / "plan.out").read_text())))

    def train(self, experiment, variant, job, round_number):
        place = self.folder / experiment.name / variant.name / f"round{round_number}"
        if variant.resumes:
            source = self.folder / experiment.name / variant.resumes["of"] / f"round{round_number}" / "out"
            job = job | {"checkpoint.resume": str(source / "checkpoints" / f"step-{variant.resumes['step']:06}")}
        command = [*self._launch(variant), self.trireme, "train", "job.toml", "--out", "out"]
        out = place / "out"
        result = self._once(place, "train", command, job, variant,
                            lambda: run_numbers(out) if not variant.refused else {}, fresh=out)
        if variant.name not in {one.resumes.get("of") for one in experiment.variants}:
            shutil.rmtree(out / "checkpoints", ignore_errors=True)
        return result

    def peer(self, experiment, variant, job, round_number):
        """The same model, batch and number of steps in PyTorch."""
        place = self.folder / experiment.name / variant.name / f"round{round_number}"
        keys = {"layers": "model.layers", "hidden": "model.hidden", "heads": "model.heads", "vocab": "model.vocab",
                "context": "model.seq_len", "micro-batch": "train.micro_batch", "threads": "parallel.threads"}
        words = [word for name, key in keys.items() for word in (f"--{name}", str(job[key]))]
        words += ["--warmup", str(WARM_UP_STEPS), "--steps", str(job["train.steps"] - WARM_UP_STEPS),
                  "--math", job.get("precision.mode", "fp32"),
                  "--device", "cuda" if job.get("parallel.device") == "cuda" else "cpu"]
        command = [self.peer_python, str(PEER), *words, *(["--compile"] if variant.peer == "compiled" else [])]
        return self._once(place, "peer", command, job, variant, lambda: json.loads((place / "peer.out").read_text()))

    def engines(self, experiment, variant, job, round_number):
        """Each call of a step, timed separately: microseconds of a forward pass as it is, and without fused products."""
        place = self.folder / experiment.name / variant.name / f"round{round_number}"
        command = [self.trireme, "doctor", "--engines", "job.toml", "--json"]
        return self._once(place, "engines", command, job, variant, lambda: engines_numbers(place / "engines.out"))

    def _launch(self, variant):
        ranks = variant.ranks
        if variant.link:
            hosts = ["--hosts", str(ranks // variant.ranks_per_host), "--ranks-per-host", str(variant.ranks_per_host)]
            return [sys.executable, "-B", str(NET / "on_hosts.py"), *hosts, "--rate", variant.link, "--"]
        if ranks == 1:
            return []
        options = ["-np", str(ranks), "--bind-to", "none"]
        if os.geteuid() == 0:
            options.append("--allow-run-as-root")
        if ranks > cores():
            options += ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
        return [self.mpiexec, *options]

    def _once(self, place, what, command, job, variant, read, fresh=None):
        """{"numbers", "command", "folder"}, from the files of an earlier run where they are of the same job."""
        text = job_text(job)
        key = hashlib.sha256("\0".join([self.digest, text, *(command[1:] if what != "peer" else command)]).encode()).hexdigest()
        record = place / f"{what}.json"
        if record.exists():
            kept = json.loads(record.read_text())
            if kept["key"] == key:
                return kept
        if fresh is not None:
            shutil.rmtree(fresh, ignore_errors=True)
        place.mkdir(parents=True, exist_ok=True)
        (place / "job.toml").write_text(text)
        (place / f"{what}.sh").write_text(f"cd {shlex.quote(str(place))} && {shlex.join(command)}\n")
        with open(place / f"{what}.out", "w") as out, open(place / f"{what}.err", "w") as err:
            code = _wait_for(subprocess.Popen(command, cwd=place, stdin=subprocess.DEVNULL, stdout=out, stderr=err))
        self.started += 1
        printed = (place / f"{what}.out").read_text()
        meant = 2 if what == "train" and variant.refused else 0
        # A plan that does not fit the machine is one all the same: exit code 2, after its JSON.
        if code != meant and not (what == "plan" and code == 2 and printed.startswith("{")):
            lines = (printed + (place / f"{what}.err").read_text()).strip().splitlines() or ["no output"]
            error = next((line for line in lines if "error" in line.lower()), lines[-1])
            raise RunFailed(f"{error} (exit code {code} in place of {meant}: {place / what}.sh)")
        result = {"key": key, "command": shlex.join(command), "folder": str(place.relative_to(self.folder.parent)),
                  "exit_code": code, "load": round(os.getloadavg()[0], 1), "numbers": read()}
        partial = record.with_suffix(".partial")
        partial.write_text(json.dumps(result, indent=1))
        partial.rename(record)
        return result
