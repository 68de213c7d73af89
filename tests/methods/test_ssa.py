"""SSA on models: what it changes in a forward pass, its loss beside the task's and other guides, its labels, what is saved."""

import copy
import math

import pytest
import torch
from torch import nn
from transformers import AutoModelForSequenceClassification, ViTConfig, ViTForImageClassification

import attentune
from attentune.errors import UserError
from attentune.functional import mdg_loss
from attentune.methods import SSA, Sum, attach, parse
from attentune.methods.epochs import ROW, Epochs
from attentune.methods.persistence import load_methods, save
from attentune.training.loading import load

ENCODERS = ["bert", "albert", "roberta", "distilbert", "electra", "modernbert"]
BOS, EOS, MASK = 1, 2, 4


def sharpened(guided, factor=40.0):
    """Scores far apart from each other, so that weights are not all alike."""
    with torch.no_grad():
        guided.added["ssa"].linear.weight.mul_(factor)


def heads_of(name, model):
    """The model's own head, given the sentence vectors."""
    one = lambda x: x[:, None]  # noqa: E731  # the heads that take hidden states look at the first
    return {
        "bert": lambda x: model.classifier(model.bert.pooler(one(x))),
        "albert": lambda x: model.classifier(model.albert.pooler_activation(model.albert.pooler(x))),
        "roberta": lambda x: model.classifier(one(x)),
        "electra": lambda x: model.classifier(one(x)),
        "distilbert": lambda x: model.classifier(model.pre_classifier(x).relu()),
        "modernbert": lambda x: model.classifier(model.head(x)),
    }[name]


def scores_by_loops(hidden, linear):
    """y of section 3.1, for each token of each text."""
    weight, bias = linear.weight.tolist(), linear.bias.tolist()
    scores = []
    for text in hidden.tolist():
        row = []
        for vector in text:
            no, yes = (sum(w * x for w, x in zip(weight[c], vector, strict=True)) + bias[c] for c in (0, 1))
            row.append(math.exp(yes) / (math.exp(no) + math.exp(yes)))
        scores.append(row)
    return scores


def sums_by_loops(hidden, scores, counts):
    sums = []
    for text, own, kept in zip(hidden.tolist(), scores, counts, strict=True):
        places = [i for i, is_kept in enumerate(kept) if is_kept]
        total = sum(math.exp(own[i]) for i in places)
        sums.append([sum(math.exp(own[i]) / total * text[i][w] for i in places) for w in range(len(text[0]))])
    return torch.tensor(sums)


@pytest.mark.parametrize("name", ENCODERS)
def test_co_training_changes_no_output(name, tiny_model, tiny_batch, tiny_tokenizer):
    model, batch = tiny_model(name), tiny_batch()
    plain = model(**batch).logits
    with attach(model, "ssa", tiny_tokenizer) as guided:
        assert torch.equal(model(**batch).logits, plain)
        with guided.paused(), torch.no_grad():
            assert torch.equal(model(**batch).logits, plain)
    assert torch.equal(model(**batch).logits, plain)
    assert not any("attentune" in name for name, _ in model.named_parameters())


