"""Sums of methods: the parts of a sum do what they do alone, also inside a peft model; a sum that makes no sense says so."""

import itertools

import pytest
import torch
from transformers import AutoModelForSequenceClassification, TrainingArguments

import attentune
from attentune.errors import UserError
from attentune.functional import mdg_loss, pdg_loss
from attentune.methods import METHODS, attach, parse

GUIDES = [
    "mdg(0.1)", "pdg(0.01)", "first(0.1, heads=1)", "next(0.1, heads=[1])", "prev(0.1, heads=2)", "same(0.1, heads=[3])",
    "delim(0.1, heads=1)", "period(0.1, heads=1)", "disagreement(0.1, on=position)", "disagreement(0.1, on=output)",
    "disagreement(0.1, on=subspace)", "mdg(auto(0.1))",
]  # fmt: skip
CHANGES = ["blur(sigma=0.8)", "blur(on=value)", "se", "rdrop(1.0)", "mixout(0.5)"]


class TokenizerOfIds:
    """Of a tokenizer, what the patterns ask: 1 begins a text, 2 ends it, 7 is a full stop."""

    all_special_ids = (0, 1, 2)
    cls_token_id, sep_token_id, eos_token_id, unk_token_id, mask_token_id = 1, 2, None, None, None

    def get_vocab(self):
        return {"[CLS]": 1, "[SEP]": 2, ".": 7}


def guided(model, batch, method):
    """The guides' loss, and the gradients of it alone."""
    model.zero_grad()
    with attach(model, method, TokenizerOfIds()) as guide:
        task = model(**batch).loss
        loss = guide.loss(task) - task
        loss.backward()
        terms = {name: float(term.detach()) for name, term in guide.terms.items()}
    return float(loss.detach()), terms, {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("name", ["bert", "modernbert", "llama"])
def test_a_sum_of_guides_is_the_sum_of_what_they_are_alone(tiny_model, tiny_batch, name):
    model, batch = tiny_model(name).double(), tiny_batch()
    batch["input_ids"][:, 2] = 7
    parts = [
        "mdg(0.1, layers=1-2)",
        "pdg(0.01)",
        "first(0.3, heads=[0])",
        "disagreement(0.2)",
        "period(0.1, heads=[1])",
    ]
    alone = [guided(model, batch, part) for part in parts]
    loss, terms, gradients = guided(model, batch, " + ".join(parts))
    assert loss == pytest.approx(sum(one for one, _, _ in alone), abs=1e-9)
    assert list(terms) == ["mdg", "pdg", "first", "disagreement", "period"]
    for (term,), got in zip((one.values() for _, one, _ in alone), terms.values(), strict=True):
        assert got == pytest.approx(term, abs=1e-9)
    for parameter, grad in gradients.items():
        expected = sum(one[parameter] for _, _, one in alone)
        torch.testing.assert_close(grad, expected, atol=1e-7, rtol=1e-5)


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations([*GUIDES, *CHANGES], 2)))
def test_any_two_methods_train_a_model_together(tiny_model, tiny_batch, one, other):
    model, batch = tiny_model(), tiny_batch()
    batch["input_ids"][:, 2] = 7
    with attach(model, f"{one} + {other}", TokenizerOfIds()) as guide:
        guide.loss(model(**batch).loss).backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    assert str(guide.method) == str(parse(f"{one} + {other}"))


def test_blur_and_se_do_the_same_in_either_order(tiny_model, tiny_batch):
    model, batch = tiny_model(initializer_range=0.5).eval(), tiny_batch()
    with attach(model, "blur(sigma=0.8) + se") as guide, torch.no_grad():
        expected = model(**batch).logits
    trained = guide.added.state_dict()
    with attach(model, "se + blur(sigma=0.8)", trained=trained), torch.no_grad():
        assert torch.equal(model(**batch).logits, expected)
    for alone in ("blur(sigma=0.8)", "se"):
        own = {name: x for name, x in trained.items() if name.startswith(alone[:2])}
        with attach(model, alone, trained=own), torch.no_grad():
            assert not torch.allclose(model(**batch).logits, expected, atol=1e-4)


def test_every_method_is_in_some_sum_here():
    """Those that draw on resources of their own are tested with them."""
    here = {part.name for text in [*GUIDES, *CHANGES] for part in parse(text).parts}
    assert here <= METHODS.keys()
    assert METHODS.keys() - here <= {"pmi", "dependency", "wordsim", "ssa", "maskaug"}


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("se + se(output=last)", "the second would undo the first; give one"),
        ("blur + blur(sigma=1)", "layer 0 is blurred twice"),
        ("blur(layers=0) + mdg(0.1) + blur(layers=0-1)", "layer 0 is blurred twice"),
        ("first(heads=3) + next(heads=2)", "2 heads are asked for beside 3 that are taken, but a layer has 4"),
        ("mdg(0.1) + none", "none is the unguided model"),
        ("mdg(0.1) + blur(layers=7)", "there is no layer 7"),
    ],
)
def test_a_sum_that_makes_no_sense_gets_a_sentence(tiny_model, method, message):
    model = tiny_model()
    with pytest.raises(UserError, match=message):
        attach(model, method, TokenizerOfIds())
    assert model.config._attn_implementation == "sdpa"
    assert not hasattr(model, "attentune")


