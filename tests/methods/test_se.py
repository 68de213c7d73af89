"""se: in stock models, against loops over SesameBERT's Eq. 2 to 5 on the layers that transformers itself shows."""

import math

import pytest
import torch
from transformers import AutoModelForSequenceClassification

from attentune.errors import UserError
from attentune.methods import SE, attach, parse, restore, save

ENCODERS = ["bert", "albert", "roberta", "distilbert", "electra", "modernbert"]
OUTPUTS = ["first", "second", "second_to_last", "last", "sum_last4", "sum", "weighted"]


def deep(tiny_model, name, layers=5):
    return tiny_model(name, **{"n_layers" if name == "distilbert" else "num_hidden_layers": layers})


def layers_of(model, name, batch):
    """The output of each layer, without the embeddings."""
    if name != "modernbert":
        return list(model(**batch, output_hidden_states=True).hidden_states[1:])
    found = []  # the last that it shows is normalised already
    hooks = [layer.register_forward_hook(lambda m, a, out: found.append(out)) for layer in model.model.layers]
    model(**batch)
    for hook in hooks:
        hook.remove()
    return [out[0] if isinstance(out, tuple) else out for out in found]


def naive_weights(layers, mask, gate):
    """Eq. 2 and 3, by loops."""
    weights = []
    for b in range(len(mask)):
        keep = [i for i in range(len(mask[b])) if mask[b][i]]
        z = [sum(float(x) for i in keep for x in layer[b, i]) / len(keep) / layer.shape[-1] for layer in layers]
        inner = len(gate.bias1)
        relu = [
            max(0.0, sum(z[k] * float(gate.w1[k, m]) for k in range(len(z))) + float(gate.bias1[m]))
            for m in range(inner)
        ]
        weights.append(
            [
                1 / (1 + math.exp(-sum(relu[m] * float(gate.w2[m, k]) for m in range(inner)) - float(gate.bias2[k])))
                for k in range(len(z))
            ]
        )
    return torch.tensor(weights, dtype=layers[0].dtype)


def naive_hidden(layers, s, output):
    """Eq. 4, and of the rescaled layers what Table 3 names; Eq. 5 for the weighted average."""
    rescaled = [s[:, k, None, None] * layer for k, layer in enumerate(layers)]
    if output == "weighted":
        return sum(rescaled) / s.sum(dim=-1)[:, None, None]
    chosen = {
        "first": rescaled[:1], "second": rescaled[1:2], "second_to_last": rescaled[-2:-1], "last": rescaled[-1:],
        "sum_last4": rescaled[-4:], "sum": rescaled,
    }[output]  # fmt: skip
    return sum(chosen)


def head(model, name, hidden):
    """The model's own pooler and classifier, called by hand."""
    if name == "bert":
        return model.classifier(model.bert.pooler(hidden))
    if name == "albert":
        return model.classifier(model.albert.pooler_activation(model.albert.pooler(hidden[:, 0])))
    if name == "distilbert":
        return model.classifier(torch.relu(model.pre_classifier(hidden[:, 0])))
    if name == "modernbert":
        return model.classifier(model.head(model.model.final_norm(hidden)[:, 0]))
    return model.classifier(hidden)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("name", ENCODERS)
def test_the_head_gets_what_loops_make_of_the_layers(tiny_model, tiny_batch, name, output):
    model, batch = deep(tiny_model, name).double(), tiny_batch((7, 4))
    with torch.no_grad():
        compare_with_loops(model, name, batch, output)


