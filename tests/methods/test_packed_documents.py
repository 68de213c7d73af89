"""Several documents packed into one input, each begun by [CLS]: no pattern looks from one into another."""

import pytest
import torch

from attentune.methods import Delim, First, Next, Period, Prev, Same, attach
from attentune.methods.tokens import TokenKinds

ALL = {"first": First, "next": Next, "prev": Prev, "same": Same, "delim": Delim, "period": Period}
CLS, SEP, STOP = 1, 2, 7
ROWS = [
    [1, 5, 7, 2, 1, 6, 2, 1, 9, 7, 8, 7, 2],  # three documents, two of them with full stops
    [1, 8, 2, 5, 7, 2, 1, 6, 2],  # a pair of texts, then a document; and padding
]


class TokenizerOfIds:
    """Of a tokenizer, what the patterns ask."""

    all_special_ids = (0, 1, 2)
    cls_token_id, sep_token_id, eos_token_id, unk_token_id, mask_token_id = CLS, SEP, None, None, None

    def get_vocab(self):
        return {"[CLS]": CLS, "[SEP]": SEP, ".": STOP}


def packed_batch(rows=ROWS):
    width = max(map(len, rows))
    ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": torch.arange(len(rows)) % 2}


def naive_row(name, ids, q):
    """P[q] of a row of ids without padding: {key: share}; None for a query without a target."""
    begins = [k for k in range(len(ids)) if ids[k] == CLS]
    start = max(k for k in begins if k <= q)
    stop = min([k for k in begins if k > q] + [len(ids)])
    text = [sum(ids[j] == SEP for j in range(k)) for k in range(len(ids))]
    if name == "first":
        wanted = [start]
    elif name in ("next", "prev"):
        k = q + 1 if name == "next" else q - 1
        wanted = [k] if start <= k < stop and text[k] == text[q] else []
    elif name == "same":
        wanted = [q]
    else:
        wanted = [k for k in range(start, stop) if ids[k] == (SEP if name == "delim" else STOP)]
    return {k: 1 / len(wanted) for k in wanted} or None


@pytest.mark.parametrize("name", list(ALL))
def test_the_loss_is_that_of_loops_over_the_maps_within_documents(tiny_model, name):
    model, batch = tiny_model("bert").double(), packed_batch()
    model.set_attn_implementation("eager")
    with torch.no_grad():
        maps = model(**batch, output_attentions=True).attentions
    model.set_attn_implementation("sdpa")
    expected = 0.0
    for layer in maps:
        for b, ids in enumerate(ROWS):
            errors = []
            for q in range(len(ids)):
                row = naive_row(name, ids, q)
                if row is not None:
                    width = layer.shape[-1]
                    errors += [
                        sum((float(layer[b, h, q, k]) - row.get(k, 0.0)) ** 2 for k in range(width)) for h in (1, 2)
                    ]
            expected += sum(errors) / len(errors) / len(ROWS)
    with attach(model, ALL[name](1.0, heads="1-2"), TokenizerOfIds()) as guided:
        model(**batch)
        torch.testing.assert_close(guided.loss(), torch.tensor(expected).double(), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", list(ALL))
def test_packed_documents_are_pulled_as_each_would_be_alone(tiny_model, name):
    """With queries and keys that don't depend on the place, the targets of a document are its own wherever it stands."""
    document = [1, 5, 7, 6, 7, 2]
    alone = targets_of(tiny_model("bert"), name, [document])[0]
    packed = targets_of(tiny_model("bert"), name, [[1, 9, 2, *document, 1, 7, 7, 2]])[0]
    assert packed[3:9, :3].eq(0).all()
    assert packed[3:9, 9:].eq(0).all()
    torch.testing.assert_close(packed[3:9, 3:9], alone)


def targets_of(model, name, rows):
    """P (batch, queries, keys), as the pattern itself has it: from the attention masses on each key alone."""
    batch = packed_batch(rows)
    with attach(model, ALL[name](1.0), TokenizerOfIds()) as guided:
        model(**batch)
        seen = guided._passes[0][0]
        length = batch["input_ids"].shape[1]
        target = ALL[name](1.0).target(seen, length, length)
    if target.is_floating_point():
        return target.expand(len(rows), 1, length, length)[:, 0]
    dense = torch.zeros(len(rows), length, length)
    for b, row in enumerate(target.expand(len(rows), length).tolist()):
        for q, k in enumerate(row):
            if k >= 0:
                dense[b, q, k] = 1
    return dense


def test_a_single_text_or_pair_has_the_targets_that_it_had():
    """Outside packing there is one [CLS], and `first` of a pair's second text is still the [CLS]."""
    pair = [1, 8, 2, 5, 7, 2]
    assert [naive_row("first", pair, q) for q in range(6)] == [{0: 1.0}] * 6
    assert [naive_row("delim", pair, q) for q in range(6)] == [{2: 0.5, 5: 0.5}] * 6


def test_beginnings_are_known_from_the_tokenizer(tiny_tokenizer):
    kinds = TokenKinds.of(tiny_tokenizer)
    assert kinds.beginnings == (tiny_tokenizer.cls_token_id,)
    tiny_tokenizer.cls_token = tiny_tokenizer.sep_token  # a tokenizer whose texts don't begin with a token of their own
    assert TokenKinds.of(tiny_tokenizer).beginnings == ()