@pytest.mark.parametrize("pooling", [*ENCODERS, "modernbert by mean"])
def test_the_head_of_the_hybrid_is_given_eq_1(pooling, tiny_model, tiny_batch, tiny_tokenizer):
    name = pooling.split()[0]
    by_mean = pooling.endswith("mean")
    model = tiny_model(name, **({"classifier_pooling": "mean" if by_mean else "cls"} if name == "modernbert" else {}))
    batch = tiny_batch()
    inputs = {k: v for k, v in batch.items() if k != "labels"}
    real, ids = batch["attention_mask"].bool(), batch["input_ids"]
    counts = (real & (ids > EOS)).tolist()
    with torch.no_grad():
        hidden = model.base_model(**inputs).last_hidden_state
        with attach(model, SSA(mode="hybrid", beta=0.3), tiny_tokenizer) as guided:
            sharpened(guided)
            found = model(**inputs).logits
            token_scores = guided.token_scores
            linear = guided.added["ssa"].linear
        scores = scores_by_loops(hidden, linear)
        sentence = hidden[:, 0]
        if by_mean:
            sentence = torch.stack([text[own].mean(dim=0) for text, own in zip(hidden, real, strict=True)])
        expected = heads_of(name, model)(0.3 * sentence + 0.7 * sums_by_loops(hidden, scores, counts))
        plain = heads_of(name, model)(sentence)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    assert (found - plain).abs().max() > 1e-4  # the hybrid is another model
    spread = torch.tensor(scores)[torch.tensor(counts)]
    assert spread.max() - spread.min() > 0.05
    expected_scores = torch.tensor(scores) * torch.tensor(counts)
    torch.testing.assert_close(token_scores, expected_scores, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("mode", ["co", "hybrid"])
def test_padding_changes_neither_answers_nor_scores(mode, tiny_model, tiny_batch, tiny_tokenizer):
    model = tiny_model()
    batch, padded = tiny_batch(), tiny_batch(padded_to=15)
    with attach(model, SSA(mode=mode), tiny_tokenizer) as guided, torch.no_grad():
        sharpened(guided)
        logits, scores = model(**batch).logits, guided.token_scores
        torch.testing.assert_close(model(**padded).logits, logits, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(guided.token_scores[:, :9], scores, atol=1e-6, rtol=1e-5)
        assert not guided.token_scores[:, 9:].any()


LABELS = torch.full((3, 2, 9), -1)
LABELS[0, 0, 2:5], LABELS[0, 1, 3], LABELS[1, 0, 1] = torch.tensor([1, 0, 1]), 1, 0


def token_loss_by_loops(hidden, linear):
    scores, surprises = scores_by_loops(hidden, linear), []
    for b in range(3):
        for n in range(2):
            for i in range(9):
                label = LABELS[b, n, i].item()
                if label >= 0:
                    surprises.append(-math.log(scores[b][i] if label else 1 - scores[b][i]))
    return sum(surprises) / len(surprises)


@pytest.mark.parametrize("name", ENCODERS)
def test_the_total_is_alpha_of_the_task_and_the_rest_of_the_token_loss(name, tiny_model, tiny_batch, tiny_tokenizer):
    model, batch = tiny_model(name), tiny_batch()
    with torch.no_grad():
        hidden = model.base_model(batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
    with attach(model, SSA(alpha=0.7), tiny_tokenizer) as guided:
        sharpened(guided)
        guided.give({"ssa": LABELS})
        task = model(**batch).loss
        loss = guided.loss(task)
        token = token_loss_by_loops(hidden, guided.added["ssa"].linear)
        assert guided.terms["ssa"].item() == pytest.approx(token, rel=1e-5)
        assert guided.weights == {"ssa": pytest.approx(0.3)}
        assert loss.item() == pytest.approx(0.7 * task.item() + 0.3 * token, rel=1e-5)
        assert guided.loss(task).item() == loss.item()  # asked twice, answered alike
        loss.backward()
        assert guided.added["ssa"].linear.weight.grad.abs().sum() > 0


def test_alpha_leaves_other_guides_alone(tiny_model, tiny_batch, tiny_tokenizer):
    model, batch = tiny_model(), tiny_batch()
    with attach(model, "ssa(alpha=0.7) + mdg(0.1)", tiny_tokenizer) as guided:
        guided.give({"ssa": LABELS})
        task = model(**batch).loss
        terms, loss = guided.terms, guided.loss(task)
        parts = 0.7 * task + 0.3 * terms["ssa"] + 0.1 * terms["mdg"]
        assert loss.item() == pytest.approx(parts.item(), rel=1e-6)
    with attach(model, "mdg(0.1)") as alone:
        model(**batch)
        assert alone.terms["mdg"].item() == pytest.approx(terms["mdg"].item(), rel=1e-5)


def test_auto_weights_are_a_fraction_of_what_alpha_leaves_of_the_task(tiny_model, tiny_batch, tiny_tokenizer):
    found = {}
    for method in ("mdg(auto(0.05))", "ssa(alpha=0.7) + mdg(auto(0.05))"):
        model, batch = tiny_model(), tiny_batch()
        with attach(model, method, tiny_tokenizer) as guided:
            guided.give({"ssa": LABELS})
            guided.loss(model(**batch).loss)
            found[method] = guided.weights["mdg"]
    alone, beside = found.values()
    assert beside == pytest.approx(0.7 * alone, rel=1e-4)


def test_without_labels_the_task_has_its_share_and_the_classifier_no_gradient(tiny_model, tiny_batch, tiny_tokenizer):
    """So in the first epoch; the gradient is there, and zero, for processes that wait for it."""
    model, batch = tiny_model(), tiny_batch()
    with attach(model, "ssa(alpha=0.7)", tiny_tokenizer) as guided:
        guided.give({"ssa": torch.full_like(LABELS, -1)})
        task = model(**batch).loss
        loss = guided.loss(task)
        assert loss.item() == pytest.approx(0.7 * task.item(), rel=1e-6)
        loss.backward()
        assert torch.equal(guided.added["ssa"].linear.weight.grad, torch.zeros(2, 16))


def test_several_passes_add_up_and_gradient_checkpointing_changes_nothing(tiny_model, tiny_batch, tiny_tokenizer):
    gradients = []
    for checkpointing in (False, True):
        model = tiny_model()
        if checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        with attach(model, "ssa(mode=hybrid)", tiny_tokenizer) as guided:
            terms = []
            for seed in (0, 1):
                guided.give({"ssa": LABELS})
                model(**tiny_batch(seed=seed))
                terms.append(guided.terms["ssa"].item())
            assert terms[1] > terms[0] > 0
            guided.loss(torch.zeros(())).backward()
            gradients.append({n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    for name, expected in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], expected, atol=1e-6, rtol=1e-4)


# Labels.

WORD = 9
SENTENCES = [[5, 6, WORD, 7, 8], [6, 5, 8, 7, 10, 11], [7, WORD, 5], [WORD], [8, 10]]


class LooksAtOneWord(nn.Module):
    """A classifier that says 1 for a text with a certain word; or, as a regression, 4 for it and 1 without."""

    def __init__(self, is_regression=False):
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(()))
        self.is_regression = is_regression
        self.asked = []

    def forward(self, input_ids, attention_mask):
        assert not self.training
        assert not torch.is_grad_enabled()
        self.asked.append(len(input_ids))
        has_word = (input_ids == WORD).any(dim=1)
        if self.is_regression:
            return {"logits": torch.where(has_word, 4.0, 1.0)[:, None]}
        return {"logits": torch.stack([~has_word, has_word], dim=1).float()}


def rows_of(labels, pair=False):
    rows = []
    for words, label in zip(SENTENCES, labels, strict=True):
        second = [EOS, 12, 13] if pair else []
        rows.append({"input_ids": [BOS, *words, *second, EOS], "labels": label})
    return rows


def labels_of(method, rows, tokenizer, model=None, epoch=1, seed=0, batch_size=2):
    """The labels of all rows, (rows, copies, length), and the figures."""
    epochs = Epochs(Sum((method,)), tokenizer)
    pad = lambda chosen: tokenizer.pad(chosen, return_tensors="pt")  # noqa: E731
    figures = epochs.begin(
        model or LooksAtOneWord(), epoch, rows, collate=pad, label="labels", seed=seed, batch_size=batch_size,
        progress=lambda done, total: None,
    )  # fmt: skip
    given, _ = epochs.bring(torch.arange(len(rows)), dict(pad(rows)))
    return given["ssa"], figures


RIGHT = [1, 0, 1, 1, 0]


@pytest.mark.parametrize("pair", [False, True])
def test_a_classifier_that_looks_at_one_word_marks_that_word_and_no_other(pair, tiny_tokenizer):
    rows = rows_of(RIGHT, pair)
    labels, figures = labels_of(SSA(gamma=30.0, mask_rate=0.01), rows, tiny_tokenizer)  # one word at a time
    for row, text in zip(rows, labels, strict=True):
        for i, token in enumerate(row["input_ids"]):
            found = set(text[:, i].tolist()) - {-1}
            assert found == (set() if token <= EOS else {int(token == WORD)})
        assert (text[:, len(row["input_ids"]) :] == -1).all()
    assert figures["ssa/right"] == 1.0


def test_what_is_masked_together_is_labelled_together(tiny_tokenizer):
    rows = rows_of(RIGHT)
    labels, _ = labels_of(SSA(gamma=20.0, mask_rate=0.5), rows, tiny_tokenizer)
    seen = set()
    for row, text in zip(rows, labels, strict=True):
        for one in text:
            masked = [token for token, label in zip(row["input_ids"], one.tolist(), strict=False) if label >= 0]
            flips = {label for label in one.tolist() if label >= 0}
            assert flips == {int(WORD in masked)}
            seen |= flips
    assert seen == {0, 1}


def test_only_texts_that_the_model_gets_right_have_labels(tiny_tokenizer):
    labels, figures = labels_of(SSA(gamma=2.0), rows_of([0, 0, 1, 0, 0]), tiny_tokenizer)
    assert [bool((text >= 0).any()) for text in labels] == [False, True, True, False, True]
    assert figures["ssa/right"] == pytest.approx(3 / 5)


def test_a_number_is_right_within_flip_of_the_truth_and_flips_by_more(tiny_tokenizer):
    rows = rows_of([4.2, 1.0, 3.5, 4.4, 0.9])  # the model says 4, 1, 4, 4, 1
    one_word = {"gamma": 30.0, "mask_rate": 0.01}
    labels, _ = labels_of(SSA(flip=0.3, **one_word), rows, tiny_tokenizer, LooksAtOneWord(is_regression=True))
    assert [bool((text >= 0).any()) for text in labels] == [True, True, False, False, True]
    assert (labels[0, :, 3][labels[0, :, 3] >= 0] == 1).all()
    labels, _ = labels_of(SSA(flip=3.0, **one_word), rows, tiny_tokenizer, LooksAtOneWord(is_regression=True))
    assert (labels < 1).all()  # a change by 3 is not more than 3
    assert (labels == 0).any()


def test_there_are_no_labels_in_the_first_epoch(tiny_tokenizer):
    model = LooksAtOneWord()
    labels, figures = labels_of(SSA(), rows_of(RIGHT), tiny_tokenizer, model, epoch=0)
    assert (labels == -1).all()
    assert figures == {}
    assert model.asked == []


def test_labels_repeat_with_the_seed_and_differ_between_epochs(tiny_tokenizer):
    method, rows = SSA(gamma=2.0), rows_of(RIGHT)
    first = labels_of(method, rows, tiny_tokenizer)[0]
    assert torch.equal(labels_of(method, rows, tiny_tokenizer, batch_size=64)[0], first)
    assert not torch.equal(labels_of(method, rows, tiny_tokenizer, epoch=2)[0], first)
    assert not torch.equal(labels_of(method, rows, tiny_tokenizer, seed=1)[0], first)


def test_texts_are_asked_about_in_batches_and_only_if_they_have_copies(tiny_tokenizer):
    model = LooksAtOneWord()
    labels_of(SSA(gamma=0.6), rows_of(RIGHT), tiny_tokenizer, model, batch_size=2)
    assert model.asked == [2, 1, 2, 1]  # three texts, and a copy of each


def test_labelling_disturbs_nothing(tiny_model, tiny_tokenizer):
    model = tiny_model(hidden_dropout_prob=0.5)
    model.bert.embeddings.eval()  # as one may freeze a part
    with attach(model, "ssa(mode=hybrid)", tiny_tokenizer) as guided:
        random, modes = torch.get_rng_state(), [m.training for m in model.modules()]
        rows = [{"input_ids": [BOS, 5 + n % 9, 6, 7, EOS], "labels": n % 2} for n in range(12)]
        figures = guided.begin_epoch(1, rows)
        assert set(figures) == {"ssa/right", "ssa/flipped"}
        assert torch.equal(torch.get_rng_state(), random)
        assert [m.training for m in model.modules()] == modes
        assert all(p.grad is None for p in model.parameters())


def test_a_loop_of_ones_own(tiny_model, tiny_tokenizer):
    model = tiny_model()
    rows = [{"input_ids": [BOS, 5 + n % 9, 6, 7, EOS], "labels": n % 2} for n in range(12)]
    batch = {
        "input_ids": torch.tensor([r["input_ids"] for r in rows]),
        "labels": torch.tensor([r["labels"] for r in rows]),
    }
    with attach(model, "ssa(alpha=0.9)", tiny_tokenizer) as guided:
        with pytest.raises(UserError, match=r"ssa has no labels for this pass: .*guided.begin_epoch"):
            guided.loss(model(**batch).loss)
        with pytest.raises(UserError, match=r"nothing is made for ssa yet: call guided.begin_epoch"):
            guided.bring(range(12), batch)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        terms = []
        for epoch in range(2):
            guided.begin_epoch(epoch, rows)
            brought = guided.bring(range(12), batch)
            task = model(**brought).loss
            with pytest.raises(UserError, match=r"write guided.loss\(task_loss\)"):
                guided.loss()
            guided.loss(task).backward()
            terms.append(guided.terms["ssa"].item())
            optimizer.step()
        assert terms[0] == 0 < terms[1]


# Where it can't be.


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("ssa + ssa(mode=hybrid)", "ssa can't be there twice"),
        ("ssa(mode=hybrid) + se", r"would undo what ssa\(mode=hybrid\) does .*put it first: se \+ ssa\(mode=hybrid\)"),
        ("ssa + se", r"put it first: se \+ ssa"),
    ],
)
def test_sums_that_make_no_sense(method, message, tiny_model, tiny_tokenizer):
    model = tiny_model()
    with pytest.raises(UserError, match=message):
        attach(model, method, tiny_tokenizer)
    assert not hasattr(model, "attentune")