def compare_with_loops(model, name, batch, output):
    layers, mask = layers_of(model, name, batch), batch["attention_mask"].tolist()
    with attach(model, SE(output=output, ratio=2)) as guided:
        got = model(**batch).logits
        gate = guided.added["se"]
        s = naive_weights(layers, mask, gate)
        torch.testing.assert_close(guided.layer_weights, s, atol=1e-12, rtol=1e-9)
    assert gate.w1.shape == (5, 2)
    assert s.shape == (2, 5)
    expected = head(model, name, naive_hidden(layers, s, output))
    torch.testing.assert_close(got, expected, atol=1e-10, rtol=1e-8)
    if (name, output) != ("modernbert", "last"):  # there the final norm undoes what the last layer is scaled by
        assert not torch.allclose(model(**batch).logits, got, atol=1e-6)  # detached, it is gone


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("name", ENCODERS)
def test_without_a_gate_the_head_gets_the_layers_as_they_come(tiny_model, tiny_batch, name, output):
    model, batch = deep(tiny_model, name).double(), tiny_batch((7, 4))
    with torch.no_grad():
        layers, plain = layers_of(model, name, batch), model(**batch).logits
        with attach(model, SE(output=output, gate="off")) as guided:
            got = model(**batch).logits
            assert not guided.added
            with pytest.raises(UserError, match="no layer weights"):
                _ = guided.layer_weights
        expected = head(model, name, naive_hidden(layers, torch.ones(2, 5, dtype=torch.double), output))
    torch.testing.assert_close(got, expected, atol=1e-10, rtol=1e-8)
    assert torch.equal(got, plain) is (output == "last")


def test_without_a_gate_it_is_loaded_again(tiny_model, tiny_batch, tmp_path):
    model, batch = deep(tiny_model, "bert").eval(), tiny_batch((7, 4))
    with attach(model, "se(output=first, gate=off)"), torch.no_grad():
        expected = model(**batch).logits
        save(model, tmp_path)
    restored = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    with restore(restored, tmp_path), torch.no_grad():
        assert torch.equal(restored(**batch).logits, expected)


@pytest.mark.parametrize("output", ["weighted", "sum_last4", "first"])
def test_the_gradient_is_that_of_the_equations(tiny_model, tiny_batch, output):
    model, batch = deep(tiny_model, "bert").double(), tiny_batch((7, 4))
    with attach(model, SE(output=output)) as guided:
        model(**batch).loss.backward()
        gate = guided.added["se"]
        found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    own = {f"attentune.se.{name}": p for name, p in gate.named_parameters()}
    model.zero_grad()
    gate.zero_grad()
    layers, mask = layers_of(model, "bert", batch), batch["attention_mask"]
    z = torch.stack([(x.mean(-1) * mask).sum(-1) / mask.sum(-1) for x in layers], dim=1)
    s = torch.sigmoid(torch.relu(z @ gate.w1 + gate.bias1) @ gate.w2 + gate.bias2)
    logits = head(model, "bert", naive_hidden(layers, s, output))
    torch.nn.functional.cross_entropy(logits, batch["labels"]).backward()
    wanted = {n: p.grad for n, p in {**dict(model.named_parameters()), **own}.items() if p.grad is not None}
    assert {"attentune.se.w1", "attentune.se.bias2"} <= wanted.keys()
    for name, grad in wanted.items():
        torch.testing.assert_close(found[name], grad, atol=1e-10, rtol=1e-7)


