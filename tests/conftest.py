"""What several tests share: tiny models of each architecture, a batch with padding, and where the real corpora are."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import (
    AlbertConfig,
    AlbertForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    ElectraConfig,
    ElectraForSequenceClassification,
    LlamaConfig,
    LlamaForSequenceClassification,
    ModernBertConfig,
    ModernBertForSequenceClassification,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForSequenceClassification,
)

from attentune.training import Recipe

settings.register_profile("ci", derandomize=True)  # the same examples every time; elsewhere, new ones
if os.environ.get("CI"):
    settings.load_profile("ci")

SIZES = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 32}
LONG = {"max_position_embeddings": 64}
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}

ARCHITECTURES = {
    "bert": (BertForSequenceClassification, BertConfig, {**SIZES, **LONG, **STILL}),
    "albert": (
        AlbertForSequenceClassification,
        AlbertConfig,
        {**SIZES, **LONG, **STILL, "embedding_size": 8, "classifier_dropout_prob": 0.0},
    ),
    "roberta": (RobertaForSequenceClassification, RobertaConfig, {**SIZES, **LONG, **STILL, **SPECIAL}),
    "distilbert": (
        DistilBertForSequenceClassification,
        DistilBertConfig,
        {
            "vocab_size": 50, "dim": 16, "n_layers": 3, "n_heads": 4, "hidden_dim": 32, **LONG,
            "dropout": 0.0, "attention_dropout": 0.0, "seq_classif_dropout": 0.0,
        },
    ),
    "electra": (ElectraForSequenceClassification, ElectraConfig, {**SIZES, **LONG, **STILL, "embedding_size": 8}),
    "modernbert": (
        ModernBertForSequenceClassification,
        ModernBertConfig,
        {**SIZES, **LONG, **SPECIAL, "cls_token_id": 1, "sep_token_id": 2, "local_attention": 4,
         "global_attn_every_n_layers": 2},
    ),
    "llama": (LlamaForSequenceClassification, LlamaConfig, {**SIZES, **LONG, **SPECIAL, "num_key_value_heads": 2}),
}  # fmt: skip


def make_tiny_model(name="bert", **changes):
    """A tiny, randomly initialised classifier of an architecture, always the same one."""
    model_class, config_class, settings = ARCHITECTURES[name]
    torch.manual_seed(0)
    return model_class(config_class(**{**settings, **changes})).train()


WORDS = ["a", "fine", "film", "dull", "bore", "the", "was", "it", "good", "bad"]


def make_tiny_tokenizer():
    """A tokenizer of ten words, for the tiny models."""
    special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    inner = Tokenizer(WordLevel({w: i for i, w in enumerate(special + WORDS)}, unk_token="[UNK]"))
    inner.pre_tokenizer = Whitespace()
    inner.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    names = dict(zip(("pad_token", "cls_token", "sep_token", "unk_token", "mask_token"), special, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=inner, model_max_length=64, **names)


def make_batch(lengths=(9, 6, 4), padded_to=None, seed=0):
    """Token ids, mask and labels of random texts of the given lengths; [0] is padding, 1 begins and 2 ends a text."""
    generator = torch.Generator().manual_seed(seed)
    width = padded_to or max(lengths)
    ids = torch.zeros(len(lengths), width, dtype=torch.long)
    for row, length in enumerate(lengths):
        ids[row, :length] = torch.randint(3, 50, (length,), generator=generator)
        ids[row, 0], ids[row, length - 1] = 1, 2
    labels = torch.arange(len(lengths)) % 2
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": labels}


@pytest.fixture(scope="session")
def tiny_model():
    return make_tiny_model


@pytest.fixture
def tiny_batch():
    return make_batch


@pytest.fixture
def tiny_tokenizer():
    return make_tiny_tokenizer()


@pytest.fixture(scope="session")
def new_tokenizer():
    return make_tiny_tokenizer


@pytest.fixture
def model_folder(tmp_path):
    """A tiny BERT with its tokenizer, saved."""
    folder = tmp_path / "model"
    make_tiny_model("bert").save_pretrained(folder)
    make_tiny_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def review_rows(tmp_path):
    """A file of reviews that can be told apart by one word."""
    file = tmp_path / "reviews.tsv"
    lines = ["review\tverdict"]
    for i in range(24):
        lines += [f"a fine film {WORDS[i % 10]}\tgood", f"a dull bore {WORDS[i % 10]}\tbad"]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


@pytest.fixture
def tiny_recipe(model_folder, review_rows):
    """Makes a recipe for the tiny model and the file of reviews."""

    def make(**values):
        data = {"train_file": str(review_rows), "text": "review", "label": "verdict"}
        training = {"epochs": 1, "batch_size": 16, "precision": "fp32"}
        return Recipe.build({"model": str(model_folder), "data": data, "training": training, **values})

    return make


@pytest.fixture(params=list(ARCHITECTURES))
def architecture(request):
    return request.param


@pytest.fixture(scope="session")
def shared_data():
    """The folder of real corpora beside the project; tests that need it skip where it is absent."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the real corpora (../shared/data) are not on this machine")
    return folder
