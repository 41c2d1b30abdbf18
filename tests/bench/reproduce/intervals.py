"""Median and bootstrap interval of a few measurements (Efron 1979)."""
import math
import random
import statistics

RESAMPLES = 2000
# Student's 97.5 % quantiles for 1, 2, ... degrees of freedom; beyond the table, the normal one.
_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145)
_NORMAL = 1.960


def _widening(count):
    """Resamples of few values scatter less than new values would: by (n - 1) / n in the variance, and the scatter itself
    is known badly, which is what Student's distribution says. Without it, intervals of 3 values hold the median three
    times in four only."""
    student = _STUDENT[count - 2] if count - 2 < len(_STUDENT) else _NORMAL
    return student / _NORMAL * math.sqrt(count / (count - 1))


def median_interval(values, seed=1):
    """(median, low, high): the 95 % bootstrap interval of the median, widened for few values. Equal values have no
    width, and values that are all 0 or more no bound below 0."""
    values = list(values)
    center = statistics.median(values)
    if min(values) == max(values):
        return center, center, center
    draw = random.Random(seed)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(RESAMPLES))
    tail = int(0.025 * RESAMPLES)
    low, high = (center + _widening(len(values)) * (medians[at] - center) for at in (tail, RESAMPLES - 1 - tail))
    return center, max(low, 0.0) if min(values) >= 0 else low, high


def overlap(one, other):
    """Whether two (low, high) have a value in common."""
    return one[0] <= other[1] and other[0] <= one[1]
