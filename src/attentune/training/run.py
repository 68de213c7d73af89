"""One run, from a recipe to the folder that it leaves: load, fine-tune, judge on the held-out split, save.

On several processes all of them do the same, and the first alone writes and speaks.
"""

import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from torch import nn
from transformers import PreTrainedModel, TrainerCallback, set_seed
from transformers.trainer_callback import PrinterCallback

from attentune.errors import UserError
from attentune.methods import Drawn, Preparing, parse, save
from attentune.tasks import Judged, Task
from attentune.training import processes
from attentune.training.arguments import rows_of_each, training_arguments
from attentune.training.card import NAME as CARD
from attentune.training.card import model_card
from attentune.training.checkpoints import last_good, sync_to_disk, told_of_disk
from attentune.training.class_weights import weighted_loss, weights_of_classes
from attentune.training.columns import cores, draw
from attentune.training.encoding import Encoded, encode, training_texts
from attentune.training.evaluation import details_of, evaluate_all, scores_of, watched
from attentune.training.evaluations import Other
from attentune.training.layers import begin_anew
from attentune.training.lora import adapt, merged, save_adapter
from attentune.training.memory import peak_memory_mb
from attentune.training.models import load_for_classification
from attentune.training.precision import takes_bf16
from attentune.training.prediction import Predictor
from attentune.training.progress import ShowProgress, show_work, stage
from attentune.training.recipe import Recipe
from attentune.training.run_folder import RunFolder, versions
from attentune.training.stopping import StopEarly, StopOnSignal
from attentune.training.trainer import Trainer
from attentune.training.trial import try_method
from attentune.training.trust import require_trust

Say = Callable[[str], None]


def run_recipe(
    recipe: Recipe,
    output: str | Path,
    *,
    console: Console | None = None,
    say: Say = lambda line: None,
    callbacks: Sequence[TrainerCallback] = (),
) -> RunFolder:
    """Run a recipe and leave its results in `output`, a folder that must be new or empty.

    `say` is told, line by line, what is used and found on the way; progress goes to `console`. `callbacks` go to the trainer.
    """
    processes.join()
    with processes.agreed():
        if processes.is_first():
            RunFolder.check_free(output)
    return _Run(recipe, Path(output), console, say, callbacks).whole()


def resume_run(
    path: str | Path, *, trust_remote_code: bool = False, console: Console | None = None, say: Say = lambda line: None
) -> RunFolder:
    """Go on with a run that was interrupted, from its last whole checkpoint, to the end that it would have had.

    Code that the model brings along is run only if it is allowed anew: the folder may be a stranger's.
    """
    processes.join()
    with processes.agreed():
        folder = RunFolder.interrupted(path)
        recipe = folder.recipe()
        require_trust(recipe, trust_remote_code, f"the run in {path}")
        checkpoint, passed_over = last_good(folder.steps)
    run = _Run(recipe, folder.path, console, say)
    for line in passed_over:
        run.say(line)
    run.say(f"resuming from {checkpoint}" if checkpoint else "there is no whole checkpoint yet: beginning anew")
    changed = folder.versions_changed()
    if changed:
        run.say(f"not the versions that the run began with, so that its last digits may differ: {', '.join(changed)}")
    if checkpoint is not None and len(list(checkpoint.glob("rng_state*.pth"))) != processes.count():
        run.say("not as many processes as before, so that other random numbers are drawn from here on")
    return run.whole(folder, checkpoint)


class _Loaded(NamedTuple):
    """What a run works with."""

    task: Task
    others: list[Other]
    encoded: Encoded
    model: nn.Module
    tokenizer: Any
    drawn: list[Drawn]


