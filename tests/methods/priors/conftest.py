"""Three tiny tokenizers of the kinds that models have, and a tiny WordNet, all made here."""

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

CORPUS = [
    "the fox doesn't like the dog's well-known bone", "dogs chased cats, and cats chased mice.",
    "playing players played unbelievably unplayable games", "cafés in Zürich and 北京 sell tea for 3.5 francs",
] * 3  # fmt: skip
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def wordpiece():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer, trainers.WordPieceTrainer(vocab_size=90, special_tokens=SPECIAL, show_progress=False)


def byte_level():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return tokenizer, trainers.BpeTrainer(
        vocab_size=300, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )


def sentencepiece():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return tokenizer, trainers.UnigramTrainer(
        vocab_size=90, special_tokens=SPECIAL, unk_token="[UNK]", show_progress=False
    )


KINDS = {"wordpiece": wordpiece, "byte-level": byte_level, "sentencepiece": sentencepiece}


def make_tokenizer(kind):
    tokenizer, trainer = KINDS[kind]()
    tokenizer.train_from_iterator(CORPUS, trainer)
    ids = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ids
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )


@pytest.fixture(scope="session")
def tokenizers():
    return {kind: make_tokenizer(kind) for kind in KINDS}


@pytest.fixture(params=list(KINDS))
def tokenizer(request, tokenizers):
    return tokenizers[request.param]


# name: (part of speech, hypernyms); cub has two ways up to entity, of different lengths.
SYNSETS = {
    "entity": ("n", []), "animal": ("n", ["entity"]), "dog": ("n", ["animal"]), "cat": ("n", ["animal"]),
    "thing": ("n", ["entity"]), "young": ("n", ["thing"]), "tiny": ("n", ["young"]), "cub": ("n", ["cat", "tiny"]),
    "go": ("v", []), "run": ("v", ["go"]), "eat": ("v", []), "red": ("a", []), "blue": ("a", []),
}  # fmt: skip
POS = {"n": ("noun", 3), "v": ("verb", 29), "a": ("adj", 0), "r": ("adv", 2)}


@pytest.fixture(scope="session")
def tiny_wordnet(tmp_path_factory):
    """A folder as NLTK's downloader makes it, with a dictionary of 13 words in the format of WordNet 3.0."""
    data = tmp_path_factory.mktemp("nltk_data")
    folder = data / "corpora" / "wordnet"
    folder.mkdir(parents=True)
    head = "  1 WordNet 3.0 Copyright 2006 by Princeton University.\n"
    (folder / "lexnames").write_text("".join(f"{i:02}\tname{i}\t1\n" for i in range(45)))
    for name in ("cntlist.rev", "index.sense", *(f"{pos}.exc" for pos, _ in POS.values())):
        (folder / name).write_text("")
    width = {name: len(_line(name, dict.fromkeys(SYNSETS, 0))) for name in SYNSETS}
    for pos, (file, _) in POS.items():
        names = [name for name in SYNSETS if SYNSETS[name][0] == pos]
        offsets, at = {}, len(head)
        for name in names:
            offsets[name], at = at, at + width[name]
        (folder / f"data.{file}").write_text(head + "".join(_line(name, offsets) for name in names))
        index = "".join(f"{name} {pos} 1 1 @ 1 0 {offsets[name]:08}  \n" for name in sorted(names))
        (folder / f"index.{file}").write_text(head + index)
    return data


def _line(name, offsets):
    pos, above = SYNSETS[name]
    pointers = "".join(f" @ {offsets[one]:08} {pos} 0000" for one in above)
    frames = " 00" if pos == "v" else ""
    return f"{offsets[name]:08} {POS[pos][1]:02} {pos} 01 {name} 0 {len(above):03}{pointers}{frames} | gloss  \n"