@pytest.mark.parametrize("name", ["bert", "modernbert"])
def test_behind_se_it_works_on_what_se_makes(name, tiny_model, tiny_batch, tiny_tokenizer):
    model, batch = tiny_model(name), tiny_batch()
    inputs = {k: v for k, v in batch.items() if k != "labels"}
    with torch.no_grad():
        with attach(model, "se", tiny_tokenizer):
            hidden = model.base_model(**inputs).last_hidden_state
        with attach(model, "se + ssa(mode=hybrid, beta=0.3) + mdg(0.1)", tiny_tokenizer) as guided:
            sharpened(guided)
            found = model(**inputs).logits
            scores = scores_by_loops(hidden, guided.added["ssa"].linear)
        counts = ((batch["attention_mask"] == 1) & (batch["input_ids"] > EOS)).tolist()
        expected = heads_of(name, model)(0.3 * hidden[:, 0] + 0.7 * sums_by_loops(hidden, scores, counts))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_models_that_cannot_have_it_say_why(tiny_model, tiny_tokenizer):
    with pytest.raises(UserError, match="ssa can't be used here: LlamaForSequenceClassification isn't an encoder"):
        attach(tiny_model("llama"), "ssa", tiny_tokenizer)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    vision = ViTForImageClassification(ViTConfig(**sizes, image_size=8, patch_size=4))
    with pytest.raises(UserError, match="ssa can't be used here: ViTForImageClassification isn't an encoder"):
        attach(vision, "ssa")
    with pytest.raises(UserError, match="ssa needs the tokenizer"):
        attach(tiny_model(), "ssa")
    maskless = copy.deepcopy(tiny_tokenizer)
    maskless.mask_token = None
    for method in ("ssa", "maskaug", "mdg(0.1) + ssa(mode=hybrid)"):
        with pytest.raises(UserError, match=r"masks words, and this tokenizer has no token for that \(mask_token\)"):
            attach(tiny_model(), method, maskless)
    with (
        attach(tiny_model(), "maskaug") as guided,
        pytest.raises(UserError, match="maskaug masks words, for which it needs the tokenizer"),
    ):
        guided.begin_epoch(0, rows_of(RIGHT), collate=dict)


