"""Runs an experiment's variants in alternated rounds and judges its figures."""
import dataclasses
import random
import statistics

from expression import ExpressionError, evaluate, names
from intervals import RESAMPLES, median_interval
from job_runs import RunFailed

# "fp32.loss.spread" and the like are of all rounds, the other numbers of one.
OVER_ROUNDS = {"mean": statistics.mean, "spread": statistics.stdev}
REPRODUCED, WITHIN_NOISE, DIFFERS, NOT_RUN = "reproduced", "reproduced within the noise", "differs", "not run"
UNDECIDED = "too noisy to tell"
TOO_WIDE = 2.0  # an interval whose ends lie further apart than this many times decides nothing beyond itself


@dataclasses.dataclass
class Options:
    full: bool = False
    cores: int = 1
    gpu: bool = False         # every job on the GPU
    named: bool = False       # the experiments are those of --only
    dry: bool = False         # the jobs of a GPU on the CPU, tiny: a rehearsal
    gpus: int = 0
    no_cuda: str = ""         # what is missing for a GPU
    no_pictures: str = ""     # and to make pictures
    no_namespaces: str = ""   # and for hosts with slow links
    no_peer: str = ""         # and for PyTorch


def why_not(experiment, options):
    """What is missing here for an experiment; empty: nothing."""
    if experiment.cannot:
        return experiment.cannot
    if experiment.needs.get("cores", 1) > options.cores:
        return f"it needs {experiment.needs['cores']} cores, and this machine has {options.cores}"
    if options.gpu and experiment.runs and not experiment.needs.get("gpu") and not options.named:
        return "it is about a CPU; with --gpu it runs if --only names it"
    if options.no_pictures and experiment.needs.get("pictures"):
        return options.no_pictures
    if (options.gpu or experiment.needs.get("gpu")) and experiment.runs and not options.dry:
        ranks = max(variant.ranks for variant in experiment.variants)
        if options.no_cuda:
            return options.no_cuda
        if ranks > options.gpus:
            return f"it needs {ranks} GPUs, and this machine has {options.gpus}"
    if options.no_namespaces and any(variant.link for variant in experiment.variants):
        return options.no_namespaces
    if options.no_peer and all(depends_on_peer(experiment, figure) for figure in experiment.figures):
        return options.no_peer
    return ""


def depends_on_peer(experiment, figure):
    peers = {variant.name for variant in experiment.variants if variant.peer}
    return any(name.split(".")[0] in peers for name in names(figure.value))


