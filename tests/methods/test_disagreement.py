"""disagreement: its loss against loops over the paper's equations, taken by hand from a stock model, and what it does."""

import math

import pytest
import torch
from transformers import ViTConfig, ViTModel

from attentune.attention import observe
from attentune.errors import UserError
from attentune.methods import MDG, Disagreement, attach, parse

ON = ["position", "output", "subspace"]
PROJECTED = {  # what a tiny model's layers project: into values, and out of the heads' outputs
    "bert": ("attention.self.value", "attention.output.dense"),
    "distilbert": ("attention.v_lin", "attention.out_lin"),
    "llama": ("self_attn.v_proj", "self_attn.o_proj"),
}


def heads_of(model, name, batch, on):
    """(batch, heads, length, …) of each layer: maps from eager attention, or vectors from the layers' own projections."""
    before = model.config._attn_implementation
    if on == "position":
        model.set_attn_implementation("eager")
    values, outputs = PROJECTED[name]
    found, hooks = [], []
    for path, module in model.named_modules():
        if on == "subspace" and path.endswith(values):
            hooks.append(module.register_forward_hook(lambda module, args, output: found.append(output)))
        if on == "output" and path.endswith(outputs):
            hooks.append(module.register_forward_pre_hook(lambda module, args: found.append(args[0])))
    result = model(**batch, output_attentions=on == "position")
    for hook in hooks:
        hook.remove()
    model.set_attn_implementation(before)
    if on == "position":
        return list(result.attentions)
    split = [x.unflatten(-1, (-1, 4)).transpose(1, 2) for x in found]  # a head is 4 wide
    return [x.repeat_interleave(4 // x.shape[1], dim=1) for x in split]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def naive(layers, mask, on, heads):
    """The mean over layers, batch and real tokens of 1/H² Σ_i Σ_j s(i, j), by loops."""
    total = 0.0
    for layer in layers:
        for b in range(len(layer)):
            keep = [q for q in range(len(mask[b])) if mask[b][q]]
            here = 0.0
            for q in keep:
                for i in heads:
                    for j in heads:
                        u, v = layer[b][i][q], layer[b][j][q]
                        here += dot(u, v) if on == "position" else dot(u, v) / math.sqrt(dot(u, u) * dot(v, v))
            total += here / len(heads) ** 2 / len(keep) / len(layer)
    return total / len(layers)


def guided(model, batch, method, **options):
    """The guide's loss and the gradients of it alone."""
    model.zero_grad()
    with attach(model, method, **options) as guide:
        model(**batch)
        loss = guide.loss()
        loss.backward()
    return loss.detach(), {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("on", ON)
@pytest.mark.parametrize("name", list(PROJECTED))
def test_the_loss_is_that_of_loops_over_a_stock_models_heads(tiny_model, tiny_batch, name, on):
    model, batch = tiny_model(name).double(), tiny_batch((7, 4))
    mask = batch["attention_mask"].tolist()
    layers = [x.tolist() for x in heads_of(model, name, batch, on)]
    assert len(layers) == 3
    for heads, chosen in (("all", [0, 1, 2, 3]), ("[0,2-3]", [0, 2, 3])):
        loss, _ = guided(model, batch, Disagreement(1.0, on=on, heads=heads))
        assert float(loss) == pytest.approx(naive(layers, mask, on, chosen), abs=1e-6)
    loss, _ = guided(model, batch, Disagreement(1.0, on=on, layers="1-2"))
    assert float(loss) == pytest.approx(naive(layers[1:], mask, on, [0, 1, 2, 3]), abs=1e-6)


@pytest.mark.parametrize("on", ON)
@pytest.mark.parametrize("name", list(PROJECTED))
def test_the_gradient_is_that_of_the_equation_on_a_stock_models_heads(tiny_model, tiny_batch, name, on):
    model, batch = tiny_model(name).double(), tiny_batch((7, 4))
    mask = batch["attention_mask"].double()
    _, got = guided(model, batch, Disagreement(1.0, on=on))
    model.zero_grad()
    total = 0
    for x in heads_of(model, name, batch, on):
        if on != "position":
            x = x / x.norm(dim=-1, keepdim=True)
        similar = torch.einsum("bhqd,bgqd->bq", x, x) / 16
        total = total + ((similar * mask).sum(-1) / mask.sum(-1)).mean() / 3
    total.backward()
    for parameter, tensor in model.named_parameters():
        if tensor.grad is not None and tensor.grad.abs().max() > 0:
            torch.testing.assert_close(got[parameter], tensor.grad, atol=1e-9, rtol=1e-6)


@pytest.mark.parametrize(("on", "moved", "still"), [
    ("position", ["query", "key"], ["value"]), ("output", ["query", "key", "value"], []),
    ("subspace", ["value"], ["query", "key"]),
])  # fmt: skip
def test_the_gradient_goes_to_what_the_heads_are_compared_in(tiny_model, tiny_batch, on, moved, still):
    model, batch = tiny_model(num_hidden_layers=1), tiny_batch()
    _, gradients = guided(model, batch, Disagreement(1.0, on=on))
    sizes = {w: float(g.abs().max()) for w in moved + still for n, g in gradients.items() if f"self.{w}.weight" in n}
    assert all(sizes[which] > 1e-6 for which in moved)
    assert all(sizes.get(which, 0) == 0 for which in still)


@pytest.mark.parametrize("on", ON)
def test_the_gradient_is_that_of_finite_differences(tiny_model, tiny_batch, on):
    model, batch = tiny_model("bert", num_hidden_layers=2).double(), tiny_batch((5, 3))
    name = "bert.encoder.layer.0.attention.self.query.weight"
    weight = model.get_parameter(name)
    with attach(model, Disagreement(1.0, on=on)) as guide:

        def loss(changed):
            torch.func.functional_call(model, {name: changed}, (), batch)
            return guide.loss()

        assert torch.autograd.gradcheck(loss, weight.detach().clone().requires_grad_(), fast_mode=True)


@pytest.mark.parametrize("on", ON)
@pytest.mark.parametrize("name", ["bert", "modernbert", "llama"])
def test_fused_equals_reference(tiny_model, tiny_batch, name, on):
    model, batch = tiny_model(name), tiny_batch()
    method = Disagreement(1.0, on=on, heads="0-2")
    expected, gradients = guided(model, batch, method, backend="reference")
    got, fused = guided(model, batch, method, backend="fused")
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-5)
    for parameter, grad in gradients.items():
        torch.testing.assert_close(fused[parameter], grad, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("on", ON)
def test_padding_changes_neither_loss_nor_gradient(architecture, tiny_model, tiny_batch, on):
    model = tiny_model(architecture)
    method = Disagreement(1.0, on=on)
    expected, gradients = guided(model, tiny_batch(), method)
    loss, loose = guided(model, tiny_batch(padded_to=20), method)
    torch.testing.assert_close(loss, expected, atol=1e-6, rtol=1e-5)
    for name, grad in gradients.items():
        torch.testing.assert_close(loose[name], grad, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("on", ON)
def test_a_batch_is_the_mean_of_its_texts_alone(tiny_model, tiny_batch, on):
    model, batch, method = tiny_model().double(), tiny_batch((9, 6, 4)), Disagreement(1.0, on=on)
    loss, gradients = guided(model, batch, method)
    alone = []
    for row, length in enumerate((9, 6, 4)):
        one = {name: x[row : row + 1, :length] if x.dim() == 2 else x[row : row + 1] for name, x in batch.items()}
        alone.append(guided(model, one, method))
    torch.testing.assert_close(loss, torch.stack([one for one, _ in alone]).mean())
    for name, grad in gradients.items():
        torch.testing.assert_close(grad, sum(g[name] for _, g in alone) / 3, atol=1e-9, rtol=1e-6)


@pytest.mark.parametrize("on", ON)
@pytest.mark.parametrize("name", ["bert", "llama"])
def test_gradient_checkpointing_counts_nothing_twice(tiny_model, tiny_batch, name, on):
    model, batch, method = tiny_model(name), tiny_batch(), f"disagreement(0.5, on={on}, layers=0-1) + mdg(0.1)"
    expected, gradients = guided(model, batch, method)
    model.gradient_checkpointing_enable()
    loss, checkpointed = guided(model, batch, method)
    torch.testing.assert_close(loss, expected)
    for name, grad in gradients.items():
        torch.testing.assert_close(checkpointed[name], grad, atol=1e-6, rtol=1e-4)


def test_heads_that_share_their_values_agree_in_them(tiny_model, tiny_batch):
    """Llama's tiny model has two pairs of heads; those of a pair are alike as can be, whatever the loss asks."""
    model, batch = tiny_model("llama").double(), tiny_batch()
    loss, gradients = guided(model, batch, "disagreement(on=subspace, heads=0-1)")
    assert float(loss) == pytest.approx(1, abs=1e-6)
    assert all(float(grad.abs().max()) < 1e-7 for grad in gradients.values())


@pytest.mark.parametrize("on", ON)
def test_it_runs_within_autocast_and_dropout(tiny_model, tiny_batch, on):
    model, batch = tiny_model(attention_probs_dropout_prob=0.3), tiny_batch()
    with torch.autocast("cpu", torch.bfloat16):
        loss, gradients = guided(model, batch, Disagreement(1.0, on=on))
    assert loss.dtype == torch.float32
    assert all(grad.isfinite().all() for grad in gradients.values())


@pytest.mark.parametrize("on", ON)
def test_a_vision_model_is_guided(on):
    config = ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, image_size=8, patch_size=4
    )
    torch.manual_seed(0)
    model = ViTModel(config).train()
    _, gradients = guided(model, {"pixel_values": torch.randn(2, 3, 8, 8)}, Disagreement(1.0, on=on))
    assert any(grad.abs().max() > 0 for grad in gradients.values())


def test_outputs_and_values_are_read_beside_readings_of_the_map(tiny_model, tiny_batch):
    model, batch, passes = tiny_model("llama"), tiny_batch(), []
    with observe(model, lambda seen: {1: ("outputs", "received", "values"), 2: ("values",)}, passes.append):
        model(**batch)
    (seen,) = passes
    assert seen.heads == [4, 4, 4]
    assert set(seen.layers[1]) == {"outputs", "received", "values"}
    for on, reading in (("output", "outputs"), ("subspace", "values")):
        torch.testing.assert_close(seen.layers[1][reading], heads_of(model, "llama", batch, on)[1])
    assert set(seen.layers[2]) == {"values"}


def test_outputs_are_what_a_blur_has_made_of_them(tiny_model, tiny_batch):
    model, batch = tiny_model(), tiny_batch()
    with attach(model, "blur(sigma=0.8) + disagreement(1)") as guide:
        model(**batch)
        loss = guide.loss().detach()
        layers = heads_of(model, "bert", batch, "output")
    expected = naive([x.tolist() for x in layers], batch["attention_mask"].tolist(), "output", range(4))
    assert float(loss) == pytest.approx(expected, abs=1e-5)


# What it does.


@pytest.mark.parametrize("on", ON)
def test_thirty_steps_make_the_guided_layers_heads_less_alike(tiny_model, tiny_batch, on):
    def similarity(weight):
        model = tiny_model(hidden_size=16)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        with attach(model, Disagreement(weight, on=on)) as guide:
            for step in range(30):
                loss = model(**tiny_batch((16, 12, 9, 14), seed=step)).loss + guide.loss()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        batch = tiny_batch((15, 11), seed=99)
        layers = [x.tolist() for x in heads_of(model.eval(), "bert", batch, on)]
        return naive(layers, batch["attention_mask"].tolist(), on, range(4))

    # Of four heads, vectors that are orthogonal have a similarity of 0.25, and rows of a map the least that sharpness allows.
    assert similarity(1.0) < 0.9 * similarity(0.0)


# Text and mistakes.


def test_its_text_is_read_back():
    for on in ON:
        method = Disagreement(0.1, on=on, layers="1-2")
        assert parse(str(method)).parts == (method,)
    assert parse("disagreement(0.1)").parts == (Disagreement(0.1, on="output"),)
    assert (MDG(0.1) + Disagreement(0.1)).names == ("mdg", "disagreement")


def test_mistakes_get_a_sentence(tiny_model, tiny_batch):
    with pytest.raises(UserError, match="on must be position, output or subspace, not 'heads'"):
        parse("disagreement(0.1, on=heads)")
    for on in ON:
        model = tiny_model()
        with attach(model, Disagreement(0.1, on=on, heads=[2])) as guide:
            model(**tiny_batch())
            with pytest.raises(UserError, match="one head in a layer, which can't disagree with itself"):
                guide.loss()
