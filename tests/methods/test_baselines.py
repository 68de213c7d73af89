"""R-Drop and mixout, the baselines, against loops over their papers' equations."""

import math

import pytest
import torch

from attentune.errors import UserError
from attentune.methods import attach, parse
from attentune.methods.mixout import mixed

DROPOUT = {"hidden_dropout_prob": 0.3, "attention_probs_dropout_prob": 0.0}


def doubled(batch):
    return {name: torch.cat([value, value]) for name, value in batch.items()}


def probabilities(logits):
    return [[math.exp(x) / sum(math.exp(y) for y in row) for x in row] for row in logits.tolist()]


def test_rdrop_is_the_papers_loss_halved(tiny_model, tiny_batch):
    model, batch = tiny_model("bert", **DROPOUT), tiny_batch()
    texts = len(batch["labels"])
    torch.manual_seed(3)
    answers = model(**doubled(batch)).logits.double()
    one, other = probabilities(answers[:texts]), probabilities(answers[texts:])
    total = 0.0
    for p, q, label in zip(one, other, batch["labels"].tolist(), strict=True):
        likelihood = -math.log(p[label]) - math.log(q[label])
        forward = sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
        backward = sum(b * math.log(b / a) for a, b in zip(p, q, strict=True))
        total += likelihood + 0.8 * 0.5 * (forward + backward)  # Eq. 4, with α = 0.8
    torch.manual_seed(3)
    with attach(model, "rdrop(0.8)") as guided:
        output = model(**batch)
        loss = output.loss + guided.loss()
    assert loss.item() == pytest.approx(total / 2 / texts, rel=1e-5)
    assert guided.method.parts[0].weight == 0.8
    assert output.logits.shape[0] == texts


def test_rdrop_without_dropout_is_the_plain_loss_and_gradient(tiny_model, tiny_batch):
    batch = tiny_batch()
    gradients = []
    for method in ("none", "rdrop(1)"):
        model = tiny_model("bert")
        with attach(model, method) as guided:
            (model(**batch).loss + guided.loss()).backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for plain, ours in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-7)


def test_padding_changes_nothing_for_rdrop(tiny_model, tiny_batch):
    losses = []
    for padded_to in (9, 14):
        model = tiny_model("bert")
        batch = tiny_batch(padded_to=padded_to)
        with attach(model, "rdrop(1)") as guided:
            losses.append((model(**batch).loss + guided.loss()).item())
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)


def test_rdrop_rates_numbers_by_their_squared_difference(tiny_model, tiny_batch):
    model = tiny_model("bert", num_labels=1, **DROPOUT)
    batch = tiny_batch() | {"labels": torch.tensor([0.5, 1.0, 2.0])}
    torch.manual_seed(1)
    answers = model(**doubled(batch)).logits[:, 0].tolist()
    expected = sum((a - b) ** 2 for a, b in zip(answers[:3], answers[3:], strict=True)) / 3 / 4
    torch.manual_seed(1)
    with attach(model, "rdrop(1)") as guided:
        model(**batch)
        assert guided.terms["rdrop"].item() == pytest.approx(expected, rel=1e-5)


def test_rdrop_and_a_guide_add_up(tiny_model, tiny_batch):
    model = tiny_model("bert", **DROPOUT)
    with attach(model, "rdrop(1) + mdg(0.1)") as guided:
        model(**tiny_batch())
        assert set(guided.terms) == {"rdrop", "mdg"}
        assert guided.terms["rdrop"] > 0


@pytest.mark.parametrize("method", ["rdrop(1)", "mixout(0.5)"])
def test_evaluation_and_the_model_after_it_are_untouched(tiny_model, tiny_batch, method):
    model, batch = tiny_model("bert", **DROPOUT), tiny_batch()
    names, before = list(model.state_dict()), model.eval()(**batch).logits
    with attach(model, method) as guided:
        assert torch.equal(model(**batch).logits, before)
        model.train()
        with guided.paused():
            assert len(model(**batch).logits) == 3
        with torch.no_grad():
            assert len(model(**batch).logits) == 3
        (model(**batch).loss + guided.loss()).backward()
    assert list(model.state_dict()) == names
    assert torch.equal(model.eval()(**batch).logits, before)
    assert all(type(parameter) is torch.nn.Parameter for parameter in model.parameters())


