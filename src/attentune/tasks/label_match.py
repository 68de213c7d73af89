"""Whether a model's classes are those of a task: matched by name, and folded where the task tells only two apart.

`entailment, neutral, contradiction` answers for `entailment, not_entailment`: neutral and contradiction count as
non-entailment, as HANS has it. Case and the spelling of blanks don't matter; the order doesn't either.
"""

from collections.abc import Sequence

from attentune.errors import UserError

NEGATED = ("not_", "non_")
FOLDED = {frozenset({"entailment", "not_entailment"}): {"neutral": "not_entailment", "contradiction": "not_entailment"}}


def match(answered: Sequence[str], wanted: Sequence[str], run: str, task: str) -> list[int]:
    """For each class that the model answers with, the task's class id; `run` and `task` are for the error's sentence.

    >>> match(["contradiction", "entailment", "neutral"], ["entailment", "non-entailment"], "runs/mnli", "hans")
    [1, 0, 1]
    >>> match(["bad", "good"], ["negative", "positive"], "runs/own", "sst2")
    Traceback (most recent call last):
    attentune.errors.UserError: the model of runs/own tells 'bad', 'good' apart, and sst2 wants 'negative', 'positive'; ...
    """
    ids = {_plain(name): number for number, name in enumerate(wanted)}
    fold = FOLDED.get(frozenset(ids), {})
    names = [_plain(name) for name in answered]
    names = [name if name in ids else fold.get(name, name) for name in names]
    if set(names) != set(ids):
        theirs, ours = (", ".join(map(repr, labels)) for labels in (answered, wanted))
        raise UserError(
            f"the model of {run} tells {theirs} apart, and {task} wants {ours}; give a run whose classes have these names"
        )
    return [ids[name] for name in names]


def _plain(name: str) -> str:
    plain = "_".join(name.casefold().replace("-", "_").split())
    negated = next((prefix for prefix in NEGATED if plain.startswith(prefix)), None)
    return "not_" + plain.removeprefix(negated) if negated else plain
