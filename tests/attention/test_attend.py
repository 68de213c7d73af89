"""attend: the reference is checked against loops, everything else against the reference."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attentune.attention import Selection, attend, fused, kernels, masks, mass, overlap, products, reach, sharpness
from attentune.attention.attend import read_attention
from attentune.errors import UserError

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10, torch.bfloat16: 5e-2}


def inputs(batch=2, heads=3, queries=5, keys=5, width=8, dtype=torch.float64, kv_heads=None, seed=0):
    generator = torch.Generator().manual_seed(seed)
    kv_heads = kv_heads or heads
    shapes = [(batch, heads, queries, width), (batch, kv_heads, keys, width), (batch, kv_heads, keys, width)]
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_() for shape in shapes]


def padding_mask(batch, keys, generator):
    lengths = torch.randint(1, keys + 1, (batch,), generator=generator)
    return (torch.arange(keys) < lengths[:, None])[:, None, None, :]


# The reference, against plain Python.


def test_reference_equals_loops_over_the_definitions():
    query, key, value = inputs(batch=1, heads=1, queries=3, keys=4, width=2)
    weight = torch.tensor([[1.0, 0.0, 2.0]], dtype=torch.float64)
    mask = torch.tensor([[True, True, False, True], [True, False, True, True], [False, False, False, False]])
    prior = torch.rand(1, 1, 3, 4, dtype=torch.float64)
    target = torch.tensor([[3, -1, 0]])
    read = [
        "received", "sharpness", "entropy", "maps", mass(target, "sparse"), mass(prior, "dense"),
        reach(target, "sparse reach"), reach(prior, "dense reach"),
    ]  # fmt: skip
    got = attend(query, key, value, mask=mask, query_weight=weight, read=read, backend="reference")

    q, k, v = (x[0, 0].tolist() for x in (query, key, value))
    maps = [[0.0] * 4 for _ in range(3)]
    for i in range(3):
        scores = {
            j: math.exp(sum(a * b for a, b in zip(q[i], k[j], strict=True)) / math.sqrt(2))
            for j in range(4)
            if mask[i, j]
        }
        for j, score in scores.items():
            maps[i][j] = score / sum(scores.values())
    w = weight[0].tolist()
    expected = {
        "received": [sum(w[i] * maps[i][j] for i in range(3)) for j in range(4)],
        "sharpness": [sum(a * a for a in row) for row in maps],
        "entropy": [-sum(a * math.log(a) for a in row if a) for row in maps],
        "maps": maps,
        "sparse": [maps[0][3], 0.0, 0.0],
        "dense": [sum(maps[i][j] * float(prior[0, 0, i, j]) for j in range(4)) for i in range(3)],
        "sparse reach": [1.0, 0.0, 0.0],
        "dense reach": [sum(float(prior[0, 0, i, j]) for j in range(4) if mask[i, j]) for i in range(3)],
    }
    output = [[sum(maps[i][j] * v[j][d] for j in range(4)) for d in range(2)] for i in range(3)]
    torch.testing.assert_close(got.output[0, 0], torch.tensor(output, dtype=torch.float64))
    for name, want in expected.items():
        torch.testing.assert_close(got.readings[name][0, 0], torch.tensor(want, dtype=torch.float64), msg=name)


def test_reference_overlap_is_the_sum_of_products_of_all_pairs_of_heads():
    query, key, value = inputs(batch=1, heads=3, queries=4, keys=5)
    read = ["maps", overlap(), overlap(Selection.parse([0, 2]), "two")]
    got = attend(query, key, value, read=read, backend="reference").readings
    maps = got["maps"][0].tolist()
    for name, heads in (("overlap", (0, 1, 2)), ("two", (0, 2))):
        for q in range(4):
            pairs = [sum(maps[i][q][k] * maps[j][q][k] for k in range(5)) for i in heads for j in heads]
            assert got[name].shape == (1, 1, 4)
            assert float(got[name][0, 0, q].detach()) == pytest.approx(sum(pairs), abs=1e-12)


def test_what_is_read_of_some_heads_is_theirs():
    query, key, value = inputs(heads=4)
    mask = torch.randn(2, 4, 5, 5, dtype=torch.float64)
    mask[0, 2, 1] = float("-inf")  # a dead row, in one head
    target = torch.randint(-1, 5, (2, 5))
    for backend in ("reference", "fused"):
        for taken in (mass, reach):
            read = [taken(target, "all"), taken(target, "some", Selection.parse([1, 2]))]
            got = attend(query, key, value, mask=mask, read=read, backend=backend).readings
            assert got["some"].shape == (2, 2, 5)
            torch.testing.assert_close(got["some"], got["all"][:, 1:3])


def test_reference_output_is_torchs_own_attention():
    query, key, value = inputs(kv_heads=1)
    bias = torch.randn(2, 1, 5, 5, dtype=torch.float64)
    got = attend(query, key, value, mask=bias, scale=0.7, backend="reference").output
    expected = torch.nn.functional.scaled_dot_product_attention(
        query, key.expand_as(query), value.expand_as(query), attn_mask=bias, scale=0.7
    )
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("backend", ["reference", "fused"])
@pytest.mark.parametrize("heads", ["all", "1-2", [0, 3]])
def test_what_is_read_of_some_heads_is_what_they_read_among_all(heads, backend):
    query, key, value = inputs(heads=4)
    bias = torch.randn(1, 4, 1, 5, dtype=torch.float64)
    bias[:, 3, :, 2] = float("-inf")
    target, some = torch.tensor([[1, 2, -1, 0, 4]] * 2), Selection.parse(heads)
    read = ["sharpness", mass(target), reach(target)]
    whole = attend(query, key, value, mask=bias, read=read, backend="reference").readings
    wanted = [sharpness(some, "some 0"), mass(target, "some 1", some), reach(target, "some 2", some)]
    got = attend(query, key, value, mask=bias, read=wanted, backend=backend).readings
    chosen = list(some.resolve(4, "head"))
    for i, name in enumerate(["sharpness", "mass", "reach"]):
        torch.testing.assert_close(got[f"some {i}"], whole[name][:, chosen].to(got[f"some {i}"].dtype), msg=name)


# The fused backend, against the reference.


READINGS = [
    "received", "sharpness", "entropy", "sparse", "dense", "sparse by head", "reach", "reach by head", "dense reach",
    "overlap", "overlap of some", "sharpness of some", "sparse of some", "dense of some", "reach of some", "dense reach of some",
]  # fmt: skip


@st.composite
def problems(draw):
    """A shape, a kind of mask and a set of readings."""
    return {
        "batch": draw(st.integers(1, 3)),
        "kv_heads": draw(st.integers(1, 2)),
        "groups": draw(st.integers(1, 3)),
        "queries": draw(st.integers(1, 40)),
        "keys": draw(st.integers(1, 40)),
        "width": draw(st.sampled_from([1, 2, 5, 8, 16, 20, 32])),
        "mask": draw(
            st.sampled_from(
                [
                    "none",
                    "causal",
                    "padding",
                    "padding, additive",
                    "boolean",
                    "bias",
                    "bias by head",
                    "infinite",
                    "both",
                ]
            )
        ),
        "weighted": draw(st.booleans()),
        "scale": draw(st.sampled_from([None, 0.05, 0.4])),
        "read": draw(st.lists(st.sampled_from(READINGS), unique=True)),
        "seed": draw(st.integers(0, 10_000)),
        "use_output": draw(st.booleans()),
        "short": draw(st.sampled_from([0, 512])),  # the backward by the fused kernel, or by products
    }


def build(problem, dtype):
    """Tensors and keyword arguments of a problem; dead rows included wherever the mask is free to make them."""
    generator = torch.Generator().manual_seed(problem["seed"])
    batch, queries, keys = problem["batch"], problem["queries"], problem["keys"]
    heads = problem["kv_heads"] * problem["groups"]
    leaves = inputs(batch, heads, queries, keys, problem["width"], dtype, problem["kv_heads"], problem["seed"])
    may = torch.rand(batch, 1, queries, keys, generator=generator) < 0.7
    bias = torch.randn(batch, 1, queries, keys, generator=generator, dtype=torch.float64).to(dtype)
    padding = padding_mask(batch, keys, generator)
    masks = {
        "padding": padding.expand(batch, 1, queries, keys),
        "padding, additive": torch.where(padding, 0.0, torch.finfo(torch.float32).min).to(dtype),
        "boolean": may,
        "bias": bias,
        "bias by head": bias * (torch.arange(1, heads + 1) / heads).to(dtype)[None, :, None, None],
        "infinite": bias.masked_fill(~may, float("-inf")),
        "both": may,
    }
    read = []
    for name in problem["read"]:
        if name.endswith("of some") and name not in ("overlap of some", "sharpness of some"):
            taken = reach if "reach" in name else mass
            some = Selection.parse([-1] if problem["seed"] % 2 else [0, -1])
            count = len(some.resolve(heads, "head"))
            sparse = torch.randint(-1, keys, (batch, count, queries), generator=generator)
            dense = torch.rand(batch, 1, queries, keys, generator=generator)
            read.append(taken(dense if "dense" in name else sparse, name, some))
        elif name == "sparse":
            read.append(mass(torch.randint(-1, keys, (batch, queries), generator=generator), "sparse"))
        elif name == "sparse by head":
            read.append(mass(torch.randint(-1, keys, (batch, heads, queries), generator=generator), name))
        elif name == "dense":
            read.append(mass(torch.rand(batch, 1, queries, keys, generator=generator), "dense"))
        elif name.endswith("reach") or name.startswith("reach"):
            by_head = (batch, heads, queries) if "by head" in name else (batch, queries)
            sparse = torch.randint(-1, keys, by_head, generator=generator)
            read.append(reach(torch.rand(1, 1, 1, keys, generator=generator) if "dense" in name else sparse, name))
        elif name == "overlap":
            read.append(overlap())
        elif name == "sharpness of some":
            read.append(sharpness(Selection.parse([0, -1]), name))
        elif name == "overlap of some":
            read.append(overlap(Selection.parse([0, -1]), name))
        else:
            read.append(name)
    arguments = {
        "mask": masks.get(problem["mask"]),
        "is_causal": problem["mask"] in ("causal", "both"),
        "scale": problem["scale"],
        "read": read,
    }
    if problem["weighted"]:
        arguments["query_weight"] = torch.randint(0, 2, (batch, queries), generator=generator).to(dtype)
    return leaves, arguments


def results_and_gradients(leaves, arguments, backend, use_output):
    got = attend(*leaves, **arguments, backend=backend)
    has_gradient = any(x.requires_grad for x in got.readings.values())  # reach has none
    parts = ([got.output] if use_output or not has_gradient else []) + list(got.readings.values())
    generator = torch.Generator().manual_seed(1)
    total = sum((x.double() * torch.randn(x.shape, generator=generator, dtype=torch.float64)).sum() for x in parts)
    grads = torch.autograd.grad(total, leaves, allow_unused=True)
    grads = [torch.zeros_like(x) if g is None else g for g, x in zip(grads, leaves, strict=True)]
    return {"output": got.output, **got.readings}, grads


def assert_same(got, expected, dtype, what, size=1.0):
    """Equal up to the dtype's tolerance, relative to `size` where that is above 1."""
    worst = float((got.detach().double() - expected.detach().double()).abs().max())
    assert worst <= TOLERANCE[dtype] * max(1.0, size), f"{what} is off by {worst:.2e}"


