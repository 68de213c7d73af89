"""Changed models on disk: what is written, what plain transformers makes of it, and files that aren't ours."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForSequenceClassification

import attentune
from attentune.errors import UserError
from attentune.methods import attach, restore, save
from attentune.methods.persistence import FILE, LARGEST

CHANGES = ["se", "blur(sigma=0.8)", "blur(on=value, layers=0-1) + se(output=sum, ratio=2.0)"]


def train_a_little(model, batch, guided):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(3):
        loss = model(**batch).loss + guided.loss()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


@pytest.mark.parametrize("method", CHANGES)
@pytest.mark.parametrize("name", ["bert", "albert", "roberta", "distilbert", "electra", "modernbert"])
def test_what_is_saved_comes_back_and_predicts_the_same_to_the_bit(tiny_model, tiny_batch, tmp_path, name, method):
    model, batch = tiny_model(name), tiny_batch()
    with attach(model, f"{method} + mdg(0.1)") as guided:
        train_a_little(model, batch, guided)
        expected = model(**batch).logits
        save(model, tmp_path)
    assert json.loads((tmp_path / FILE).read_text()) == {"format": 1, "method": method}  # guides aren't part of a model
    fresh = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    with restore(fresh, tmp_path) as back:
        assert str(back.method) == method
        assert torch.equal(fresh(**batch).logits, expected)


@pytest.mark.parametrize("method", CHANGES)
def test_plain_transformers_loads_the_base_model_and_says_what_it_does_not_know(
    tiny_model, tiny_batch, tmp_path, method
):
    model, batch = tiny_model(), tiny_batch()
    with attach(model, method) as guided:
        train_a_little(model, batch, guided)
        save(model, tmp_path)
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path, output_loading_info=True)
    plain, info = loaded
    assert info["unexpected_keys"]
    assert all(key.startswith("attentune.") for key in info["unexpected_keys"])
    assert not info["missing_keys"]
    assert torch.equal(plain.eval()(**batch).logits, model(**batch).logits)  # of the detached model
    AutoModel.from_pretrained(tmp_path)


def test_transformers_warns_of_what_it_does_not_know(tiny_model, tmp_path, caplog):
    from transformers.utils import logging

    with attach(tiny_model(), "blur + se") as guided:
        save(guided.model, tmp_path)
    before = logging.get_verbosity()
    logging.set_verbosity_warning()
    logging.enable_propagation()
    try:
        AutoModelForSequenceClassification.from_pretrained(tmp_path)
    finally:
        logging.disable_propagation()
        logging.set_verbosity(before)
    assert "attentune.se.w1" in caplog.text
    assert "attentune.blur.kernel" in caplog.text


def test_a_model_that_is_only_guided_leaves_no_trace(tiny_model, tiny_batch, tmp_path):
    model = tiny_model()
    (tmp_path / FILE).write_text("of an earlier model")
    with attach(model, "mdg(0.1) + first(0.1, heads=1) + disagreement(0.1)") as guided:
        train_a_little(model, tiny_batch(), guided)
        save(model, tmp_path)
    assert not (tmp_path / FILE).exists()
    for file in tmp_path.iterdir():
        assert b"attentune" not in file.read_bytes()


def test_checkpoints_in_several_files_are_read_whole(tiny_model, tiny_batch, tmp_path):
    model, batch = tiny_model(), tiny_batch()
    with attach(model, "blur + se") as guided:
        train_a_little(model, batch, guided)
        expected = model(**batch).logits
        save(model, tmp_path)
        (tmp_path / "model.safetensors").unlink()
        model.save_pretrained(tmp_path, max_shard_size="5KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    fresh = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    with restore(fresh, tmp_path):
        assert torch.equal(fresh(**batch).logits, expected)


@pytest.fixture
def saved(tiny_model, tmp_path):
    """The folder of a tiny model with blur and se, and a fresh copy of the model."""
    with attach(tiny_model(), "blur + se") as guided:
        save(guided.model, tmp_path)
    return tmp_path, tiny_model()


def edit(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "isn't what attentune writes there"),
        ("{", "isn't what attentune writes there"),
        ("[1, 2]", "isn't what attentune writes there"),
        ("null", "isn't what attentune writes there"),
        ("\x00\xff", "isn't what attentune writes there"),
        ("[" * 100_000, "isn't what attentune writes there"),
        ("[" * 50_000, "isn't what attentune writes there"),
        ('{"format": 1, "method": "' + "x" * LARGEST + '"}', "isn't what attentune writes there"),
        ('{"method": "se"}', "isn't what attentune writes there"),
        ('{"format": true, "method": "se"}', "isn't what attentune writes there"),
        ('{"format": 2, "method": "se"}', "is of format 2, and this attentune reads 1; pip install --upgrade"),
        ('{"format": 1}', "names no method"),
        ('{"format": 1, "method": ["se"]}', "names no method"),
        ('{"format": 1, "method": "warp(9)"}', "names methods that this attentune doesn't know; upgrade it"),
        ('{"format": 1, "method": "se(output=__import__)"}', "names methods that this attentune doesn't know"),
        ('{"format": 1, "method": "blur + se + mdg(0.1)"}', "names mdg, which is no method that a model is saved with"),
        ('{"format": 1, "method": "se + se"}', "can't be loaded with its methods: .* undo the first"),
        ('{"format": 1, "method": "blur(layers=7) + se"}', "can't be loaded with its methods: there is no layer 7"),
        ('{"format": 1, "method": "blur + se(ratio=1.0)"}', r"can't be loaded with its methods: se\.\w+ is"),
        ('{"format": 1, "method": "blur"}', "can't be loaded with its methods: .* has no se"),
        ('{"format": 1, "method": "none"}', f"holds weights of a method, .*, but no {FILE} that says which"),
    ],
)
def test_a_file_that_is_not_ours_gets_one_sentence(saved, content, message):
    folder, model = saved
    (folder / FILE).write_text(content, encoding="latin-1")
    with pytest.raises(UserError, match=message):
        restore(model, folder)
    assert model.config._attn_implementation == "sdpa"
    assert not hasattr(model, "attentune")


def test_weights_that_are_missing_wrong_or_no_weights_get_one_sentence(saved):
    folder, model = saved
    whole = (folder / "model.safetensors").read_bytes()
    edit(folder, lambda tensors: tensors.pop("attentune.se.w1"))
    with pytest.raises(UserError, match=r"needs se\.w1, which isn't among the trained parameters"):
        restore(model, folder)
    edit(folder, lambda tensors: tensors.update({"attentune.se.w1": torch.zeros(4000, 2)}))
    with pytest.raises(UserError, match=r"se\.w1 is \(4000, 2\)"):
        restore(model, folder)
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="can't be read"):
        restore(model, folder)
    (folder / "model.safetensors").write_bytes(b"\xff" * 64)
    with pytest.raises(UserError, match="can't be read"):
        restore(model, folder)


def test_without_the_note_the_weights_are_not_passed_over(saved):
    folder, model = saved
    (folder / FILE).unlink()
    with pytest.raises(UserError, match=f"holds weights of a method, .*, but no {FILE} that says which"):
        restore(model, folder)
    (folder / FILE).mkdir()
    with pytest.raises(UserError, match="can't be read"):
        restore(model, folder)


def test_a_plain_folder_restores_nothing(tiny_model, tmp_path):
    model = tiny_model()
    model.save_pretrained(tmp_path)
    assert str(restore(model, tmp_path).method) == "none"


def test_both_are_at_the_top():
    assert attentune.save is save
    assert attentune.load.__module__ == "attentune.training.loading"
