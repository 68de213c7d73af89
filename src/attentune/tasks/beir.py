"""Any ranking data in the BEIR layout: `corpus.jsonl`, `queries.jsonl`, `qrels/*.tsv`, and candidates as TREC run files.

To train: each relevant document of a query, and documents that are not, given by a judgement of 0, or else drawn from the
query's candidates, or from the whole corpus where a split has none. To evaluate: all candidates of each query, re-ranked.
"""

from pathlib import Path

import datasets

from attentune.errors import UserError
from attentune.tasks.delimited import delimited, plain
from attentune.tasks.json_lines import json_lines
from attentune.tasks.pairs import NEGATIVES, Pairs, draw_negatives, ranking_task
from attentune.tasks.table import shown
from attentune.tasks.task import Task

SPLITS = {"train": "train", "validation": "dev", "test": "test"}
Judgements = dict[str, dict[str, float]]
Candidates = dict[str, dict[str, None]]  # of each query, in their order


def load(data_dir: Path | None, negatives: int | None = None) -> Task:
    """The task from a folder in the BEIR layout; `negatives` for each relevant document are drawn for training."""
    if data_dir is None:
        raise UserError(
            "beir reads your own ranking data; give --data-dir with the folder that holds corpus.jsonl, queries.jsonl, "
            "qrels/ and candidates/"
        )
    if not data_dir.is_dir():
        raise UserError(
            f"no folder {data_dir} for the task beir; give --data-dir with the folder that holds corpus.jsonl"
        )
    corpus, queries = _texts(data_dir / "corpus.jsonl"), _texts(data_dir / "queries.jsonl")
    splits, told = {}, [f"ranking data in the BEIR layout, from {data_dir}"]
    for name, file in SPLITS.items():
        path = data_dir / "qrels" / f"{file}.tsv"
        if not path.is_file():
            if name != "test":
                raise UserError(f"the task beir needs the file {path}, which is not there; add it")
            continue
        judged = _judgements(path, queries, corpus)
        candidates = _candidates(data_dir / "candidates" / f"{file}.trec", queries, corpus)
        if name == "train":
            splits[name], how = _to_train(judged, candidates, queries, corpus, negatives or NEGATIVES)
            told.append(how)
        elif candidates is None:
            raise UserError(
                f"there are no candidates to rank in {data_dir / 'candidates' / f'{file}.trec'}; write some there in TREC run "
                "format, such as the first 100 of BM25"
            )
        else:
            splits[name] = _to_rank(judged, candidates, queries, corpus)
            without = len(set(judged) - set(candidates))
            if without:
                told.append(f"{without:,} {file} queries have no candidates, and are not scored")
    return ranking_task("beir", splits, "query_text", "document_text", "; ".join(told))


def _texts(path: Path) -> dict[str, str]:
    """The text of each document or query, its title in front where it has one."""
    table = json_lines(path)
    has_title = "title" in table.columns
    found: dict[str, str] = {}
    for row in table.rows("_id", "text", *(["title"] if has_title else [])):
        own_id = row.label("_id")
        if own_id in found or len(own_id.split()) != 1:
            why = "stands there already" if own_id in found else "has blanks in it"
            raise row.error(f"has the id {shown(own_id)}, which {why}; give each its own, without blanks")
        title = row.text("title", may_be_blank=True).strip() if has_title and row.values.get("title") else ""
        text = row.text("text", may_be_blank=bool(title)).strip()
        found[own_id] = " ".join(part for part in (title, text) if part)
    return found


def _judgements(path: Path, queries: dict[str, str], corpus: dict[str, str]) -> Judgements:
    judged: Judgements = {}
    for row in delimited(path).rows("query-id", "corpus-id", "score"):
        query, document = row.label("query-id"), row.label("corpus-id")
        _require_known(query, document, queries, corpus, f"{row.place} of {path}")
        judged.setdefault(query, {})[document] = row.number("score")
    return judged


def _candidates(path: Path, queries: dict[str, str], corpus: dict[str, str]) -> Candidates | None:
    if not path.is_file():
        return None
    found: Candidates = {}
    for row in plain(path).rows("text"):
        fields = row.text("text").split()
        if len(fields) != 6:
            raise row.error(f"has {len(fields)} fields, where TREC runs have 6: query Q0 document rank score name")
        query, _, document = fields[:3]
        _require_known(query, document, queries, corpus, f"{row.place} of {path}")
        own = found.setdefault(query, {})
        if document in own:
            raise row.error(f"names {shown(document)} again for the query {shown(query)}; give each document once")
        own[document] = None
    return found


def _require_known(query: str, document: str, queries: dict[str, str], corpus: dict[str, str], where: str) -> None:
    for what, name, known in (("query", query, queries), ("document", document, corpus)):
        if name not in known:
            file = "queries.jsonl" if what == "query" else "corpus.jsonl"
            raise UserError(
                f"{where} names the {what} {shown(name)}, which is not in {file}; correct it or add it there"
            )


def _to_train(
    judged: Judgements, candidates: Candidates | None, queries: dict[str, str], corpus: dict[str, str], negatives: int
) -> tuple[datasets.Dataset, str]:
    pairs, everything, given = Pairs("query_text", "document_text"), list(corpus), 0
    for query, documents in judged.items():
        relevant = [document for document, value in documents.items() if value > 0]
        others = [document for document, value in documents.items() if value <= 0]
        given += bool(others)
        if not others:
            pool = everything if candidates is None else list(candidates.get(query, ()))
            others = draw_negatives(pool, relevant, negatives * len(relevant), seed=query)
        for document in (*relevant, *others):
            texts = (queries[query], corpus[document])
            pairs.add(query, document, texts, is_relevant=document in relevant, relevant=len(relevant))
    where = "the corpus" if candidates is None else "the candidates"
    drawn = f"{negatives} negatives for each relevant document are drawn from {where}"
    told = [drawn] * (given < len(judged)) + [f"{given:,} queries have their own"] * (given > 0)
    return pairs.split(), "; ".join(told)


def _to_rank(
    judged: Judgements, candidates: Candidates, queries: dict[str, str], corpus: dict[str, str]
) -> datasets.Dataset:
    pairs = Pairs("query_text", "document_text")
    for query, documents in candidates.items():
        relevant = {document for document, value in judged.get(query, {}).items() if value > 0}
        for document in documents:
            texts = (queries[query], corpus[document])
            pairs.add(query, document, texts, is_relevant=document in relevant, relevant=len(relevant))
    return pairs.split()
