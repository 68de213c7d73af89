"""Packing: no token lost, none twice, no document across a frame, and each block as full as it can be."""

import datasets
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attentune.errors import UserError
from attentune.training.pretraining import Frame, Masking, Part, packed, plan_blocks, tokenized
from attentune.training.pretraining.corpus import load_corpus
from attentune.training.pretraining.packing import tokens_of
from attentune.training.pretraining.recipe import CorpusRecipe, MaskingRecipe, NewModel
from attentune.training.pretraining.vocabulary import tokenizer_of, train_vocabulary

TEXTS = ["a fine film", "", "the river under the old bridge moves slowly", "x", "people walk along it every day " * 9]


@given(st.lists(st.integers(0, 40), max_size=30), st.integers(3, 24))
def test_every_token_stands_in_one_place(lengths, block):
    blocks = list(plan_blocks(lengths, block, frame=2))
    placed = [(part.document, token) for parts in blocks for part in parts for token in range(part.start, part.stop)]
    assert placed == [(document, token) for document, length in enumerate(lengths) for token in range(length)]


@given(st.lists(st.integers(0, 40), max_size=30), st.integers(3, 24))
def test_blocks_are_full_but_for_the_last(lengths, block):
    used = [sum(part.stop - part.start + 2 for part in parts) for parts in plan_blocks(lengths, block, frame=2)]
    assert all(block - 2 <= tokens <= block for tokens in used[:-1])  # what is left has no room for a framed token
    assert all(3 <= tokens <= block for tokens in used[-1:])


def test_a_document_is_cut_only_where_its_block_ends():
    blocks = list(plan_blocks([3, 7], block=8, frame=2))
    assert blocks == [[Part(0, 0, 3), Part(1, 0, 1)], [Part(1, 1, 7)]]


def test_blocks_too_short_for_a_frame_are_told():
    with pytest.raises(
        UserError, match="blocks of 2 tokens hold no text beside the 2 that frame it; raise --max-length"
    ):
        list(plan_blocks([1], 2, 2))


@pytest.fixture(params=["roberta", "bert", "modernbert"])
def tokenizer(request):
    new = NewModel(architecture=request.param, vocab_size=300)
    documents = datasets.Dataset.from_dict({"text": [text for text in TEXTS if text]})
    return tokenizer_of(new, train_vocabulary(new, documents), 16)


def test_the_text_comes_out_of_the_blocks_as_it_went_in(tokenizer):
    documents = datasets.Dataset.from_dict({"text": TEXTS})
    blocks = packed(tokenized(documents, tokenizer, offsets=False), Frame.of(tokenizer), 16)
    wanted = [token for text in TEXTS for token in tokenizer(text, add_special_tokens=False)["input_ids"]]
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    rows = list(blocks["input_ids"])
    assert [token for row in rows for token in row if token not in (cls, sep)] == wanted
    assert all(row[0] == cls and row[-1] == sep for row in rows)
    assert all(row.count(cls) == row.count(sep) for row in rows)
    assert all(14 <= len(row) <= 16 for row in rows[:-1])
    assert tokens_of(blocks) == sum(map(len, rows))


def test_what_is_known_is_not_read_tokenized_or_packed_again(tokenizer, corpus_file, monkeypatch):
    def blocks(length):
        documents = load_corpus(CorpusRecipe(train_file=str(corpus_file)), seed=0).train
        return list(packed(tokenized(documents, tokenizer, offsets=False), frame, length)["input_ids"])

    frame = Frame.of(tokenizer)
    first = blocks(16)
    with monkeypatch.context() as patch:
        patch.setattr(type(tokenizer), "__call__", lambda *args, **kwargs: pytest.fail("tokenized a second time"))
        assert blocks(16) == first
        assert blocks(12) != first  # packed anew, of the same tokens
    corpus_file.write_text("entirely other text\nof two documents\n")
    assert blocks(16) != first


def test_offsets_stand_beside_their_tokens(tokenizer):
    documents = datasets.Dataset.from_dict({"text": TEXTS})
    blocks = packed(tokenized(documents, tokenizer, offsets=True), Frame.of(tokenizer), 16)
    special = (tokenizer.cls_token_id, tokenizer.sep_token_id)
    found = []
    for row in blocks:
        assert len(row["input_ids"]) == len(row["offset_mapping"])
        pairs = zip(row["input_ids"], row["offset_mapping"], strict=True)
        found += [offsets for token, offsets in pairs if token not in special]
    wanted = [
        list(o)
        for t in TEXTS
        for o in tokenizer(t, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    ]
    assert found == wanted


def test_a_tokenizer_that_frames_nothing_is_told(tokenizer):
    tokenizer.backend_tokenizer.post_processor = None
    with pytest.raises(UserError, match="packed documents couldn't be told apart"):
        Frame.of(tokenizer)


def test_the_tail_is_padded_and_never_masked(tokenizer):
    masking = Masking(tokenizer, MaskingRecipe(rate=0.9), seed=0)
    rows = [{"input_ids": [tokenizer.cls_token_id, 10, 11, tokenizer.sep_token_id], "draw": 0},
            {"input_ids": [tokenizer.cls_token_id, 10, tokenizer.sep_token_id], "draw": 1}]  # fmt: skip
    batch = masking(rows)
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]
    assert batch["labels"][1, 3] == -100
    assert batch["input_ids"][1, 3] == tokenizer.pad_token_id
