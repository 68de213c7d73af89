"""Rankings: metrics worked out by hand, and the two layouts of ranking data."""

import csv
import json

import pytest
import torch

from attentune import tasks
from attentune.errors import UserError
from attentune.tasks import judge, trec_lines
from attentune.tasks.pairs import Pairs, ranking_task
from attentune.tasks.ranked import rank, score


def ranked(*queries):
    """Rankings from (name, how many are relevant in all, {document: (score, is relevant)})."""
    rows = [
        (name, document, value, truth, total)
        for name, total, own in queries
        for document, (value, truth) in own.items()
    ]
    return rank(*(list(column) for column in zip(*rows, strict=True)))


def test_mrr_and_recall_are_means_over_the_queries():
    first = ("q1", 1, {"a": (0.1, True), "b": (0.9, False), "c": (0.5, False)})  # third of three
    second = ("q2", 2, {"a": (3.0, True), "b": (2.0, False), "c": (1.0, True), "d": (0.0, False)})  # first and third
    assert score(ranked(first, second)) == {
        "mrr": round((1 / 3 + 1) / 2, 6),
        "r@1": round((0 + 1 / 2) / 2, 6),
        "r@3": 1.0,
        "r@5": 1.0,
        "r@20": 1.0,
    }


def test_equal_scores_are_ordered_by_the_documents_id_from_the_last_as_trec_eval_does():
    (one,) = ranked(("q", 1, {"b": (0.5, True), "c": (0.5, False), "a": (0.5, False), "d": (0.1, False)}))
    assert one.documents == ("c", "b", "a", "d")
    assert score([one])["mrr"] == 0.5
    # What differs only beyond the digits of the run file is equal.
    (close,) = ranked(("q", 1, {"a": (0.50000001, True), "b": (0.5, False)}))
    assert close.documents == ("b", "a")


def test_scores_of_zero_and_less_are_ranked_like_any_other():
    (one,) = ranked(("q", 1, {"a": (-3.0, False), "b": (-1.0, True), "c": (0.0, False)}))
    assert one.documents == ("c", "b", "a")
    assert score([one]) == {"mrr": 0.5, "r@1": 0.0, "r@3": 1.0, "r@5": 1.0, "r@20": 1.0}


def test_a_query_without_a_relevant_candidate_is_left_out():
    found = ("q1", 1, {"a": (1.0, True), "b": (0.0, False)})
    lost = ("q2", 1, {"a": (1.0, False), "b": (0.0, False)})
    assert (
        score(ranked(found, lost)) == score(ranked(found)) == dict.fromkeys(("mrr", "r@1", "r@3", "r@5", "r@20"), 1.0)
    )
    with pytest.raises(UserError, match="no query has a relevant document"):
        score(ranked(lost))


def test_recall_divides_by_all_relevant_documents_candidates_or_not():
    half = ("q", 4, {"a": (3.0, True), "b": (2.0, False), "c": (1.0, True)})
    assert score(ranked(half)) == {"mrr": 1.0, "r@1": 0.25, "r@3": 0.5, "r@5": 0.5, "r@20": 0.5}


def test_a_cross_encoder_is_judged_by_its_log_odds():
    pairs = Pairs("query_text", "document_text")
    for document, relevant in (("a", False), ("b", True)):
        pairs.add("q", document, ("?", "!"), is_relevant=relevant, relevant=1)
    task = ranking_task("beir", {"validation": pairs.split()}, "query_text", "document_text", "here")
    logits = torch.tensor([[0.0, 30.0], [0.0, 60.0]])  # a softmax in float32 would have 1.0 for both
    judged = judge(task, task.splits["validation"], logits, ("not_relevant", "relevant"), [0, 1])
    assert judged.ranking[0].documents == ("b", "a")
    assert judged.ranking[0].scores == (60.0, 30.0)
    turned = judge(task, task.splits["validation"], logits.flip(1), ("relevant", "not_relevant"), [1, 0])
    assert turned.ranking == judged.ranking
    assert list(trec_lines(judged.ranking, "mdg")) == ["q Q0 b 1 60.000000 mdg\n", "q Q0 a 2 30.000000 mdg\n"]
    assert judged.details["queries"] == 1
    assert judged.details["queries_without_a_relevant_candidate"] == 0
    with pytest.raises(UserError, match="ranking task"):
        task.score([1], [1])


