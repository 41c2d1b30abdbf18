"""Median and bootstrap interval of a few measurements (Efron 1979)."""
import random
import statistics

RESAMPLES = 2000


def median_interval(values, level=0.95, seed=1):
    """(median, low, high) of the percentile bootstrap of the median; equal values have no width."""
    values = list(values)
    center = statistics.median(values)
    if min(values) == max(values):
        return center, center, center
    draw = random.Random(seed)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(RESAMPLES))
    tail = int((1 - level) / 2 * RESAMPLES)
    return center, medians[tail], medians[RESAMPLES - 1 - tail]


def overlap(one, other):
    """Whether two (low, high) have a value in common."""
    return one[0] <= other[1] and other[0] <= one[1]
