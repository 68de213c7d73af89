"""transformers' Trainer with one argument more: the method that guides the model while it is trained.

The guide is attached when training begins and detached when it ends, however it ends. Evaluation is unguided, and costs
what it always did. What is saved is a plain checkpoint. Methods that change the forward pass (blur, se, ssa) stay attached
from the trainer's making on, evaluation included, and are saved with the model.
"""

import ast
import contextlib
import inspect
import logging
import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers.trainer_utils import TrainOutput

from attentune.attention import Backend, base_model
from attentune.errors import UserError
from attentune.methods import Auto, Guided, Method, Preparing, Sum, attach, parse
from attentune.methods.persistence import save_methods
from attentune.training import processes
from attentune.training.batches import SharesRows
from attentune.training.checkpoints import KeepsCheckpoints
from attentune.training.collation import GIVEN, ROW_ID, ROW_IDS, BringColumns
from attentune.training.epochs import load_epoch, number_rows, numbers_of, prepares, save_epoch
from attentune.training.layers import scale_rates
from attentune.training.progress import BeforeEpochs, tell_preparing

logger = logging.getLogger(__name__)

KEPT = "attentune"
"""Where the measured weights stand in a checkpoint's `trainer_state.json`, among the states of callbacks."""


class Trainer(SharesRows, KeepsCheckpoints):
    """`transformers.Trainer` plus `method=`: a method, a sum of methods, or its text. Everything that Trainer does
    still works.

    Beside the `loss` that Trainer logs, which is the sum that is minimised, it logs `task_loss` and each term before
    its weight, as `guide/mdg`, to whatever `report_to` names; where the weight is `auto`, that as well, as `weight/mdg`.

        trainer = attentune.Trainer(
            model, TrainingArguments("out"), train_dataset=data, processing_class=tokenizer, method="mdg(0.1) +
            pdg(0.001)"
        )
        trainer.train()
    """

    guided: Guided | None = None
    """The guide, while training goes on; with methods that change the forward pass, from the beginning."""

    def __init__(
        self,
        *args: Any,
        method: Method | Sum | str = "none",
        backend: Backend = "auto",
        layer_decay: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.layer_decay = layer_decay
        self.method = parse(method) if isinstance(method, str) else Sum(method.parts)
        self.backend: Backend = backend
        if self.method.columns or ROW_ID in (getattr(self.train_dataset, "column_names", None) or ()):
            self.data_collator = BringColumns(self.method, self.data_collator)
        named = zip(self.method.names, self.method.parts, strict=True)
        self._measured = [name for name, part in named if isinstance(getattr(part, "weight", None), Auto)]
        self._logged: dict[str, Tensor] = {}
        self._logged_steps = 0
        if self.model_accepts_loss_kwargs and not _loss_is_divided_by_items(base_model(self.plain_model)):
            # Trainer takes any model that accepts **kwargs for one that divides its loss by `num_items_in_batch`
            # itself. Classifiers such as BERT's accept and ignore it: their loss would be counted once too often for
            # each step of gradient accumulation and for each process.
            self.model_accepts_loss_kwargs = False
        self._prepares = prepares(self.method)
        if self._prepares:
            self.add_callback(BeforeEpochs(self._begin_epoch))
            self._check_whole()
        if self.method.parts and self.args.n_gpu > 1:
            raise UserError(
                f"one process can't guide a model on {self.args.n_gpu} GPUs at once (DataParallel); start one process for each: "
                "torchrun --nproc-per-node, or accelerate launch"
            )
        guided = self._attached()  # at once, so that a mistake in the method shows here
        self._resting = contextlib.ExitStack()
        if self.method.lasting.parts:  # they are there for the optimizer, and for evaluation, before training and after
            self.guided = guided
            self._resting.enter_context(guided.paused())
            self._check_optimizer(guided)
        else:
            guided.detach()

    def train(self, *args: Any, **kwargs: Any) -> TrainOutput:
        """Train as transformers does, guided."""
        self._resting.close()
        if self.guided is None:
            self.guided = self._attached()
        try:
            return super().train(*args, **kwargs)
        finally:
            self.guided.discard()
            if self.method.lasting.parts:
                self._resting.enter_context(self.guided.paused())
            else:
                self.guided.detach()
                self.guided = None

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """The task's loss, and in training the guide's beside it."""
        given, rows = inputs.pop(GIVEN, None), inputs.pop(ROW_IDS, None)
        if given is not None and self.guided is not None and model.training:
            self.guided.give(given)
            numbers = numbers_of(given)
            if numbers is not None:
                inputs = self.guided.bring(numbers, inputs)
        task_loss, outputs = super().compute_loss(
            model, inputs, return_outputs=True, num_items_in_batch=num_items_in_batch
        )
        loss = task_loss
        if self.guided is not None and model.training:
            self._bring_to_step(self.guided)
            # Trainer takes a mean over the parts of a step and over processes, each alike. Unless the task's loss is a
            # share of their sum already, it is weighed by its rows, and the guide, a mean too, in either case.
            is_share = self._loss_is_a_share(num_items_in_batch)
            portion, weight = self._weigh(inputs)
            whole = task_loss / portion if is_share else task_loss
            if self.method.parts:
                total = self.guided.loss(whole)
                loss = total * portion if is_share else total
            loss = loss if is_share or weight == 1 else loss * weight
            self._note(whole, self.guided, loss, weight, rows)
            self.guided.discard()
        return (loss, outputs) if return_outputs else loss

    def prediction_step(self, model: nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Predict as transformers does: what the data has for the methods is for training alone."""
        for name in (GIVEN, ROW_IDS):
            inputs.pop(name, None)
        return super().prediction_step(model, inputs, *args, **kwargs)

    def get_train_dataloader(self) -> DataLoader[Any]:
        """As transformers makes it; where a method prepares the data, its rows know their number."""
        own: Any = self.train_dataset
        if not self._prepares or own is None:
            return super().get_train_dataloader()
        self.train_dataset = number_rows(self.method, own, self._data_seed)
        try:
            return super().get_train_dataloader()
        finally:
            self.train_dataset = own

    def _begin_epoch(self, number: int) -> None:
        """Before an epoch, the methods prepare the data, by the model as it is."""
        assert self.guided is not None
        if number == 0 and self.state.num_train_epochs <= 1 and (asking := self._asking_model()):
            logger.warning(
                "%s has no labels in the first epoch, since the model of the one before makes them, and this training has one "
                "epoch: give it two or more",
                asking[0],
            )
        collate: Any = self._get_collator_with_removed_columns(self.data_collator)
        figures = self.guided.begin_epoch(
            number,
            self.train_dataset,  # type: ignore[arg-type]
            collate=collate,
            label=(self.label_names or ["labels"])[0],
            seed=self._data_seed,
            batch_size=max(self.args.eval_batch_size, 4 * self.args.train_batch_size),
            progress=tell_preparing(self.callback_handler.callbacks, self.args, f"preparing epoch {number + 1}"),
        )
        if figures:
            self.log(figures)

    @property
    def _data_seed(self) -> int:
        return self.args.seed if self.args.data_seed is None else self.args.data_seed

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        """With the state of the optimizer, what methods have made for the epoch that goes on."""
        super()._save_optimizer_and_scheduler(output_dir)
        if self._prepares and self.guided is not None and self.args.should_save:
            save_epoch(self.guided, output_dir)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if self._prepares and self.guided is not None and checkpoint is not None:
            load_epoch(self.guided, checkpoint)

    def _set_signature_columns_if_needed(self) -> None:
        super()._set_signature_columns_if_needed()
        own: Any = self._signature_columns
        self._signature_columns = list(dict.fromkeys([*own, *self.method.columns, ROW_ID]))  # type: ignore[assignment]

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate as transformers does, unguided."""
        if self.guided is None:
            return super().evaluation_loop(*args, **kwargs)
        with self.guided.paused():
            return super().evaluation_loop(*args, **kwargs)

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Any] | None = None) -> None:
        super()._save(output_dir, state_dict)
        if self.args.should_save:
            save_methods(self.plain_model, output_dir or str(self.args.output_dir))

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log, with the parts of the loss where Trainer logs the loss."""
        if "loss" in logs and self._logged_steps:
            names = list(self._logged)
            means = torch.stack([self._logged[name] for name in names]) / self._logged_steps
            if self.args.world_size > 1:
                means = self.accelerator.reduce(means, reduction="mean")
            logs.update(zip(names, means.tolist(), strict=True))
            self._logged, self._logged_steps = {}, 0
        super().log(logs, start_time)

    def call_model_init(self, trial: Any = None) -> nn.Module:
        """Make the model anew, as hyper-parameter searches do, and guide it if training has begun."""
        model: nn.Module = super().call_model_init(trial)
        if self.guided is not None:
            self.guided.detach()
            self.guided = attach(
                self.accelerator.unwrap_model(model), self.method, self.processing_class, backend=self.backend
            )
        return model

    def create_optimizer(self, *args: Any, **kwargs: Any) -> Any:
        """As transformers makes it, with lower rates further down where `layer_decay` asks for that."""
        is_new = self.optimizer is None
        optimizer = super().create_optimizer(*args, **kwargs)
        if is_new and self.layer_decay != 1:
            scale_rates(optimizer, self.plain_model, self.layer_decay)
        return optimizer

    def _loss_is_a_share(self, num_items_in_batch: Tensor | int | None) -> bool:
        """Whether Trainer takes the loss for a share of the accumulated batches' sum, as it does itself."""
        told: bool | None = getattr(self, "loss_is_scaled_for_ga", None)
        if told is not None:
            return told
        by_model = self.model_accepts_loss_kwargs and num_items_in_batch is not None
        return by_model or self.compute_loss_func is not None

    def _bring_to_step(self, guided: Guided) -> None:
        """Tell the guide how far training is; the trainer's state, kept in checkpoints, has what it measured before."""
        states: Any = self.state.stateful_callbacks
        guided.load_state_dict(states.get(KEPT, {}))
        guided.step = self.state.global_step
        guided.progress = self.state.global_step / max(1, self.state.max_steps)

    def _asking_model(self) -> list[str]:
        """The methods that ask the model about the texts before an epoch."""
        return [part.name for part in self.method.parts if isinstance(part, Preparing) and part.asks_model]

    def _check_whole(self) -> None:
        """Where the model is in shards, no process can ask it alone."""
        asking = self._asking_model()
        if asking and (self.is_fsdp_enabled or self.is_deepspeed_enabled):
            raise UserError(
                f"{asking[0]} asks the whole model in each process, which FSDP and DeepSpeed keep in shards; start the "
                "processes without them (DistributedDataParallel), or train on one device"
            )

    def _check_optimizer(self, guided: Guided) -> None:
        """An optimizer that was made before the methods were attached doesn't know their parameters."""
        if self.optimizer is None:
            return
        known = {id(parameter) for group in self.optimizer.param_groups for parameter in group["params"]}
        for name, parameter in guided.added.named_parameters():
            if id(parameter) not in known:
                guided.detach()
                raise UserError(
                    f"the optimizer that you give can't train what {self.method.lasting} adds ({name}), as it was made before; "
                    "give optimizer_cls_and_kwargs instead, or override create_optimizer"
                )

    def _attached(self) -> Guided:
        return attach(self.plain_model, self.method, self.processing_class, backend=self.backend)

    @property
    def plain_model(self) -> nn.Module:
        """The model as it was given, without what wraps it on several devices."""
        model: nn.Module = self.accelerator.unwrap_model(self.model)
        return model

    def _note(self, task_loss: Tensor, guided: Guided, loss: Tensor, weight: float, rows: Sequence[str] | None) -> None:
        """Keep the parts of the loss for the next log, and what was measured for the next checkpoint; stop where the loss
        is not a number. What counts for `weight` of an even part of the step is logged as that."""
        if self._measured:
            states: Any = self.state.stateful_callbacks
            states[KEPT] = guided.state_dict()
        parts = {"task_loss": task_loss, **{f"guide/{name}": term for name, term in guided.terms.items()}}
        weights = guided.weights
        parts |= {f"weight/{name}": torch.tensor(weights[name]) for name in self._measured}
        parts = {name: part.detach().float().to(loss.device) for name, part in parts.items()}
        is_bad = not math.isfinite(loss.item())
        if processes.any_has(is_bad, loss.device):
            with processes.agreed():
                if is_bad:
                    raise UserError(self._diverged(loss, parts, rows))
        for name, part in parts.items():
            self._logged[name] = self._logged.get(name, torch.zeros_like(part)) + part * weight
        self._logged_steps += 1

    def _diverged(self, loss: Tensor, parts: Mapping[str, Tensor], rows: Sequence[str] | None) -> str:
        """What is known of a loss that is not a number."""
        shown = ", ".join(f"{name} {part.item():.4g}" for name, part in parts.items())
        bad = [name for name, part in parts.items() if not part.isfinite()]
        of = f" by {' and '.join(bad)}" if bad else ""
        at = f" in the batch of rows {', '.join(map(str, rows))}" if rows else ""
        return (
            f"the loss is {loss.item()} at step {self.state.global_step} ({shown}){of}{at}; "
            "try a lower learning rate or a lower weight of the method, and look at these rows"
        )


def _loss_is_divided_by_items(model: nn.Module) -> bool:
    """Whether a model's loss takes `num_items_in_batch` into account: handed on to `self.loss_function`, or by name."""
    try:
        source = textwrap.dedent(inspect.getsource(inspect.unwrap(type(model).forward)))
    except (OSError, TypeError):
        return True  # nothing is known: leave transformers its own judgement
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    hands_all_on = any(
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "loss_function"
        and any(keyword.arg is None for keyword in call.keywords)
        for call in calls
    )
    return hands_all_on or "num_items_in_batch" in source
