"""Cross-genre-IR (Zuo et al. 2020): which publication supports the claim of a health news article?

Read from the authors' files: `train_dataset.csv`, `dev_dataset.csv`, `test_dataset.csv`, whose rows are pairs of a claim
(`Hypothesis`) and an abstract with its `PMID` and a label, 1 or 0; and `dev_data_claim_pmid_dict.json` and the same for test,
from each claim to the PMIDs of all that support it. Where a claim is in the JSON file, that decides what is relevant.
"""

import json
from collections import Counter
from pathlib import Path

import datasets

from attentune.errors import UserError
from attentune.tasks.data_dir import dataset_folder, missing_file
from attentune.tasks.delimited import delimited
from attentune.tasks.pairs import Pairs, draw_negatives, ranking_task
from attentune.tasks.table import Row, Table, opened
from attentune.tasks.task import Task

NAME = "cross-genre-ir"
FILES = {"train": "train", "validation": "dev", "test": "test"}
CLAIM, PMID = "Hypothesis", "PMID"
IS_RELEVANT = {"0": 0, "1": 1, "0.0": 0, "1.0": 1}
SITE = "https://github.com/chzuo/emnlp2020-cross-genre-IR"


def load(data_dir: Path | None, negatives: int | None = None) -> Task:
    """The task from the authors' files; with `negatives`, so many for each relevant pair are drawn of those given."""
    if data_dir is None:
        raise UserError(
            f"the files of {NAME} are had from its authors ({SITE}); give --data-dir with the folder that holds "
            "train_dataset.csv, dev_dataset.csv and dev_data_claim_pmid_dict.json"
        )
    folder, splits = dataset_folder(data_dir, NAME), {}
    told = [f"Cross-genre-IR, from the authors' files in {folder}"]
    for name, file in FILES.items():
        path = folder / f"{file}_dataset.csv"
        if path.is_file():
            supported = None if name == "train" else _supported(folder / f"{file}_data_claim_pmid_dict.json", data_dir)
            splits[name], unknown = _read(path, supported, negatives if name == "train" else None)
            if unknown:
                told.append(f"{unknown:,} claims of {path.name} are not in the JSON file, and go by their labels")
        elif name != "test":
            raise missing_file(NAME, data_dir, NAME, path.name)
    if negatives is not None:
        told.append(f"{negatives} negatives for each relevant pair are drawn of those given")
    return ranking_task(NAME, splits, "claim", "publication", "; ".join(told))


def _supported(path: Path, data_dir: Path) -> dict[str, set[str]]:
    """The PMIDs that support each claim."""
    if not path.is_file():
        raise missing_file(NAME, data_dir, NAME, path.name)
    with opened(path, newline="\n") as file:
        try:
            found = json.load(file)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path} is not JSON ({error}); take it from the authors again") from None
    if not isinstance(found, dict) or not all(isinstance(pmids, list) for pmids in found.values()):
        raise UserError(f"{path} is not an object from each claim to a list of PMIDs; take it from the authors again")
    return {claim.strip(): {str(pmid).strip() for pmid in pmids} for claim, pmids in found.items()}


def _read(path: Path, supported: dict[str, set[str]] | None, negatives: int | None) -> tuple[datasets.Dataset, int]:
    """The pairs of a file, and how many of its claims the JSON file lacks."""
    table = delimited(path)
    publication, label = _columns(table)
    wanted = (CLAIM, PMID, publication, label) if PMID in table.columns else (CLAIM, publication, label)
    rows = list(table.rows(*wanted))
    claims = [row.text(CLAIM).strip() for row in rows]
    pmids = [row.id(PMID, number) for number, row in enumerate(rows)]
    labels = [_is_relevant(row, label) for row in rows]
    unknown: set[str] = set()
    if supported is not None:
        unknown = set(claims) - set(supported)
        labels = [
            labels[row] if claim in unknown else int(pmids[row] in supported[claim]) for row, claim in enumerate(claims)
        ]
    count = Counter(claim for claim, is_relevant in zip(claims, labels, strict=True) if is_relevant)
    numbers = {claim: str(number) for number, claim in enumerate(dict.fromkeys(claims))}
    kept = range(len(rows)) if negatives is None else _drawn(claims, labels, negatives)
    pairs = Pairs("claim", "publication")
    for row in kept:
        claim = claims[row]
        relevant = count[claim] if supported is None or claim in unknown else len(supported[claim])
        texts = (claim, rows[row].text(publication))
        pairs.add(numbers[claim], pmids[row], texts, is_relevant=bool(labels[row]), relevant=relevant)
    return pairs.split(), len(unknown)


def _columns(table: Table) -> tuple[str, str]:
    """The columns of the abstract and of the label, in this order beside the other two."""
    table.require((CLAIM,))
    others = [name for name in table.columns if name not in (CLAIM, PMID)]
    if len(others) != 2:
        raise UserError(
            f"{table.path} should have four columns, {PMID}, {CLAIM}, the abstract and the label; {table.told()}"
        )
    return others[0], others[1]


def _is_relevant(row: Row, column: str) -> int:
    return row.class_id(column, IS_RELEVANT)


def _drawn(claims: list[str], labels: list[int], negatives: int) -> list[int]:
    """The relevant rows, and of the others of each claim so many for each relevant one."""
    by_claim: dict[str, list[int]] = {}
    for row, claim in enumerate(claims):
        by_claim.setdefault(claim, []).append(row)
    kept: set[int] = set()
    for claim, rows in by_claim.items():
        relevant = [row for row in rows if labels[row]]
        names = {str(row): row for row in rows}
        drawn = draw_negatives(list(names), map(str, relevant), negatives * max(1, len(relevant)), seed=claim)
        kept |= {*relevant, *(names[name] for name in drawn)}
    return sorted(kept)
