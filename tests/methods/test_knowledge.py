"""The guides by knowledge: their loss against loops over the maps that transformers shows, from entries of P written by hand."""

import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attentune.errors import UserError
from attentune.methods import PMI, Dependency, First, SpecError, Sum, TrainingTexts, WordSim, attach, parse
from attentune.training import GIVEN, BringColumns

LENGTHS = (8, 4, 5)
NAMES = ("dependency_query", "dependency_key", "dependency_value")


def rows_of(lengths, seed=0):
    """Rows of data: token ids, and a P whose rows sum to 1 or are empty; the second text has no relations at all."""
    generator = random.Random(seed)
    rows = []
    for number, length in enumerate(lengths):
        row = {"input_ids": [1, *(generator.randrange(3, 50) for _ in range(length - 2)), 2], "labels": number % 2}
        entries = []
        for q in range(1, length - 1):
            keys = generator.sample([k for k in range(1, length - 1) if k != q], generator.randrange(0, length - 2))
            weights = [generator.random() + 0.1 for _ in keys]
            entries += [(q, k, w / sum(weights)) for k, w in zip(keys, weights, strict=True)]
        entries = [] if number == 1 else entries
        rows.append(row | {name: [entry[i] for entry in entries] for i, name in enumerate(NAMES)})
    return rows


def collated(method, rows, pad_left=False, width=None):
    """A batch of rows, padded on one side, and what it has for the methods."""

    def own(rows):
        most = width or max(len(row["input_ids"]) for row in rows)
        blank = [[0] * (most - len(row["input_ids"])) for row in rows]
        ids = torch.tensor(
            [b + r["input_ids"] if pad_left else r["input_ids"] + b for b, r in zip(blank, rows, strict=True)]
        )
        labels = torch.tensor([row["labels"] for row in rows])
        mask = (ids != 0).long()
        positions = {"position_ids": (mask.cumsum(-1) - 1).clamp_min(0)} if pad_left else {}
        return {"input_ids": ids, "attention_mask": mask, "labels": labels, **positions}

    batch = BringColumns(Sum(parse(method).parts) if isinstance(method, str) else Sum(method.parts), own)(rows)
    return batch, batch.pop(GIVEN, {})


