"""auto: the weight that sets itself, against gradients taken by hand from a stock model with eager attention."""

import math

import pytest
import torch

from attentune.errors import UserError
from attentune.functional import mdg_loss, pdg_loss
from attentune.methods import MDG, PDG, Auto, Linear, attach, parse
from attentune.methods.auto import AutoWeights, gradient_norms

PROJECTED = {
    "bert": ("attention.self.query", "attention.self.key"),
    "distilbert": ("attention.q_lin", "attention.k_lin"),
    "albert": ("attention.query", "attention.key"),
    "llama": ("self_attn.q_proj", "self_attn.k_proj"),  # what RoPE then turns keeps the length of its gradient
}


def by_hand(model, name, batch, losses, layers):
    """‖∂ task / ∂θ‖ and that of each loss of the maps, θ the queries and keys of the layers (all passes, for ALBERT)."""
    found = {which: [] for which in PROJECTED[name]}
    hooks = [
        module.register_forward_hook(lambda m, a, out, which=which: found[which].append(out))
        for path, module in model.named_modules()
        for which in PROJECTED[name]
        if path.endswith(which)
    ]
    model.set_attn_implementation("eager")
    output = model(**batch, output_attentions=True)
    model.set_attn_implementation("sdpa")
    for hook in hooks:
        hook.remove()
    real = batch["attention_mask"].bool()
    received = torch.cat([(output.attentions[i] * real[:, None, :, None]).sum(-2) for i in layers], dim=1)
    inputs = [found[which][i] for which in PROJECTED[name] for i in layers]

    def norm(loss):
        grads = torch.autograd.grad(loss, inputs, retain_graph=True)
        return math.sqrt(sum(float(g.double().square().sum()) for g in grads))

    return norm(output.loss), *[norm(loss(received, mask=real)) for loss in losses]


@pytest.mark.parametrize("layers", ["all", "1", "[0,2]"])
@pytest.mark.parametrize("name", list(PROJECTED))
def test_the_weight_makes_the_guides_gradient_that_fraction_of_the_tasks(tiny_model, tiny_batch, name, layers):
    model, batch = tiny_model(name, initializer_range=0.3).double(), tiny_batch()
    chosen = {"all": [0, 1, 2], "1": [1], "[0,2]": [0, 2]}[layers]
    task, guide = by_hand(model, name, batch, [mdg_loss], chosen)
    with attach(model, MDG(Auto(0.2), layers=layers)) as guided:
        task_loss = model(**batch).loss
        assert guided.weights == {"mdg": 0.0}  # none yet
        total = guided.loss(task_loss)
        assert guided.weights["mdg"] == pytest.approx(0.2 * task / guide, rel=1e-6)
        torch.testing.assert_close(total, task_loss + guided.weights["mdg"] * guided.terms["mdg"])


def test_each_of_two_guides_has_its_own_weight_on_its_own_layers(tiny_model, tiny_batch):
    model, batch = tiny_model(initializer_range=0.3).double(), tiny_batch()
    task, mdg = by_hand(model, "bert", batch, [mdg_loss], [0, 1])
    task_at_2, pdg = by_hand(model, "bert", batch, [pdg_loss], [2])
    with attach(model, "mdg(auto(0.1), layers=0-1) + pdg(auto(0.5), layers=2) + mdg(0.3)") as guided:
        guided.loss(model(**batch).loss)
        weights = guided.weights
    assert weights["mdg"] == pytest.approx(0.1 * task / mdg, rel=1e-6)
    assert weights["pdg"] == pytest.approx(0.5 * task_at_2 / pdg, rel=1e-6)
    assert weights["mdg_2"] == 0.3


def test_it_is_measured_every_so_many_steps_and_smoothed(tiny_model, tiny_batch):
    model = tiny_model(initializer_range=0.3).double()
    batches = [tiny_batch(seed=seed) for seed in range(7)]
    alone = []
    for batch in batches:
        task, guide = by_hand(model, "bert", batch, [mdg_loss], [0, 1, 2])
        alone.append(0.1 * task / guide)
    expected, value = [], None
    for step in range(7):
        if step % 3 == 0:  # steps 0, 3 and 6; the geometric mean of what was and what is
            value = alone[step] if value is None else math.sqrt(value * alone[step])
        expected.append(value)
    with attach(model, MDG(Auto(0.1, every=3))) as guided:
        got = []
        for batch in batches:
            guided.loss(model(**batch).loss)
            got.append(guided.weights["mdg"])
    assert got == pytest.approx(expected, rel=1e-6)
    assert len(set(got)) == 3


