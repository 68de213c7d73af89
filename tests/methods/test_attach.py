"""attach: guides on stock models, and nothing left of them afterwards."""

import copy
from types import SimpleNamespace

import pytest
import torch
from torch.utils.checkpoint import checkpoint
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    BertModel,
    DebertaConfig,
    DebertaModel,
    FNetConfig,
    FNetModel,
    T5Config,
    T5Model,
    ViTConfig,
    ViTModel,
)

from attentune.errors import UserError
from attentune.functional import mdg_loss, pdg_loss
from attentune.methods import MDG, PDG, Linear, Sum, attach

BOTH = "mdg(0.1) + pdg(0.01)"
SMALL = {
    "vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8,
}  # fmt: skip


def gradients(model):
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def assert_same_gradients(got, expected, tolerance=1e-5):
    assert got.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(got[name], expected[name], atol=tolerance, rtol=1e-4, msg=name)


def guided_gradients(model, batch, method=BOTH, **options):
    """Gradients of task and guide together, and the guide's loss."""
    model.zero_grad()
    with attach(model, method, **options) as guided:
        loss = model(**batch).loss
        guide = guided.loss()
        (loss + guide).backward()
    return gradients(model), guide.detach()


def maps_of(model, batch):
    """The maps as transformers itself shows them, from eager attention."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    maps = model(**batch, output_attentions=True).attentions
    model.set_attn_implementation(before)
    return maps


# Each architecture.


def test_the_loss_is_that_of_the_maps_that_transformers_shows(architecture, tiny_model, tiny_batch):
    model, batch = tiny_model(architecture), tiny_batch()
    real = batch["attention_mask"].bool()
    received = [(maps * real[:, None, :, None]).sum(-2) for maps in maps_of(model, batch)]
    stacked = torch.cat(received, dim=1)
    assert stacked.shape[1] == 3 * 4
    expected = {"mdg": mdg_loss(stacked, mask=real), "pdg": pdg_loss(stacked, mask=real)}
    with attach(model, BOTH) as guided:
        model(**batch)
        for name, want in expected.items():
            torch.testing.assert_close(guided.terms[name], want, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(guided.loss(), 0.1 * expected["mdg"] + 0.01 * expected["pdg"], atol=1e-6, rtol=1e-5)


def test_the_gradient_is_that_of_the_maps_that_transformers_shows(architecture, tiny_model, tiny_batch):
    model, batch = tiny_model(architecture), tiny_batch()
    real = batch["attention_mask"].bool()
    model.set_attn_implementation("eager")
    output = model(**batch, output_attentions=True)
    stacked = torch.cat([(maps * real[:, None, :, None]).sum(-2) for maps in output.attentions], dim=1)
    (output.loss + 0.1 * mdg_loss(stacked, mask=real) + 0.01 * pdg_loss(stacked, mask=real)).backward()
    expected = gradients(model)
    model.set_attn_implementation("sdpa")
    got, _ = guided_gradients(model, batch)
    assert_same_gradients(got, expected)


def test_padding_changes_neither_loss_nor_gradient(architecture, tiny_model, tiny_batch):
    model = tiny_model(architecture)
    tight, tight_loss = guided_gradients(model, tiny_batch())
    for width in (12, 30):
        loose, loose_loss = guided_gradients(model, tiny_batch(padded_to=width))
        torch.testing.assert_close(loose_loss, tight_loss, atol=1e-6, rtol=1e-5)
        assert_same_gradients(loose, tight)


def test_a_batch_is_the_mean_of_its_examples_alone(architecture, tiny_model, tiny_batch):
    model, batch = tiny_model(architecture), tiny_batch(padded_to=20)
    together, loss = guided_gradients(model, batch)
    sums, losses = {}, []
    for row, length in enumerate((9, 6, 4)):
        alone = {name: x[row : row + 1, :length] if x.dim() == 2 else x[row : row + 1] for name, x in batch.items()}
        grads, one = guided_gradients(model, alone)
        losses.append(one)
        for name, grad in grads.items():
            sums[name] = sums.get(name, 0) + grad / 3
    torch.testing.assert_close(loss, torch.stack(losses).mean(), atol=1e-6, rtol=1e-5)
    assert_same_gradients(together, sums)


def test_outputs_stay_what_they_were(architecture, tiny_model, tiny_batch):
    model, batch = tiny_model(architecture), tiny_batch()
    plain = model(**batch)
    with attach(model, BOTH):
        guided = model(**batch)
    torch.testing.assert_close(guided.logits, plain.logits, atol=1e-6, rtol=1e-5)


def test_detached_the_model_is_bit_for_bit_what_it_was(architecture, tiny_model, tiny_batch, tmp_path):
    model, batch = tiny_model(architecture), tiny_batch()
    logits = model(**batch).logits
    model.save_pretrained(tmp_path / "before")  # transformers itself notes some things in the configuration here
    state = {name: x.clone() for name, x in model.state_dict().items()}
    config = copy.deepcopy(model.config.to_dict())
    implementation = model.config._attn_implementation
    hooks = [(len(m._forward_hooks), len(m._forward_pre_hooks), set(m.__dict__)) for m in model.modules()]
    with attach(model, BOTH) as guided:
        model(**batch)
        guided.loss().backward()
        model.save_pretrained(tmp_path / "guided")
    assert torch.equal(model(**batch).logits, logits)
    assert model.config._attn_implementation == implementation
    assert model.config.to_dict() == config
    assert [(len(m._forward_hooks), len(m._forward_pre_hooks), set(m.__dict__)) for m in model.modules()] == hooks
    for name, x in model.state_dict().items():
        assert torch.equal(x, state[name])
    guided.detach()  # twice does no harm


def test_a_model_saved_while_guided_bears_no_trace(architecture, tiny_model, tiny_batch, tmp_path):
    model, batch = tiny_model(architecture).eval(), tiny_batch()
    with attach(model, BOTH):
        model(**batch)
        model.save_pretrained(tmp_path)
    for file in tmp_path.iterdir():
        assert b"attentune" not in file.read_bytes()
    plain = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    assert plain.config._attn_implementation == "sdpa"
    assert torch.equal(plain(**batch).logits, model(**batch).logits)


def test_gradient_checkpointing_changes_nothing(architecture, tiny_model, tiny_batch):
    model, batch = tiny_model(architecture), tiny_batch()
    if not model.supports_gradient_checkpointing:
        pytest.skip(f"transformers' {architecture} has no gradient checkpointing")
    for method in (BOTH, "mdg(0.1, layers=1)"):
        expected, loss = guided_gradients(model, batch, method)
        model.gradient_checkpointing_enable()
        got, checkpointed_loss = guided_gradients(model, batch, method)
        model.gradient_checkpointing_disable()
        torch.testing.assert_close(checkpointed_loss, loss)
        assert_same_gradients(got, expected)


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_dropout_leaves_the_readings_finite_and_the_output_random(architecture, tiny_model, tiny_batch, implementation):
    name = {"distilbert": "attention_dropout", "modernbert": "attention_dropout", "llama": "attention_dropout"}
    model = tiny_model(architecture, **{name.get(architecture, "attention_probs_dropout_prob"): 0.5})
    model.set_attn_implementation(implementation)
    batch = tiny_batch()
    with attach(model, "mdg(0.1, layers=0)") as guided:
        first = model(**batch).logits
        first_loss = guided.loss()
        second = model(**batch).logits
        torch.testing.assert_close(guided.loss(), first_loss)  # layer 0's map is before any dropout
    assert not torch.equal(first, second)
    got, _ = guided_gradients(model, batch)
    assert all(grad.isfinite().all() for grad in got.values())


# Layers and heads.


def test_albert_counts_each_pass_of_its_shared_layer(tiny_model, tiny_batch):
    model, batch = tiny_model("albert"), tiny_batch()
    maps = maps_of(model, batch)
    real = batch["attention_mask"].bool()
    for layer in range(3):
        received = (maps[layer] * real[:, None, :, None]).sum(-2)
        with attach(model, MDG(1.0, layers=layer)) as guided:
            model(**batch)
            torch.testing.assert_close(guided.loss(), mdg_loss(received, mask=real), atol=1e-6, rtol=1e-5)


def test_layers_and_heads_are_chosen(tiny_model, tiny_batch):
    model, batch = tiny_model(), tiny_batch()
    real = batch["attention_mask"].bool()
    maps = maps_of(model, batch)
    chosen = torch.cat([(maps[i] * real[:, None, :, None]).sum(-2)[:, [0, 3]] for i in (1, 2)], dim=1)
    for layers, heads in (("1-2", "[0,3]"), ([1, -1], [0, -1]), (range(1, 3), [3, 0])):
        with attach(model, MDG(1.0, layers=layers, heads=heads)) as guided:
            model(**batch)
            torch.testing.assert_close(guided.loss(), mdg_loss(chosen, mask=real))


def test_each_method_has_its_own_layers(tiny_model, tiny_batch):
    model, batch = tiny_model(), tiny_batch()
    with attach(model, MDG(1.0, layers=0) + MDG(1.0, layers=2)) as guided:
        model(**batch)
        terms = guided.terms
    assert list(terms) == ["mdg", "mdg_2"]
    for layer, name in ((0, "mdg"), (2, "mdg_2")):
        with attach(model, MDG(1.0, layers=layer)) as guided:
            model(**batch)
            torch.testing.assert_close(guided.loss(), terms[name])


def test_content_leaves_out_special_tokens(tiny_model, tiny_batch):
    class Tokenizer:
        all_special_ids = (0, 1, 2, 3)
        unk_token_id, mask_token_id = 3, None

    model, batch = tiny_model(), tiny_batch()
    batch["input_ids"][0, 3] = 3  # an unknown word is content
    real = batch["attention_mask"].bool()
    content = real & (batch["input_ids"] > 2)
    stacked = torch.cat([(m * real[:, None, :, None]).sum(-2) for m in maps_of(model, batch)], dim=1)
    with attach(model, "pdg(1.0, tokens=content)", Tokenizer()) as guided:
        model(**batch)
        torch.testing.assert_close(guided.loss(), pdg_loss(stacked, mask=content), atol=1e-5, rtol=1e-5)
    with attach(model, "pdg(1.0, tokens=content)") as guided:
        model(**batch)
        with pytest.raises(UserError, match="tokenizer"):
            guided.loss()


# Passes.


def test_several_passes_before_one_backward_add_up(tiny_model, tiny_batch):
    model = tiny_model()
    batches = [tiny_batch(seed=0), tiny_batch((7, 5), seed=1)]
    expected, losses = {}, []
    for batch in batches:
        grads, loss = guided_gradients(model, batch)
        losses.append(loss)
        for name, grad in grads.items():
            expected[name] = expected.get(name, 0) + grad
    for checkpointing in (False, True):
        if checkpointing:
            model.gradient_checkpointing_enable()
        model.zero_grad()
        with attach(model, BOTH) as guided:
            task = sum(model(**batch).loss for batch in batches)
            guide = guided.loss()
            (task + guide).backward()
        torch.testing.assert_close(guide.detach(), sum(losses))
        assert_same_gradients(gradients(model), expected)


def test_gradient_accumulation_adds_up(tiny_model, tiny_batch):
    model = tiny_model()
    batches = [tiny_batch(seed=0), tiny_batch(seed=1)]
    parts = [guided_gradients(model, batch)[0] for batch in batches]
    expected = {name: parts[0][name] + parts[1][name] for name in parts[0]}
    model.zero_grad()
    with attach(model, BOTH) as guided:
        for batch in batches:
            (model(**batch).loss + guided.loss()).backward()
    assert_same_gradients(gradients(model), expected)


def test_asking_twice_gives_the_same_loss(tiny_model, tiny_batch):
    model = tiny_model()
    with attach(model, BOTH) as guided:
        model(**tiny_batch())
        assert torch.equal(guided.loss(), guided.loss())
        terms = guided.terms
        torch.testing.assert_close(guided.loss(), 0.1 * terms["mdg"] + 0.01 * terms["pdg"])


def test_evaluation_reads_too_and_does_not_disturb_a_step(tiny_model, tiny_batch):
    model, batch, other = tiny_model(), tiny_batch(seed=0), tiny_batch(seed=1)
    with attach(model, BOTH) as guided:
        model(**batch)
        with torch.no_grad():
            model.eval()(**other)  # a look at the model in the middle of a step
            model.train()
        loss = guided.loss()
        assert loss.requires_grad
        with torch.no_grad():
            model(**batch)
            torch.testing.assert_close(guided.loss(), loss.detach())
            model(**other)
            model(**batch)  # without gradients, the last pass is what counts
            torch.testing.assert_close(guided.loss(), loss.detach())


def test_looking_at_the_terms_changes_nothing(tiny_model, tiny_batch):
    model = tiny_model()
    with attach(model, BOTH) as guided:
        model(**tiny_batch(seed=0))
        model(**tiny_batch(seed=1))
        expected = guided.loss().detach()
        model(**tiny_batch(seed=0))
        assert set(guided.terms) == {"mdg", "pdg"}
        with torch.no_grad():
            model(**tiny_batch(seed=2))
        model(**tiny_batch(seed=1))
        assert guided.loss().requires_grad
        torch.testing.assert_close(guided.loss().detach(), expected)


def test_within_autocast_the_loss_is_as_precise_as_its_readings(tiny_model, tiny_batch):
    model, batch = tiny_model(), tiny_batch()
    with attach(model, BOTH) as guided:
        with torch.autocast("cpu", torch.bfloat16):
            model(**batch)
            within = guided.loss()
        assert within.dtype == torch.float32
        with torch.autocast("cpu", torch.bfloat16):
            model(**batch)
        torch.testing.assert_close(within, guided.loss())


def test_paused_the_model_runs_as_if_unguided(tiny_model, tiny_batch):
    model = tiny_model()
    with attach(model, BOTH) as guided:
        with guided.paused():
            model(**tiny_batch())
        with pytest.raises(UserError, match="no loss yet"):
            guided.loss()


def test_unasked_passes_are_warned_of(tiny_model, tiny_batch, caplog):
    model = tiny_model()
    with attach(model, BOTH):
        for _ in range(32):
            model(**tiny_batch())
    assert "nobody asked for guided.loss()" in caplog.text


def test_a_failing_forward_pass_leaves_the_guide_usable(tiny_model, tiny_batch):
    model, batch = tiny_model(), tiny_batch()
    with attach(model, BOTH) as guided:
        with pytest.raises(IndexError):
            model(**{**batch, "input_ids": batch["input_ids"] + 1000})
        model(**batch)
        assert guided.loss().isfinite()


def test_output_attentions_are_given_to_who_asks(tiny_model, tiny_batch):
    model, batch = tiny_model(), tiny_batch()
    model.set_attn_implementation("eager")
    expected = model(**batch, output_attentions=True).attentions
    with attach(model, BOTH) as guided:
        output = model(**batch, output_attentions=True)
        assert guided.loss().isfinite()
    for got, want in zip(output.attentions, expected, strict=True):
        assert torch.equal(got, want)


def test_autocast_stays_near_full_precision(tiny_model, tiny_batch):
    model, batch = tiny_model(), tiny_batch()
    _, expected = guided_gradients(model, batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got, loss = guided_gradients(model, batch)
    torch.testing.assert_close(loss, expected, rtol=2e-2, atol=1e-3)
    assert all(grad.isfinite().all() for grad in got.values())


def test_reference_and_fused_guide_alike(tiny_model, tiny_batch):
    model, batch = tiny_model(), tiny_batch()
    fused, fused_loss = guided_gradients(model, batch, backend="fused")
    reference, reference_loss = guided_gradients(model, batch, backend="reference")
    torch.testing.assert_close(fused_loss, reference_loss)
    assert_same_gradients(fused, reference)


def test_checkpoints_of_ones_own_are_followed(tiny_model, tiny_batch):
    model, batch = tiny_model(), tiny_batch()
    expected, _ = guided_gradients(model, batch, "mdg(0.1, layers=1)")
    for layer in model.bert.encoder.layer:
        forward = layer.forward
        layer.forward = lambda *args, forward=forward, **kwargs: checkpoint(
            forward, *args, use_reentrant=False, **kwargs
        )
    got, _ = guided_gradients(model, batch, "mdg(0.1, layers=1)")
    assert_same_gradients(got, expected)


def test_reentrant_checkpointing_is_refused(tiny_model, tiny_batch):
    model = tiny_model()
    model.gradient_checkpointing_enable({"use_reentrant": True})
    with attach(model, BOTH), pytest.raises(UserError, match="use_reentrant"):
        model(**tiny_batch())


def test_a_compiled_model_is_guided_alike(tiny_model, tiny_batch):
    model, batch = tiny_model(), tiny_batch()
    expected, loss = guided_gradients(model, batch)
    model.zero_grad()
    with attach(model, BOTH) as guided:
        compiled = torch.compile(model, backend="eager")
        (compiled(**batch).loss + guided.loss()).backward()
        torch.testing.assert_close(guided.loss().detach(), loss)
    assert_same_gradients(gradients(model), expected)


def test_a_copy_and_a_neighbour_with_the_same_configuration_run_unguided(tiny_model, tiny_batch):
    model, batch = tiny_model(), tiny_batch()
    neighbour = type(model)(model.config)
    expected = neighbour(**batch).logits
    with attach(model, BOTH) as guided:
        twin = copy.deepcopy(model)
        assert torch.equal(neighbour(**batch).logits, expected)
        neighbour(**batch)
        with pytest.raises(UserError, match="no loss yet"):
            guided.loss()
        assert twin(**batch).logits.isfinite().all()


def test_schedules_follow_progress(tiny_model, tiny_batch):
    model = tiny_model()
    with attach(model, MDG(0.5, schedule=Linear(hold=0.5))) as guided:
        model(**tiny_batch())
        for progress, factor in ((0.0, 1.0), (0.5, 1.0), (0.75, 0.5), (1.0, 0.0)):
            guided.progress = progress
            torch.testing.assert_close(guided.loss(), 0.5 * factor * guided.terms["mdg"])


def test_none_guides_nothing(tiny_model, tiny_batch):
    model, batch = tiny_model(), tiny_batch()
    with attach(model, "none") as guided:
        assert model.config._attn_implementation == "sdpa"
        model(**batch)
        assert float(guided.loss()) == 0
        assert guided.terms == {}
    assert Sum() + Sum() == Sum()


def test_a_vision_model_is_guided():
    config = ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, image_size=8, patch_size=4
    )
    torch.manual_seed(0)
    model = ViTModel(config).train()
    with attach(model, BOTH) as guided:
        model(pixel_values=torch.randn(2, 3, 8, 8))
        guided.loss().backward()
    queries = [p.grad for name, p in model.named_parameters() if "q_proj.weight" in name or "query.weight" in name]
    assert len(queries) == 2
    assert all(grad.abs().sum() > 0 for grad in queries)


def test_a_pass_of_token_ids_by_position_is_read(tiny_model, tiny_batch):
    model, batch = tiny_model(), tiny_batch()
    with attach(model, BOTH) as guided:
        model(batch["input_ids"], batch["attention_mask"])
        by_position = guided.loss()
        model(**batch)
        torch.testing.assert_close(guided.loss(), by_position)


# Mistakes.


def test_models_that_cannot_be_guided_say_why(tiny_model):
    deberta = DebertaModel(DebertaConfig(**SMALL))
    with pytest.raises(UserError, match="DebertaModel can't be guided: it computes its attention itself"):
        attach(deberta, BOTH)
    t5 = T5Model(T5Config(vocab_size=20, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2))
    with pytest.raises(UserError, match="encoder-decoder"):
        attach(t5, BOTH)
    with pytest.raises(UserError, match="PreTrainedModel"):
        attach(torch.nn.Linear(2, 2), BOTH)
    flex = BertModel(BertConfig(**SMALL, attn_implementation="flex_attention"))
    with pytest.raises(UserError, match="set_attn_implementation"):
        attach(flex, BOTH)


def test_layers_that_cannot_be_told_apart_are_refused(tiny_batch):
    crossed = BertModel(BertConfig(**SMALL, is_decoder=True, add_cross_attention=True))
    with pytest.raises(UserError, match="two kinds of attention"):
        attach(crossed, BOTH)
    no_attention = FNetModel(
        FNetConfig(vocab_size=50, hidden_size=8, num_hidden_layers=2, intermediate_size=8, max_position_embeddings=16)
    )
    with attach(no_attention, BOTH) as guided:
        no_attention(tiny_batch()["input_ids"])
        with pytest.raises(UserError, match="none of its layers ran attention"):
            guided.loss()


def test_albert_counts_the_layers_within_a_group(tiny_model, tiny_batch):
    model, batch = tiny_model("albert", inner_group_num=2), tiny_batch()
    with attach(model, "mdg(1, layers=-1)") as guided:
        model(**batch)
        got = guided.loss()
    model.set_attn_implementation("eager")
    maps = model(**batch, output_attentions=True).attentions
    assert len(maps) == 6
    real = batch["attention_mask"]
    received = (maps[-1] * real[:, None, :, None]).sum(dim=-2)
    torch.testing.assert_close(got, mdg_loss(received, mask=real))


def test_a_pass_that_goes_on_from_a_cache_has_no_content(tiny_model, tiny_batch):
    model, ids = tiny_model("llama").eval(), tiny_batch((6,))["input_ids"]
    tokenizer = SimpleNamespace(all_special_ids=[1, 2], unk_token_id=None, mask_token_id=None)
    with torch.no_grad(), attach(model, "mdg(0.1, tokens=content)", tokenizer) as guided:
        cache = model(ids, use_cache=True).past_key_values
        model(ids[:, :1], attention_mask=torch.ones(1, 7), past_key_values=cache)
        with pytest.raises(UserError, match="goes on from a cache"):
            guided.loss()


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("mdg(0.1, layers=3)", "there is no layer 3: the model has 3, numbered 0 to 2"),
        ("mdg(0.1, layers=1-11)", "there is no layer 11"),
        ("mdg(0.1, heads=4)", "there is no head 4"),
        ("mdg(0.1, layers=2-1)", "run backwards"),
    ],
)
def test_layers_and_heads_that_are_not_there(tiny_model, method, message):
    model = tiny_model()
    with pytest.raises(UserError, match=message):
        attach(model, method)
    assert model.config._attn_implementation == "sdpa"


def test_a_model_is_guided_once(tiny_model):
    model = tiny_model()
    with attach(model, BOTH), pytest.raises(UserError, match="guided already"):
        attach(model, PDG(0.1))
    with attach(model, PDG(0.1)):
        pass


def test_a_copy_made_while_attached_can_be_guided_itself(tiny_model, tiny_batch):
    model, batch = tiny_model(), tiny_batch()
    with attach(model, BOTH) as guided:
        copied = copy.deepcopy(model)
        model(**batch)
        expected = guided.loss()
    with attach(copied, BOTH) as guided:
        copied(**batch)
        torch.testing.assert_close(guided.loss(), expected)
    assert copied.config._attn_implementation == "sdpa"


def test_models_of_one_configuration_are_guided_side_by_side(tiny_model, tiny_batch):
    first, batch = tiny_model(), tiny_batch()
    second = type(first)(first.config)
    outer, inner = attach(first, BOTH), attach(second, BOTH)
    outer.detach()
    second(**batch)
    assert inner.loss().isfinite()
    inner.detach()
    assert first.config._attn_implementation == "sdpa"


def test_only_a_part_of_the_model_is_no_pass(tiny_model, tiny_batch):
    model, batch = tiny_model(), tiny_batch()
    with attach(model, BOTH) as guided:
        model.bert(batch["input_ids"])
        with pytest.raises(UserError, match="the attached model itself"):
            guided.loss()
