"""One run of pre-training, from a recipe to the folder that it leaves: read, pack, train, judge on held-out text, save.

On several processes all of them do the same, and the first alone writes and speaks.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
from rich.console import Console
from transformers import AutoTokenizer, PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, set_seed

from attentune.errors import UserError
from attentune.methods import parse
from attentune.training import processes
from attentune.training.arguments import Plan, rows_of_each, training_arguments
from attentune.training.lengths import longest_length
from attentune.training.pretraining.card import pretraining_card
from attentune.training.pretraining.corpus import Corpus, load_corpus
from attentune.training.pretraining.masking import Masking
from attentune.training.pretraining.models import load_for_masking, new_model
from attentune.training.pretraining.packing import Frame, packed, tokenized, tokens_of
from attentune.training.pretraining.recipe import PretrainingRecipe
from attentune.training.pretraining.trainer import DrawnBlocks, PretrainingTrainer
from attentune.training.pretraining.vocabulary import tokenizer_of, train_vocabulary
from attentune.training.run_folder import RunFolder, json_line, versions, write_whole
from attentune.training.running import Fitting, Running, Say, cost, save_checkpoint
from attentune.training.trial import try_method

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
    return _Pretraining(recipe, Path(output), console, say, callbacks).anew()


def resume_pretraining(
    path: str | Path,
    *,
    trust_remote_code: bool = False,
    console: Console | None = None,
    say: Say = lambda line: None,
    callbacks: Sequence[TrainerCallback] = (),
) -> RunFolder:
    """Go on with a run that was interrupted, from its last whole checkpoint, to the end that it would have had."""
    return _Pretraining.resumed(path, trust_remote_code, console, say, callbacks)


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


class _Pretraining(Running[PretrainingRecipe]):
    command = "pretrain"

    @classmethod
    def recipe_of(cls, folder: RunFolder) -> PretrainingRecipe:
        return PretrainingRecipe.from_yaml(folder.recipe_file)

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
        bf16 = self.precision()
        with processes.agreed():
            fitting = self._fitting(folder, loaded, bf16)
        trainer = fitting.trainer
        loss, seconds, held_out = self.trained(fitting, checkpoint, trainer.evaluate)
        tokens = tokens_seen(trainer, loaded)
        metrics = {
            "task": recipe.data.name,
            "method": recipe.method,
            "seed": recipe.training.seed,
            "eval": {"loss": held_out["eval_loss"], "perplexity": held_out["eval_perplexity"]},
            "train": cost(trainer, len(loaded.train), loss, seconds)
            | {"tokens": tokens, "tokens_per_second": round(tokens / seconds)},
            "model": recipe.model or (recipe.new and recipe.new.model_dump()),
            "inputs": {"text": recipe.data.text, "text_pair": None},
            "deciding": "loss",
        }
        with processes.agreed():
            if processes.is_first():
                card = pretraining_card(recipe, metrics, versions())
                save_checkpoint(trainer.plain_model, loaded.tokenizer, folder, card)
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

    def _fitting(self, folder: RunFolder, loaded: _Loaded, bf16: bool) -> Fitting[PretrainingTrainer]:
        training = self.recipe.training
        steps = Plan.of(training, len(loaded.train)).steps
        training = training.model_copy(update={"eval_steps": training.eval_steps or math.ceil(steps / EVALUATIONS)})
        arguments = training_arguments(
            training, folder, bf16=bf16, rows=len(loaded.train), deciding="loss", run_name=self.path.name
        )
        arguments.eval_on_start = True
        arguments.remove_unused_columns = False
        arguments.per_device_eval_batch_size = rows_of_each(training)
        progress, stop = self.shown()
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
        self.ready(trainer)
        return Fitting(trainer, stop, progress)


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
