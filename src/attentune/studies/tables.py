"""A comparison as tables: for the terminal, Markdown, LaTeX, CSV and JSON. One place says what a column is."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from attentune.studies.search import shown_point
from attentune.studies.verdicts import Group, Side

COLUMNS = (
    "method", "seeds", "score", "difference", "95% interval", "p (t)", "p (Holm)", "p (Wilcoxon)", "p (answers)", "effect",
    "time", "memory",
)  # fmt: skip
LEAVE_FIRST = ("seeds", "p (Wilcoxon)", "effect", "p (t)", "memory", "time", "p (answers)", "95% interval")
NOTE = (
    "Score: mean ± standard deviation over seeds, in points. Difference: to the baseline, seed by seed; * p < 0.05, ** p < 0.01 "
    "of the paired t-test by Holm's correction for all methods of the table. p (answers): McNemar's test on the pooled answers "
    "for accuracy, a bootstrap elsewhere; it is about these models, not about the method on other seeds. Effect: the mean "
    "difference in its standard deviations. Time: mean training time of a run; memory: the highest peak of one."
)
LATEX = {
    "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}", "\\": r"\textbackslash{}", "±": r"$\pm$", "−": "$-$", "<": "$<$", ">": "$>$",
}  # fmt: skip


@dataclass(frozen=True)
class Table:
    """Cells under a title; the first column is text, the others are figures."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def table_of(group: Group) -> Table:
    """All figures of a comparison on one task with one model."""
    rows = [_row(group, side) for side in group.sides]
    title = f"{group.task}, {group.model}: {group.metric} against {group.baseline}"
    return Table(title, COLUMNS, rows)


def overview(groups: Sequence[Group]) -> Table:
    """Methods by tasks, as the papers print it: the mean scores with their deviations and stars."""
    several = len({group.model for group in groups}) > 1
    heads = [f"{group.task} ({group.metric}{f', {group.model}' if several else ''})" for group in groups]
    rows = []
    for i, side in enumerate(groups[0].sides):
        cells = [_score(group.sides[i]) + _stars(group, group.sides[i].arm) for group in groups]
        means = [group.sides[i].mean for group in groups]
        rows.append([side.arm, *cells, _figure(100 * sum(means) / len(means))])
    return Table("all tasks", ["method", *heads, "mean"], rows)


def choices(chosen: Sequence[Mapping[str, Any]]) -> Table | None:
    """What the searches chose, and by which score on held-out training rows; None where nothing was searched."""
    several = len({one["model"] for one in chosen}) > 1
    rows = [
        [
            one["method"],
            *([one["model"]] if several else []),
            one["task"] or "own data",
            shown_point(one["chosen"]),
            f"{100 * one['score']:.2f}",
        ]
        for one in chosen
        if one["score"] is not None
    ]
    columns = ["method", *(["model"] if several else []), "task", "chosen", "score on held-out training rows"]
    return Table("what the searches chose", columns, rows) if rows else None


def in_width(table: Table, width: int) -> Table:
    """The table with the columns that a terminal has room for; those that say least go first."""
    columns = list(range(len(table.columns)))
    for name in LEAVE_FIRST:
        lines = [[line[i] for i in columns] for line in (table.columns, *table.rows)]
        if sum(max(map(len, column)) + 2 for column in zip(*lines, strict=True)) <= width:
            break
        columns = [i for i in columns if table.columns[i] != name]
    return Table(table.title, [table.columns[i] for i in columns], [[row[i] for i in columns] for row in table.rows])


def _row(group: Group, side: Side) -> list[str]:
    cost = [_seconds(side.seconds), "—" if math.isnan(side.memory_mb) else f"{side.memory_mb:,.0f} MB"]
    own = [side.arm, str(len(side.scores)), _score(side)]
    verdict = group.verdicts.get(side.arm)
    if verdict is None:
        return [*own, *["—"] * 7, *cost]
    tests, interval = verdict.tests, verdict.tests.interval
    reach = "—" if math.isnan(interval.low) else f"{100 * interval.low:+.2f} to {100 * interval.high:+.2f}"
    p_values = (tests.t_p, verdict.corrected_p, tests.wilcoxon_p, verdict.answers_p)
    effect = "—" if math.isnan(tests.effect) else f"{tests.effect:+.2f}"
    return [*own, f"{100 * tests.difference:+.2f}{verdict.stars}", reach, *map(_p, p_values), effect, *cost]


