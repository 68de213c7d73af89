"""One run of pre-training, from a recipe to the folder that it leaves: read, pack, train, judge on held-out text, save.

On several processes all of them do the same, and the first alone writes and speaks.
"""

import json
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import datasets
from rich.console import Console
from transformers import AutoTokenizer, PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, set_seed
from transformers.trainer_callback import PrinterCallback

from attentune.errors import UserError
from attentune.methods import parse
from attentune.training import processes
from attentune.training.arguments import Plan, rows_of_each, training_arguments
from attentune.training.checkpoints import last_good
from attentune.training.lengths import longest_length
from attentune.training.memory import peak_memory_mb
from attentune.training.precision import takes_bf16
from attentune.training.pretraining.card import pretraining_card
from attentune.training.pretraining.corpus import Corpus, load_corpus
from attentune.training.pretraining.masking import Masking
from attentune.training.pretraining.models import load_for_masking, new_model
from attentune.training.pretraining.packing import Frame, packed, tokenized, tokens_of
from attentune.training.pretraining.recipe import PretrainingRecipe
from attentune.training.pretraining.trainer import DrawnBlocks, PretrainingTrainer
from attentune.training.pretraining.vocabulary import tokenizer_of, train_vocabulary
from attentune.training.progress import ShowProgress, stage
from attentune.training.run import Say, _save
from attentune.training.run_folder import RunFolder, json_line, versions, write_whole
from attentune.training.stopping import StopOnSignal
from attentune.training.trial import try_method
from attentune.training.trust import require_trust

HELD_OUT_SEED = 0
"""Of the masks of held-out text, which are the same in every run."""
EVALUATIONS = 20
"""How often the held-out text is judged where the recipe doesn't say."""


def pretrain(
    recipe: PretrainingRecipe,
    output: str | Path,
    *,
    console: Console | None = None,
    say: Say = lambda line: None,
    callbacks: Sequence[TrainerCallback] = (),
) -> RunFolder:
    """Run a recipe of pre-training and leave its results in `output`, a folder that must be new or empty.

    `say` is told, line by line, what is used and found on the way; progress goes to `console`. `callbacks` are
    transformers' own, to look at the model while it is trained.
    """
    processes.join()
    with processes.agreed():
        if processes.is_first():
            RunFolder.check_free(output)
    return _Pretraining(recipe, Path(output), console, say, callbacks).whole()


def resume_pretraining(
    path: str | Path,
    *,
    trust_remote_code: bool = False,
    console: Console | None = None,
    say: Say = lambda line: None,
    callbacks: Sequence[TrainerCallback] = (),
) -> RunFolder:
    """Go on with a run that was interrupted, from its last whole checkpoint, to the end that it would have had."""
    processes.join()
    with processes.agreed():
        folder = RunFolder.interrupted(path)
        recipe = PretrainingRecipe.from_yaml(folder.recipe_file)
        require_trust(recipe, trust_remote_code, f"the run in {path}")
        checkpoint, passed_over = last_good(folder.steps)
    run = _Pretraining(recipe, folder.path, console, say, callbacks)
    for line in passed_over:
        run.say(line)
    run.say(f"resuming from {checkpoint}" if checkpoint else "there is no whole checkpoint yet: beginning anew")
    if changed := folder.versions_changed():
        run.say(f"not the versions that the run began with, so that its last digits may differ: {', '.join(changed)}")
    return run.whole(folder, checkpoint)


@dataclass(frozen=True)
class _Loaded:
    """What a run works with."""

    model: PreTrainedModel
    tokenizer: Any
    train: datasets.Dataset
    validation: datasets.Dataset
    block: int
    source: str

    @property
    def fingerprint(self) -> list[str]:
        """Tells whether it is the same text, in the same tokens and blocks."""
        return [self.train._fingerprint, self.validation._fingerprint]