def compare(problem, dtype):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "SHORT", problem["short"])
        compare_as_set(problem, dtype)


def compare_as_set(problem, dtype):
    leaves, arguments = build(problem, dtype)
    expected, expected_grads = results_and_gradients(leaves, arguments, "reference", problem["use_output"])
    got, grads = results_and_gradients(leaves, arguments, "fused", problem["use_output"])
    for name, want in expected.items():
        assert_same(got[name], want, dtype, name, float(want.detach().abs().max()))
    size = max(float(grad.abs().max()) for grad in expected_grads)  # of the gradient as a whole
    size = max(size, len(arguments["read"]))  # each reading sends one of about 1, and with a single key they all cancel
    for name, grad, want in zip(("d query", "d key", "d value"), grads, expected_grads, strict=True):
        assert_same(grad, want, dtype, name, size)


@given(problems())
@settings(max_examples=150, deadline=None)
def test_fused_equals_reference_in_float64(problem):
    compare(problem, torch.float64)


@given(problems())
@settings(max_examples=150, deadline=None)
def test_fused_equals_reference_in_float32(problem):
    compare(problem, torch.float32)


@pytest.mark.parametrize("block", [50, 700, 2**20])  # splitting queries, heads and examples, or nothing
@given(problem=problems())
@settings(max_examples=40, deadline=None)
def test_products_in_blocks_equal_reference(block, problem):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "available", lambda device, dtype: False)
        patch.setattr(products, "BLOCK", block)
        compare(problem, torch.float64)


