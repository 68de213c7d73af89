"""blur: put into stock models, against loops over SesameBERT's Eq. 7 to 12 on what the layers' own projections give."""

import math

import pytest
import torch
from transformers import ViTConfig, ViTModel

from attentune.errors import UserError
from attentune.methods import Blur, attach, parse

ENCODERS = ["bert", "albert", "roberta", "distilbert", "electra", "modernbert"]
PROJECTED = {  # what a tiny model's layers project: into values, and out of the heads' context
    "bert": ("attention.self.value", "attention.output.dense"),
    "roberta": ("attention.self.value", "attention.output.dense"),
    "electra": ("attention.self.value", "attention.output.dense"),
    "albert": ("attention.value", "attention.dense"),
    "distilbert": ("attention.v_lin", "attention.out_lin"),
    "modernbert": ("attn.Wqkv", "attn.Wo"),
}


def naive_blur(x, mask, sigma, kernel):
    """x (batch, length, width): Eq. 7 at sum 1 and Eq. 11, token by token; a neighbour that isn't there is the token itself."""
    g = [math.exp(-((j - kernel // 2) ** 2) / (2 * sigma**2)) for j in range(kernel)]
    batch = []
    for b in range(x.shape[0]):
        rows = []
        for i in range(x.shape[1]):
            row = 0
            for j in range(kernel):
                k = i + j - kernel // 2
                there = 0 <= k < x.shape[1] and mask[b, k] and mask[b, i]
                row = row + g[j] / sum(g) * x[b, k if there else i]
            rows.append(row)
        batch.append(torch.stack(rows))
    return torch.stack(batch)


def naive_output(model, name, batch, on, sigma, kernel, layers=None):
    """The logits of the stock model whose layers' projections are blurred by loops; `layers`: by number of call."""
    path_of_values, path_of_context = PROJECTED[name]
    calls = {"n": -1}

    def blurred(x):
        calls["n"] += 1
        if layers is not None and calls["n"] not in layers:
            return x
        if name == "modernbert" and on == "value":  # queries, keys and values lie side by side
            both, values = x[..., :32], x[..., 32:]
            return torch.cat([both, naive_blur(values, batch["attention_mask"], sigma, kernel)], dim=-1)
        return naive_blur(x, batch["attention_mask"], sigma, kernel)

    hooks = []
    for path, module in model.named_modules():
        if on == "value" and path.endswith(path_of_values):
            hooks.append(module.register_forward_hook(lambda module, args, output: blurred(output)))
        if on == "context" and path.endswith(path_of_context):
            hooks.append(module.register_forward_pre_hook(lambda module, args: (blurred(args[0]), *args[1:])))
    output = model(**batch)
    for hook in hooks:
        hook.remove()
    assert calls["n"] == 2  # three layers, or three passes through one
    return output


LIVELY = {"initializer_range": 0.5}
"""Weights so large that attention is not nearly even, and a blur shows in the logits."""


def gradients(model):
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(("on", "kernel", "sigma"), [("context", 3, 0.5), ("value", 3, 0.5), ("context", 5, 1.5)])
@pytest.mark.parametrize("name", ENCODERS)
def test_outputs_and_gradients_are_those_of_loops_in_the_stock_model(tiny_model, tiny_batch, name, on, kernel, sigma):
    model, batch = tiny_model(name, **LIVELY).double(), tiny_batch((7, 4))
    expected = naive_output(model, name, batch, on, sigma, kernel)
    expected.loss.backward()
    wanted = gradients(model)
    model.zero_grad()
    with attach(model, Blur(on=on, sigma=sigma, kernel=kernel)):
        got = model(**batch)
        torch.testing.assert_close(got.logits, expected.logits, atol=1e-9, rtol=1e-7)
        got.loss.backward()
    found = gradients(model)
    for parameter, grad in wanted.items():
        torch.testing.assert_close(found[parameter], grad, atol=1e-9, rtol=1e-6)
    assert not torch.allclose(model(**batch).logits, expected.logits, atol=1e-7)  # it does something


@pytest.mark.parametrize("name", ["bert", "albert"])
def test_only_the_chosen_layers_are_blurred(tiny_model, tiny_batch, name):
    model, batch = tiny_model(name, **LIVELY).double(), tiny_batch((7, 4))
    expected = naive_output(model, name, batch, "context", 0.7, 3, layers={0, 2}).logits
    with attach(model, Blur(sigma=0.7, layers=[0, -1])):
        torch.testing.assert_close(model(**batch).logits, expected, atol=1e-9, rtol=1e-7)


def test_context_and_values_may_both_be_blurred(tiny_model, tiny_batch):
    model, batch = tiny_model(**LIVELY).double(), tiny_batch((7, 4))
    with attach(model, "blur(on=value, sigma=0.4) + blur(on=context, sigma=0.8)"):
        got = model(**batch).logits
    hooks = []
    for path, module in model.named_modules():
        if path.endswith("attention.self.value"):
            hooks.append(
                module.register_forward_hook(lambda m, a, x: naive_blur(x, batch["attention_mask"], 0.4, 3)),
            )
    expected = naive_output(model, "bert", batch, "context", 0.8, 3).logits
    for hook in hooks:
        hook.remove()
    torch.testing.assert_close(got, expected, atol=1e-9, rtol=1e-7)


@pytest.mark.parametrize("on", ["context", "value"])
@pytest.mark.parametrize("sigma", [0, 1e-9, 0.01])
def test_a_sigma_of_nothing_is_the_identity_to_the_bit(architecture, tiny_model, tiny_batch, on, sigma):
    if architecture == "llama":
        pytest.skip("a decoder isn't blurred")
    model, batch = tiny_model(architecture, **LIVELY), tiny_batch()
    plain = model(**batch)
    plain.loss.backward()
    expected = gradients(model)
    model.zero_grad()
    with attach(model, Blur(on=on, sigma=sigma, kernel=5)):
        output = model(**batch)
        assert torch.equal(output.logits, plain.logits)
        output.loss.backward()
    for name, grad in gradients(model).items():
        assert torch.equal(grad, expected[name])


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("on", ["context", "value"])
def test_padding_changes_nothing(tiny_model, tiny_batch, name, on):
    model = tiny_model(name, **LIVELY).eval()
    with attach(model, Blur(on=on, sigma=1.0, kernel=5)), torch.no_grad():
        tight = model(**tiny_batch()).logits
        loose = model(**tiny_batch(padded_to=20)).logits
        alone = model(**{n: x[1:2, :6] if x.dim() == 2 else x[1:2] for n, x in tiny_batch().items()}).logits
    torch.testing.assert_close(loose, tight, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(alone[0], tight[1], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_it_is_there_in_evaluation_and_while_guides_rest(tiny_model, tiny_batch, implementation):
    model, batch = tiny_model(**LIVELY).eval(), tiny_batch()
    model.set_attn_implementation(implementation)
    plain = model(**batch).logits
    with attach(model, "blur(sigma=0.8) + mdg(0.1)") as guided, torch.no_grad():
        blurred = model(**batch).logits
        with guided.paused():
            torch.testing.assert_close(model(**batch).logits, blurred, atol=1e-6, rtol=1e-5)
    assert not torch.allclose(blurred, plain, atol=1e-5)


def test_guides_read_the_blurred_models_attention(tiny_model, tiny_batch):
    """The second layer's map is one of what the blurred first layer gives."""
    model, batch = tiny_model(**LIVELY), tiny_batch()
    with attach(model, "blur(sigma=0.8, layers=0) + mdg(1, layers=1)") as guided:
        model(**batch)
        blurred = guided.loss()
    with attach(model, "mdg(1, layers=1)") as guided:
        model(**batch)
        assert not torch.isclose(guided.loss(), blurred, atol=1e-7)


def test_its_text_is_read_back():
    for method in (Blur(), Blur(on="value", sigma=0.3, kernel=7, layers="1-2"), Blur(sigma=0)):
        assert parse(str(method)).parts == (method,)
    assert str(parse("blur(value)")) == "blur(on=value)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("blur(on=keys)", "on must be context or value, not 'keys'"),
        ("blur(sigma=-1)", "sigma must be a number, at least 0"),
        ("blur(sigma=inf)", "sigma must be a number"),
        ("blur(sigma=wide)", "sigma must be a number, not 'wide'"),
        ("blur(kernel=4)", "kernel must be an odd whole number"),
        ("blur(kernel=3.0)", "kernel must be a whole number"),
        ("blur(kernel=257)", "from 1 to 255"),
        ("blur(kernel=-1)", "from 1 to 255"),
        ("blur(weight=0.1)", "blur has no parameter 'weight'"),
    ],
)
def test_a_mistake_in_its_text_gets_a_sentence(text, message):
    with pytest.raises(UserError, match=message):
        parse(text)


def test_what_makes_no_sense_gets_a_sentence(tiny_model):
    with pytest.raises(UserError, match="blur can't be used on LlamaForSequenceClassification: its tokens may not see"):
        attach(tiny_model("llama"), "blur")
    vit = ViTModel(ViTConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=4, intermediate_size=32))
    with pytest.raises(UserError, match="blur can't be used on ViTModel: its tokens are the patches of a picture"):
        attach(vit, "blur")
    model = tiny_model()
    with pytest.raises(UserError, match=r"layer 1 is blurred twice, by blur\(layers=0-1\)"):
        attach(model, Blur(layers="0-1") + Blur(sigma=1.0, layers="1-2"))
    with pytest.raises(UserError, match="there is no layer 3"):
        attach(model, Blur(layers=3))
    assert model.config._attn_implementation == "sdpa"
    attach(model, Blur(layers=0) + Blur(sigma=1.0, layers="1-2")).detach()
