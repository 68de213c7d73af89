"""A tokenizer of the corpus's own: byte-level BPE for RoBERTa and ModernBERT, WordPiece for BERT, each framed as theirs."""

from collections.abc import Iterable, Iterator
from typing import Any

import datasets
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from attentune.errors import UserError
from attentune.training.pretraining.recipe import NewModel

DOCUMENTS_AT_ONCE = 1_000
SPECIAL = {
    "roberta": {
        "cls_token": "<s>", "pad_token": "<pad>", "sep_token": "</s>", "unk_token": "<unk>", "mask_token": "<mask>",
        "bos_token": "<s>", "eos_token": "</s>",
    },
    "bert": {
        "pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]",
    },
}  # fmt: skip
SPECIAL["modernbert"] = SPECIAL["bert"]


def train_vocabulary(new: NewModel, documents: datasets.Dataset) -> str:
    """A vocabulary for a new model, trained on the documents, as the text that `tokenizer_of` makes a tokenizer of.

    >>> documents = datasets.Dataset.from_dict({"text": ["a fine film", "a finer one"]})
    >>> new = NewModel(vocab_size=300)
    >>> tokenizer = tokenizer_of(new, train_vocabulary(new, documents), max_length=16)
    >>> tokenizer.decode(tokenizer("a fine film")["input_ids"])
    '<s>a fine film</s>'
    """
    names = list(dict.fromkeys(SPECIAL[new.architecture].values()))
    inner, trainer = _word_piece(new, names) if new.architecture == "bert" else _byte_level(new, names)
    inner.train_from_iterator(_batches(documents), trainer=trainer, length=len(documents))
    if inner.get_vocab_size() <= len(names):
        raise UserError("there is nothing in this corpus to make a vocabulary of; give more text")
    inner.post_processor = _frame(new.architecture, inner)
    return str(inner.to_str())


def tokenizer_of(new: NewModel, vocabulary: str, max_length: int) -> PreTrainedTokenizerFast:
    """The tokenizer of a new model, for texts of up to `max_length` tokens."""
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(vocabulary),
        model_max_length=max_length,
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
        **SPECIAL[new.architecture],
    )


def _byte_level(new: NewModel, special: list[str]) -> tuple[Tokenizer, Any]:
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()  # every byte, so that there is no unknown text
    trainer = trainers.BpeTrainer(
        vocab_size=new.vocab_size,
        min_frequency=2,
        special_tokens=special,
        initial_alphabet=alphabet,
        show_progress=False,
    )
    return inner, trainer


def _word_piece(new: NewModel, special: list[str]) -> tuple[Tokenizer, Any]:
    inner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(lowercase=True)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=new.vocab_size, min_frequency=2, special_tokens=special, show_progress=False
    )
    return inner, trainer


def _frame(architecture: str, inner: Tokenizer) -> Any:
    """What stands around a text, and between two; offsets without the white space tell whole-word masking where words begin."""
    special = SPECIAL[architecture]
    ids = inner.get_vocab()
    cls, sep = ((special[name], ids[special[name]]) for name in ("cls_token", "sep_token"))
    if architecture == "roberta":
        return processors.RobertaProcessing(sep, cls, trim_offsets=True, add_prefix_space=False)
    frame = processors.BertProcessing(sep, cls)
    if architecture == "bert":
        return frame
    return processors.Sequence([processors.ByteLevel(trim_offsets=True), frame])


def _batches(documents: datasets.Dataset) -> Iterator[Iterable[str]]:
    for start in range(0, len(documents), DOCUMENTS_AT_ONCE):
        yield documents[start : start + DOCUMENTS_AT_ONCE]["text"]
