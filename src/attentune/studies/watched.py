"""Training watched epoch by epoch: the scores on the evaluation split are told, so that a hopeless run can be broken off."""

from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

PREFIX = "eval_"


class AtEpochs(TrainerCallback):
    """Evaluates at the end of each epoch but the last, after which the run is judged anyway."""

    def __init__(self, tell: Callable[..., None]) -> None:
        self.tell = tell

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> TrainerControl:
        """Ask for an evaluation."""
        if state.global_step < state.max_steps:
            control.should_evaluate = True
        return control

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, metrics: Any = None, **kwargs: Any
    ) -> None:
        """Tell what was found."""
        found = {name.removeprefix(PREFIX): value for name, value in (metrics or {}).items()}
        scores = {name: value for name, value in found.items() if isinstance(value, int | float)}
        self.tell(epoch=round(state.epoch or 0), scores=scores)
