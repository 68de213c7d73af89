"""Every measure equals a loop over the maps, with padding, pairs and texts that lack what is measured."""

import math

import numpy as np
import pytest

from attentune.analysis import MEASURES, difference, installed_dependency, mean_over_examples, survey
from attentune.analysis.estimates import metrics_of, share_of_right
from attentune.errors import UserError
from attentune.methods import attach

TEXTS = ["A fine film , and a long one .", "what a bore", "It works ; it does . Really ."]
HEADS = [(0, 0), (2, 7), (5, 11)]


@pytest.fixture(scope="module")
def taken(minilm):
    model, tokenizer = minilm
    return survey(model, tokenizer, TEXTS, batch_size=2)


def share_to(maps, layer, head, chosen):
    rows = maps[layer][head]
    return sum(sum(row[key] for key in chosen) for row in rows) / len(rows)


@pytest.mark.parametrize("example", range(3))
def test_measures_of_a_head_equal_loops_over_its_map(minilm, maps_of, taken, example):
    tokens = minilm[1].tokenize(TEXTS[example], add_special_tokens=True)
    maps, n = maps_of(TEXTS[example]), len(tokens)
    where = {
        "cls": [i for i, token in enumerate(tokens) if token == "[CLS]"],
        "sep": [i for i, token in enumerate(tokens) if token == "[SEP]"],
        "delim": [i for i, token in enumerate(tokens) if token == "[SEP]"],
        "punctuation": [i for i, token in enumerate(tokens) if token in ",.;"],
        "period": [i for i, token in enumerate(tokens) if token == "."],
        "first": [0],
    }
    for layer, head in HEADS:
        rows = maps[layer][head]
        expected = {name: share_to(maps, layer, head, keys) if keys else math.nan for name, keys in where.items()}
        expected["entropy"] = sum(-sum(p * math.log(p) for p in row if p > 0) for row in rows) / n
        expected["sharpness"] = sum(sum(p * p for p in row) for row in rows) / n
        expected["next"] = sum(rows[q][q + 1] for q in range(n - 1)) / (n - 1)
        expected["prev"] = sum(rows[q][q - 1] for q in range(1, n)) / (n - 1)
        received = [sum(row[k] for row in rows) / n for k in range(n)]
        expected["evenness"] = -sum(p * math.log(p) for p in received) / math.log(n)
        for name, value in expected.items():
            assert taken.by_head[name][example, layer, head] == pytest.approx(value, abs=2e-5, nan_ok=True), name


def test_diversity_and_rank_equal_loops_over_pairs_of_heads(maps_of, taken):
    for example in (0, 1):
        maps = maps_of(TEXTS[example])
        rows = [[sum(row[k] for row in head) for k in range(len(head))] for layer in maps for head in layer]
        unit = [[x / math.hypot(*row) for x in row] for row in rows]
        cosines = [sum(a * b for a, b in zip(unit[31], other, strict=True)) for other in unit]
        expected = 1 - (sum(cosines) - cosines[31]) / (len(unit) - 1)
        assert taken.by_head["diversity"][example, 2, 7] == pytest.approx(expected, abs=1e-5)
        eigenvalues = np.linalg.eigvalsh(np.array(unit).T @ np.array(unit)).clip(0)
        p = np.sqrt(eigenvalues) / np.sqrt(eigenvalues).sum()
        expected = math.exp(-sum(x * math.log(x) for x in p if x > 1e-12))
        assert taken.of_model["effective_rank"][example] == pytest.approx(expected, rel=1e-3)


def test_agreement_with_the_grammar_is_the_attention_along_its_edges(minilm, maps_of):
    grammar = installed_dependency()
    if grammar is None:
        pytest.skip("no English spaCy pipeline is installed: pip install 'attentune[syntax]'")
    model, tokenizer = minilm
    text = "The unbelievable dogs chased cats."
    taken = survey(model, tokenizer, ["what a bore it was, all in all", text], dependency=grammar)
    tokens = tokenizer.tokenize(text, add_special_tokens=True)
    assert tokens == ["[CLS]", "the", "unbelievable", "dogs", "chased", "cats", ".", "[SEP]"]
    edges = [(1, 3), (2, 3), (3, 4), (5, 4), (6, 4)]
    near = {q: [b if q == a else a for a, b in edges if q in (a, b)] for q in range(1, 7)}
    for layer, head in HEADS:
        rows = maps_of(text)[layer][head]
        expected = sum(sum(rows[q][k] for k in keys) for q, keys in near.items()) / len(near)
        assert taken.by_head["dependency"][1, layer, head] == pytest.approx(expected, abs=2e-5)


