"""Two results of one machine: which figures and step times became worse beyond their noise."""
import math
import statistics

from experiment import ExperimentError
from intervals import median_interval, overlap
from machine import same_hardware

# Run figures for which higher is worse.
COSTS = {"step_ms": "ms a step", "peak_bytes": "bytes at the peak", "comm_bytes": "bytes sent a step",
         "data_wait_ms": "ms waiting for data"}
SMALLEST_MS = 0.5  # differences of waits below it are no news
CHANCE = 0.005  # of rounds that lie apart by themselves
LEAST_VARIANTS, LEAST_ROUNDS = 8, 3  # a single round does not know its noise
EXACT = 1e-4  # kept numbers were once rounded to 5 digits
NOTABLE = 1.1  # sessions differ by some percent that rounds of one session do not show


def _costs(results):
    found = {}
    for experiment in results["experiments"]:
        for variant in (one for one in experiment["variants"] if not one.get("peer")):
            for key in COSTS:
                values = [one["numbers"][key] for one in variant["rounds"] if key in one["numbers"]]
                if values:
                    found[experiment["name"], variant["name"], key] = values
    return found


def drift(old, new):
    """How many times as long the steps of all variants take, in the median: another load of the machine, or a build that
    is slower throughout. 1 where too few are measured to tell it from a variant that is slower by itself."""
    before, after = _costs(old), _costs(new)
    ratios = [statistics.median(after[name]) / statistics.median(before[name])
              for name in before if name in after and name[2] == "step_ms"]
    return statistics.median(ratios) if len(ratios) >= LEAST_VARIANTS else 1.0


def _is_worse(key, old, new, scale):
    if key.endswith("_bytes"):
        return min(new) > (1 + EXACT) * max(old)
    if min(len(old), len(new)) < LEAST_ROUNDS:
        return False
    old = [max(1.0, scale) * value for value in old]
    before, after = statistics.median(old), statistics.median(new)
    if min(new) <= max(old) or after - before <= SMALLEST_MS or after <= NOTABLE * before:
        return False
    # No round of one overlaps a round of the other. With 5 and 5 rounds that is rare enough as evidence, whatever
    # single rounds do. With fewer rounds their intervals must not overlap either.
    return (1 / math.comb(len(old) + len(new), len(old)) < CHANCE
            or not overlap(median_interval(old)[1:], median_interval(new)[1:]))


def find_worse(old, new):
    """[(experiment, variant, key, old median, new median)], for what both have measured."""
    before, after = _costs(old), _costs(new)
    scale = drift(old, new)
    return [(*name, median_interval(before[name])[0], median_interval(after[name])[0])
            for name in before if name in after and _is_worse(name[2], before[name], after[name], scale)]


def _rounded_interval(figure):
    return (figure["low"] - EXACT / 2 * abs(figure["low"]), figure["high"] + EXACT / 2 * abs(figure["high"]))


def agreement(old, new):
    """([experiments whose figures' intervals all overlap], [(experiment, figure) that do not]), for what both have."""
    before = {(experiment["name"], figure["name"]): figure for experiment in old["experiments"]
              for figure in experiment["figures"] if "value" in figure}
    agreeing, apart = [], []
    for experiment in new["experiments"]:
        both = [(before[experiment["name"], figure["name"]], figure) for figure in experiment["figures"]
                if "value" in figure and (experiment["name"], figure["name"]) in before]
        differing = [(experiment["name"], one["name"]) for other, one in both
                     if not overlap(_rounded_interval(other), _rounded_interval(one))]
        if both and not differing:
            agreeing.append(experiment["name"])
        apart += differing
    return agreeing, apart


def print_agreement(old, new):
    agreeing, apart = agreement(old, new)
    total = len(agreeing) + len({experiment for experiment, _ in apart})
    print(f"compare: all intervals overlap in {len(agreeing)} of {total} experiments")
    for experiment, figure in apart:
        print(f"compare: apart: {experiment}: {figure}")


def print_comparison(old, new):
    """Returns whether anything is worse."""
    if old["full"] != new["full"]:
        raise ExperimentError("--compare: one of the two is of --quick, the other of --full: their jobs differ")
    if not same_hardware(old["machine"], new["machine"]):
        print(f"compare: another machine ({old['machine']['processor']}, {old['machine']['cores']} cores): "
              "its times say nothing about this build; only bytes are compared")
        for results in (old, new):
            for experiment in results["experiments"]:
                for variant in experiment["variants"]:
                    for one in variant["rounds"]:
                        one["numbers"] = {k: v for k, v in one["numbers"].items() if not k.endswith("_ms")}
    overall = drift(old, new)
    if overall > NOTABLE:
        print(f"compare: all steps take {overall:.2f} times as long: the machine does other work, or the build is slower "
              "throughout (run both again, in turns); below are those beyond that")
    worse = find_worse(old, new)
    for experiment, variant, key, before, after in worse:
        print(f"compare: worse: {experiment}, {variant}: {before:.6g} -> {after:.6g} {COSTS[key]} ({after / before:.2f} times)")
    if not worse:
        print("compare: nothing is slower or larger beyond the noise" + (" but all steps alike" if overall > NOTABLE else ""))
    return bool(worse) or overall > NOTABLE