def job_of(experiment, variant, options, round_number):
    """Threads: the cores, shared among the ranks, unless the experiment says so."""
    job = {"parallel.threads": max(1, options.cores // variant.ranks)} | experiment.job
    if options.full:
        job |= experiment.full
    if options.gpu or experiment.needs.get("gpu"):
        job["parallel.device"] = "cpu" if options.dry else "cuda"
    if options.dry:
        job |= experiment.dry
    job |= variant.set
    if experiment.seeds:
        job["train.seed"] = round_number + 1
    return job


def basis_of(figure):
    """"simulated": from the simulator's bubble; "predicted": from a plan alone; "": from measurements."""
    parts = [name.split(".") for name in names(figure.value) if "." in name]
    if not parts or any(part[1] != "plan" for part in parts):
        return ""
    return "simulated" if any(part[2:] == ["bubble"] for part in parts) else "predicted"


def _lookup(numbers, name):
    value = numbers
    for part in name.split("."):
        value = value[part]
    return float(value)


def _value_of(experiment, rounds, round_number):
    def find(name):
        if name in experiment.constants:
            return experiment.constants[name]
        variant, _, path = name.partition(".")
        try:
            number_name, _, over_rounds = path.rpartition(".")
            if over_rounds in OVER_ROUNDS:
                return OVER_ROUNDS[over_rounds]([_lookup(one, number_name) for one in rounds[variant]])
            return _lookup(rounds[variant][round_number], path)
        except (KeyError, TypeError):
            raise RunFailed(f"{experiment.name}: '{name}' is not among the numbers of {variant}") from None

    return find


def judge(low, middle, high, expected):
    lowest, highest = expected
    if lowest <= low and high <= highest:
        return REPRODUCED
    if low > highest or high < lowest:
        return DIFFERS
    if not lowest <= middle <= highest or 0 < TOO_WIDE * low < high:
        return UNDECIDED
    return WITHIN_NOISE


def _over_rounds(experiment, figure, rounds, count):
    """(value, low, high) of a figure of all rounds at once: resampled by round, as their seeds are shared."""
    value = evaluate(figure.value, _value_of(experiment, rounds, 0))
    draw, resampled = random.Random(1), []
    for _ in range(RESAMPLES):
        chosen = draw.choices(range(count), k=count)
        if len(set(chosen)) > 1:
            again = {name: [runs[one] for one in chosen] if runs else [] for name, runs in rounds.items()}
            resampled.append(evaluate(figure.value, _value_of(experiment, again, 0)))
    resampled.sort()
    tail = int(0.025 * len(resampled))
    return value, resampled[tail], resampled[-1 - tail]


def measure_figure(experiment, figure, rounds, count):
    values = [evaluate(figure.value, _value_of(experiment, rounds, number)) for number in range(count)]
    if any(name.rpartition(".")[2] in OVER_ROUNDS for name in names(figure.value)):
        middle, low, high = _over_rounds(experiment, figure, rounds, count)
    else:
        middle, low, high = median_interval(values)
    expected = figure.reproduced_if
    if figure.formula:
        target = evaluate(figure.formula, _value_of(experiment, rounds, 0))
        expected = sorted([target * (1 - figure.within), target * (1 + figure.within)])
    verdict = judge(low, middle, high, expected)
    return {"name": figure.name, "unit": figure.unit, "documented": figure.documented, "formula": figure.formula,
            "value": middle, "low": low, "high": high, "rounds": values, "expected": expected, "verdict": verdict,
            "because": f"perhaps because {figure.otherwise}" if figure.otherwise and verdict == DIFFERS else "", "expression": figure.value,
            "basis": basis_of(figure), "telling": figure.telling}


class DoesNotFit(Exception):
    """By the prediction, before anything is trained."""


class _Rounds:
    """The runs of an experiment as they come in."""

    def __init__(self, experiment, runner, options):
        self.experiment, self.runner, self.options = experiment, runner, options
        self.variants = {variant.name: {"name": variant.name, "title": variant.title, "ranks": variant.ranks, "peer": variant.peer,
                                        "rounds": []}
                         for variant in experiment.variants}
        self.numbers = {name: [] for name in self.variants}
        self.left_out = {variant.name: options.no_peer for variant in experiment.variants if variant.peer and options.no_peer}
        self.memory = []

    def run(self, variant, number):
        job = job_of(self.experiment, variant, self.options, number)
        if variant.peer:
            run = self.runner.peer(self.experiment, variant, job, number)
            numbers = run["numbers"]
        elif self.experiment.engines:
            run = self.runner.engines(self.experiment, variant, job, number)
            numbers = run["numbers"]
        else:
            numbers, run = self._train(variant, job, number)
        self.numbers[variant.name].append(numbers)
        kept = {key: run[key] for key in ("folder", "command", "load") if key in run}
        self.variants[variant.name]["rounds"].append(kept | {"numbers": numbers})

    def _train(self, variant, job, number):
        plan = self.runner.plan(self.experiment, variant, job)
        numbers = {"plan": plan["numbers"]}
        if not self.experiment.runs:
            return numbers, plan
        if plan["exit_code"] == 2 and not variant.refused:
            raise DoesNotFit(f"{variant.name} needs {plan['numbers']['peak_bytes']:,} bytes a rank, which this machine does not "
                             "have (trireme plan job.toml shows where they are)")
        run = self.runner.train(self.experiment, variant, job, number)
        if "peak_bytes" in run["numbers"]:
            self.memory.append({"variant": variant.name, "predicted": plan["numbers"]["peak_bytes"],
                                "measured": run["numbers"]["peak_bytes"]})
        return numbers | run["numbers"] | {"exit_code": run["exit_code"]}, run

    def figure(self, figure, count):
        for name in sorted(names(figure.value)):
            reason = self.left_out.get(name.split(".")[0])
            if reason:
                return {"name": figure.name, "unit": figure.unit, "documented": figure.documented, "verdict": NOT_RUN,
                        "because": reason, "expression": figure.value}
        return measure_figure(self.experiment, figure, self.numbers, count)


def num_rounds(experiment, options):
    if options.dry or not experiment.runs:
        return 1
    return experiment.rounds["full" if options.full else "quick"]


def run_experiment(experiment, runner, options, progress):
    """The experiment's part of results.json."""
    result = {"name": experiment.name, "title": experiment.title, "documented": experiment.documented,
              "source": experiment.source, "device": experiment.device, "refuted_by": experiment.refuted_by,
              "reason": why_not(experiment, options), "figures": [], "variants": [], "memory": []}
    if result["reason"]:
        return result
    count = num_rounds(experiment, options)
    rounds = _Rounds(experiment, runner, options)
    try:
        for number in range(count):
            # In alternated order: what drifts hits all variants alike. What resumes comes after what it resumes.
            order = experiment.variants if number % 2 == 0 else experiment.variants[::-1]
            for variant in sorted(order, key=lambda one: bool(one.resumes)):
                if variant.name in rounds.left_out:
                    continue
                progress(f"{experiment.name}: {variant.name}" + (f", round {number + 1} of {count}" if count > 1 else ""))
                try:
                    rounds.run(variant, number)
                except RunFailed as error:
                    if not variant.peer:
                        raise
                    rounds.left_out[variant.name] = str(error)
        result["figures"] = [rounds.figure(figure, count) for figure in experiment.figures]
    except (RunFailed, DoesNotFit) as error:
        result["reason"] = str(error)
        result["failed"] = isinstance(error, RunFailed)
    except (ExpressionError, ArithmeticError, statistics.StatisticsError) as error:
        result |= {"reason": f"{experiment.name}.toml: a figure cannot be computed: {error}", "failed": True, "figures": []}
    result["variants"] = [one for one in rounds.variants.values() if one["rounds"]]
    result["memory"] = rounds.memory
    return result