def test_long_keys_go_through_several_swapped_chunks(monkeypatch):
    monkeypatch.setattr(fused, "CHUNK_ELEMENTS", 500)
    for mask in ("causal", "boolean", "infinite"):
        for queries, keys in ((40, 70), (70, 40), (64, 64)):
            problem = {
                "batch": 2, "kv_heads": 1, "groups": 2, "queries": queries, "keys": keys, "width": 8, "mask": mask,
                "weighted": True, "scale": None, "read": ["received"], "seed": 3, "use_output": True, "short": 0,
            }  # fmt: skip
            compare(problem, torch.float64)


@pytest.mark.parametrize("short", [0, 512])  # the backward by the fused kernel, and by products
@pytest.mark.parametrize("mask", ["padding", "causal", "boolean", "none"])
def test_bfloat16_stays_within_its_precision_of_float64(monkeypatch, short, mask):
    monkeypatch.setattr(products, "SHORT", short)
    monkeypatch.setattr(products, "BLOCK", 10_000)
    wide, arguments = build(
        {
            "batch": 2, "kv_heads": 2, "groups": 1, "queries": 64, "keys": 64, "width": 32, "mask": mask,
            "weighted": True, "scale": None, "seed": 5,
            "read": ["received", "sharpness", "entropy", "sparse", "sharpness of some"],
        },
        torch.float64,
    )  # fmt: skip
    narrow = [x.detach().bfloat16().requires_grad_() for x in wide]
    wide = [x.detach().double().requires_grad_() for x in narrow]  # the same numbers, computed exactly
    expected, expected_grads = results_and_gradients(wide, arguments, "reference", True)
    got, grads = results_and_gradients(narrow, arguments, "fused", True)
    for name, want in expected.items():
        assert got[name].dtype == (torch.bfloat16 if name == "output" else torch.float32)
        error = float((got[name].detach().double() - want.detach()).norm() / want.detach().norm())
        bound = {"output": 1e-2, "entropy": 1e-3}.get(
            name, 1e-4
        )  # A K, of the entropy, is in bfloat16 as the output is
        assert error < bound, f"{name}: {error:.1e}"
    for grad, want in zip(grads, expected_grads, strict=True):
        assert float((grad.double() - want).norm() / want.norm()) < 2e-2


