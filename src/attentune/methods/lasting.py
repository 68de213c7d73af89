"""The lasting methods of a sum on a model: those that change its forward pass, in evaluation as in training.

What they add to its parameters stands under the name `attentune` in the model while they are attached, so that
optimizers, `.to()`, DDP and checkpoints see it: `attentune.se.w1`.
"""

import contextlib
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from attentune.attention import Revision, base_model
from attentune.errors import UserError
from attentune.methods.base import Method, Sum
from attentune.methods.tokens import TokenKinds

PREFIX = "attentune"
"""The name, within a model, of what methods have added to it."""

_on_models: "WeakKeyDictionary[nn.Module, Sum]" = WeakKeyDictionary()


def lasting_methods(model: nn.Module) -> Sum:
    """The lasting methods that are attached to a model."""
    return _on_models.get(model, Sum())


class LastingChanges:
    """What the lasting methods of a sum change in a model, from `begin` to `end`.

    `trained` is what methods had added before, by name (`se.w1`), and have to be given again.
    """

    def __init__(
        self,
        whole: nn.Module,
        method: Sum,
        trained: Mapping[str, Tensor] | None = None,
        kinds: TokenKinds | None = None,
    ) -> None:
        self.model: PreTrainedModel = base_model(whole)
        self.method = method.lasting
        model = self.model
        self.added = nn.ModuleDict()
        self.revisions: dict[int, tuple[Revision, ...]] = {}
        self._undo = contextlib.ExitStack()
        if not self.method.parts:
            if trained:
                raise UserError(
                    f"there are trained parameters, {_some(trained)}, and no method in {method} that adds any"
                )
            return
        if not isinstance(model, PreTrainedModel):
            raise UserError(f"only a transformers PreTrainedModel can be changed, not {type(model).__name__}")
        if whole is not model:
            raise UserError(
                f"{self.method} adds to the model or changes its forward pass, which a peft adapter can't be saved with; "
                "use guides, such as mdg(0.01), on a peft model, or merge the adapter first (merge_and_unload)"
            )
        if model in _on_models:
            raise UserError(
                f"this {type(model).__name__} is changed already, by {_on_models[model]}; detach that first, or add the methods"
            )
        copied = model._modules.get(PREFIX)  # a copy of a changed model has it too
        if trained is None and copied is not None:
            trained = copied.state_dict()
        before: list[Method] = []
        for name, part in zip(self.method.names, self.method.parts, strict=True):
            part.check_model(model, before)
            before.append(part)
            for layer, revision in part.revisions(model).items():
                self.revisions[layer] = (*self.revisions.get(layer, ()), revision)
            with torch.random.fork_rng(devices=[]):  # data and dropout stay what they are without the method
                added = part.added(model)
            if trained is None:  # what was trained knows
                part.introduce(added, kinds)
            if added is not None:
                self.added[name] = added
        self.added.to(device=model.device, dtype=model.dtype).train(model.training)
        if trained is not None:
            self._restore(trained)

    def begin(self) -> None:
        """Change the model."""
        if not self.method.parts:
            return
        with contextlib.ExitStack() as undo:
            undo.callback(self.model._modules.pop, PREFIX, None)
            if len(self.added):
                self.model.add_module(PREFIX, self.added)
            undo.callback(_on_models.pop, self.model, None)
            _on_models[self.model] = self.method
            undo.callback(self.model.register_forward_pre_hook(self._refuse_copy).remove)
            added = dict(self.added.items())
            for name, part in zip(self.method.names, self.method.parts, strict=True):
                undo.enter_context(part.applied(self.model, added.get(name)))
            self._undo = undo.pop_all()

    def end(self) -> None:
        """Give the model back as it was; harmless when done twice."""
        self._undo.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> "LastingChanges":
        return self

    def _restore(self, trained: Mapping[str, Tensor]) -> None:
        own = self.added.state_dict()
        for name in sorted(own.keys() | trained.keys()):
            if name not in trained:
                raise UserError(
                    f"{self.method} needs {name}, which isn't among the trained parameters, {_some(trained)}"
                )
            if name not in own:
                raise UserError(f"{self.method} has no {name}, which is among the trained parameters")
            if own[name].shape != trained[name].shape:
                raise UserError(
                    f"{name} is {tuple(trained[name].shape)}, and {self.method} on this {type(self.model).__name__} needs "
                    f"{tuple(own[name].shape)}; attach it to the model that it was trained with"
                )
        self.added.load_state_dict(dict(trained))

    def _refuse_copy(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """A copy of the model carries hooks along, but not what they do; to run it would be silently wrong."""
        if module is not self.model and module not in _on_models and self.model in _on_models:
            raise UserError(
                f"this is a copy of a model that {self.method} changes, and runs without; attach the method to the copy too: "
                f"attach(copy, {str(self.method)!r}) finds the trained parameters there"
            )


def _some(trained: Mapping[str, Tensor]) -> str:
    return ", ".join(sorted(trained)[:4]) or "none"