def _score(side: Side) -> str:
    if not side.scores:
        return "—"
    return _figure(100 * side.mean) + ("" if math.isnan(side.deviation) else f" ± {100 * side.deviation:.2f}")


def _stars(group: Group, arm: str) -> str:
    return group.verdicts[arm].stars if arm in group.verdicts else ""


def _figure(value: float) -> str:
    return "—" if math.isnan(value) else f"{value:.2f}"


def _p(value: float) -> str:
    if math.isnan(value):
        return "—"
    return f"{value:.3f}" if value >= 0.001 else "<0.001"


def _seconds(value: float) -> str:
    return "—" if math.isnan(value) else f"{value:.1f} s"


def markdown(table: Table) -> str:
    """As Markdown.

    >>> print(markdown(Table("films", ["method", "score"], [["none", "77.60"]])))
    | method | score |
    |---|--:|
    | none | 77.60 |
    """
    lines = [table.columns, *table.rows]
    shown = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    return "\n".join([shown[0], "|---|" + "--:|" * (len(table.columns) - 1), *shown[1:]])


def latex(table: Table) -> str:
    r"""As a LaTeX table, for the package booktabs.

    >>> print(latex(Table("films", ["method", "score"], [["mdg(weight=0.1)", "77.60 ± 0.20"]])))
    % films
    \begin{tabular}{lr}
    \toprule
    method & score \\
    \midrule
    mdg(weight=0.1) & 77.60 $\pm$ 0.20 \\
    \bottomrule
    \end{tabular}
    """
    lines = [" & ".join(map(_in_latex, cells)) + r" \\" for cells in (table.columns, *table.rows)]
    begin = rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}"
    return "\n".join(
        [f"% {table.title}", begin, r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule", r"\end{tabular}"]
    )


def _in_latex(cell: str) -> str:
    return "".join(LATEX.get(character, character) for character in cell)


def comma_separated(groups: Sequence[Group]) -> str:
    """As CSV, figures unrounded, one line for each method, task and model."""
    rows = [flat for group in groups for flat in _flat(group)]
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _flat(group: Group) -> list[dict[str, Any]]:
    rows = []
    for side in group.sides:
        verdict = group.verdicts.get(side.arm)
        tests = verdict.tests if verdict else None
        values: dict[str, Any] = {
            "task": group.task, "model": group.model, "method": side.arm, "metric": group.metric, "seeds": len(side.scores),
            "mean": side.mean, "deviation": side.deviation, "seconds": side.seconds, "memory_mb": side.memory_mb,
            "difference": tests and tests.difference, "low": tests and tests.interval.low,
            "high": tests and tests.interval.high, "t_p": tests and tests.t_p, "holm_p": verdict and verdict.corrected_p,
            "wilcoxon_p": tests and tests.wilcoxon_p, "answers_p": verdict and verdict.answers_p,
            "effect": tests and tests.effect, "seeds_needed": verdict and verdict.needed,
        }  # fmt: skip
        rows.append({name: "" if value is None or value != value else value for name, value in values.items()})
    return rows


def as_json(group: Group) -> dict[str, Any]:
    """All figures, with null for what is not known, and the sentences."""
    values = asdict(group)
    for side, own in zip(values["sides"], group.sides, strict=True):
        side |= {"mean": own.mean, "deviation": own.deviation}
    values["sentences"] = {arm: group.sentence(arm) for arm in group.verdicts}
    plain: dict[str, Any] = without_nan(values)
    return plain


def without_nan(values: Any) -> Any:
    """JSON knows neither NaN nor infinity.

    >>> without_nan({"p": [float("nan"), 0.5]})
    {'p': [None, 0.5]}
    """
    if isinstance(values, dict):
        return {name: without_nan(value) for name, value in values.items()}
    if isinstance(values, list | tuple):
        return [without_nan(value) for value in values]
    return None if isinstance(values, float) and not math.isfinite(values) else values


def page(
    title: str, command: str, tables: Sequence[Table], sentences: Sequence[str], chosen: Table | None = None
) -> str:
    """A comparison as a page of Markdown, with the command that made it."""
    parts = [f"# {title}", f"```sh\n{command}\n```"]
    parts += [f"## {table.title}\n\n{markdown(table)}" for table in tables]
    parts += [NOTE, "\n".join(f"- {sentence}" for sentence in sentences)]
    if chosen is not None:
        parts.append(f"## {chosen.title}\n\n{markdown(chosen)}")
    return "\n\n".join(parts) + "\n"