@pytest.mark.parametrize("backend", ["reference", "fused"])
@pytest.mark.parametrize("short", [0, 512])
@pytest.mark.parametrize("mask", ["none", "padding", "boolean", "bias", "causal"])
def test_gradcheck(monkeypatch, backend, short, mask):
    monkeypatch.setattr(products, "SHORT", short)
    problem = {
        "batch": 1, "kv_heads": 1, "groups": 2, "queries": 4, "keys": 4, "width": 3, "mask": mask, "weighted": True,
        "scale": None, "read": ["received", "sharpness", "entropy", "sparse", "dense", "overlap"], "seed": 11,
    }  # fmt: skip
    leaves, arguments = build(problem, torch.float64)

    def everything(query, key, value):
        got = attend(query, key, value, **arguments, backend=backend)
        return got.output, *got.readings.values()

    assert torch.autograd.gradcheck(everything, leaves)


def test_readings_alone_equal_those_beside_an_output():
    leaves, arguments = build(
        {
            "batch": 2, "kv_heads": 1, "groups": 2, "queries": 9, "keys": 9, "width": 8, "mask": "padding",
            "weighted": True, "scale": None, "read": ["received", "sharpness", "entropy", "sparse", "overlap"], "seed": 2,
        },
        torch.float64,
    )  # fmt: skip
    expected = attend(*leaves, **arguments).readings
    got = read_attention(*leaves[:2], **arguments)
    for name, want in expected.items():
        torch.testing.assert_close(got[name], want)
        for leaf in leaves[:2]:
            (grad,) = torch.autograd.grad(got[name].square().sum(), leaf, retain_graph=True)
            (expected_grad,) = torch.autograd.grad(want.square().sum(), leaf, retain_graph=True)
            torch.testing.assert_close(grad, expected_grad)