def test_several_passes_in_one_step_are_measured_together(tiny_model, tiny_batch):
    model = tiny_model(initializer_range=0.3).double()
    batches = [tiny_batch(seed=0), tiny_batch((7, 5), seed=1)]
    squares = [[n**2 for n in by_hand(model, "bert", batch, [mdg_loss], [0, 1, 2])] for batch in batches]
    task, guide = (math.sqrt(sum(each)) for each in zip(*squares, strict=True))
    with attach(model, MDG(Auto(0.1))) as guided:
        guided.loss(sum(model(**batch).loss for batch in batches))
        assert guided.weights["mdg"] == pytest.approx(0.1 * task / guide, rel=1e-6)


def test_no_gradient_is_left_behind_and_the_step_is_that_of_the_number(tiny_model, tiny_batch):
    model, batch = tiny_model(initializer_range=0.3).double(), tiny_batch()
    with attach(model, "mdg(auto(0.2)) + pdg(0.001)") as guided:
        total = guided.loss(model(**batch).loss)
        assert all(p.grad is None for p in model.parameters())
        weight = guided.weights["mdg"]
        total.backward()
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    with attach(model, MDG(weight) + PDG(0.001)) as guided:
        (model(**batch).loss + guided.loss()).backward()
    for name, p in model.named_parameters():
        if p.grad is not None:
            torch.testing.assert_close(found[name], p.grad)


def test_asked_twice_it_answers_the_same_and_looking_changes_nothing(tiny_model, tiny_batch):
    model = tiny_model(initializer_range=0.3)
    with attach(model, MDG(Auto(0.1, every=1))) as guided:
        task_loss = model(**tiny_batch()).loss
        first = guided.loss(task_loss).detach()
        weights = guided.weights
        assert torch.equal(guided.loss(task_loss).detach(), first)
        assert guided.weights == weights
        with torch.no_grad():  # evaluation measures nothing
            guided.discard()
            guided.loss(model(**tiny_batch(seed=1)).loss)
        assert guided.weights == weights


def test_the_schedule_moves_the_measured_weight(tiny_model, tiny_batch):
    model = tiny_model(initializer_range=0.3)
    with attach(model, MDG(Auto(0.1), Linear())) as guided:
        guided.loss(model(**tiny_batch()).loss)
        whole = guided.weights["mdg"]
        guided.progress = 0.75
        assert guided.weights["mdg"] == pytest.approx(whole / 4)


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_gradient_checkpointing_measures_the_same(tiny_model, tiny_batch, name):
    model, batch = tiny_model(name, initializer_range=0.3), tiny_batch()
    measured, gradients = [], []
    for checkpointing in (False, True):
        model.zero_grad()
        if checkpointing:
            model.gradient_checkpointing_enable()
        with attach(model, "mdg(auto(0.1)) + disagreement(auto(0.1), on=position)") as guided:
            guided.loss(model(**batch).loss).backward()
            measured.append(guided.weights)
        gradients.append({n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None})
    assert measured[1] == pytest.approx(measured[0], rel=1e-4)
    for parameter, grad in gradients[0].items():
        torch.testing.assert_close(gradients[1][parameter], grad, atol=1e-6, rtol=1e-3)


def test_padding_and_autocast_change_it_little_or_not(tiny_model, tiny_batch):
    model = tiny_model(initializer_range=0.3)

    def weight(batch, bf16=False):
        with attach(model, MDG(Auto(0.1))) as guided, torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            guided.loss(model(**batch).loss)
            return guided.weights["mdg"]

    exact = weight(tiny_batch())
    assert weight(tiny_batch(padded_to=20)) == pytest.approx(exact, rel=1e-4)
    assert weight(tiny_batch(), bf16=True) == pytest.approx(exact, rel=0.05)


def test_a_guide_without_a_gradient_waits_for_one(tiny_model, tiny_batch):
    class Tokenizer:
        all_special_ids = (0, 1, 2)

        def get_vocab(self):
            return {".": 7}

    model, batch = tiny_model(initializer_range=0.3), tiny_batch()
    batch["input_ids"][batch["input_ids"] == 7] = 8  # no full stop anywhere
    with attach(model, "period(auto(0.1, every=5))", Tokenizer()) as guided:
        task_loss = model(**batch).loss
        assert torch.equal(guided.loss(task_loss), task_loss)
        assert guided.weights == {"period": 0.0}
        batch["input_ids"][0, 2] = 7
        guided.loss(model(**batch).loss)  # measured in the next step already, as there is no weight yet
        assert guided.weights["period"] > 0


