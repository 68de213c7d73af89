"""Measures against loops, and two models' answers against each other."""

import math

import pytest

from attentune.analysis import (
    Paired,
    compare_answers,
    head_diversity,
    received_by_head,
)

TEXTS = ["a fine film, and a long one", "what a bore"]


def test_received_shares_are_column_sums_of_the_maps(minilm, maps_of):
    model, tokenizer = minilm
    (received,) = received_by_head(model, tokenizer, TEXTS[:1])
    maps = maps_of(TEXTS[0])
    length = len(received.tokens)
    assert received.tokens[0] == "[CLS]"
    assert received.share.shape == (6, 12, length)
    for layer, head, token in ((0, 0, 0), (3, 7, 2), (5, 11, length - 1)):
        column = sum(maps[layer][head][query][token] for query in range(length))
        assert received.share[layer, head, token] == pytest.approx(column / length, abs=1e-5)


def test_diversity_is_one_less_the_mean_cosine_of_all_pairs(minilm):
    model, tokenizer = minilm
    each, special = [], []
    for text in TEXTS:
        (received,) = received_by_head(model, tokenizer, [text])
        rows = [head.tolist() for layer in received.share for head in layer]
        cosines = []
        for i in range(len(rows)):
            for j in range(i):
                dot = sum(a * b for a, b in zip(rows[i], rows[j], strict=True))
                cosines.append(dot / math.hypot(*rows[i]) / math.hypot(*rows[j]))
        each.append(1 - sum(cosines) / len(cosines))
        special.append(sum(row[0] + row[-1] for row in rows) / len(rows))
    got = head_diversity(model, tokenizer, TEXTS)
    assert got.diversity == pytest.approx(sum(each) / 2, abs=1e-5)
    assert got.special_share == pytest.approx(sum(special) / 2, abs=1e-5)
    assert 1 < got.effective_rank < 72


def test_measuring_leaves_the_model_as_it_was(minilm):
    model, tokenizer = minilm
    model.train()
    head_diversity(model, tokenizer, TEXTS)
    assert model.training
    assert model.config._attn_implementation == "sdpa"


def test_answers_are_compared_by_where_they_differ():
    assert compare_answers([True] * 5, [True] * 5) == Paired(5, 0, 0, 1.0)
    better = compare_answers([False] * 10 + [True] * 90, [True] * 100)
    assert (better.only_first, better.only_second) == (0, 10)
    assert better.p_value == pytest.approx(2 * 0.5**10)
    assert better.difference == pytest.approx(0.1)