# Properties.


@pytest.mark.parametrize("backend", ["reference", "fused"])
def test_a_row_with_no_allowed_key_reads_zero_and_sends_no_gradient(backend):
    query, key, value = inputs(batch=1, heads=1)
    mask = torch.ones(5, 5, dtype=torch.bool)
    mask[2] = False
    target = torch.zeros(1, 5, dtype=torch.long)
    read = ["received", "sharpness", "entropy", mass(target), reach(target), overlap()]
    got = attend(query, key, value, mask=mask, read=read, backend=backend)
    assert got.output[0, 0, 2].abs().max() == 0
    for name in ("sharpness", "entropy", "mass", "reach", "overlap"):
        assert got.readings[name][0, 0, 2] == 0
    assert float(got.readings["received"].detach().sum()) == pytest.approx(4)
    total = got.output.sum() + sum(x.square().sum() for x in got.readings.values())
    (grad,) = torch.autograd.grad(total, query)
    assert grad[0, 0, 2].abs().max() == 0
    assert grad.isfinite().all()


@pytest.mark.parametrize("backend", ["reference", "fused"])
def test_all_that_models_write_for_never_means_never(backend):
    query, key, value = inputs(dtype=torch.float32)
    may = torch.rand(2, 1, 5, 5, generator=torch.Generator().manual_seed(0)) < 0.7
    may[..., 0] = True
    expected = attend(query, key, value, mask=may, read="received", backend=backend)
    for never in (-1e4, -1e9, torch.finfo(torch.float32).min, float("-inf")):
        got = attend(query, key, value, mask=torch.where(may, 0.0, never), read="received", backend=backend)
        torch.testing.assert_close(got.output, expected.output)
        torch.testing.assert_close(got.readings["received"], expected.readings["received"])


def test_dropout_changes_the_output_and_no_reading():
    query, key, value = inputs(queries=64, keys=64)
    plain = attend(query, key, value, read="received")
    for backend in ("reference", "fused"):
        torch.manual_seed(0)
        dropped = attend(query, key, value, dropout=0.5, read="received", backend=backend)
        torch.testing.assert_close(dropped.readings["received"], plain.readings["received"])
        ratio = float((dropped.output - plain.output).detach().norm() / plain.output.detach().norm())
        assert 0.3 < ratio < 3  # half of the map gone, the rest doubled
        draws = [attend(query, key, value, dropout=0.5, backend=backend).output.detach() for _ in range(200)]
        many = torch.stack(draws)
        off = (many.mean(0) - plain.output.detach()).norm() / plain.output.detach().norm()
        assert float(off) < 0.15  # and right on average


@pytest.mark.parametrize("block", [30, 2**20])
def test_dropout_has_the_gradient_of_what_it_kept(monkeypatch, block):
    monkeypatch.setattr(products, "BLOCK", block)
    leaves = inputs(queries=7, keys=7)

    def dropped(query, key, value):
        torch.manual_seed(3)  # the same draws at each call
        got = attend(query, key, value, dropout=0.3, is_causal=True, read=["received", "sharpness"])
        return got.output, *got.readings.values()

    assert torch.autograd.gradcheck(dropped, leaves)