@dataclass
class _Pretraining:
    recipe: PretrainingRecipe
    path: Path
    console: Console | None
    tell: Say
    callbacks: Sequence[TrainerCallback] = field(default_factory=tuple)

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
        recipe = self.recipe
        with processes.agreed():
            rows_of_each(recipe.training)
            if columns := parse(recipe.method).columns:
                raise UserError(
                    f"the method {recipe.method} looks at what is known of each text ({', '.join(columns)}), and packed text has "
                    "none of it; choose others, such as the patterns"
                )
        loaded = self._load(folder)
        with processes.agreed():
            folder = self._begin(loaded) if folder is None else self._go_on(loaded, folder)
        bf16 = takes_bf16(recipe.training.precision)
        shared = f"; {processes.count()} processes" if processes.count() > 1 else ""
        self.say(f"precision: {'bfloat16 autocast' if bf16 else 'float32'}; method: {recipe.method}{shared}")
        with processes.agreed():
            trainer, stop, progress = self._trainer(folder, loaded, bf16)
        try:
            with stop.listening():
                result = trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
            if stop.stopped_at is not None:
                raise KeyboardInterrupt(
                    f"a checkpoint of step {stop.stopped_at:,} is kept; go on with: "
                    f"attentune pretrain --resume --output {self.path}"
                )
            seconds = trainer.seconds
            held_out = trainer.evaluate()
        finally:
            progress.stop()
        losses = processes.gathered(result.training_loss)
        tokens = tokens_seen(trainer, loaded)
        metrics = {
            "task": recipe.data.name,
            "method": recipe.method,
            "seed": recipe.training.seed,
            "eval": {"loss": held_out["eval_loss"], "perplexity": held_out["eval_perplexity"]},
            "train": {
                "loss": sum(losses) / len(losses),
                "examples": len(loaded.train),
                "steps": trainer.state.global_step,
                "epochs": round(trainer.state.epoch or 0, 4),
                "tokens": tokens,
                "seconds": round(seconds, 2),
                "tokens_per_second": round(tokens / seconds),
                "peak_memory_mb": round(max(processes.gathered(peak_memory_mb()))),
                "precision": "bf16" if bf16 else "fp32",
                "processes": processes.count(),
            },
            "model": recipe.model or (recipe.new and recipe.new.model_dump()),
            "inputs": {"text": recipe.data.text, "text_pair": None},
            "deciding": "loss",
        }
        with processes.agreed():
            if processes.is_first():
                card = pretraining_card(recipe, metrics, versions())
                _save(trainer.plain_model, loaded.tokenizer, folder, card)
                folder.write_log(trainer.state.log_history)
                write_curve(folder, trainer.state)
                folder.write_metrics(metrics)
        return folder

    def _load(self, folder: RunFolder | None) -> _Loaded:
        """The first process reads, trains the tokenizer and packs; the others find it done."""
        recipe, seed = self.recipe, self.recipe.training.seed
        with processes.agreed():
            loaded = self._read(folder, None) if processes.is_first() else None
            vocabulary = loaded and loaded.tokenizer.backend_tokenizer.to_str()
        vocabulary = processes.gathered(vocabulary)[0]
        with processes.agreed():
            loaded = loaded or self._read(folder, vocabulary)
            try_method(loaded.model, recipe.method, loaded.tokenizer, "a text to try the method on")
        set_seed(seed)
        return loaded

    def _read(self, folder: RunFolder | None, vocabulary: str | None) -> _Loaded:
        recipe = self.recipe
        with self.stage("reading the text"):
            corpus = load_corpus(recipe.data, recipe.training.seed)
        self.say(f"data: {corpus.source} ({len(corpus.train):,} documents, {len(corpus.validation):,} held out)")
        model, tokenizer = self._model(folder, corpus, vocabulary)
        block = longest_length(model, tokenizer, recipe.training.max_length)
        with self.stage("tokenizing and packing"):
            frame, offsets = Frame.of(tokenizer), recipe.masking.whole_word
            train, held = (
                packed(tokenized(texts, tokenizer, offsets=offsets), frame, block)
                for texts in (corpus.train, corpus.validation)
            )
        less = (
            ""
            if block == recipe.training.max_length
            else f", all that the model takes ({recipe.training.max_length:,} asked)"
        )
        self.say(f"packed: {len(train):,} blocks of {block:,} tokens{less}, {len(held):,} held out")
        return _Loaded(model, tokenizer, train, held, block, corpus.source)

    def _model(self, folder: RunFolder | None, corpus: Corpus, vocabulary: str | None) -> tuple[PreTrainedModel, Any]:
        recipe = self.recipe
        if recipe.model is not None:
            with self.stage(f"loading {recipe.model}"):
                model, tokenizer, has_new_head = load_for_masking(
                    recipe.model, revision=recipe.revision, trust_remote_code=recipe.trust_remote_code
                )
            if has_new_head:
                self.say(f"{recipe.model} has no head that tells masked tokens; it gets a new one")
            return model, tokenizer
        assert recipe.new is not None
        longest = recipe.training.max_length
        if folder is not None and tokenizer_folder(folder).is_dir():
            tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder(folder))
        else:
            if vocabulary is None:
                with self.stage("training the tokenizer"):
                    vocabulary = train_vocabulary(recipe.new, corpus.train)
            tokenizer = tokenizer_of(recipe.new, vocabulary, longest)
        set_seed(recipe.training.seed)  # all weights depend on it
        model = new_model(recipe.new, tokenizer, longest)
        self.say(
            f"model: a new {recipe.new.architecture} of {model.num_parameters():,} parameters, {recipe.new.layers} layers of "
            f"{recipe.new.heads} heads, with {len(tokenizer):,} tokens of its own"
        )
        return model, tokenizer

    def _begin(self, loaded: _Loaded) -> RunFolder:
        if not processes.is_first():
            return RunFolder(self.path)
        folder = RunFolder.create(self.path)
        if self.recipe.model is None:
            loaded.tokenizer.save_pretrained(tokenizer_folder(folder))
        write_whole(text_file(folder), json.dumps({"blocks": loaded.fingerprint}) + "\n")
        folder.write_start(self.recipe)
        return folder

    def _go_on(self, loaded: _Loaded, folder: RunFolder) -> RunFolder:
        """The folder of the run, if it is still the same text."""
        try:
            before = json.loads(text_file(folder).read_text(encoding="utf-8"))["blocks"]
        except (OSError, ValueError, KeyError, TypeError):
            before = None
        if before != loaded.fingerprint:
            raise UserError(
                f"the text ({loaded.source}) is not that with which the run in {self.path} began, so that it can't be gone on "
                "with; bring the text back, or begin anew with another --output"
            )
        return folder

    def _trainer(
        self, folder: RunFolder, loaded: _Loaded, bf16: bool
    ) -> tuple[PretrainingTrainer, StopOnSignal, ShowProgress]:
        training = self.recipe.training
        assert self.console is not None
        steps = Plan.of(training, len(loaded.train)).steps
        training = training.model_copy(update={"eval_steps": training.eval_steps or math.ceil(steps / EVALUATIONS)})
        arguments = training_arguments(
            training, folder, bf16=bf16, rows=len(loaded.train), deciding="loss", run_name=self.path.name
        )
        arguments.eval_on_start = True
        arguments.remove_unused_columns = False
        arguments.per_device_eval_batch_size = rows_of_each(training)
        progress, stop = ShowProgress(self.console), StopOnSignal(self.say)
        masking = self.recipe.masking
        trainer = PretrainingTrainer(
            loaded.model,
            arguments,
            train_dataset=DrawnBlocks(loaded.train),
            eval_dataset=DrawnBlocks(loaded.validation),
            data_collator=Masking(loaded.tokenizer, masking, training.seed),
            held_out_masking=Masking(loaded.tokenizer, masking, HELD_OUT_SEED),
            processing_class=loaded.tokenizer,
            method=self.recipe.method,
            callbacks=[progress, stop, _Curve(folder, self.say), *self.callbacks],
        )
        trainer.remove_callback(PrinterCallback)
        if processes.rank():  # or dropout would be the same on every process
            set_seed(training.seed + processes.rank())
        return trainer, stop, progress


