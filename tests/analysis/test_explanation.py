"""An explanation is the prediction and the attention of the model, in the letters of the text."""

import math

import numpy as np
import pytest
import torch

from attentune.analysis import explain
from attentune.analysis.explanation import colours
from attentune.errors import UserError


class WithScores:
    """Stands for a model with self-supervised attention: the scores of its last pass, padding and all."""

    def __init__(self, *scores):
        self.token_scores = torch.tensor([scores])


class WithoutScores:
    @property
    def token_scores(self):
        raise UserError("there are no token scores: none of the methods is ssa(…)")


def test_it_tells_the_prediction_and_what_tokens_receive(minilm, maps_of):
    model, tokenizer = minilm
    found = explain(model, tokenizer, "What a bore!", layers="4-5", heads="[0,7]")
    logits = model.eval()(**tokenizer("What a bore!", return_tensors="pt")).logits[0].tolist()
    total = sum(math.exp(logit) for logit in logits)
    assert found.probabilities["positive"] == pytest.approx(math.exp(logits[1]) / total, rel=1e-4)
    assert found.label == max(found.probabilities, key=found.probabilities.get)
    assert [token.text for token in found.tokens] == ["[CLS]", "What", "a", "bore", "!", "[SEP]"]
    maps = maps_of("What a bore!")
    expected = [
        sum(maps[layer][head][q][k] for layer in (4, 5) for head in (0, 7) for q in range(6)) / 24 for k in range(6)
    ]
    np.testing.assert_allclose(found.received, expected, atol=1e-5)
    assert sum(value for _, value in found.ranked()) == pytest.approx(1 - expected[0] - expected[5], abs=1e-5)
    by_share = sorted((1, 2, 3, 4), key=lambda k: -expected[k])
    assert [token for token, _ in found.ranked()] == [found.tokens[k] for k in by_share]
    assert found.as_json()["tokens"][3]["token"] == "bore"


def test_importance_is_told_where_the_model_has_it(minilm):
    text = "what a bore"
    found = explain(*minilm, text, guided=WithScores(0.0, 0.2, 0.1, 0.9, 0.0, 0.0, 0.0))
    assert [token.text for token, _ in found.ranked("importance")] == ["bore", "what", "a"]
    assert [title for title, _ in found.rows()] == ["received attention", "SSA importance"]
    assert found.rows()[1][1][3][2] == 1.0  # the highest has the darkest shade
    assert explain(*minilm, text, guided=WithoutScores()).importance is None
    without = explain(*minilm, text)
    assert without.as_json()["tokens"][0]["importance"] is None
    with pytest.raises(UserError, match="no token importance"):
        without.ranked("importance")


def test_its_page_keeps_text_as_text(minilm, tmp_path):
    evil = "<script>alert(1)</script> & <img src=x>"
    found = explain(*minilm, (evil, evil))
    html = found.save(tmp_path / "page.html").read_text()
    assert "<script" not in html
    assert "<img" not in html
    assert found._repr_html_().startswith('<iframe srcdoc="&lt;!doctype')


def test_its_page_can_be_read(minilm, opened, tmp_path):
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is not installed: it is in the extra dev"
    )
    found = explain(*minilm, "what a fine film", guided=WithScores(0.0, 0.2, 0.1, 0.9, 0.4, 0.0))
    file = found.save(tmp_path / "page.html")
    for scheme in ("light", "dark"):
        one = opened(file, color_scheme=scheme, viewport={"width": 390, "height": 800})
        assert axe.Axe().run(one.page).response["violations"] == []
        assert (one.said, one.asked) == ([], [one.url])


def test_shades_can_be_read():
    def luminance(colour):
        parts = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for shade in np.linspace(0, 1, 50):
        ground, ink = colours(shade)
        light = luminance(ground)
        contrast = (light + 0.05) / 0.05 if ink == "#000000" else 1.05 / (light + 0.05)
        assert contrast >= 4.5


def test_heads_that_are_not_there_are_told(minilm):
    with pytest.raises(UserError, match="there is no layer 9"):
        explain(*minilm, "a film", layers="9")