def test_dropout_keeps_the_share_it_should():
    drop = products.Dropout(0.3)
    maps = torch.zeros(4, 50, 101)
    draws, again = drop.draws(), drop.draws()
    kept = [draws.next(maps), draws.next(maps)]
    assert not torch.equal(*kept)
    assert torch.equal(kept[0], again.next(maps))
    assert abs(float(torch.stack(kept).double().mean()) - 0.7) < 0.01  # ten standard errors
    assert drop.keep == pytest.approx(0.7, abs=1e-5)


def test_a_value_of_another_width_works():
    query, key, value = inputs()
    value = torch.cat([value, value], dim=-1)
    got = attend(query, key, value, read="received")
    expected = attend(query, key, value, read="received", backend="reference")
    torch.testing.assert_close(got.output, expected.output)
    torch.testing.assert_close(got.readings["received"], expected.readings["received"])


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_no_map_sized_tensor_is_kept_for_the_backward(dropout):
    length = 96
    query, key, value = inputs(batch=2, heads=3, queries=length, keys=length, width=16, dtype=torch.float32)
    mask = torch.ones(2, 1, 1, length, dtype=torch.bool).expand(2, 1, length, length)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        attend(query, key, value, mask=mask, dropout=dropout, read=["received", "sharpness", "entropy", overlap()])
    assert kept
    assert max(x.untyped_storage().nbytes() for x in kept) <= 2 * 3 * length * 16 * 4


def test_autocast_gives_bfloat16_attention_and_float32_readings():
    query, key, value = inputs(dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = attend(query, key, value, read="received")
    assert got.output.dtype == torch.bfloat16
    assert got.readings["received"].dtype == torch.float32


def test_a_failed_self_check_falls_back_and_says_so(monkeypatch, caplog):
    monkeypatch.setattr(kernels, "_self_check", lambda device, dtype: 1.0)
    kernels._agrees_with_plain_torch.cache_clear()
    query, key, value = inputs()
    try:
        got = attend(query, key, value, read="received", backend="fused")
        assert "computed in chunks" in caplog.text
    finally:
        kernels._agrees_with_plain_torch.cache_clear()
    expected = attend(query, key, value, read="received", backend="reference")
    torch.testing.assert_close(got.readings["received"], expected.readings["received"])


def test_auto_says_once_why_it_takes_the_reference(caplog):
    query, key, value = inputs()
    with caplog.at_level("INFO", logger="attentune"):
        for _ in range(3):
            attend(query, key, value, read="maps")
    assert caplog.text.count("maps were asked for") <= 1


def test_a_mask_that_needs_a_gradient_gets_one():
    query, key, value = inputs()
    bias = torch.randn(1, 3, 5, 5, dtype=torch.float64, requires_grad=True)
    attend(query, key, value, mask=bias, read="received").readings["received"].square().sum().backward()
    assert bias.grad is not None
    assert bias.grad.abs().sum() > 0


def test_a_weight_or_target_that_needs_a_gradient_gets_one():
    query, key, value = inputs()
    weight = torch.rand(2, 5, dtype=torch.float64).requires_grad_()
    target = torch.rand(2, 1, 5, 5, dtype=torch.float64).requires_grad_()
    readings = attend(query, key, value, query_weight=weight, read=["received", mass(target)]).readings
    (readings["received"].square().sum() + readings["mass"].sum()).backward()
    assert float(weight.grad.abs().sum()) > 0
    assert float(target.grad.abs().sum()) > 0


@pytest.mark.parametrize("short", [0, 512])
@pytest.mark.parametrize("use_output", [True, False])
def test_bfloat16_gradients_hold_for_sharp_attention(monkeypatch, short, use_output):
    monkeypatch.setattr(products, "SHORT", short)
    generator = torch.Generator().manual_seed(0)
    # Scores of a standard deviation of 6: rounded to bfloat16, they would be off by 1 % of themselves and the map by more.
    query, key = (torch.randn(2, 4, 96, 64, generator=generator).mul_(6**0.5) for _ in range(2))
    value, upstream = (torch.randn(2, 4, 96, 64, generator=generator) for _ in range(2))
    g = torch.randn(2, 4, 96, generator=generator)

    def gradients(dtype, backend):
        leaves = [x.bfloat16().to(dtype).requires_grad_() for x in (query, key, value)]
        got = attend(*leaves, read=["received", "entropy"], backend=backend)
        total = (got.readings["received"] * g).sum()
        if use_output:
            total = (got.output * upstream.bfloat16().to(dtype)).sum()
        return got.readings["entropy"], torch.autograd.grad(total, leaves[:2])

    entropy, exact = gradients(torch.float64, "reference")
    rounded_entropy, rounded = gradients(torch.bfloat16, "fused")
    for got, want in zip(rounded, exact, strict=True):
        assert float((got.double() - want).norm() / want.norm()) < 1e-2
    torch.testing.assert_close(rounded_entropy.double(), entropy, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"read": "recieved"}, "did you mean 'received'"),
        ({"read": [mass(torch.zeros(2, 5).long()), mass(torch.zeros(2, 5).long())]}, "share a name"),
        ({"mask": torch.ones(4, 5, dtype=torch.bool)}, "does not broadcast"),
        ({"query_weight": torch.ones(2, 4)}, "query_weight must be"),
        ({"query_weight": -torch.ones(2, 5)}, "at least 0 everywhere"),
        ({"read": mass(torch.full((2, 5), 5))}, "names the key 5; there are 5"),
        ({"read": mass(torch.zeros(2, 4).long())}, "does not broadcast to"),
        ({"read": mass(torch.zeros(2, 3, 4, 5))}, "does not broadcast to"),
        ({"read": reach(torch.full((2, 5), 5))}, "names the key 5; there are 5"),
        ({"read": overlap(Selection.parse("3"))}, "there is no head 3"),
        ({"dropout": 1.0}, "dropout must be"),
        ({"backend": "flash"}, "backend must be"),
        ({"backend": "fused", "read": "maps"}, "the fused backend keeps no map"),
    ],
)
def test_a_mistake_gets_a_sentence(change, message):
    with pytest.raises(UserError, match=message):
        attend(*inputs(), **change)


