"""From relations between words to rows over tokens and to tensors, against plain loops."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attentune.errors import UserError
from attentune.methods.priors import (
    Alignment,
    Relations,
    dense_received,
    dense_target,
    prior_columns,
    relations,
    token_prior,
)

WORDS = 6
some_relations = st.lists(
    st.tuples(st.integers(0, WORDS - 1), st.integers(0, WORDS - 1), st.floats(0.01, 100)), max_size=20
)
some_tokens = st.lists(st.integers(-1, WORDS - 1), max_size=12)


def make(rows, top=None):
    return relations(*(list(part) for part in zip(*rows, strict=True)), top) if rows else relations([], [], [])


def at(numbers):
    numbers = np.array(numbers, dtype=np.int32)
    return Alignment(numbers, np.where(numbers < 0, -1, 0).astype(np.int32), numbers)


def by_loops(related, numbers):
    """P[q, k] = v_ij / (n_j · Σ_j v_ij), over those words that have tokens."""
    value = {(int(i), int(j)): float(v) for i, j, v in zip(*related, strict=True)}
    target = np.zeros((len(numbers), len(numbers)))
    for q, i in enumerate(numbers):
        total = sum(value.get((i, j), 0.0) for j in set(numbers) if j >= 0)
        for k, j in enumerate(numbers):
            if (i, j) in value:
                target[q, k] = value[i, j] / numbers.count(j) / total
    return target


@given(some_relations, some_tokens)
def test_rows_over_tokens_follow_the_words_and_sum_to_1(rows, numbers):
    related = make(rows)
    prior = token_prior(related, at(numbers))
    dense = dense_target([prior.query], [prior.key], [prior.value], len(numbers))[0]
    np.testing.assert_allclose(dense.numpy(), by_loops(related, numbers), atol=1e-6)
    sums = dense.sum(-1)
    assert torch.isclose(sums, torch.ones(())).logical_or(sums == 0).all()
    assert len({*zip(prior.query.tolist(), prior.key.tolist(), strict=True)}) == len(prior.value)


@given(some_relations, st.integers(1, 4))
def test_relations_are_unique_ordered_and_at_most_the_strongest(rows, top):
    strongest = {}
    for i, j, v in rows:
        if i != j:
            strongest[i, j] = max(strongest.get((i, j), 0.0), float(np.float32(v)))
    related = make(rows)
    assert {(i, j): v for i, j, v in zip(*map(np.ndarray.tolist, related), strict=True)} == strongest
    few = make(rows, top)
    pairs = list(zip(few.first.tolist(), few.second.tolist(), strict=True))
    assert pairs == sorted(pairs)
    for word in range(WORDS):
        mine = sorted(((-v, j) for (i, j), v in strongest.items() if i == word))[:top]
        assert {j for i, j in pairs if i == word} == {j for _, j in mine}


def test_a_word_weighs_the_same_in_however_many_pieces():
    related = relations([0, 0], [1, 2], [1.0, 3.0])
    whole, pieces = (token_prior(related, at(numbers)) for numbers in ([0, 1, 2], [0, 1, 1, 1, 2]))
    assert whole.value.tolist() == [0.25, 0.75]
    np.testing.assert_allclose(pieces.value, [0.25 / 3] * 3 + [0.75], rtol=1e-6)


def test_special_tokens_and_words_cut_off_take_no_part():
    prior = token_prior(relations([0, 0, 2], [1, 2, 0], [1.0, 9.0, 1.0]), at([-1, 0, 1, -1]))
    assert [part.tolist() for part in prior] == [[1], [2], [1.0]]


def test_received_is_the_mean_over_queries_that_have_a_row():
    query, key, value = [[0, 1, 1], []], [[1, 0, 2], []], [[1.0, 0.25, 0.75], []]
    dense = dense_target(query, key, value, 4)
    rows = dense.sum(-1) > 0
    mean = dense[0][rows[0]].mean(0)
    received = dense_received(query, key, value, 4)
    torch.testing.assert_close(received[0], mean)
    assert received[0].sum() == pytest.approx(1)
    assert (received[1] == 0).all()


def test_padding_on_either_side_changes_only_where_rows_are():
    query, key, value = [[0, 1]], [[1, 0]], [[1.0, 1.0]]
    tight = dense_target(query, key, value, 2)
    assert torch.equal(dense_target(query, key, value, 5)[:, :2, :2], tight)
    left = dense_target(query, key, value, 5, starts=[3])
    assert torch.equal(left[:, 3:, 3:], tight)
    assert left.sum() == 2
    assert dense_received(query, key, value, 5, starts=[3])[0].tolist() == [0, 0, 0, 0.5, 0.5]


def test_a_batch_that_is_too_short_is_told():
    with pytest.raises(UserError, match="token 4, but the batch has 3 positions"):
        dense_target([[4]], [[0]], [[1.0]], 3)


def test_columns_of_a_batch_of_pairs(tokenizer):
    first, second = ["dogs bark", "unbelievably"], ["cats like games", ""]
    encoded = tokenizer(first, second)
    related = {"first": [[0, 4], []], "second": [[4, 0], []], "value": [[1.0, 1.0], []]}  # dogs and games
    columns = prior_columns("pmi", related, encoded, first, second)
    assert list(columns) == ["pmi_query", "pmi_key", "pmi_value"]
    assert [len(column[1]) for column in columns.values()] == [0, 0, 0]
    offsets, which = encoded.encodings[0].offsets, encoded.encodings[0].sequence_ids
    games = [t for t, (a, b) in enumerate(offsets) if which[t] == 1 and second[0][a:b].strip() and b > 10]
    dogs = [t for t, (a, b) in enumerate(offsets) if which[t] == 0 and b <= 4]
    assert {*columns["pmi_query"][0].tolist()} == {*games, *dogs}
    dense = dense_target(*(column[:1] for column in columns.values()), len(offsets))[0]
    torch.testing.assert_close(dense[dogs[0], games], torch.full((len(games),), 1 / len(games)))


def test_a_tokenizer_that_knows_no_letters_is_refused():
    from transformers import BatchEncoding

    with pytest.raises(UserError, match="pmi needs to know which letters a token stands for"):
        prior_columns("pmi", {"first": [], "second": [], "value": []}, BatchEncoding({"input_ids": []}), [])


def test_the_empty_relation_is_typed():
    empty = relations([], [], [])
    assert isinstance(empty, Relations)
    assert [part.dtype for part in empty] == [np.int32, np.int32, np.float32]
