"""One run, from a recipe to the folder that it leaves: load, fine-tune, judge on the held-out split, save.

On several processes all of them do the same, and the first alone writes and speaks.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from torch import nn
from transformers import PreTrainedModel, TrainerCallback, set_seed

from attentune.errors import UserError
from attentune.methods import Drawn, Preparing, parse
from attentune.tasks import Task
from attentune.training import processes
from attentune.training.arguments import rows_of_each, training_arguments
from attentune.training.card import model_card
from attentune.training.class_weights import weighted_loss, weights_of_classes
from attentune.training.columns import cores, draw
from attentune.training.encoding import Encoded, encode, training_texts
from attentune.training.evaluation import details_of, evaluate_all, scores_of, watched
from attentune.training.evaluations import Other
from attentune.training.layers import begin_anew
from attentune.training.lora import adapt
from attentune.training.models import load_for_classification
from attentune.training.prediction import Predictor
from attentune.training.progress import show_work
from attentune.training.recipe import Recipe
from attentune.training.run_folder import RunFolder, versions
from attentune.training.running import Fitting, Running, Say, cost, save_checkpoint
from attentune.training.stopping import StopEarly
from attentune.training.trainer import Trainer
from attentune.training.trial import try_method


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
    return _Run(recipe, Path(output), console, say, callbacks).anew()


def resume_run(
    path: str | Path, *, trust_remote_code: bool = False, console: Console | None = None, say: Say = lambda line: None
) -> RunFolder:
    """Go on with a run that was interrupted, from its last whole checkpoint, to the end that it would have had.

    Code that the model brings along is run only if it is allowed anew: the folder may be a stranger's.
    """
    return _Run.resumed(path, trust_remote_code, console, say)


class _Loaded(NamedTuple):
    """What a run works with."""

    task: Task
    others: list[Other]
    encoded: Encoded
    model: nn.Module
    tokenizer: Any
    drawn: list[Drawn]


class _Run(Running[Recipe]):
    command = "train"

    @classmethod
    def recipe_of(cls, folder: RunFolder) -> Recipe:
        return folder.recipe()

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
        if encoded.note:
            self.say(encoded.note)
        bf16 = self.precision()
        with processes.agreed():
            fitting = self._fitting(folder, loaded, bf16)
        trainer = fitting.trainer
        loss, seconds, judged = self.trained(fitting, checkpoint, lambda: evaluate_all(trainer, task, encoded))
        metrics = {
            "task": task.name,
            "method": self.recipe.method,
            "seed": self.recipe.training.seed,
            "eval": scores_of(judged),
            "train": cost(trainer, len(encoded.train), loss, seconds),
            "model": self.recipe.model,
            "inputs": {"text": task.text, "text_pair": task.text_pair},
            "deciding": task.deciding,
            "kind": task.kind,
            "details": details_of(judged),
        }
        with processes.agreed():
            if processes.is_first():
                card = model_card(self.recipe, metrics, versions(), task.source)
                plain = save_checkpoint(trainer.plain_model, loaded.tokenizer, folder, card)
                metrics["also"] = self._judge_others(loaded, plain, folder)
                folder.write_log(trainer.state.log_history)
                folder.write_judged(judged, tag=self.recipe.method)
                folder.write_metrics(metrics)
                if self.recipe.training.save_steps is None:
                    folder.drop_steps()  # early stopping or a signal needed them, and nobody asked to keep them
        return folder

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

    def _fitting(self, folder: RunFolder, loaded: _Loaded, bf16: bool) -> Fitting[Trainer]:
        task, encoded = loaded.task, loaded.encoded
        training = self.recipe.training
        progress, stop = self.shown()
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
        self.ready(trainer)
        return Fitting(trainer, stop, progress)


def _more_rows(recipe: Recipe, count: int) -> int:
    """How many rows the method adds to so many of training."""
    parts = parse(recipe.method).parts
    return sum(len(part.extra_rows(count, recipe.training.seed)) for part in parts if isinstance(part, Preparing))
