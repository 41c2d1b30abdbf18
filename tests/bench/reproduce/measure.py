"""Runs an experiment's variants in alternated rounds and judges its figures."""
import dataclasses

from expression import evaluate
from intervals import median_interval
from job_runs import RunFailed

REPRODUCED, WITHIN_NOISE, DIFFERS, NOT_RUN = "reproduced", "reproduced within the noise", "differs", "not run"


@dataclasses.dataclass
class Options:
    full: bool = False
    cores: int = 1


def why_not(experiment, options):
    """What is missing here for an experiment; empty: nothing."""
    if experiment.cannot:
        return experiment.cannot
    if experiment.needs.get("cores", 1) > options.cores:
        return f"it needs {experiment.needs['cores']} cores, and this machine has {options.cores}"
    return ""


def job_of(experiment, variant, options, round_number):
    """Threads: the cores, shared among the ranks, unless the experiment says so."""
    job = {"parallel.threads": max(1, options.cores // variant.ranks)} | experiment.job
    if options.full:
        job |= experiment.full
    job |= variant.set
    if experiment.seeds:
        job["train.seed"] = round_number + 1
    return job


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
            return _lookup(rounds[variant][round_number], path)
        except (KeyError, TypeError):
            raise RunFailed(f"{experiment.name}: '{name}' is not among the numbers of {variant}") from None

    return find


def judge(low, middle, high, expected):
    lowest, highest = expected
    if lowest <= low and high <= highest:
        return REPRODUCED
    return WITHIN_NOISE if low <= highest and high >= lowest and lowest <= middle <= highest else DIFFERS


def measure_figure(experiment, figure, rounds, count):
    values = [evaluate(figure.value, _value_of(experiment, rounds, number)) for number in range(count)]
    middle, low, high = median_interval(values)
    expected = figure.reproduced_if
    if figure.formula:
        target = evaluate(figure.formula, _value_of(experiment, rounds, 0))
        expected = sorted([target * (1 - figure.within), target * (1 + figure.within)])
    verdict = judge(low, middle, high, expected)
    return {"name": figure.name, "unit": figure.unit, "documented": figure.documented, "formula": figure.formula,
            "value": middle, "low": low, "high": high, "rounds": values, "expected": expected, "verdict": verdict,
            "because": figure.otherwise if verdict == DIFFERS else "", "expression": figure.value}


def run_experiment(experiment, runner, options, progress):
    """The experiment's part of results.json."""
    result = {"name": experiment.name, "title": experiment.title, "documented": experiment.documented,
              "source": experiment.source, "device": experiment.device, "refuted_by": experiment.refuted_by,
              "reason": why_not(experiment, options), "figures": [], "variants": [], "memory": []}
    if result["reason"]:
        return result
    count = experiment.rounds["full" if options.full else "quick"] if experiment.runs else 1
    variants = {variant.name: {"name": variant.name, "title": variant.title, "ranks": variant.ranks, "rounds": []}
                for variant in experiment.variants}
    rounds = {name: [] for name in variants}
    try:
        for number in range(count):
            # In alternated order: what drifts hits all variants alike.
            order = experiment.variants if number % 2 == 0 else experiment.variants[::-1]
            for variant in order:
                progress(f"{experiment.name}: {variant.name}" + (f", round {number + 1} of {count}" if count > 1 else ""))
                job = job_of(experiment, variant, options, number)
                plan = runner.plan(experiment, variant, job)
                numbers = {"plan": plan["numbers"]}
                run = plan
                if experiment.runs:
                    run = runner.train(experiment, variant, job, number)
                    numbers |= run["numbers"] | {"exit_code": run["exit_code"]}
                    if "peak_bytes" in run["numbers"]:
                        result["memory"].append({"variant": variant.name, "predicted": plan["numbers"]["peak_bytes"],
                                                 "measured": run["numbers"]["peak_bytes"]})
                rounds[variant.name].append(numbers)
                variants[variant.name]["rounds"].append({"folder": run["folder"], "command": run["command"],
                                                         "numbers": numbers})
        result["variants"] = list(variants.values())
        result["figures"] = [measure_figure(experiment, figure, rounds, count) for figure in experiment.figures]
    except RunFailed as error:
        result["variants"] = list(variants.values())
        result["reason"] = str(error)
        result["failed"] = True
    return result