def test_mixout_is_its_equation():
    generator = torch.Generator().manual_seed(0)
    weight, before = torch.rand(4, 5, generator=generator), torch.rand(4, 5, generator=generator)
    torch.manual_seed(2)
    found = mixed(weight, before, 0.3)
    torch.manual_seed(2)
    draws = torch.rand(4, 5)
    for i in range(4):
        for j in range(5):
            m = 1.0 if draws[i, j] < 0.3 else 0.0
            w, w0 = weight[i, j].item(), before[i, j].item()
            assert found[i, j].item() == pytest.approx((m * w0 + (1 - m) * w - 0.3 * w0) / 0.7, rel=1e-5)


def test_mixed_weights_are_the_weights_on_the_average():
    torch.manual_seed(0)
    weight, before = torch.tensor([2.0, -1.0]), torch.tensor([1.0, 1.0])
    mean = torch.stack([mixed(weight, before, 0.9) for _ in range(20_000)]).mean(dim=0)
    torch.testing.assert_close(mean, weight, atol=0.1, rtol=0)


def test_mixout_mixes_the_pretrained_weights_and_no_others(tiny_model, tiny_batch):
    model, batch = tiny_model("bert"), tiny_batch()
    seen = {}

    def look(name):
        return lambda module, args: seen.__setitem__(name, module.weight.detach().clone())

    before = {
        name: module.weight.detach().clone()
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear)
    }
    with attach(model, "mixout(0.5)"):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.5)
        hooks = [
            module.register_forward_pre_hook(look(name)) for name, module in model.named_modules() if name in before
        ]
        model(**batch)
        for hook in hooks:
            hook.remove()
    for name, start in before.items():
        if name == "classifier":
            torch.testing.assert_close(seen[name], start + 0.5)
            continue
        fallen = torch.isclose(seen[name], start, atol=1e-6)  # (W₀ − p W₀) / (1 − p)
        grown = torch.isclose(seen[name], start + 0.5 / 0.5, atol=1e-5)  # (W − p W₀) / (1 − p), W = W₀ + 0.5
        assert (fallen | grown).all(), name
    assert (
        0.3 < torch.cat([torch.isclose(seen[n], before[n], atol=1e-6).flatten().float() for n in before]).mean() < 0.6
    )


def test_only_weights_that_stayed_have_a_gradient(tiny_model, tiny_batch):
    model = tiny_model("bert")
    with attach(model, "mixout(0.5)"):
        model(**tiny_batch()).loss.backward()
    gradient = model.bert.encoder.layer[0].attention.self.value.weight.grad
    assert 0.3 < (gradient == 0).float().mean() < 0.7


def test_mixout_begins_where_the_model_is(tiny_model, tiny_batch):
    model, batch = tiny_model("bert"), tiny_batch()
    plain = model(**batch).loss
    with attach(model, "mixout(0.7)"):
        torch.testing.assert_close(model(**batch).loss, plain, rtol=1e-5, atol=1e-6)


def test_a_failed_pass_leaves_the_weights_in_place(tiny_model):
    model = tiny_model("bert")
    with attach(model, "mixout(0.5)"), pytest.raises((TypeError, RuntimeError, AttributeError)):
        model.bert.encoder.layer[0].attention.self.value("no tensor")
    assert isinstance(model.bert.encoder.layer[0].attention.self.value.weight, torch.nn.Parameter)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("rdrop(-1)", "at least 0"),
        ("mixout(1)", "at most 0.99"),
        ("mixout(p=-0.1)", "at least 0"),
        ("rdrop(auto(0.1))", "weight"),
    ],
)
def test_mistakes_are_told(text, told):
    with pytest.raises(UserError, match=told):
        parse(text)
