"""Ends of training before its last step: a signal (Ctrl-C, or a batch system's), and no more gain on the evaluation split."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from transformers import EarlyStoppingCallback, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from attentune.training import processes

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopOnSignal(TrainerCallback):
    """At the first signal the step under way is finished, a checkpoint is written, and training ends; at the second, at once.

    On several processes, all of them stop after the same step, whichever was told.
    """

    def __init__(self, say: Callable[[str], None] = lambda line: None) -> None:
        self.say = say
        self.is_asked = False
        self.stopped_at: int | None = None
        """The step after which it stopped; None where nobody asked."""

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Within, signals are asked to wait for the end of the step."""
        if threading.current_thread() is not threading.main_thread():  # only the main thread may listen
            yield
            return
        before = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.is_asked:
            raise KeyboardInterrupt
        self.is_asked = True
        self.say("stopping after this step, with a checkpoint (once more: at once, without one)")

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> TrainerControl:
        """Ask for a checkpoint and the end, where a signal has come."""
        if processes.any_has(self.is_asked, args.device) and state.global_step < state.max_steps:
            control.should_save = control.should_training_stop = True
            self.stopped_at = state.global_step
        return control


class StopEarly(EarlyStoppingCallback):
    """transformers' early stopping, which goes on counting where a checkpoint had stopped."""

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> TrainerControl:
        """Take the count from the state."""
        super().on_train_begin(args, state, control, **kwargs)  # type: ignore[no-untyped-call]
        states: Any = state.stateful_callbacks
        kept = states.get(type(self).__name__) or {}
        count = kept.get("attributes", {}).get("early_stopping_patience_counter", 0)
        self.early_stopping_patience_counter = int(count) if state.global_step else 0
        control.should_training_stop = self.early_stopping_patience_counter >= self.early_stopping_patience
        return control