@pytest.fixture
def beir(tmp_path):
    """A small data set in the BEIR layout."""
    documents = {f"d{number}": f"document {number}" for number in range(8)}
    queries = {f"q{number}": f"query {number}" for number in range(4)}
    folder = tmp_path / "ranking"
    for part in ("qrels", "candidates"):
        (folder / part).mkdir(parents=True)
    corpus = [{"_id": i, "title": "Title" if i == "d1" else "", "text": text} for i, text in documents.items()]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in corpus))
    (folder / "queries.jsonl").write_text("".join(json.dumps({"_id": i, "text": t}) + "\n" for i, t in queries.items()))
    header = "query-id\tcorpus-id\tscore\n"
    (folder / "qrels" / "train.tsv").write_text(header + "q0\td0\t1\nq1\td1\t2\nq1\td2\t0\n")
    (folder / "qrels" / "dev.tsv").write_text(header + "q2\td1\t1\nq2\td7\t1\nq3\td3\t1\n")
    lines = [f"{query} Q0 d{number} {number} 0.5 bm25\n" for query in ("q0", "q2") for number in range(6)]
    (folder / "candidates" / "train.trec").write_text("".join(lines[:6]))
    (folder / "candidates" / "dev.trec").write_text("".join(lines[6:]))
    return folder


def test_beir_trains_on_given_negatives_or_drawn_ones_and_ranks_all_candidates(beir):
    task = tasks.load("beir", beir, negatives=2)
    train = task.splits["train"]
    of_q0 = [row for row in train if row["query"] == "q0"]
    assert [row["label"] for row in of_q0] == [1, 0, 0]
    assert {row["document"] for row in of_q0[1:]} < {"d1", "d2", "d3", "d4", "d5"}
    assert [(row["document"], row["label"]) for row in train if row["query"] == "q1"] == [("d1", 1), ("d2", 0)]
    assert train[3]["document_text"] == "Title document 1"
    validation = task.splits["validation"]
    assert validation["document"][:] == [f"d{number}" for number in range(6)]
    assert validation[1] == {
        "id": "q2 d1", "query_text": "query 2", "document_text": "Title document 1", "label": 1, "query": "q2",
        "document": "d1", "relevant": 2,
    }  # fmt: skip
    assert "1 queries have their own" in task.source
    assert "1 dev queries have no candidates" in task.source
    assert tasks.load("beir", beir, negatives=2).splits["train"]["id"][:] == train["id"][:]
    (beir / "candidates" / "train.trec").unlink()
    from_all = tasks.load("beir", beir, negatives=100).splits["train"]
    assert [row["label"] for row in from_all if row["query"] == "q0"] == [1] + [0] * 7


def test_what_is_wrong_with_ranking_data_is_told(told, beir, tmp_path):
    assert told(tasks.load, "beir").startswith("beir reads your own ranking data; give --data-dir")
    assert told(tasks.load, "beir", tmp_path / "none").startswith(f"no folder {tmp_path / 'none'}")
    assert told(tasks.load, "rte", beir, negatives=3).startswith("--negatives is for rankings, and rte is none")
    run = beir / "candidates" / "dev.trec"
    for content, sentence in (
        ("q2 Q0 d1 1 0.5\n", f"line 1 of {run} has 5 fields, where TREC runs have 6"),
        ("q2 Q0 d99 1 0.5 x\n", f"line 1 of {run} names the document 'd99', which is not in corpus.jsonl"),
        ("q9 Q0 d1 1 0.5 x\n", f"line 1 of {run} names the query 'q9', which is not in queries.jsonl"),
        ("q2 Q0 d1 1 0.5 x\n" * 2, f"line 2 of {run} names 'd1' again for the query 'q2'"),
    ):
        run.write_text(content)
        assert told(tasks.load, "beir", beir).startswith(sentence)
    run.unlink()
    assert "there are no candidates to rank in" in told(tasks.load, "beir", beir)
    (beir / "corpus.jsonl").write_text('{"_id": "d1", "text": "a"}\n{"_id": "d1", "text": "b"}\n')
    assert "has the id 'd1', which stands there already" in told(tasks.load, "beir", beir)