class Wrapped(nn.Module):
    """What peft's wrapper looks like from outside."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def get_base_model(self):
        return self.model


def test_a_peft_model_is_refused(tiny_model, tiny_tokenizer):
    with pytest.raises(UserError, match=r"ssa\(mode=hybrid\) adds to the model .* which a peft adapter"):
        attach(Wrapped(tiny_model()), "ssa(mode=hybrid)", tiny_tokenizer)


def test_maskaug_is_not_refused_on_a_peft_model(tiny_model, tiny_tokenizer):
    rows = rows_of(RIGHT)
    with attach(Wrapped(tiny_model()), "maskaug + mdg(0.1)", tiny_tokenizer) as guided:
        guided.begin_epoch(0, rows)
        brought = guided.bring([5, 0], tiny_tokenizer.pad([rows[0], rows[0]], return_tensors="pt"))
    assert (brought["input_ids"] == MASK).sum(dim=1).tolist() == [2, 0]  # 0.3 of five words, rounded


@pytest.mark.parametrize("method", ["blur + ssa(mode=hybrid)", "ssa(mode=hybrid) + blur"])
def test_blur_may_stand_on_either_side(method, tiny_model, tiny_batch, tiny_tokenizer):
    answers = []
    for one in (method, "blur", "ssa(mode=hybrid)"):
        model = tiny_model()
        with attach(model, one, tiny_tokenizer), torch.no_grad():
            answers.append(model(**tiny_batch()).logits)
    assert not torch.equal(answers[0], answers[1])
    assert not torch.equal(answers[0], answers[2])


def test_it_must_see_the_tokens(tiny_model, tiny_tokenizer):
    model = tiny_model()
    with (
        attach(model, "ssa", tiny_tokenizer) as guided,
        guided.paused(),
        pytest.raises(UserError, match="call the model with input_ids"),
    ):
        model(inputs_embeds=torch.zeros(1, 3, 16))


def test_there_are_no_scores_before_a_pass_or_without_ssa(tiny_model, tiny_tokenizer):
    model = tiny_model()
    with attach(model, "mdg(0.1)") as guided, pytest.raises(UserError, match="none of the methods is ssa"):
        _ = guided.token_scores
    with attach(model, "ssa", tiny_tokenizer) as guided, pytest.raises(UserError, match="run the model forward once"):
        _ = guided.token_scores


# Text, and disk.


@pytest.mark.parametrize(
    "text",
    ["ssa", "ssa(mode=hybrid)", "ssa(alpha=0.7, gamma=0.6)", "ssa(mode=hybrid, beta=0.2, mask_rate=0.15, flip=0.5)",
     "maskaug", "maskaug(gamma=0.6)", "maskaug(gamma=2.0, mask_rate=0.15)", "ssa + maskaug + mdg(weight=0.1)"],
)  # fmt: skip
def test_its_text_is_read_back(text):
    assert str(parse(text)) == text
    assert parse(str(parse(text))) == parse(text)


def test_a_bare_value_is_the_first_parameter():
    assert parse("ssa(hybrid)").parts == (SSA(mode="hybrid"),)
    assert str(parse("maskaug(0.6)")) == "maskaug(gamma=0.6)"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("ssa(mode=both)", "mode must be co or hybrid"),
        ("ssa(alpha=0)", "alpha must be a number, above 0, at most 1"),
        ("ssa(alpha=1.5)", "alpha must be"),
        ("ssa(beta=-0.1)", "beta must be a number, at least 0, at most 1"),
        ("ssa(gamma=0)", "gamma must be a number, above 0"),
        ("ssa(gamma=inf)", "gamma must be"),
        ("ssa(mask_rate=nan)", "mask_rate must be"),
        ("ssa(flip=no)", "flip must be"),
    ],
)
def test_parameters_are_checked(wrong, message):
    with pytest.raises(UserError, match=message):
        parse(wrong)


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("mode", ["co", "hybrid"])
def test_saved_and_loaded_it_predicts_the_same_to_the_bit(name, mode, tiny_model, tiny_batch, tiny_tokenizer, tmp_path):
    model, batch = tiny_model(name).eval(), tiny_batch()
    with attach(model, SSA(mode=mode), tiny_tokenizer) as guided, torch.no_grad():
        sharpened(guided)
        save(model, tmp_path, tiny_tokenizer)
        logits, scores = model(**batch).logits, guided.token_scores
    assert str(load_methods(tmp_path)) == ("ssa(mode=hybrid)" if mode == "hybrid" else "ssa")
    loaded = load(tmp_path)
    assert torch.equal(loaded.model(**batch).logits, logits)
    assert torch.equal(loaded.token_scores, scores)
    assert loaded.added["ssa"].listener is None  # nothing keeps a graph
    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        assert torch.equal(plain(**batch).logits, logits) is (mode == "co")


def test_plain_transformers_says_what_it_does_not_know(tiny_model, tiny_tokenizer, tmp_path):
    model = tiny_model()
    with attach(model, "ssa", tiny_tokenizer):
        save(model, tmp_path, tiny_tokenizer)
    _, info = AutoModelForSequenceClassification.from_pretrained(tmp_path, output_loading_info=True)
    assert {"attentune.ssa.linear.weight", "attentune.ssa.linear.bias"} <= set(info["unexpected_keys"])
    assert not info["missing_keys"]


def test_what_is_loaded_needs_no_tokenizer_to_know_special_tokens(tiny_model, tiny_batch, tiny_tokenizer):
    model, batch = tiny_model().eval(), tiny_batch()
    with attach(model, "ssa(mode=hybrid)", tiny_tokenizer) as guided, torch.no_grad():
        logits, trained = model(**batch).logits, guided.added.state_dict()
    with attach(model, "ssa(mode=hybrid)", trained=trained), torch.no_grad():
        assert torch.equal(model(**batch).logits, logits)


def test_the_names_are_there():
    assert attentune.SSA is SSA
    assert attentune.MaskAug(0.6).gamma == 0.6
    assert SSA().columns == (ROW,)
    assert mdg_loss is attentune.mdg_loss