@pytest.mark.parametrize(("queries", "keys"), [(0, 5), (5, 0)])
def test_nothing_to_attend_to_is_told(queries, keys):
    with pytest.raises(UserError, match="nothing to attend to"):
        attend(*inputs(queries=queries, keys=keys))


def test_a_mass_target_is_numbers():
    with pytest.raises(UserError, match="whole numbers"):
        mass(torch.ones(2, 5, dtype=torch.bool))


def test_shapes_that_do_not_fit_are_named():
    query, key, value = inputs()
    with pytest.raises(UserError, match=r"do not fit each other.*\(2, 3, 4, 8\)"):
        attend(query, key[:, :, :4], value)
    with pytest.raises(UserError, match="no multiple"):
        attend(query, key[:, :2], value[:, :2])
    with pytest.raises(UserError, match="one dtype"):
        attend(query, key.float(), value)


def test_a_padding_mask_written_out_costs_no_more_than_its_one_row():
    written_out = padding_mask(2, 50, torch.Generator().manual_seed(0)).expand(2, 1, 50, 50).contiguous()
    query, key, _ = inputs(queries=50, keys=50)
    allowed = masks.allow(written_out, False, query, key)
    assert allowed.keys_only
    assert allowed.bias.shape == (2, 1, 1, 50)
    assert masks.allow(written_out, False, query, key) is allowed  # the next layer's


def test_a_mask_that_was_written_to_is_read_again():
    query, key, value = inputs()
    mask = torch.ones(5, 5, dtype=torch.bool)
    before = attend(query, key, value, mask=mask, read="received").readings["received"]
    mask[:, 3:] = False
    after = attend(query, key, value, mask=mask, read="received").readings["received"]
    assert before[..., 3:].min() > 0
    assert after[..., 3:].abs().max() == 0


def test_nothing_is_remembered_of_a_mask_that_is_gone():
    query, key, value = inputs()
    before = len(masks._remembered._answers)
    mask = torch.ones(2, 1, 1, 5)
    attend(query, key, value, mask=mask, read="received")
    assert len(masks._remembered._answers) == before + 1
    del mask
    assert len(masks._remembered._answers) == before