@dataclass
class _Run:
    recipe: Recipe
    path: Path
    console: Console | None
    tell: Say
    callbacks: Sequence[TrainerCallback] = ()

    def __post_init__(self) -> None:
        if not processes.is_first():
            self.console, self.tell = Console(quiet=True), lambda line: None
        self.console = self.console or Console(stderr=True)

    def say(self, line: str) -> None:
        self.tell(line)

    def stage(self, what: str) -> AbstractContextManager[None]:
        assert self.console is not None
        return stage(self.console, what)

    def whole(self, folder: RunFolder | None = None, checkpoint: Path | None = None) -> RunFolder:
        """All of the run, or the rest of it in a folder that is there."""
        with processes.agreed():
            loaded = self._load()
        task, encoded = loaded.task, loaded.encoded
        with processes.agreed():
            if folder is None:
                folder = self._begin(loaded.drawn)
        for part in loaded.drawn:
            self.say(part.note)
        bf16 = takes_bf16(self.recipe.training.precision)
        if encoded.note:
            self.say(encoded.note)
        shared = f"; {processes.count()} processes" if processes.count() > 1 else ""
        self.say(f"precision: {'bfloat16 autocast' if bf16 else 'float32'}; method: {self.recipe.method}{shared}")
        with processes.agreed():
            trainer, stop, progress = self._trainer(folder, loaded, bf16)
        try:
            with stop.listening():
                result = trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
            seconds = trainer.seconds
            if stop.stopped_at is not None:
                raise KeyboardInterrupt(
                    f"a checkpoint of step {stop.stopped_at:,} is kept; go on with: "
                    f"attentune train --resume --output {self.path}"
                )
            judged = evaluate_all(trainer, task, encoded)
        finally:
            progress.stop()
        metrics = self._metrics(task, judged, len(encoded.train), trainer, result.training_loss, seconds)
        with processes.agreed():
            if processes.is_first():
                card = model_card(self.recipe, metrics, versions(), task.source)
                plain = _save(trainer.plain_model, loaded.tokenizer, folder, card)
                metrics["also"] = self._judge_others(loaded, plain, folder)
                folder.write_log(trainer.state.log_history)
                folder.write_judged(judged, tag=self.recipe.method)
                folder.write_metrics(metrics)
                if self.recipe.training.save_steps is None:
                    folder.drop_steps()  # early stopping or a signal needed them, and nobody asked to keep them
        return folder

    def _metrics(
        self, task: Task, judged: dict[str, Judged], rows: int, trainer: Trainer, loss: float, seconds: float
    ) -> dict[str, Any]:
        losses = processes.gathered(loss)
        return {
            "task": task.name,
            "method": self.recipe.method,
            "seed": self.recipe.training.seed,
            "eval": scores_of(judged),
            "train": {
                "loss": sum(losses) / len(losses),
                "examples": rows,
                "steps": trainer.state.global_step,
                "epochs": round(trainer.state.epoch or 0, 4),
                "seconds": round(seconds, 2),
                "peak_memory_mb": round(max(processes.gathered(peak_memory_mb()))),
                "precision": "bf16" if trainer.args.bf16 else "fp32",
                "processes": processes.count(),
            },
            "model": self.recipe.model,
            "inputs": {"text": task.text, "text_pair": task.text_pair},
            "deciding": task.deciding,
            "kind": task.kind,
            "details": details_of(judged),
        }

    def _load(self) -> _Loaded:
        recipe = self.recipe
        rows_of_each(recipe.training)
        with self.stage("reading the data"):
            task = recipe.data.load(recipe.training.seed)
        task.require_training_rows()
        self.say(f"data: {task.source} ({task.told()})")
        others = Other.load(recipe, task)
        set_seed(recipe.training.seed)  # the new head's weights depend on it
        with self.stage(f"loading {recipe.model}"):
            model, tokenizer = load_for_classification(
                recipe.model, task.labels, revision=recipe.revision, trust_remote_code=recipe.trust_remote_code
            )
        if recipe.training.reinit_layers:
            begin_anew(model, recipe.training.reinit_layers)
        first = task.splits["train"][0]
        trained: Any = model if recipe.lora is None else adapt(model, recipe.lora)
        try_method(
            trained, recipe.method, tokenizer, first[task.text], first[task.text_pair] if task.text_pair else None
        )
        drawn = self._drawn(task)
        with self.stage(f"tokenizing {sum(map(len, task.splits.values())):,} rows"):
            encoded = encode(task, model, tokenizer, recipe.training.max_length, drawn)
        return _Loaded(task, others, encoded, trained, tokenizer, drawn)

    def _drawn(self, task: Task) -> list[Drawn]:
        """What the methods draw from the texts that are trained on."""
        assert self.console is not None
        with show_work(self.console) as progress:
            texts = training_texts(task, kept=self.path, num_proc=cores(), progress=progress)
            drawn = draw(parse(self.recipe.method), texts)
        for part in drawn:
            part.check()
        return drawn

    def _judge_others(self, loaded: _Loaded, model: PreTrainedModel, folder: RunFolder) -> dict[str, dict[str, float]]:
        """The scores on the other tasks that the recipe names."""
        training = self.recipe.training
        predictor = Predictor(model, loaded.tokenizer, training.max_length, training.precision)
        return {other.task.name: other.judge(predictor, folder, self.recipe.method) for other in loaded.others}

    def _begin(self, drawn: list[Drawn]) -> RunFolder:
        if not processes.is_first():
            return RunFolder(self.path)
        folder = RunFolder.create(self.path)
        folder.write_start(self.recipe)
        for part in drawn:
            part.save(folder.path)
        return folder

    def _trainer(self, folder: RunFolder, loaded: _Loaded, bf16: bool) -> tuple[Trainer, StopOnSignal, ShowProgress]:
        task, encoded = loaded.task, loaded.encoded
        training = self.recipe.training
        assert self.console is not None
        progress, stop = ShowProgress(self.console), StopOnSignal(self.say)
        callbacks: list[TrainerCallback] = [progress, stop, *self.callbacks]
        if training.early_stopping:
            callbacks.append(StopEarly(training.early_stopping))
        weights = training.class_weights and weights_of_classes(
            training.class_weights, task.splits["train"][task.label][:], task.labels
        )
        rows = len(encoded.train)
        arguments = training_arguments(
            training,
            folder,
            bf16=bf16,
            rows=rows + _more_rows(self.recipe, rows),
            deciding=task.deciding,
            run_name=self.path.name,
        )
        try:
            trainer = Trainer(
                loaded.model,
                arguments,
                train_dataset=encoded.train,
                eval_dataset=encoded.validation,
                data_collator=encoded.collator,
                processing_class=loaded.tokenizer,
                method=self.recipe.method,
                compute_loss_func=weighted_loss(weights) if weights else None,
                compute_metrics=watched(task, encoded.validation),
                callbacks=callbacks,
                layer_decay=training.layer_decay,
            )
        except (ValueError, RuntimeError, ImportError) as error:
            if isinstance(error, UserError) or not training.report_to:
                raise
            first = next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
            raise UserError(
                f"the run can't be reported to {', '.join(training.report_to)} (training.report_to): {first}; "
                "install that tracker, or name another"
            ) from error
        trainer.remove_callback(PrinterCallback)
        if processes.rank():  # or dropout would be the same on every process
            set_seed(training.seed + processes.rank())
        return trainer, stop, progress


def _more_rows(recipe: Recipe, count: int) -> int:
    """How many rows the method adds to so many of training."""
    parts = parse(recipe.method).parts
    return sum(len(part.extra_rows(count, recipe.training.seed)) for part in parts if isinstance(part, Preparing))


def _save(model: nn.Module, tokenizer: Any, folder: RunFolder, card: str) -> PreTrainedModel:
    """The checkpoint with its card, whole or not at all; an adapter beside it, where one was trained. The model as it is kept."""
    part = folder.checkpoint.with_name("checkpoint.part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        with told_of_disk("the trained model", folder.path):
            plain = merged(model)
            if plain is not model:
                save_adapter(model, folder.adapter)
            save(plain, part, tokenizer)
            (part / CARD).write_text(card, encoding="utf-8")
            sync_to_disk(part)
            shutil.rmtree(folder.checkpoint, ignore_errors=True)  # of the same run, stopped before its end
            part.rename(folder.checkpoint)
        return plain
    except UserError:
        shutil.rmtree(part, ignore_errors=True)
        raise
    except Exception as error:
        raise UserError(f"the model can't be saved in {folder.checkpoint}: {error}") from error
