"""What strong baselines do by layers: lower learning rates further down, and new weights at the top.

Layer-wise learning-rate decay (Howard and Ruder 2018; Zhang et al. 2021): with n layers and decay d, the head and what else
stands above the layers learn at the rate as it is, layer i (from 1) at d^(n + 1 − i) of it, the embeddings at d^(n + 1).
Re-initialised top layers (Zhang et al. 2021): the pooler and the top layers begin as in a model that was never trained.
"""

import torch
from torch import nn
from torch.optim import Optimizer
from transformers import PreTrainedModel

from attentune.attention import base_model, count_layers
from attentune.errors import UserError


def begin_anew(model: PreTrainedModel, count: int) -> None:
    """Give the top layers, and the pooler, new weights, as the model's own class draws them."""
    layers = layers_of(model)
    if count > len(layers):
        raise UserError(
            f"training.reinit_layers is {count}, but {type(model).__name__} has {len(layers)} layers; give at most so many"
        )
    pretrained = model.base_model
    poolers = [module for name, module in pretrained.named_children() if name == "pooler" and module is not None]
    for part in [*layers[len(layers) - count :], *poolers]:
        for parameter in part.parameters():
            parameter._is_hf_initialized = False  # type: ignore[attr-defined]  # or it counts as loaded, and stays
        for module in part.modules():
            model._init_weights(module)


def layers_of(model: PreTrainedModel) -> list[nn.Module]:
    """A model's layers, from the bottom; an error where they are shared, or not to be found."""
    pretrained, count = base_model(model).base_model, count_layers(model)
    found = [module for module in pretrained.modules() if isinstance(module, nn.ModuleList) and len(module) == count]
    if not found:
        raise UserError(
            f"{type(model).__name__} does not keep {count} layers of its own in a row, so that they can't be trained layer by "
            "layer; leave training.layer_decay and training.reinit_layers out"
        )
    return list(found[0])


def scale_rates(optimizer: Optimizer, model: nn.Module, decay: float) -> None:
    """Give each layer its own learning rate, in an optimizer that is made and has not stepped yet."""
    plain = base_model(model)
    depth = {id(parameter): 0 for parameter in plain.base_model.parameters()}  # embeddings, where nothing else is known
    layers = layers_of(plain)
    for i, layer in enumerate(layers, start=1):
        depth.update({id(parameter): i for parameter in layer.parameters()})
    ids = [id(parameter) for parameter in plain.base_model.parameters()]
    last = max(place for place, one in enumerate(ids) if depth[one] > 0)
    above = set(ids[last + 1 :])  # what comes after the layers, such as a pooler or a last norm, stands behind them
    groups = []
    for group in optimizer.param_groups:
        by_depth: dict[int, list[torch.Tensor]] = {}
        for parameter in group["params"]:
            place = len(layers) + 1 if id(parameter) in above else depth.get(id(parameter), len(layers) + 1)
            by_depth.setdefault(place, []).append(parameter)
        for place, parameters in sorted(by_depth.items()):
            rate = group["lr"] * decay ** (len(layers) + 1 - place)
            groups.append({**group, "params": parameters, "lr": rate})
    optimizer.param_groups[:] = groups