# Inside a peft model.


@pytest.fixture
def make_lora():
    """Makes a LoRA model of a tiny one, with adapters that do something already."""
    peft = pytest.importorskip("peft", reason="peft is not installed")

    def make(model, **settings):
        config = peft.LoraConfig(task_type="SEQ_CLS", r=4, lora_alpha=8, **settings)
        torch.manual_seed(1)
        made = peft.get_peft_model(model, config)
        for name, parameter in made.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(parameter, std=0.1)
        return made

    return make


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_guides_on_a_lora_model_train_its_adapters(tiny_model, tiny_batch, make_lora, name):
    targets = ["query", "value"] if name == "bert" else ["q_proj", "v_proj"]
    model, batch = make_lora(tiny_model(name).double(), target_modules=targets), tiny_batch()
    real = batch["attention_mask"].bool()
    _, terms, got = guided(model, batch, "mdg(0.1) + pdg(0.01) + first(0.3, heads=1)")
    _, first, first_gradients = guided(model, batch, "first(0.3, heads=1)")
    base = model.get_base_model()
    base.set_attn_implementation("eager")
    model.zero_grad()
    maps = model(**batch, output_attentions=True).attentions
    received = torch.cat([(layer * real[:, None, :, None]).sum(-2) for layer in maps], dim=1)
    (0.1 * mdg_loss(received, mask=real) + 0.01 * pdg_loss(received, mask=real)).backward()
    base.set_attn_implementation("sdpa")
    assert terms["mdg"] == pytest.approx(float(mdg_loss(received, mask=real).detach()), abs=1e-6)
    assert terms["first"] == pytest.approx(first["first"])
    lora = {n: p.grad for n, p in model.named_parameters() if "lora_" in n}
    assert len(lora) == 12
    for parameter, grad in lora.items():
        wanted = (0 if grad is None else grad) + first_gradients.get(parameter, 0)
        if isinstance(wanted, torch.Tensor):
            torch.testing.assert_close(got[parameter], wanted, atol=1e-9, rtol=1e-5)
    assert max(float(grad.abs().max()) for n, grad in got.items() if "lora_" in n) > 1e-6
    assert all("lora_" in n or "classifier" in n or "score" in n for n in got)


@pytest.mark.parametrize("method", ["mdg(auto(0.1)) + disagreement(0.1)", "mdg(0.1, layers=1) + first(0.1, heads=1)"])
def test_detached_a_lora_model_is_what_it_was_and_checkpointing_changes_nothing(
    tiny_model, tiny_batch, make_lora, method
):
    model, batch = make_lora(tiny_model(), target_modules=["query", "key"], lora_dropout=0.0), tiny_batch()
    before = model(**batch).logits
    loss, _, gradients = guided(model, batch, method)
    assert torch.equal(model(**batch).logits, before)
    model.enable_input_require_grads()
    model.gradient_checkpointing_enable()
    checkpointed, _, found = guided(model, batch, method)
    assert checkpointed == pytest.approx(loss, rel=1e-4)
    for name, grad in gradients.items():
        if "lora_" in name:
            torch.testing.assert_close(found[name], grad, atol=1e-6, rtol=1e-3)


def test_trainer_guides_a_lora_model_and_saves_the_adapter_alone(tiny_model, tiny_batch, make_lora, tmp_path):
    tiny_model().save_pretrained(tmp_path / "base")
    model = make_lora(AutoModelForSequenceClassification.from_pretrained(tmp_path / "base"), target_modules=["query"])
    batch = tiny_batch((6, 6, 6, 6))
    rows = [{name: x[i] for name, x in batch.items()} for i in range(4)]
    arguments = TrainingArguments(
        str(tmp_path / "out"), max_steps=4, use_cpu=True, report_to="none", disable_tqdm=True, logging_steps=1,
        learning_rate=1e-2, save_strategy="no",
    )  # fmt: skip
    trainer = attentune.Trainer(model, arguments, train_dataset=rows, method="mdg(0.5) + first(0.1, heads=1)")
    trainer.train()
    assert trainer.state.log_history[0]["guide/mdg"] > 0
    trainer.save_model(tmp_path / "adapter")
    names = {file.name for file in (tmp_path / "adapter").iterdir()}
    assert "adapter_model.safetensors" in names
    assert "attentune.json" not in names
    peft = pytest.importorskip("peft")
    fresh = AutoModelForSequenceClassification.from_pretrained(tmp_path / "base")
    again = peft.PeftModel.from_pretrained(fresh, tmp_path / "adapter").eval()
    with torch.no_grad():
        torch.testing.assert_close(again(**batch).logits, model.eval()(**batch).logits)


@pytest.mark.parametrize("method", ["se", "blur", "blur + se + mdg(0.1)"])
def test_what_changes_the_forward_pass_is_not_for_lora_models(tiny_model, make_lora, tmp_path, method):
    model = make_lora(tiny_model(), target_modules=["query"])
    with pytest.raises(UserError, match="which a peft adapter can't be saved with; use guides, such as"):
        attach(model, method)
    arguments = TrainingArguments(str(tmp_path), use_cpu=True, report_to="none")
    with pytest.raises(UserError, match="which a peft adapter can't be saved with"):
        attentune.Trainer(model, arguments, method=method)
    assert model.get_base_model().config._attn_implementation == "sdpa"
