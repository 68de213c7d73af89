"""The page itself: one HTML file with its styles, scripts and data, which shows the same tables without scripts.

All text is escaped: in the tables by jinja, in the data by leaving no `<` in the JSON; maps are base64. A content
security policy in the page forbids it to load anything.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from attentune.analysis.measures import MEASURES
from attentune.analysis.report.arms import Arm, Example, base_of, in_order_of_interest, is_of_interest
from attentune.analysis.report.packing import Packed, largest_error, pack
from attentune.analysis.report.payload import page_data, shown_measures, stored_texts
from attentune.analysis.report.tables import measure_rows, metric_rows
from attentune.analysis.report.verdict import Verdict, describe, judge
from attentune.errors import UserError

LARGEST = 5_000_000
"""Bytes that a report may have."""


@dataclass(frozen=True)
class Report:
    """A finished report; in a notebook it shows itself."""

    html: str
    verdicts: tuple[Verdict, ...]
    with_maps: int
    """How many examples have their maps in the page."""
    steps: int

    def save(self, path: str | Path) -> Path:
        """Write the page."""
        file = Path(path)
        file.write_text(self.html, encoding="utf-8")
        return file

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{escape(self.html)}" style="width:100%;height:900px;border:0" title="report"></iframe>'


def make_report(
    arms: Sequence[Arm],
    examples: Sequence[Example],
    *,
    title: str,
    lead: str,
    labels: Sequence[str],
    shown: int = 100,
    commands: Sequence[str] = (),
    largest: int = LARGEST,
) -> Report:
    """Compare arms on the examples that all trained ones have answered; the first trained one is what others are held against.

    At most `shown` examples can be looked at, those on which the arms disagree first, and as many of them have their maps
    in the page as a file of `largest` bytes holds.
    """
    trained = [arm for arm in arms if arm.is_trained]
    kept = [arm for arm in arms if arm.maps is not None]
    if not trained or not examples:
        raise UserError("a report needs at least one trained run and one example that all runs have answered")
    verdicts = tuple(judge(trained[0], other, examples) for other in trained[1:]) or (
        describe(trained[0], base_of(arms)),
    )
    chosen = _chosen(examples, arms, shown)
    page = _Page(arms, kept, examples, chosen, verdicts, title, lead, labels, commands)
    packed = pack(chosen, kept, largest - len(page.render(None).encode()))
    html = page.render(packed)
    while (
        excess := len(html.encode()) - largest
    ) > 0 and packed.with_maps + packed.with_means:  # tokens and names take room as well
        packed = packed.trimmed(packed.size - excess)
        html = page.render(packed)
    return Report(html, verdicts, packed.with_maps, packed.steps)


@dataclass(frozen=True)
class _Page:
    """All that the page shows but the maps."""

    arms: Sequence[Arm]
    kept: Sequence[Arm]
    examples: Sequence[Example]
    chosen: Sequence[Example]
    verdicts: Sequence[Verdict]
    title: str
    lead: str
    labels: Sequence[str]
    commands: Sequence[str]

    def render(self, packed: Packed | None) -> str:
        """The page as HTML; without maps where there are none yet."""
        environment = Environment(
            loader=PackageLoader("attentune.analysis", "templates/report"), autoescape=True, undefined=StrictUndefined,
            trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        names = shown_measures(self.arms)
        return environment.get_template("page.html.j2").render(
            title=self.title,
            lead=self.lead,
            arms=self.arms,
            colours=_colours(self.arms),
            verdicts=self.verdicts,
            metrics=metric_rows(self.arms, self.examples),
            measures=measure_rows(self.arms, names),
            definitions=[MEASURES[name] for name in names],
            measured=max(self.arms[0].survey.estimate(name).examples for name in names),
            chosen=len(self.chosen),
            with_maps=packed.with_maps if packed else 0,
            with_means=packed.with_means if packed else 0,
            steps=packed.steps if packed else 0,
            bound=largest_error(packed.steps) if packed else 0.0,
            error=packed.error if packed else 0.0,
            fact_names=list(dict.fromkeys(name for arm in self.arms for name in arm.facts)),
            several=sum(arm.is_trained for arm in self.arms) > 1,
            base=base_of(self.arms).title,
            commands=self.commands,
            data=_json(page_data(self.arms, self.kept, self.chosen, packed, self.labels)),
            stored=stored_texts(packed, self.kept),
        )


def _chosen(examples: Sequence[Example], arms: Sequence[Arm], shown: int) -> list[Example]:
    """Those on which the arms disagree first, but not alone: a quarter of the places is for the others."""
    ordered = in_order_of_interest(examples, arms)
    first = [example for example in ordered if is_of_interest(example, arms)]
    others = ordered[len(first) :]
    places = max(shown - len(others), shown - shown // 4)
    return [*first[:places], *others][:shown]


def _colours(arms: Sequence[Arm]) -> list[str]:
    """The class that gives each arm its colour: grey before training, then one after the other. A single run has that of
    the second, since in a difference from the model before training blue is what it has more."""
    trained = iter(range(1 if sum(arm.is_trained for arm in arms) == 1 else 0, len(arms) + 1))
    return [f"run-{next(trained) % 5}" if arm.is_trained else "run-before" for arm in arms]


def _json(value: Any) -> str:
    """JSON that may stand inside a script element: with no `<`, nothing in it can end that or begin another."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