def test_a_pair_is_measured_as_one_sequence(minilm, maps_of):
    model, tokenizer = minilm
    taken = survey(model, tokenizer, [("a fine film", "what a bore"), ("a bore", "it was fine, all of it")])
    maps = maps_of("a fine film", "what a bore")
    tokens = tokenizer.tokenize("a fine film", "what a bore", add_special_tokens=True)
    separators = [i for i, token in enumerate(tokens) if token == "[SEP]"]
    assert len(separators) == 2
    assert taken.by_head["sep"][0, 3, 4] == pytest.approx(share_to(maps, 3, 4, separators), abs=2e-5)


def test_numbers_of_a_data_set_are_means_over_heads_and_examples(taken):
    assert set(taken.measures) == set(MEASURES) - {"dependency"}
    values = taken.by_head["period"]  # the second text has no full stop
    assert math.isnan(values[1].mean())
    expected = (values[0].mean() + values[2].mean()) / 2
    estimate = taken.estimate("period")
    assert estimate.value == pytest.approx(expected)
    assert estimate.examples == 2
    assert taken.grid("period")[4, 2] == pytest.approx((values[0, 4, 2] + values[2, 4, 2]) / 2)
    with pytest.raises(UserError, match="no 'effective_rank' by head"):
        taken.grid("effective_rank")


def test_measuring_goes_on_beside_a_guide_and_leaves_the_model_as_it_was(minilm, taken):
    model, tokenizer = minilm
    model.train()
    with attach(model, "mdg(0.1)"):
        beside = survey(model, tokenizer, TEXTS, batch_size=2)
        assert model.training
    assert model.config._attn_implementation == "sdpa"
    for name, values in taken.by_head.items():
        np.testing.assert_allclose(beside.by_head[name], values, atol=1e-6)


def test_a_method_that_changes_the_forward_pass_is_part_of_what_is_measured(minilm, taken):
    model, tokenizer = minilm
    with attach(model, "blur(on=value, sigma=1.0)"):
        blurred = survey(model, tokenizer, TEXTS, batch_size=2)
    np.testing.assert_allclose(blurred.by_head["entropy"][:, 0], taken.by_head["entropy"][:, 0], atol=1e-5)
    assert np.abs(blurred.by_head["entropy"][:, 1:] - taken.by_head["entropy"][:, 1:]).max() > 0.01


def test_nothing_to_measure_is_told(minilm):
    with pytest.raises(UserError, match="no text to measure"):
        survey(*minilm, [])


def test_a_difference_is_paired(taken, minilm):
    same = difference(taken, taken, "entropy")
    assert (same.value, same.low, same.high) == (0, 0, 0)
    fewer = survey(*minilm, TEXTS[:2])
    with pytest.raises(UserError, match="3 and 2 texts"):
        difference(taken, fewer, "entropy")


def test_the_interval_of_a_mean_is_that_of_resampled_examples():
    values = np.random.default_rng(1).normal(3.0, 2.0, size=400)
    estimate = mean_over_examples(values)
    half = 1.96 * values.std(ddof=1) / math.sqrt(400)  # large enough for the normal approximation
    assert estimate.low == pytest.approx(values.mean() - half, abs=0.03)
    assert estimate.high == pytest.approx(values.mean() + half, abs=0.03)
    assert not mean_over_examples(values - 3.0).excludes_zero
    assert mean_over_examples(values).excludes_zero
    assert mean_over_examples([1.0]).low is None
    assert mean_over_examples([math.nan]).examples == 0


def test_a_share_of_right_answers_has_the_interval_of_wilson():
    n, p, z = 50, 0.8, 1.959964
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    estimate = share_of_right([True] * 40 + [False] * 10)
    assert (estimate.low, estimate.high) == pytest.approx((centre - half, centre + half), abs=1e-6)


def test_other_metrics_are_bootstrapped():
    def score(predictions, references):
        right = [a == b for a, b in zip(predictions, references, strict=True)]
        return {"accuracy": sum(right) / len(right), "errors": 1 - sum(right) / len(right)}

    truth = [i % 2 for i in range(300)]
    guesses = [t if i % 5 else 1 - t for i, t in enumerate(truth)]
    found = metrics_of(score, guesses, truth)
    assert found["errors"].value == pytest.approx(0.2)
    assert found["errors"].low == pytest.approx(1 - found["accuracy"].high, abs=0.02)
    assert found["errors"].high == pytest.approx(1 - found["accuracy"].low, abs=0.02)
