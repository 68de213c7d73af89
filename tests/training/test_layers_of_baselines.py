"""Layer-wise learning rates and re-initialised layers."""

import pytest
import torch
from transformers import TrainingArguments

from attentune.errors import UserError
from attentune.training import Trainer, run_recipe
from attentune.training.layers import begin_anew, layers_of


def rates(model, tmp_path, decay):
    trainer = Trainer(
        model, TrainingArguments(str(tmp_path), learning_rate=1.0, report_to="none", use_cpu=True), layer_decay=decay
    )
    trainer.create_optimizer()
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return {names[id(p)]: group["lr"] for group in trainer.optimizer.param_groups for p in group["params"]}


def test_each_layer_learns_slower_than_the_one_above(tiny_model, tmp_path):
    model = tiny_model("bert")  # three layers
    found = rates(model, tmp_path, 0.5)
    assert set(found) == {name for name, _ in model.named_parameters()}
    for name, rate in found.items():
        if "encoder.layer." in name:
            i = int(name.split("encoder.layer.")[1].split(".")[0]) + 1
            assert rate == 0.5 ** (4 - i)
        else:
            assert rate == (0.5**4 if "embeddings" in name else 1.0), name


def test_without_decay_all_learn_alike(tiny_model, tmp_path):
    assert set(rates(tiny_model("bert"), tmp_path, 1.0).values()) == {1.0}


def test_weight_decay_stays_with_its_parameters(tiny_model, tmp_path):
    model = tiny_model("bert")
    arguments = TrainingArguments(str(tmp_path), weight_decay=0.1, report_to="none", use_cpu=True)
    trainer = Trainer(model, arguments, layer_decay=0.9)
    trainer.create_optimizer()
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    for group in trainer.optimizer.param_groups:
        for parameter in group["params"]:
            is_plain = "bias" in names[id(parameter)] or "LayerNorm" in names[id(parameter)]
            assert group["weight_decay"] == (0.0 if is_plain else 0.1)


@pytest.mark.parametrize("name", ["bert", "roberta", "distilbert", "electra", "modernbert"])
def test_the_top_layers_begin_anew_and_the_others_stay(tiny_model, name):
    model = tiny_model(name)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    layers = layers_of(model)
    top = {id(parameter) for parameter in layers[-1].parameters()}
    below = {id(parameter) for layer in layers[:-1] for parameter in layer.parameters()}
    begin_anew(model, 1)
    for key, parameter in model.named_parameters():
        if id(parameter) in below or "embeddings" in key:
            assert torch.equal(parameter, before[key]), key
        if id(parameter) in top and parameter.dim() == 2:
            assert not torch.equal(parameter, before[key]), key


def test_more_layers_than_there_are_is_an_error(tiny_model):
    with pytest.raises(UserError, match="has 3 layers"):
        begin_anew(tiny_model("bert"), 4)


def test_shared_layers_are_told(tiny_model):
    with pytest.raises(UserError, match="layer by layer"):
        layers_of(tiny_model("albert"))


@pytest.mark.slow
def test_a_recipe_takes_both(tiny_recipe, tmp_path):
    settings = {"epochs": 1, "batch_size": 16, "precision": "fp32", "layer_decay": 0.9, "reinit_layers": 1}
    folder = run_recipe(tiny_recipe(training=settings), tmp_path / "run")
    assert folder.metrics()["train"]["steps"] == 3
