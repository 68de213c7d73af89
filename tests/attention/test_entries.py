"""Targets by entries: against loops over the maps, against the same target whole, and with no map made."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attentune.attention import Entries, attend, entries, mass, reach
from attentune.errors import UserError


def inputs(batch, heads, queries, keys, width, seed, kv_heads=None, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    sizes = [(batch, heads, queries), *[(batch, kv_heads or heads, keys)] * 2]
    return [
        torch.randn(*size, width, generator=generator, dtype=torch.float64).to(dtype).requires_grad_() for size in sizes
    ]


def sparse(batch, queries, keys, seed, share=0.3):
    """A target whole, and by its entries."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.rand(batch, queries, keys, generator=generator, dtype=torch.float64)
    target = target * (torch.rand(batch, queries, keys, generator=generator) < share)
    row, query, key = target.nonzero().unbind(-1)
    return target, Entries(row, query, key, target[row, query, key])


def mask_of(kind, batch, heads, queries, keys, seed):
    generator = torch.Generator().manual_seed(seed)
    may = torch.rand(batch, 1, queries, keys, generator=generator) < 0.7  # rows with no allowed key among them
    padding = (torch.arange(keys) < torch.randint(1, keys + 1, (batch, 1), generator=generator))[:, None, None]
    bias = torch.randn(batch, heads, queries, keys, generator=generator, dtype=torch.float64)
    return {
        "none": {}, "causal": {"is_causal": True}, "padding": {"mask": padding}, "boolean": {"mask": may},
        "bias": {"mask": bias}, "bias of keys": {"mask": bias[:1, :1, :1]},
        "bias, boolean": {"mask": bias.masked_fill(~may, float("-inf"))}, "both": {"mask": may, "is_causal": True},
    }[kind]  # fmt: skip


KINDS = ["none", "causal", "padding", "boolean", "bias", "bias of keys", "bias, boolean", "both"]


@settings(deadline=None)
@given(
    st.sampled_from(KINDS), st.integers(1, 3), st.integers(1, 2), st.integers(1, 2), st.integers(1, 20), st.integers(1, 20),
    st.sampled_from([1, 5, 8]), st.integers(0, 9999), st.sampled_from([1, 2**21]),
)  # fmt: skip
def test_fused_equals_the_whole_target_by_reference(kind, batch, kv, groups, queries, keys, width, seed, at_once):
    tensors = inputs(batch, kv * groups, queries, keys, width, seed, kv)
    target, by_entries = sparse(batch, queries, keys, seed)
    options = mask_of(kind, batch, kv * groups, queries, keys, seed)
    outcomes = []
    given_as = [("reference", target[:, None]), ("reference", by_entries), ("fused", by_entries)]
    before, entries.AT_ONCE = entries.AT_ONCE, at_once
    try:
        for backend, given_target in given_as:
            read = [mass(given_target), reach(given_target), "sharpness"]
            found = attend(*tensors, read=read, backend=backend, **options)
            upstream = torch.Generator().manual_seed(seed)
            weights = [
                torch.randn(x.shape, generator=upstream, dtype=x.dtype) for x in (found.output, found.readings["mass"])
            ]
            total = (found.output * weights[0]).sum() + (found.readings["mass"] * weights[1]).sum()
            gradients = torch.autograd.grad(total, tensors)
            outcomes.append([found.readings["mass"], found.readings["reach"].to(torch.float64), *gradients])
    finally:
        entries.AT_ONCE = before
    for other in outcomes[1:]:
        for got, expected in zip(other, outcomes[0], strict=True):
            torch.testing.assert_close(got, expected, atol=1e-6 if got is other[1] else 1e-10, rtol=1e-6)


def test_the_mass_is_that_of_loops():
    query, key, value = inputs(2, 2, 4, 4, 3, seed=1)
    _, by_entries = sparse(2, 4, 4, seed=2)
    found = attend(query, key, value, read=[mass(by_entries), reach(by_entries)], backend="fused").readings
    maps = (query @ key.mT / 3**0.5).softmax(-1)
    expected, within = torch.zeros(2, 2, 4, dtype=torch.float64), torch.zeros(2, 2, 4, dtype=torch.float64)
    for b, q, k, p in zip(*(part.tolist() for part in by_entries), strict=True):
        for h in range(2):
            expected[b, h, q] += maps[b, h, q, k].item() * p
            within[b, h, q] += p
    torch.testing.assert_close(found["mass"].detach(), expected)
    torch.testing.assert_close(found["reach"], within)


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_that_of_finite_differences(kind):
    tensors = inputs(2, 2, 4, 4, 3, seed=3)
    _, by_entries = sparse(2, 4, 4, seed=4)
    options = mask_of(kind, 2, 2, 4, 4, seed=5)

    def read(*qkv):
        return attend(*qkv, read=[mass(by_entries)], backend="fused", **options).readings["mass"]

    assert torch.autograd.gradcheck(read, tensors)


def test_no_entries_are_no_mass():
    tensors = inputs(2, 2, 4, 4, 3, seed=6)
    nothing = Entries(*(torch.zeros(0, dtype=torch.long) for _ in range(3)), torch.zeros(0))
    found = attend(*tensors, read=[mass(nothing), reach(nothing)], backend="fused").readings
    assert not found["mass"].any()
    assert not found["reach"].any()
    found["mass"].sum().backward()
    assert not tensors[0].grad.any()


def test_bfloat16_keeps_the_precision_of_readings():
    exact = inputs(2, 2, 16, 16, 8, seed=7)
    rounded = [x.detach().to(torch.bfloat16).requires_grad_() for x in exact]
    target, by_entries = sparse(2, 16, 16, seed=8)
    got = attend(*rounded, read=[mass(by_entries)], backend="fused").readings["mass"]
    expected = attend(*(x.double() for x in rounded), read=[mass(target[:, None])], backend="reference").readings[
        "mass"
    ]
    assert got.dtype == torch.float32
    torch.testing.assert_close(got.double(), expected, atol=2e-3, rtol=2e-3)
    got.sum().backward()
    assert rounded[0].grad.dtype == torch.bfloat16


def test_what_is_kept_for_the_backward_does_not_grow_with_entries_times_heads():
    tensors = inputs(1, 8, 64, 64, 16, seed=9, dtype=torch.float32)
    attend(*tensors, backend="fused")  # the kernels are tried at their first use
    kept = []
    for share in (0.05, 0.5):
        _, by_entries = sparse(1, 64, 64, seed=10, share=share)
        own = {part.untyped_storage().data_ptr() for part in by_entries}
        saved = {}

        def pack(x, saved=saved):
            saved[x.untyped_storage().data_ptr()] = x  # alive, so that no other has its place
            return x

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            attend(*tensors, read=[mass(by_entries)], backend="fused")
        kept.append(sum(x.untyped_storage().nbytes() for place, x in saved.items() if place not in own))
    assert kept[0] == kept[1] > 0


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"row": torch.tensor([0, 2])}, "an entry of mass names the row 2; there are 2"),
        ({"key": torch.tensor([0, 9])}, "names the key 9; there are 4"),
        ({"query": torch.tensor([-1, 0])}, "names the query"),
        ({"value": torch.ones(3)}, "not all of one length"),
    ],
)
def test_entries_that_do_not_fit_get_a_sentence(wrong, problem):
    one = torch.tensor([0, 1])
    by_entries = Entries(one, one, one, torch.ones(2))._replace(**wrong)
    with pytest.raises(UserError, match=problem):
        attend(*inputs(2, 2, 4, 4, 3, seed=0), read=[mass(by_entries)])
