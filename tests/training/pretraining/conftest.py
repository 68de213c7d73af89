"""What the tests of pre-training share: a small corpus, a recipe for it, and a cache that is thrown away."""

import datasets
import pytest

from attentune.training import PretrainingRecipe

TEXT = "the of a river valley stone water light moves slowly under old bridges and people walk along it every day"
WORDS = TEXT.split()


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def corpus_file(tmp_path):
    """Sentences of a few words, one a line, with a blank line now and then."""
    file = tmp_path / "text.txt"
    lines = [
        " ".join(WORDS[(i * 7 + j * (i % 5 + 1)) % len(WORDS)] for j in range(4 + i % 23)) + "." for i in range(120)
    ]
    file.write_text("\n".join(line + "\n" * (i % 10 == 0) for i, line in enumerate(lines)) + "\n", encoding="utf-8")
    return file


@pytest.fixture
def make_recipe(corpus_file):
    """Makes a recipe for a tiny model, part by part."""

    def make(**values):
        parts = {
            "data": {"train_file": str(corpus_file)},
            "new": {"layers": 2, "width": 16, "heads": 4, "vocab_size": 320},
            "training": {"max_steps": 6, "batch_size": 4, "max_length": 32, "precision": "fp32", "lr": 0.01},
        }
        if values.get("model"):
            del parts["new"]
        for name, value in values.items():
            parts[name] = {**parts.get(name, {}), **value} if isinstance(value, dict) else value
        return PretrainingRecipe.build(parts)

    return make
