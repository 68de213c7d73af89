"""Positive PMI against plain loops over the formula, and its files."""

import json
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attentune.errors import UserError
from attentune.methods.priors import PMI, pmi, split_words

TEXTS = [
    "Hot tea, hot tea!", "cold beer and hot tea", "cold cold beer", "", "beer",
    "the tea is hot, and the beer is cold, and so on and so on",
]  # fmt: skip
some_texts = st.lists(st.lists(st.sampled_from(["a", "b", "c", "d", ","]), max_size=9).map(" ".join), max_size=5)


def by_loops(texts, window, min_count):
    """max(0, log(n_ij · N / (n_i · n_j))) for each ordered pair of words."""
    words = [[w.lower() for w in split_words(t).words if w not in ",.!"] for t in texts]
    frequency = Counter(w for text in words for w in text)
    together = Counter()
    for text in words:
        for p, a in enumerate(text):
            for q, b in enumerate(text):
                if p != q and abs(p - q) <= window and min(frequency[a], frequency[b]) >= min_count:
                    together[a, b] += 1
    single = Counter()
    for (a, _), n in together.items():
        single[a] += n
    total = sum(together.values())
    values = {(a, b): math.log(n * total / (single[a] * single[b])) for (a, b), n in together.items()}
    return {pair: value for pair, value in values.items() if value > 1e-9}


def as_dict(counted):
    both = {}
    for i, j, v in zip(counted.first, counted.second, counted.value, strict=True):
        if v > 1e-6:
            both[counted.vocabulary[i], counted.vocabulary[j]] = both[counted.vocabulary[j], counted.vocabulary[i]] = (
                float(v)
            )
    return both


@pytest.mark.parametrize("window", [1, 2, 5])
@pytest.mark.parametrize("min_count", [1, 2, 3])
def test_ppmi_is_the_formula(window, min_count):
    expected = by_loops(TEXTS, window, min_count)
    assert expected
    assert as_dict(PMI.count(TEXTS, window, min_count)) == pytest.approx(expected, rel=1e-5)


@given(some_texts, st.integers(1, 4), st.integers(1, 3), st.integers(1, 7))
def test_any_texts_however_many_are_counted_at_once(texts, window, min_count, at_once):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pmi, "COUNTED_AT_ONCE", at_once)
        counted = as_dict(PMI.count(texts, window, min_count))
    assert counted == pytest.approx(by_loops(texts, window, min_count), rel=1e-5)


def test_relations_are_those_of_all_pairs_of_words_also_across_texts():
    counted = PMI.count(TEXTS, min_count=2)
    values = as_dict(counted)
    example = (split_words("Hot tea is unheard-of"), split_words("so cold, beer"))
    words = [word.lower() for text in example for word in text.words]
    (related,) = counted.relate([example])
    expected = {
        (i, j): values[a, b] for i, a in enumerate(words) for j, b in enumerate(words) if i != j and (a, b) in values
    }
    found = {(int(i), int(j)): float(v) for i, j, v in zip(*related, strict=True)}
    assert any(i < 6 <= j for i, j in expected)
    assert found == pytest.approx(expected, rel=1e-5)


def test_nothing_to_count_is_no_mistake():
    for texts in ([], [""], ["one"]):
        counted = PMI.count(texts, min_count=1)
        assert [len(part) for part in counted.relate([(split_words("one two"),)])[0]] == [0, 0, 0]


def test_what_is_saved_is_loaded(tmp_path):
    counted = PMI.count(TEXTS, window=3, min_count=2, top=4)
    counted.save(tmp_path / "new" / "pmi.npz")
    loaded = PMI.load(tmp_path / "new" / "pmi")
    assert loaded.identity() == counted.identity()
    assert (loaded.vocabulary, loaded.window, loaded.min_count, loaded.top) == (counted.vocabulary, 3, 2, 4)
    for part in ("first", "second", "value"):
        np.testing.assert_array_equal(getattr(loaded, part), getattr(counted, part))


def test_other_counts_have_another_identity():
    assert PMI.count(TEXTS, min_count=1).identity() != PMI.count(TEXTS, window=1, min_count=1).identity()
    assert PMI.count(TEXTS, min_count=1).identity() == PMI.count(list(TEXTS), min_count=1).identity()


def test_bad_files_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"no such file: .*pmi\.npz"):
        PMI.load(tmp_path / "pmi")
    counted = PMI.count(TEXTS, min_count=1)
    path = tmp_path / "pmi"

    def refuses(why):
        with pytest.raises(UserError, match=why):
            PMI.load(path)

    counted.save(path)
    head = json.loads((tmp_path / "pmi.json").read_text())
    (tmp_path / "pmi.json").write_text(json.dumps({**head, "vocabulary": head["vocabulary"][:2]}))
    refuses("does not fit its vocabulary")
    (tmp_path / "pmi.json").write_text(json.dumps({**head, "format": 9}))
    refuses("is of format 9, this version reads 1")
    (tmp_path / "pmi.json").write_text("[]")
    refuses("not what PMI.save writes")
    counted.save(path)
    np.savez(tmp_path / "pmi.npz", first=np.array([{}], dtype=object), second=[1], value=[1.0])
    refuses("not what PMI.save writes")  # a pickle is not read
    (tmp_path / "pmi.npz").write_bytes(b"not a zip")
    refuses("not what PMI.save writes")


@pytest.mark.parametrize("wrong", [{"window": 0}, {"min_count": 0}, {"window": 2.5}, {"top": 0}, {"top": True}])
def test_parameters_are_checked(wrong):
    with pytest.raises(UserError, match=f"{next(iter(wrong))} must be a whole number, at least 1"):
        PMI.count(["a b"], **wrong)
