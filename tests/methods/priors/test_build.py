"""Relations of many texts: the same however they are built, and built once."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

from attentune.errors import UserError
from attentune.methods.priors import PMI, build, build_priors, dense_target, prior_columns, relations

TEXTS = ["hot tea and cold beer", "", "cold", "hot hot tea", "the beer is cold"] * 4
PAIRS = TEXTS[::-1]


@dataclass
class Next:
    """Each word is related to the one after it."""

    name: ClassVar[str] = "next"
    strength: float = 1.0
    calls = 0

    def prepare(self):
        if self.strength < 0:
            raise UserError("strength is missing")

    def identity(self):
        return {"strength": self.strength}

    def relate(self, examples):
        self.calls += len(examples)
        sizes = [sum(map(len, example)) for example in examples]
        return [
            relations(range(n - 1), range(1, n), [self.strength] * (n - 1)) if n else relations([], [], [])
            for n in sizes
        ]


@pytest.fixture(autouse=True)
def _few_at_once(monkeypatch):
    monkeypatch.setattr(build, "EXAMPLES_AT_ONCE", 6)


def test_rows_are_in_the_order_of_the_texts(tmp_path):
    rows = build_priors(Next(2.0), TEXTS, cache_dir=tmp_path)
    assert rows.column_names == ["first", "second", "value"]
    assert len(rows) == len(TEXTS)
    assert rows[0] == {"first": [0, 1, 2, 3], "second": [1, 2, 3, 4], "value": [2.0] * 4}
    assert rows[1] == {"first": [], "second": [], "value": []}
    assert build_priors(Next(), TEXTS, PAIRS, cache_dir=tmp_path)["first"][0] == list(range(8))


def test_built_once_per_content(tmp_path):
    prior = Next()

    def calls(*texts, using=prior):
        before = using.calls
        build_priors(using, *texts, cache_dir=tmp_path)
        return using.calls - before

    assert calls(TEXTS) == len(TEXTS)
    assert calls(list(TEXTS)) == 0
    assert calls(TEXTS, using=Next()) == 0
    assert calls(TEXTS, using=Next(2.0)) == len(TEXTS)
    assert calls(TEXTS, PAIRS) == len(TEXTS)
    assert calls(TEXTS[::-1]) == len(TEXTS)
    assert calls(["ab", "c"]) == calls(["a", "bc"]) == 2
    assert not list(tmp_path.glob("*.part"))


def test_processes_make_no_difference(tmp_path):
    pmi = PMI.count(TEXTS, min_count=1)
    alone, together = (
        build_priors(pmi, TEXTS, PAIRS, cache_dir=tmp_path / str(n), num_proc=n).to_dict() for n in (1, 2)
    )
    assert alone == together
    assert any(alone["value"])


def test_progress_is_told(tmp_path):
    told = []
    build_priors(Next(), TEXTS, cache_dir=tmp_path, progress=lambda done, total: told.append((done, total)))
    assert [done for done, _ in told] == [6, 12, 18, 20, 20]
    assert {total for _, total in told} == {20}
    again = []
    build_priors(Next(), TEXTS, cache_dir=tmp_path, progress=lambda done, total: again.append((done, total)))
    assert again == [(20, 20)]


def test_what_is_broken_off_is_not_kept(tmp_path):
    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_priors(Next(), TEXTS, cache_dir=tmp_path, progress=stop)
    assert {file.suffix for file in tmp_path.iterdir()} <= {".lock"}
    assert len(build_priors(Next(), TEXTS, cache_dir=tmp_path)) == len(TEXTS)


def test_no_texts_are_no_mistake(tmp_path):
    assert len(build_priors(Next(), [], cache_dir=tmp_path)) == 0


def test_mistakes_are_told_before_any_work(tmp_path):
    with pytest.raises(UserError, match="strength is missing"):
        build_priors(Next(-1.0), TEXTS, cache_dir=tmp_path / "new")
    with pytest.raises(UserError, match="num_proc must be at least 1"):
        build_priors(Next(), TEXTS, num_proc=0)
    assert not (tmp_path / "new").exists()


def test_the_way_of_a_data_pipeline(tmp_path, tokenizer):
    """From texts through `datasets.map` to a batch, as a guide takes it."""
    import datasets

    pmi = PMI.count(TEXTS, min_count=1)
    related = build_priors(pmi, TEXTS, PAIRS, cache_dir=tmp_path)
    data = datasets.Dataset.from_dict({"text": TEXTS, "pair": PAIRS})

    def encode(batch, indices):
        encoded = tokenizer(batch["text"], batch["pair"])
        columns = prior_columns(pmi.name, related[indices], encoded, batch["text"], batch["pair"])
        return {**encoded, **columns}

    encoded = data.map(encode, batched=True, batch_size=3, with_indices=True, remove_columns=data.column_names)
    rows = encoded[:8]
    length = max(map(len, rows["input_ids"]))
    target = dense_target(rows["pmi_query"], rows["pmi_key"], rows["pmi_value"], length)
    sums = target.sum(-1)
    assert target.shape == (8, length, length)
    assert ((sums - 1).abs() < 1e-5).logical_or(sums == 0).all()
    for row, ids in enumerate(rows["input_ids"]):
        assert not target[row, len(ids) :].any()
        special = [i for i, one in enumerate(ids) if one in tokenizer.all_special_ids]
        assert not target[row, special].any()
        assert not target[row][:, special].any()
    assert str(encoded.features["pmi_query"].feature.dtype) == "int32"