def guided(model, rows, method, pad_left=False, width=None, **options):
    """The guide's loss and the gradients of it alone."""
    model.zero_grad()
    batch, given = collated(method, rows, pad_left, width)
    with attach(model, method, **options) as guide:
        guide.give(given)
        model(**batch)
        loss = guide.loss()
        loss.backward()
    return loss.detach(), {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def maps_of(model, row):
    """The maps of one text alone, layer by layer, (heads, length, length)."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.no_grad():
        maps = model(input_ids=torch.tensor([row["input_ids"]]), output_attentions=True).attentions
    model.set_attn_implementation(before)
    return [layer[0].double().tolist() for layer in maps]


def prior_of(row):
    """P[q] as a dictionary, for the tokens that have relations."""
    prior = {}
    for q, k, value in zip(*(row[name] for name in NAMES), strict=True):
        prior.setdefault(q, {})[k] = value
    return prior


def naive_map(model, rows, heads):
    """Σ_layers, mean over texts, of the mean over heads and rows with a target of Σ_k (A − P)²; P cut to what is seen."""
    total = 0.0
    for row in rows:
        for layer in maps_of(model, row):
            errors = []
            for q, wanted in prior_of(row).items():
                seen = {k: v for k, v in wanted.items() if layer[0][q][k] > 0}
                for h in heads if seen else ():
                    errors.append(
                        sum((a - seen.get(k, 0.0) / sum(seen.values())) ** 2 for k, a in enumerate(layer[h][q]))
                    )
            total += sum(errors) / len(errors) if errors else 0.0
    return total / len(rows)


def naive_received(model, rows, heads):
    """Σ_layers, mean over texts and heads, of Σ_k (what k is given / all − what P gives k / all)²."""
    total = 0.0
    for row in rows:
        length, prior = len(row["input_ids"]), prior_of(row)
        wanted = [sum(p.get(k, 0.0) for p in prior.values()) for k in range(length)]
        for layer in maps_of(model, row) if prior else ():
            for h in heads:
                got = [sum(layer[h][q][k] for q in range(length)) for k in range(length)]
                total += sum((g / sum(got) - w / sum(wanted)) ** 2 for g, w in zip(got, wanted, strict=True)) / len(
                    heads
                )
    return total / len(rows)


NAIVE = {"map": naive_map, "received": naive_received}


@pytest.mark.parametrize("target", ["map", "received"])
@pytest.mark.parametrize(
    ("name", "pad_left"), [("bert", False), ("bert", True), ("llama", True), ("modernbert", False)]
)
def test_the_loss_is_that_of_loops_over_the_maps(tiny_model, name, pad_left, target):
    model, rows = tiny_model(name).double(), rows_of(LENGTHS)
    loss, gradients = guided(model, rows, Dependency(1.0, heads="1-2", target=target), pad_left)
    expected = NAIVE[target](model, rows, [1, 2])
    torch.testing.assert_close(loss, torch.tensor(expected, dtype=loss.dtype), atol=1e-6, rtol=1e-6)
    assert any(grad.abs().sum() > 0 for grad in gradients.values())


@pytest.mark.parametrize("target", ["map", "received"])
@pytest.mark.parametrize(("name", "pad_left"), [("bert", False), ("bert", True), ("llama", True)])
def test_a_padded_batch_is_the_mean_of_its_texts_alone(tiny_model, name, pad_left, target):
    model, rows, method = tiny_model(name).double(), rows_of(LENGTHS), Dependency(0.3, target=target)
    loss, gradients = guided(model, rows, method, pad_left, width=13)
    alone = [guided(model, [row], method) for row in rows]
    torch.testing.assert_close(loss, torch.stack([one for one, _ in alone]).mean(), atol=1e-9, rtol=1e-6)
    for parameter, grad in gradients.items():
        mean = sum(found.get(parameter, torch.zeros_like(grad)) for _, found in alone) / len(rows)
        torch.testing.assert_close(grad, mean, atol=1e-8, rtol=1e-5)


@pytest.mark.parametrize("target", ["map", "received"])
@pytest.mark.parametrize("name", ["bert", "llama", "modernbert"])
def test_fused_equals_reference(tiny_model, name, target):
    model, rows, method = tiny_model(name), rows_of(LENGTHS), Dependency(1.0, heads=2, target=target)
    expected, gradients = guided(model, rows, method, backend="reference")
    got, fused_gradients = guided(model, rows, method, backend="fused")
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-5)
    for parameter, grad in gradients.items():
        torch.testing.assert_close(fused_gradients[parameter], grad, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("target", ["map", "received"])
def test_the_gradient_is_that_of_finite_differences(tiny_model, target):
    model = tiny_model("bert", num_hidden_layers=1).double()
    method = Dependency(1.0, target=target)
    batch, given = collated(method, rows_of(LENGTHS))
    weight = model.bert.encoder.layer[0].attention.self.query.weight
    with attach(model, method) as guide:

        def loss(changed):
            guide.give(given)
            torch.func.functional_call(model, {"bert.encoder.layer.0.attention.self.query.weight": changed}, (), batch)
            return guide.loss()

        assert torch.autograd.gradcheck(loss, weight.detach().clone().requires_grad_(), fast_mode=True)


@pytest.mark.parametrize("target", ["map", "received"])
def test_gradient_checkpointing_and_several_passes(tiny_model, target):
    """Layers that run twice are read once, and two passes before one loss each have what was given for them."""
    rows, method = rows_of(LENGTHS), Dependency(1.0, target=target)
    found = []
    for checkpointing in (False, True):
        model = tiny_model()
        if checkpointing:
            model.gradient_checkpointing_enable()
        with attach(model, method) as guide:
            for part in (rows[:2], rows[2:]):
                batch, given = collated(method, part)
                guide.give(given)
                model(**batch)
            loss = guide.loss()
            loss.backward()
        found.append([loss.detach(), *(p.grad for p in model.parameters() if p.grad is not None)])
    assert float(found[0][0]) == pytest.approx(
        sum(float(guided(tiny_model(), part, method)[0]) for part in (rows[:2], rows[2:])), rel=1e-5
    )
    for plain, again in zip(*found, strict=True):
        torch.testing.assert_close(again, plain, atol=1e-6, rtol=1e-5)


def test_thirty_steps_pull_the_guided_heads_and_no_other(tiny_model):
    model, rows, method = tiny_model(hidden_size=64), rows_of((12, 9, 10, 11)), Dependency(1.0, heads=1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    before = [naive_map(model.eval(), rows, [head]) for head in range(4)]
    batch, given = collated(method, rows)
    model.train()
    with attach(model, method) as guide:
        for _ in range(30):
            guide.give(given)
            model(**batch)
            optimizer.zero_grad()
            guide.loss().backward()
            optimizer.step()
    after = [naive_map(model.eval(), rows, [head]) for head in range(4)]
    assert after[0] < 0.5 * before[0]
    assert min(after[1:]) > 1.5 * after[0]


def test_texts_without_relations_have_no_loss(tiny_model):
    rows = [row | {name: [] for name in NAMES} for row in rows_of(LENGTHS)]
    for target in ("map", "received"):
        loss, gradients = guided(tiny_model(), rows, Dependency(1.0, target=target))
        assert float(loss) == 0
        assert all(not grad.any() for grad in gradients.values())


# Columns.


def test_two_of_one_kind_share_columns_only_where_their_priors_agree():
    method = parse("pmi(0.1) + pmi(0.2, heads=2, target=received) + pmi(0.1, window=10) + pmi(0.1, top=all)")
    assert [part.columns[0] for part in method.parts] == [
        "pmi_query", "pmi_query", "pmi(window=10)_query", "pmi(top=all)_query",
    ]  # fmt: skip
    assert len(method.columns) == 9
    a, b = WordSim(source="a.txt"), WordSim(source="b.txt")
    assert not set(a.columns) & set(b.columns)
    assert not set(Dependency().columns) & set(Dependency(pipeline="de_core_news_sm").columns)


def test_a_sum_is_guided_by_all_of_its_columns(tiny_model):
    model, rows = tiny_model().double(), rows_of(LENGTHS)
    others = rows_of(LENGTHS, seed=7)
    both = [
        row | {f"pmi_{name.removeprefix('dependency_')}": other[name] for name in NAMES}
        for row, other in zip(rows, others, strict=True)
    ]
    method = parse("dependency(0.5) + pmi(0.25, heads=[1]) + dependency(1, target=received) + mdg(0.01)")
    batch, given = collated(method, both)
    with attach(model, method) as guide:
        guide.give(given)
        model(**batch)
        terms = guide.terms
    assert set(terms) == {"dependency", "pmi", "dependency_2", "mdg"}
    expected = {
        "dependency": naive_map(model, rows, range(4)),
        "pmi": naive_map(model, [row | {n: o[n] for n in NAMES} for row, o in zip(rows, others, strict=True)], [1]),
        "dependency_2": naive_received(model, rows, range(4)),
    }
    for name, value in expected.items():
        assert terms[name].item() == pytest.approx(value, abs=1e-6)


def test_a_training_pass_without_columns_gets_one_sentence(tiny_model, tiny_batch):
    model = tiny_model()
    with attach(model, "pmi(0.1)") as guide:
        model(**tiny_batch())
        with pytest.raises(UserError, match=r"pmi has nothing to guide by.*pmi_query, pmi_key, pmi_value.*add_columns"):
            guide.loss()


def test_evaluation_needs_no_columns(tiny_model, tiny_batch):
    model, batch = tiny_model(), tiny_batch()
    plain = model.eval()(**batch).logits
    with attach(model, "pmi(0.1) + dependency(target=received)"), torch.no_grad():
        assert torch.equal(model(**batch).logits, plain)


def test_a_row_without_a_column_is_told():
    rows = rows_of(LENGTHS)
    del rows[2]["dependency_key"]
    with pytest.raises(UserError, match="a row of this batch lacks the column 'dependency_key'"):
        collated("dependency", rows)


@pytest.mark.parametrize("target", ["map", "received"])
def test_columns_of_another_batch_are_told(tiny_model, tiny_batch, target):
    model = tiny_model()
    _, given = collated("dependency", rows_of(LENGTHS))

    def loss(guide, batch):
        guide.discard()
        guide.give(given)
        model(**batch)
        return guide.loss()

    with attach(model, Dependency(target=target)) as guide:
        with pytest.raises(UserError, match="given for texts of 8 tokens, but the model's attention has 9"):
            loss(guide, tiny_batch((9, 6, 4)))
        with pytest.raises(UserError, match="given for 3 texts, but the model is called with 2"):
            loss(guide, tiny_batch((8, 6)))


# The text form.

paths = st.text(alphabet="abzÄ 09._-/\\:+,()[]='\"~#", min_size=1, max_size=20).filter(lambda path: path.strip())
heads = st.one_of(st.just("all"), st.integers(1, 12), st.lists(st.integers(-12, 11), min_size=1, max_size=4))
common = {"weight": st.floats(0, 1e3), "heads": heads, "target": st.sampled_from(["map", "received"])}
tops = st.one_of(st.none(), st.integers(1, 99))
knowledge = st.one_of(
    st.builds(PMI, **common, window=st.integers(1, 99), min_count=st.integers(1, 99), top=tops),
    st.builds(Dependency, **common, pipeline=paths),
    st.builds(
        WordSim, **common, source=paths.filter(lambda path: path != "wordnet"), threshold=st.floats(0, 0.99), top=tops,
        vocabulary=st.one_of(st.none(), paths),
    ),
    st.builds(WordSim, **common, data=st.one_of(st.none(), paths)),
)  # fmt: skip


@given(st.lists(knowledge, min_size=1, max_size=3).map(lambda parts: Sum(tuple(parts))))
def test_what_str_writes_parse_reads(method):
    assert parse(str(method)) == method


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("wordsim(0.1, source=data/glove.6B.50d.txt)", "data/glove.6B.50d.txt"),
        ("wordsim(0.1, source=/srv/my vectors-v2.txt, top=4)", "/srv/my vectors-v2.txt"),
        (r"wordsim(source=C:\data\glove.txt)", r"C:\data\glove.txt"),
        ("wordsim(source='a, b + (c.txt')", "a, b + (c.txt"),
        ('wordsim(source="it\'s.txt")', "it's.txt"),
        ("wordsim(source='it''s.txt')", "it's.txt"),
        ("wordsim(source=a=b.txt)", "a=b.txt"),
        ("wordsim(source=v(1)/a+b.txt)", "v(1)/a+b.txt"),
        ("wordsim(vocabulary=words.txt, source=m.npy)", "m.npy"),
    ],
)
def test_paths_are_read(text, source):
    (method,) = parse(text).parts
    assert method.source == source
    assert parse(str(method)).parts == (method,)


@pytest.mark.parametrize(
    ("text", "problem", "spot"),
    [
        ("wordsim(source='glove.txt)", "this ' is never closed", "'glove"),
        ("wordsim(source=it's.txt) + mdg", "this ' is never closed", "'s.txt"),
        ("wordsim(source='a'b, top=3)", "nothing may follow the quote that closes", "'a'b"),
        ("wordsim(source='')", "a name or a path is expected here", "''"),
        ("wordsim(source=a.txt, source=b.txt)", "source is given twice", "source=b"),
        ("wordsim(source=a.txt, b.txt)", "only the first value may stand without its name", "b.txt"),
        ("wordsim(vocabulary=words.txt, threshold=0.4)", "vocabulary does not go with source=wordnet", "words.txt"),
        ("wordsim(source=v.txt, data=nltk)", "data does not go with source=v.txt", "nltk"),
        ("wordsim(threshold=1)", "threshold must be at least 0 and below 1", "1"),
        ("wordsim(threshold=high)", "threshold must be a number", "high"),
        ("wordsim(0.1, top=0)", "top must be a whole number", "0)"),
        ("pmi(0.1, top=few)", "a whole number is expected here, not 'few'", "few"),
        ("pmi(window=2.5)", "a whole number is expected here, not '2.5'", "2.5"),
        ("pmi(0.1, min_count=0)", "min_count must be a whole number, at least 1, not 0", "0)"),
        ("dependency(target=both)", "target must be map or received, not 'both'", "both"),
        ("dependency(heads=0)", "count of at least 1", "0"),
        ("pmi(source=a.txt)", "pmi has no parameter 'source'", "source"),
    ],
)
def test_an_error_points_at_the_bad_spot(text, problem, spot):
    with pytest.raises(SpecError) as caught:
        parse(text)
    assert problem in caught.value.problem
    assert text[caught.value.start :].startswith(spot)


def test_counts_of_heads_go_on_from_those_of_patterns(tiny_model):
    method = First(heads=2) + Dependency(heads=1) + PMI(heads=1)
    assert [part.choose_heads(method.parts[:i]).resolve(4, "head") for i, part in enumerate(method.parts)] == [
        (0, 1), (2,), (3,),
    ]  # fmt: skip
    assert str(method) == "first(weight=1.0, heads=2) + dependency(weight=1.0, heads=1) + pmi(weight=1.0, heads=1)"


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": PMI, "window": 2.0}, {"kind": PMI, "top": True}, {"kind": Dependency, "pipeline": ""},
        {"kind": WordSim, "source": None}, {"kind": WordSim, "threshold": "0.5"}, {"kind": WordSim, "data": ""},
    ],
)  # fmt: skip
def test_values_are_checked_in_python_too(wrong):
    kind = wrong.pop("kind")
    with pytest.raises(UserError):
        kind(**wrong)


def test_methods_that_draw_nothing_have_no_columns():
    (method,) = parse("mdg(0.1)").parts
    assert method.columns == ()
    assert method.draw(TrainingTexts(["a text"])) is None