def test_the_shared_ranking_data_have_every_query_and_candidate(shared_data):
    folder = shared_data / "pubmedqa-ranking"
    task = tasks.load("beir", folder)
    assert {name: len(set(rows["query"])) for name, rows in task.splits.items()} == {
        "train": 700,
        "validation": 150,
        "test": 150,
    }
    assert {name: len(rows) for name, rows in task.splits.items()} == {"train": 3500, "validation": 3000, "test": 3000}
    runs = (folder / "candidates" / "dev.trec").read_text().splitlines()
    pairs = [tuple(line.split()[:3:2]) for line in runs]
    assert list(zip(task.splits["validation"]["query"], task.splits["validation"]["document"], strict=True)) == pairs


@pytest.fixture
def cross_genre(tmp_path):
    """A small copy of the authors' layout."""
    claim = 'Coffee "may" help'
    rows = [["11", "abstract 11", claim, 1], ["12", "abstract 12", claim, 0], ["13", "abstract 13", claim, 0]]
    other = [["14", "abstract 14", "Tea helps", 1], ["11", "abstract 11", "Tea helps", 0]]
    for name in ("train", "dev"):
        with (tmp_path / f"{name}_dataset.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["PMID", "Premise", "Hypothesis", "Label"], *rows, *other])
    supported = {claim + "\n": ["11", "13", "99"], "Unseen\n": ["1"]}
    (tmp_path / "dev_data_claim_pmid_dict.json").write_text(json.dumps(supported))
    return tmp_path


def test_cross_genre_goes_by_the_json_file_and_else_by_the_labels(cross_genre):
    task = tasks.load("cross-genre-ir", cross_genre)
    assert task.splits["train"]["label"][:] == [1, 0, 0, 1, 0]
    validation = task.splits["validation"]
    assert validation["label"][:] == [1, 0, 1, 1, 0]
    assert validation["relevant"][:] == [3, 3, 3, 1, 1]  # three support the first claim, one of them no candidate
    assert validation[0] == {
        "id": "0 11", "claim": 'Coffee "may" help', "publication": "abstract 11", "label": 1, "query": "0",
        "document": "11", "relevant": 3,
    }  # fmt: skip
    assert task.source.endswith("1 claims of dev_dataset.csv are not in the JSON file, and go by their labels")
    assert tasks.load("cross-genre-ir", cross_genre, negatives=1).splits["train"]["label"][:].count(0) == 2


def test_what_is_wrong_with_cross_genres_files_is_told(told, cross_genre):
    assert told(tasks.load, "cross-genre-ir").startswith("the files of cross-genre-ir are had from its authors")
    train, mapping = cross_genre / "train_dataset.csv", cross_genre / "dev_data_claim_pmid_dict.json"
    for content in ("[", "[1]", '{"claim": "11"}'):
        mapping.write_text(content)
        assert f"{mapping} is not" in told(tasks.load, "cross-genre-ir", cross_genre)
    mapping.unlink()
    assert "needs the file" in told(tasks.load, "cross-genre-ir", cross_genre)
    train.write_text("PMID,Hypothesis,Label\n1,a,1\n")
    assert "should have four columns" in told(tasks.load, "cross-genre-ir", cross_genre)
    train.write_text("PMID,Premise,Hypothesis,Label\n1,a,b,2\n")
    assert "has the label '2' in column 'Label'" in told(tasks.load, "cross-genre-ir", cross_genre)