def test_the_state_is_plain_numbers_and_training_goes_on_from_it(tiny_model, tiny_batch):
    model = tiny_model(initializer_range=0.3)
    method = MDG(Auto(0.1, every=2))
    with attach(model, method) as guided:
        weights, states = [], []
        for seed in range(5):
            guided.loss(model(**tiny_batch(seed=seed)).loss)
            weights.append(guided.weights["mdg"])
            states.append(guided.state_dict())
    with attach(model, method) as guided:
        guided.load_state_dict(states[1])
        for seed in range(2, 5):
            guided.loss(model(**tiny_batch(seed=seed)).loss)
            assert guided.weights["mdg"] == weights[seed]
    with attach(model, "mdg(0.1)") as guided:
        assert guided.state_dict() == {}
        guided.load_state_dict({})


def test_gradients_too_large_for_half_precision_are_measured_at_a_smaller_scale():
    x = torch.tensor([300.0, 400.0], dtype=torch.float16, requires_grad=True)
    from torch.autograd.graph import get_gradient_edge

    (norm,) = gradient_norms((x.float() ** 2).sum() / 2, [get_gradient_edge(x)]).values()
    assert float(norm) == pytest.approx(500)


def test_of_what_was_measured_only_known_guides_are_taken_over():
    weights = AutoWeights({"mdg": Auto()})
    weights.load_state_dict({"values": {"mdg": 0.5, "pdg": 0.1}, "measured": {"mdg": 3, "pdg": 3}})
    assert weights["mdg"] == 0.5
    assert weights["pdg"] == 0.0
    assert weights.due(22) == ()
    assert weights.due(23) == ("mdg",)
    assert weights.due(0) == ("mdg",)  # a training that begins anew


# Text and mistakes.


@pytest.mark.parametrize("text", ["auto(0.05)", "auto(0.2, every=7)", "auto(1e-05)"])
def test_its_text_is_read_back(text):
    method = parse(f"mdg(weight={text}, layers=1)")
    assert parse(str(method)) == method
    assert str(parse("mdg(auto)")) == "mdg(weight=auto(0.05))"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mdg(auto(0))", "a fraction of the task's gradient, above 0, not 0.0"),
        ("mdg(auto(-1))", "above 0"),
        ("mdg(auto(nan))", "above 0"),
        ("mdg(auto(0.1, every=0))", "a whole number of at least 1"),
        ("mdg(auto(0.1, every=1.5))", "a whole number of at least 1"),
        ("mdg(auto(0.1, often=2))", "auto has no parameter 'often'"),
        ("mdg(atuo(0.1))", r"a number is expected here, not 'atuo\(0.1\)' \(or auto\(0.05\)"),
    ],
)
def test_a_mistake_in_its_text_gets_a_sentence(text, message):
    with pytest.raises(UserError, match=message):
        parse(text)


def test_what_it_cannot_measure_gets_a_sentence(tiny_model, tiny_batch):
    model, batch = tiny_model(), tiny_batch()
    with attach(model, "mdg(auto(0.1))") as guided:
        task_loss = model(**batch).loss
        with pytest.raises(UserError, match=r"write guided\.loss\(task_loss\)"):
            guided.loss()
        with pytest.raises(UserError, match="the task's loss carries no gradient"):
            guided.loss(task_loss.detach())
        with pytest.raises(UserError, match="the task's loss does not depend on its queries and keys"):
            guided.loss(model.classifier.weight.sum())
        guided.loss(task_loss)
    with attach(model, "disagreement(auto(0.1), on=subspace, layers=0)") as guided:
        task_loss = model(**batch).loss
        with pytest.raises(UserError, match="it does not depend on its queries and keys"):
            guided.loss(task_loss)
    model.requires_grad_(False)
    model.classifier.requires_grad_(True)
    with attach(model, "mdg(auto(0.1))") as guided:
        task_loss = model(**batch).loss
        with pytest.raises(
            UserError, match=r"no query and no key of its layers takes a gradient \(are they frozen\?\)"
        ):
            guided.loss(task_loss)


def test_the_task_loss_may_be_given_to_guides_with_numbers_too(tiny_model, tiny_batch):
    model = tiny_model()
    with attach(model, "mdg(0.1)") as guided:
        task_loss = model(**tiny_batch()).loss
        torch.testing.assert_close(guided.loss(task_loss), task_loss + guided.loss())
