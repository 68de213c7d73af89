"""Watching a guided model changes nothing for its guide."""

import pytest
import torch

from attentune.attention import watch
from attentune.methods import attach


def read_beside(model, batch, layers=(0, 2)):
    passes = []
    with watch(model, lambda seen: dict.fromkeys(layers, ("entropy",)), passes.append), torch.no_grad():
        model(**batch)
    (seen,) = passes
    return [seen.layers[layer]["entropy"] for layer in layers]


@pytest.fixture
def model(tiny_model):
    return tiny_model().eval()


def test_readings_are_the_same_of_a_guided_and_an_unguided_model(model, tiny_batch):
    batch = tiny_batch()
    alone = read_beside(model, batch)
    with attach(model, "mdg(0.1, layers=1) + next(0.1)") as guided:
        torch.testing.assert_close(read_beside(model, batch), alone)
        with guided.paused():
            torch.testing.assert_close(read_beside(model, batch), alone)
    torch.testing.assert_close(read_beside(model, batch), alone)


def test_the_guides_loss_is_what_it_was(model, tiny_batch):
    batch, other = tiny_batch(), tiny_batch(seed=1)
    with attach(model, "mdg(0.1)") as guided:
        model(**batch)
        expected = guided.terms["mdg"].item()
        guided.discard()
        model(**batch)
        read_beside(model, other)
        assert guided.terms["mdg"].item() == pytest.approx(expected)


def test_nothing_is_left_when_watching_ends_with_an_error(model, tiny_batch):
    passes = []
    with attach(model, "mdg(0.1)") as guided:
        with pytest.raises(ZeroDivisionError), watch(model, lambda seen: {0: ("received",)}, passes.append):
            raise ZeroDivisionError
        model(**tiny_batch())
        guided.loss()
    assert passes == []
    assert model.config._attn_implementation == "sdpa"
