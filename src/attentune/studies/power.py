"""How many seeds it takes to see a difference: the power of the paired t-test, from scipy's noncentral t."""

import math

from scipy import stats

ALPHA = 0.05
POWER = 0.8
MOST_SEEDS = 100_000


def power_of_t_test(effect: float, seeds: int, alpha: float = ALPHA) -> float:
    """How often a paired t-test finds a difference of so many standard deviations.

    >>> round(power_of_t_test(1.0, 10), 3)
    0.803
    """
    if seeds < 2:
        return 0.0
    freedom = seeds - 1
    critical = float(stats.t.ppf(1 - alpha / 2, freedom))
    shift = abs(effect) * math.sqrt(seeds)
    above = float(stats.nct.sf(critical, freedom, shift))
    below = float(stats.nct.cdf(-critical, freedom, shift))
    return above + (below if math.isfinite(below) else 0.0)


def seeds_needed(difference: float, deviation: float, power: float = POWER, alpha: float = ALPHA) -> int | None:
    """The fewest seeds with which a difference is found at the given power; None where no number of seeds would do.

    `deviation` is the standard deviation of the paired differences.

    >>> seeds_needed(difference=0.01, deviation=0.01), seeds_needed(difference=0.005, deviation=0.01)
    (10, 34)
    """
    if not math.isfinite(difference) or not math.isfinite(deviation) or difference == 0:
        return None
    if deviation == 0:
        return 2
    effect = abs(difference) / deviation
    low, high = 1, 2
    while power_of_t_test(effect, high, alpha) < power:
        low, high = high, 2 * high
        if low >= MOST_SEEDS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power_of_t_test(effect, middle, alpha) >= power else (middle, high)
    return high
