"""Simulations: an effect that is there is found at the promised rate, and one that isn't no more often than promised.

Each rate is judged with room for the simulation's own chance: three of its standard errors.
"""

import math

import numpy as np
import pytest

from attentune.studies.power import power_of_t_test, seeds_needed
from attentune.studies.statistics import holm, interval_of_mean, mcnemar, over_seeds

STUDIES = 500


def room(rate, studies=STUDIES):
    return 3 * math.sqrt(rate * (1 - rate) / studies)


def differences(effect, seeds, studies=STUDIES):
    """Scores of a baseline and a method: seeds differ by more than methods do, so that only pairs can tell."""
    generator = np.random.default_rng(7)
    by_seed = generator.normal(0.7, 0.05, (studies, seeds))
    baseline = by_seed + generator.normal(0, 0.01 / math.sqrt(2), (studies, seeds))
    method = by_seed + effect * 0.01 + generator.normal(0, 0.01 / math.sqrt(2), (studies, seeds))
    return zip(baseline, method, strict=True)


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_under_the_null_false_alarms_are_no_more_than_promised(seeds):
    found = [over_seeds(*pair) for pair in differences(0.0, seeds)]
    for name in ("t_p", "wilcoxon_p"):
        rate = np.mean([getattr(f, name) < 0.05 for f in found])
        assert rate <= 0.05 + room(0.05), name
    t_rate = np.mean([f.t_p < 0.05 for f in found])
    assert t_rate >= 0.05 - room(0.05)  # nor is power given away


@pytest.mark.parametrize(("effect", "seeds"), [(1.0, 5), (1.0, 10), (2.0, 5)])
def test_an_effect_is_found_at_the_promised_rate(effect, seeds):
    promised = power_of_t_test(effect, seeds)
    rate = np.mean([over_seeds(*pair).t_p < 0.05 for pair in differences(effect, seeds)])
    assert rate == pytest.approx(promised, abs=room(promised))


def test_as_many_seeds_as_are_said_to_be_needed_find_it_four_times_of_five():
    seeds = seeds_needed(difference=0.008, deviation=0.01)
    rate = np.mean([over_seeds(*pair).t_p < 0.05 for pair in differences(0.8, seeds)])
    assert 0.8 - room(0.8) <= rate <= 0.86


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_the_interval_holds_the_truth_as_often_as_it_says(seeds):
    generator = np.random.default_rng(1)
    found = [interval_of_mean(generator.normal(0.3, 1.0, seeds)) for _ in range(STUDIES)]
    rate = np.mean([interval.low <= 0.3 <= interval.high for interval in found])
    assert rate >= 0.95 - room(0.95)
    assert rate < 0.99  # not by being too wide


def test_with_many_methods_none_of_which_helps_one_study_in_twenty_says_otherwise():
    generator = np.random.default_rng(2)
    alarms, uncorrected = 0, 0
    for _ in range(150):
        by_seed = generator.normal(0.7, 0.05, 5)
        baseline = by_seed + generator.normal(0, 0.01, 5)
        p_values = [over_seeds(baseline, by_seed + generator.normal(0, 0.01, 5)).t_p for _ in range(10)]
        alarms += min(holm(p_values)) < 0.05
        uncorrected += min(p_values) < 0.05
    assert alarms / 150 <= 0.05 + room(0.05, 150)
    assert uncorrected / 150 > 0.15  # what it would be without the correction


def answers(generator, seeds, examples, better):
    """Right answers of two methods: each example has its own difficulty, and each method its own strengths."""
    difficulty = generator.normal(1.0, 1.5, examples)
    right = []
    for gain in (0.0, better):
        logit = difficulty + generator.normal(0, 0.7, examples) + gain
        right.append(generator.random((seeds, examples)) < 1 / (1 + np.exp(-logit)))
    return right


@pytest.mark.parametrize("seeds", [1, 5])
def test_pooled_answers_raise_no_more_false_alarms_than_promised(seeds):
    generator = np.random.default_rng(5)
    studies = 80
    rate = np.mean([mcnemar(*answers(generator, seeds, 200, 0.0)) < 0.05 for _ in range(studies)])
    assert rate <= 0.05 + room(0.05, studies)


def test_pooled_answers_of_a_better_method_are_told_apart():
    generator = np.random.default_rng(6)
    rate = np.mean([mcnemar(*answers(generator, 5, 300, 0.6)) < 0.05 for _ in range(20)])
    assert rate > 0.9


def test_the_simpler_percentile_bootstrap_would_not_do():
    """Why the interval is the studentised one: with five seeds, this one promises 95% and holds 84%."""
    generator = np.random.default_rng(1)
    held = []
    for _ in range(1_000):
        values = generator.normal(0.3, 1.0, 5)
        means = values[generator.integers(0, 5, (1_000, 5))].mean(axis=1)
        low, high = np.quantile(means, [0.025, 0.975])
        held.append(low <= 0.3 <= high)
    assert np.mean(held) == pytest.approx(0.84, abs=0.035)
