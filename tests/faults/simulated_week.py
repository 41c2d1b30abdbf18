#!/usr/bin/env python3
"""A week of training with interruptions at the rate that was published for Llama 3, simulated: goodput by how a
checkpoint is saved and how often, beside the optimum of Young and Daly.

    tests/faults/simulated_week.py [--gpus 16384] [--foreground S] [--background S] [--written S] [--restart S] [--seed N]

466 interruptions in 54 days on 16,384 GPUs (Dubey et al. 2024, "The Llama 3 Herd of Models"), so one each 2.8 hours
there, and 16,384 / N times as seldom on N. Interruptions come as a Poisson process, also while state is saved or a
restart is under way; each costs the work since the newest whole checkpoint and the restart. A checkpoint counts once it
is whole: after its stall in the foreground, `--written` seconds after it began in the background. The defaults
were measured with GPT-2 124M on two cores: the stalls by tests/bench/checkpoint_stall.py, the restart as 2 s to the end
of the job, whose ranks die with one of them, and 18 s from the start of the next to its first step.

Young's interval is sqrt(2 S M) (CACM 17, 1974), Daly's has more terms (FGCS 22, 2006); the expected goodput beside the
simulated one is that of Daly's complete model, M exp(R/M) (exp((T+S)/M) - 1) / T for each T of work.
Exit code 1 where the two differ by more than half a percent of the week. Needs the Python standard library only.
"""
import argparse
import math
import random
import statistics
import sys

WEEK = 7 * 86400.0
LLAMA_GPUS, LLAMA_MTBF = 16384, 54 * 86400.0 / 466
LARGEST_ERROR = 0.005  # of a mean of many weeks, and of what the model leaves out: checkpoints that are whole later


def young(stall, mtbf):
    return math.sqrt(2 * stall * mtbf)


def daly(stall, mtbf):
    if stall >= 2 * mtbf:
        return mtbf
    root = math.sqrt(stall / (2 * mtbf))
    return young(stall, mtbf) * (1 + root / 3 + root * root / 9) - stall


def expected_goodput(interval, stall, restart, mtbf):
    return interval / (mtbf * math.exp(restart / mtbf) * math.expm1((interval + stall) / mtbf))


class Week:
    """One simulated week. Seconds."""

    def __init__(self, numbers, mtbf, interval, stall, whole_after, restart):
        self.now, self.useful, self.interruptions, self.lost = 0.0, 0.0, 0, 0.0
        work, saved, pending = 0.0, 0.0, None  # done so far, in the newest whole checkpoint; (whole at, its work)
        next_fault = numbers.expovariate(1 / mtbf)
        training, until = True, interval  # until: the end of what is under way
        while self.now < WEEK:
            moment = min(until, next_fault, WEEK)
            if pending and pending[0] <= moment:
                saved, pending = pending[1], None
            if training:
                work += moment - self.now
            self.now = moment
            if moment == next_fault and moment < WEEK:
                self.interruptions += 1
                self.lost += work - saved
                work, pending = saved, None
                training, until = False, self.now + restart  # which a fault may interrupt, too
                next_fault = self.now + numbers.expovariate(1 / mtbf)
            elif training:  # an interval is over: training stands still, and the checkpoint is whole later
                pending = (self.now + whole_after, work)
                training, until = False, self.now + stall
            else:
                training, until = True, self.now + interval
        self.useful = work


def simulate(options, mtbf, interval, stall, whole_after):
    """Means of goodput and interruptions over the weeks, and lost hours a week."""
    numbers = random.Random(options.seed)  # the same faults whatever is saved
    weeks = [Week(numbers, mtbf, interval, stall, whole_after, options.restart) for _ in range(options.weeks)]
    mean = statistics.fmean
    return mean(w.useful for w in weeks) / WEEK, mean(w.interruptions for w in weeks), mean(w.lost for w in weeks) / 3600


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=LLAMA_GPUS)
    parser.add_argument("--foreground", type=float, default=4.2, help="stall of a save in the foreground")
    parser.add_argument("--background", type=float, default=0.15, help="stall of a save in the background")
    parser.add_argument("--written", type=float, default=3.7, help="from the begin of a save in the background until it is whole")
    parser.add_argument("--restart", type=float, default=20.0, help="from a fault to the next step")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--weeks", type=int, default=200)
    options = parser.parse_args()
    numbers = (options.gpus, options.foreground, options.background, options.written, options.restart, options.weeks)
    if min(numbers) <= 0:
        parser.error("all numbers must be above 0")
    mtbf = LLAMA_MTBF * LLAMA_GPUS / options.gpus
    print(f"{options.gpus} GPUs, an interruption each {mtbf / 3600:.2f} h; restart {options.restart:g} s; {options.weeks} weeks, "
          f"seed {options.seed}\n\n| save | every | goodput | by Daly's model | interruptions a week | work lost, hours a week |\n"
          "| --- | --- | --- | --- | --- | --- |")
    good = True
    for name, stall, whole_after in (("foreground", options.foreground, options.foreground),
                                     ("background", options.background, max(options.background, options.written))):
        optimum = daly(stall, mtbf)
        for label, interval in (("minute", 60.0), ("10 minutes", 600.0), ("hour", 3600.0),
                                (f"{optimum:.0f} s (Daly)", optimum), (f"{young(stall, mtbf):.0f} s (Young)", young(stall, mtbf))):
            goodput, interruptions, lost = simulate(options, mtbf, interval, stall, whole_after)
            expected = expected_goodput(interval, stall, options.restart, mtbf)
            good = good and abs(goodput - expected) < LARGEST_ERROR
            print(f"| {name}, {stall:g} s | {label} | {100 * goodput:.2f} % | {100 * expected:.2f} % | {interruptions:.1f} | {lost:.2f} |")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
