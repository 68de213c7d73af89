"""Methods that change the forward pass (blur, se): what holds for all of them while they are attached, and afterwards."""

import copy
from types import SimpleNamespace

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from attentune.errors import UserError
from attentune.methods import attach

ENCODERS = ["bert", "albert", "roberta", "distilbert", "electra", "modernbert"]
CHANGES = "blur(sigma=0.8) + se"
METHODS = ["blur", "blur(on=value)", "se", "blur(sigma=0.8) + se + mdg(0.1)"]


def gradients(model, batch, method):
    model.zero_grad()
    torch.manual_seed(3)
    with attach(model, method) as guided:
        output = model(**batch)
        loss = output.loss + guided.loss()
        loss.backward()
        found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return loss.detach(), found


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ENCODERS)
def test_detached_the_model_is_bit_for_bit_what_it_was(tiny_model, tiny_batch, name, method):
    model, batch = tiny_model(name), tiny_batch()
    plain = model(**batch)
    state = {n: x.clone() for n, x in model.state_dict().items()}
    config = copy.deepcopy(model.config.to_dict())
    hooks = [(len(m._forward_hooks), len(m._forward_pre_hooks), set(m.__dict__)) for m in model.modules()]
    modules = [n for n, _ in model.named_modules()]
    with attach(model, method) as guided:
        changed = model(**batch)
        (changed.loss + guided.loss()).backward()
    assert not torch.equal(changed.logits, plain.logits)
    assert torch.equal(model(**batch).logits, plain.logits)
    assert model.config.to_dict() == config
    assert model.config._attn_implementation == "sdpa"
    assert [n for n, _ in model.named_modules()] == modules
    assert [(len(m._forward_hooks), len(m._forward_pre_hooks), set(m.__dict__)) for m in model.modules()] == hooks
    assert model.state_dict().keys() == state.keys()
    assert all(torch.equal(x, state[n]) for n, x in model.state_dict().items())
    guided.detach()  # twice does no harm


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", [name for name in ENCODERS if name != "distilbert"])
def test_gradient_checkpointing_changes_nothing(tiny_model, tiny_batch, name, method):
    model, batch = tiny_model(name), tiny_batch()
    if not model.supports_gradient_checkpointing:
        pytest.skip(f"transformers' {name} has no gradient checkpointing")
    torch.manual_seed(7)
    expected, wanted = gradients(model, batch, method)
    model.gradient_checkpointing_enable()
    torch.manual_seed(7)
    loss, found = gradients(model, batch, method)
    torch.testing.assert_close(loss, expected)
    assert found.keys() == wanted.keys()
    for parameter, grad in wanted.items():
        torch.testing.assert_close(found[parameter], grad, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_checkpoints_of_ones_own_are_followed(tiny_model, tiny_batch, method):
    model, batch = tiny_model(), tiny_batch()
    expected, wanted = gradients(model, batch, method)
    for layer in model.bert.encoder.layer:
        forward = layer.forward
        layer.forward = lambda *args, forward=forward, **kwargs: checkpoint(
            forward, *args, use_reentrant=False, **kwargs
        )
    loss, found = gradients(model, batch, method)
    torch.testing.assert_close(loss, expected)
    for parameter, grad in wanted.items():
        torch.testing.assert_close(found[parameter], grad, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("method", ["blur", "se", CHANGES])
def test_a_copy_that_would_run_without_them_says_so(tiny_model, tiny_batch, method):
    model, batch = tiny_model().eval(), tiny_batch()
    with attach(model, method), torch.no_grad():
        expected = model(**batch).logits
        twin = copy.deepcopy(model)
        with pytest.raises(UserError, match=r"this is a copy of a model that .* changes, and runs without; attach"):
            twin(**batch)
        with attach(twin, method):  # finds the trained parameters in the copy
            assert torch.equal(twin(**batch).logits, expected)
        assert torch.equal(model(**batch).logits, expected)


def test_trained_parameters_can_be_given_again(tiny_model, tiny_batch):
    model, batch = tiny_model().eval(), tiny_batch()
    with attach(model, CHANGES) as guided, torch.no_grad():
        guided.added["se"].bias2.add_(torch.tensor([0.3, -0.9, 0.1]))
        expected = model(**batch).logits
    with attach(model, CHANGES, trained=guided.added.state_dict()), torch.no_grad():
        assert torch.equal(model(**batch).logits, expected)
    with attach(model, CHANGES), torch.no_grad():
        assert not torch.equal(model(**batch).logits, expected)


def test_trained_parameters_that_do_not_fit_get_a_sentence(tiny_model):
    model = tiny_model()
    with attach(model, CHANGES) as guided:
        state = dict(guided.added.state_dict())
    with pytest.raises(UserError, match=r"se has no blur\.kernel, which is among the trained parameters"):
        attach(model, "se", trained=state)
    with pytest.raises(UserError, match=r"needs se\.w1, which isn't among the trained parameters"):
        attach(model, CHANGES, trained={n: x for n, x in state.items() if n != "se.w1"})
    with pytest.raises(UserError, match=r"se\.w1 is \(3, 1\), and .* needs \(5, 1\)|se\..* needs"):
        attach(tiny_model(num_hidden_layers=5), CHANGES, trained=state)
    with pytest.raises(UserError, match=r"no method in mdg\(weight=0\.1\) that adds any"):
        attach(model, "mdg(0.1)", trained=state)
    assert model.config._attn_implementation == "sdpa"


def test_a_model_is_changed_once(tiny_model):
    model = tiny_model()
    with attach(model, "se"), pytest.raises(UserError, match=r"guided already|changed already"):
        attach(model, "blur")
    attach(model, "blur").detach()


def test_a_failing_forward_pass_leaves_the_changes_usable(tiny_model, tiny_batch):
    model, batch = tiny_model().eval(), tiny_batch()
    with attach(model, CHANGES), torch.no_grad():
        expected = model(**batch).logits
        with pytest.raises(IndexError):
            model(**{**batch, "input_ids": batch["input_ids"] + 1000})
        assert torch.equal(model(**batch).logits, expected)


def test_within_autocast_they_run_and_the_gate_stays_in_full_precision(tiny_model, tiny_batch):
    model, batch = tiny_model(), tiny_batch()
    with attach(model, CHANGES) as guided, torch.autocast("cpu", torch.bfloat16):
        model(**batch).loss.backward()
        assert guided.layer_weights.dtype == torch.float32
        assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


def test_what_is_added_moves_with_the_model(tiny_model, tiny_batch):
    model = tiny_model()
    with attach(model, CHANGES) as guided:
        assert {n for n, _ in model.named_parameters()} >= {"attentune.se.w1", "attentune.se.bias2"}
        assert "attentune.blur.kernel" in model.state_dict()
        model.double()
        assert guided.added["se"].w1.dtype == torch.float64
        model(**tiny_batch())


def test_a_compiled_model_is_changed_alike(tiny_model, tiny_batch):
    model, batch = tiny_model().eval(), tiny_batch()
    with attach(model, CHANGES), torch.no_grad():
        expected = model(**batch).logits
        torch.testing.assert_close(torch.compile(model, backend="eager")(**batch).logits, expected)


def test_a_peft_model_gets_a_sentence(tiny_model):
    model = tiny_model()
    inside = SimpleNamespace(get_base_model=lambda: model, base_model=model)
    with pytest.raises(UserError, match="a peft adapter can't be saved with; use guides"):
        attach(inside, "se")