class _Curve(TrainerCallback):
    """Tells of each evaluation, and keeps the curve where one can watch it grow."""

    def __init__(self, folder: RunFolder, say: Callable[[str], None]) -> None:
        self.folder, self.say = folder, say

    def on_evaluate(
        self, args: Any, state: TrainerState, control: TrainerControl, metrics: Any = None, **kwargs: Any
    ) -> None:
        """After each evaluation."""
        latest = curve(state)[-1]
        self.say(
            f"step {latest['step']:,}, {latest['seconds']:,.0f} s: held-out loss {latest['loss']:.4f}, "
            f"perplexity {latest['perplexity']:,.1f}"
        )
        if processes.is_first():
            write_curve(self.folder, state)


def curve(state: TrainerState) -> list[dict[str, Any]]:
    """The held-out loss against step and time."""
    return [
        {
            "step": entry["step"],
            "seconds": entry["seconds"],
            "loss": entry["eval_loss"],
            "perplexity": entry["eval_perplexity"],
        }
        for entry in state.log_history
        if "eval_loss" in entry
    ]


def write_curve(folder: RunFolder, state: TrainerState) -> None:
    """The curve as `curve.jsonl`, a line for each evaluation."""
    write_whole(folder.path / "curve.jsonl", "".join(map(json_line, curve(state))))


def tokens_seen(trainer: PretrainingTrainer, loaded: _Loaded) -> int:
    """How many tokens the steps have had, frames included: a mean block's, times the blocks."""
    blocks = (trainer.state.epoch or 0) * len(loaded.train)
    return round(blocks * tokens_of(loaded.train) / len(loaded.train))


def tokenizer_folder(folder: RunFolder) -> Path:
    """Where a new model's tokenizer stands from the beginning of its run."""
    return folder.path / "tokenizer"


def text_file(folder: RunFolder) -> Path:
    """Where a run keeps what its text is known again by."""
    return folder.path / "text.json"
