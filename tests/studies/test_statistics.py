"""The statistics against their definitions: recomputed with plain loops, or known from tables."""

import itertools
import math

import numpy as np
import pytest

from attentune.studies.power import power_of_t_test, seeds_needed
from attentune.studies.statistics import (
    bootstrap_of_answers,
    effect_size,
    holm,
    interval_of_mean,
    mcnemar,
    over_seeds,
    sign_flips,
)

BASELINE = [0.50, 0.55, 0.52, 0.58, 0.53, 0.51]
METHOD = [0.53, 0.56, 0.57, 0.60, 0.52, 0.55]


def test_the_difference_is_the_mean_of_the_pairs():
    found = over_seeds(BASELINE, METHOD)
    pairs = [after - before for before, after in zip(BASELINE, METHOD, strict=True)]
    mean = sum(pairs) / 6
    deviation = math.sqrt(sum((d - mean) ** 2 for d in pairs) / 5)
    assert found.difference == pytest.approx(mean)
    assert found.deviation == pytest.approx(deviation)
    assert found.effect == pytest.approx((1 - 3 / 19) * mean / deviation)


def test_t_is_that_of_the_table():
    # differences with mean 1 and t exactly 2.776, the two-sided 5% point of Student's t with four degrees of freedom
    spread = 1 / 2.776445 * math.sqrt(5)
    shape = np.array([-1.0, -1.0, 0.0, 1.0, 1.0])
    differences = 1 + shape / shape.std(ddof=1) * spread
    assert over_seeds([0.0] * 5, list(differences)).t_p == pytest.approx(0.05, abs=1e-6)


def test_wilcoxon_counts_all_changes_of_sign():
    found = over_seeds(BASELINE, METHOD)
    differences = [round(after - before, 9) for before, after in zip(BASELINE, METHOD, strict=True)]
    sizes = sorted(abs(d) for d in differences)
    ranks = [(sizes.index(abs(d)) + 1 + len(sizes) - sizes[::-1].index(abs(d))) / 2 for d in differences]
    observed = abs(sum(math.copysign(rank, d) for rank, d in zip(ranks, differences, strict=True)))
    sums = [
        abs(sum(s * r for s, r in zip(signs, ranks, strict=True))) for signs in itertools.product((-1, 1), repeat=6)
    ]
    assert found.wilcoxon_p == pytest.approx(sum(s >= observed - 1e-9 for s in sums) / len(sums))


@pytest.mark.parametrize("values", [[0.1, 0.4, 0.2, 0.8, 0.3], [0.1, 0.1, 0.2, 0.2, 0.3]])
def test_wilcoxon_is_the_same_with_and_without_ties(values):
    """All of five seeds better: 2 of 2⁵ changes of sign are as far out."""
    assert over_seeds([0.0] * 5, values).wilcoxon_p == pytest.approx(2 / 32)


def test_runs_that_are_equal_are_no_evidence():
    found = over_seeds(BASELINE, BASELINE)
    assert (found.t_p, found.wilcoxon_p, found.effect) == (1.0, 1.0, 0.0)
    assert (found.interval.low, found.interval.high) == (0.0, 0.0)


def test_rounding_errors_are_no_difference():
    found = over_seeds([0.3, 0.1 + 0.2], [0.1 + 0.2, 0.3])
    assert found.t_p == 1.0


def test_one_seed_tells_no_deviation():
    found = over_seeds([0.5], [0.6])
    assert found.difference == pytest.approx(0.1)
    assert all(math.isnan(x) for x in (found.deviation, found.t_p, found.wilcoxon_p, found.effect, found.interval.low))


def test_with_few_seeds_the_interval_is_students():
    low, high = 0.02 - 4.302653 * 0.01 / math.sqrt(3), 0.02 + 4.302653 * 0.01 / math.sqrt(3)
    found = interval_of_mean([0.01, 0.02, 0.03])
    assert found.kind == "t"
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-7)


def test_sign_flips_at_random_come_near_to_all_of_them():
    generator = np.random.default_rng(3)
    values = generator.normal(0.3, 1.0, 18)  # 262,144 changes of sign, more than are drawn
    signs = (np.arange(2**18)[:, None] >> np.arange(18)) & 1
    exact = float((np.abs((2 * signs - 1) @ values) >= abs(values.sum()) - 1e-9).mean())
    assert sign_flips(values) == pytest.approx(exact, abs=0.02)


def test_mcnemar_is_the_binomial_of_the_pairs_that_differ():
    before = [True] * 3 + [False] * 9 + [True] * 20
    after = [False] * 3 + [True] * 9 + [True] * 20
    exact = 2 * sum(math.comb(12, k) for k in range(4)) / 2**12
    assert mcnemar([before], [after]) == pytest.approx(exact)


def test_the_same_answers_again_are_no_more_evidence():
    """Five copies of one seed say what one says; taken for five times as many examples, they would say far more."""
    before = np.array([True] * 3 + [False] * 9 + [True] * 20)
    after = np.array([False] * 3 + [True] * 9 + [True] * 20)
    assert mcnemar([before] * 5, [after] * 5) == pytest.approx(mcnemar([before], [after]), abs=0.01)


def test_the_bootstrap_of_answers_finds_a_worse_correlation():
    generator = np.random.default_rng(0)
    truths = generator.normal(size=200)
    near, far = truths + generator.normal(0, 0.3, 200), truths + generator.normal(0, 1.0, 200)

    def correlation(answers, true):
        return float(np.corrcoef(answers, true)[0, 1])

    assert bootstrap_of_answers(correlation, [truths], [far], [near], resamples=499) < 0.01
    assert bootstrap_of_answers(correlation, [truths], [near], [near], resamples=499) == 1.0


def test_holm_by_hand():
    # sorted 0.005, 0.011, 0.02, 0.04: times 4, 3, 2, 1, each at least the one before
    assert holm([0.02, 0.005, 0.04, 0.011]) == pytest.approx([0.04, 0.02, 0.04, 0.033])
    assert holm([0.6, 0.9]) == [1.0, 1.0]


def test_holm_leaves_out_what_is_not_known():
    corrected = holm([0.02, math.nan, 0.03])
    assert corrected[0] == pytest.approx(0.04)
    assert math.isnan(corrected[1])


def test_seeds_needed_are_those_of_the_tables():
    # Cohen's tables, paired t-test, two-sided 5%, power 80%: d = 0.2, 0.5, 0.8, 1.0
    assert [seeds_needed(d, 1.0) for d in (0.2, 0.5, 0.8, 1.0)] == [199, 34, 15, 10]
    assert power_of_t_test(0.5, 33) < 0.8 <= power_of_t_test(0.5, 34)


def test_no_number_of_seeds_shows_what_is_not_there():
    assert seeds_needed(0.0, 0.01) is None
    assert seeds_needed(0.01, math.nan) is None
    assert seeds_needed(1e-9, 1.0) is None
    assert seeds_needed(0.01, 0.0) == 2


def test_effects_without_spread():
    assert effect_size([0.1, 0.1]) == math.inf
    assert effect_size([0.0, 0.0]) == 0.0


def test_two_seeds_tell_no_effect():
    assert math.isnan(effect_size([0.1, 0.2]))


def test_a_single_example_that_differs_is_no_evidence():
    before, after = np.array([[True, True, False]] * 2), np.array([[True, True, True], [True, True, False]])
    assert mcnemar(before, after) == 1.0
    assert sign_flips([0.0, 3.0]) == 1.0
    assert sign_flips([]) == 1.0