@pytest.mark.parametrize("name", ENCODERS)
def test_padding_changes_nothing(tiny_model, tiny_batch, name):
    model = tiny_model(name).eval()
    with attach(model, "se") as guided, torch.no_grad():
        tight = model(**tiny_batch()).logits
        weights = guided.layer_weights
        torch.testing.assert_close(model(**tiny_batch(padded_to=20)).logits, tight, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(guided.layer_weights, weights, atol=1e-6, rtol=1e-5)


def test_layer_weights_are_those_of_the_last_pass_in_training_and_in_evaluation(tiny_model, tiny_batch):
    model = tiny_model()
    with attach(model, "se + mdg(0.1)") as guided:
        with pytest.raises(UserError, match="no layer weights yet"):
            _ = guided.layer_weights
        model(**tiny_batch((5, 4, 6, 7)))
        assert guided.layer_weights.shape == (4, 3)
        assert not guided.layer_weights.requires_grad
        first = guided.layer_weights
        with guided.paused(), torch.no_grad():
            model.eval()(**tiny_batch())
        assert guided.layer_weights.shape == (3, 3)
        assert guided.layer_weights is not first
    assert guided.layer_weights.shape == (3, 3)  # they outlive the attachment
    with attach(model, "mdg(0.1)") as guided, pytest.raises(UserError, match=r"none of the methods is se"):
        _ = guided.layer_weights


@pytest.mark.parametrize(("layers", "ratio", "inner"), [(12, 3, 4), (6, 3, 2), (3, 3, 1), (2, 8, 1), (5, 1, 5)])
def test_the_gate_begins_as_the_paper_has_it(tiny_model, layers, ratio, inner):
    model = deep(tiny_model, "bert", layers)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    with attach(model, SE(ratio=ratio)) as guided:
        gate = guided.added["se"]
        assert gate.w1.shape == (layers, inner)
        assert gate.w2.shape == (inner, layers)
        assert torch.all(gate.bias1 == 0.8)
        assert torch.all(gate.bias2 == 0.8)
        assert gate.w1.abs().max() <= 2 * layers**-0.5 / 0.8796 + 1e-6
    assert torch.equal(torch.get_rng_state(), before)  # data and dropout are what they are without it


def test_a_model_without_a_head_or_with_another_one_has_it_too(tiny_model, tiny_batch):
    model, batch = tiny_model().bert.double().eval(), tiny_batch()
    del batch["labels"]
    layers = list(model(**batch, output_hidden_states=True).hidden_states[1:])
    with attach(model, "se") as guided:
        got = model(**batch)
        expected = naive_hidden(layers, guided.layer_weights, "weighted")
    torch.testing.assert_close(got.last_hidden_state, expected)
    torch.testing.assert_close(got.pooler_output, model.pooler(expected))


def test_thirty_steps_train_the_gate_with_the_model(tiny_model, tiny_batch):
    model, batch = tiny_model(), tiny_batch((9, 6, 4, 8))
    with attach(model, "se") as guided:
        before = guided.added["se"].w2.detach().clone()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)  # sees the gate among the model's parameters
        losses = []
        for _ in range(30):
            loss = model(**batch).loss + guided.loss()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
        assert losses[-1] < 0.1 * losses[0]
        assert not torch.equal(guided.added["se"].w2, before)


def test_its_text_is_read_back():
    for method in (SE(), SE(output="sum_last4"), SE(ratio=2.0), SE(gate="off")):
        assert parse(str(method)).parts == (method,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("se(output=middle)", "output must be one of first, second, second_to_last, last, sum_last4, sum, weighted"),
        ("se(ratio=0.5)", "ratio must be a number, at least 1"),
        ("se(ratio=wide)", "ratio must be a number"),
        ("se(gate=1)", "gate must be on or off"),
        ("se(weight=1)", "se has no parameter 'weight'"),
    ],
)
def test_a_mistake_in_its_text_gets_a_sentence(text, message):
    with pytest.raises(UserError, match=message):
        parse(text)


def test_what_makes_no_sense_gets_a_sentence(tiny_model):
    with pytest.raises(UserError, match="se can't be used here: LlamaForSequenceClassification isn't an encoder"):
        attach(tiny_model("llama"), "se")
    with pytest.raises(UserError, match="is set up as a decoder"):
        attach(tiny_model("bert", is_decoder=True), "se")
    with pytest.raises(
        UserError, match=r"se\(output=sum_last4\) needs 4 layers, and BertForSequenceClassification has 3"
    ):
        attach(tiny_model(), SE(output="sum_last4"))
    model = tiny_model()
    with pytest.raises(UserError, match="the second would undo the first; give one"):
        attach(model, SE() + SE(output="last"))
    assert model.config._attn_implementation == "sdpa"
    assert not hasattr(model, "attentune")
