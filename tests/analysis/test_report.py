"""The report as data: what is kept of maps, what comes first, what is said of runs, and that text stays text."""

import base64
import json
import re
import zlib

import numpy as np
import pytest

from attentune.analysis import Answer, Arm, Estimate, Example, Survey, make_report
from attentune.analysis.maps import Maps
from attentune.analysis.report import in_order_of_interest, judge, largest_error, quantised, restored
from attentune.analysis.report.packing import pack
from attentune.analysis.report.payload import shown_measures
from attentune.analysis.texts import Token, shown_tokens
from attentune.errors import UserError

RANDOM = np.random.default_rng(0)


@pytest.fixture(scope="module")
def report(two_arms):
    arms, examples = two_arms
    return make_report(arms, examples, title="plain <b> & guided", lead="<u>", labels=["good", "bad"], commands=["<x>"])


def parts_of(html):
    """The data, and the stored maps by name."""
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html)[1])
    return data, dict(re.findall(r'<script type="text/plain" id="([a-z]+-\d+-\d+)">([A-Za-z0-9+/=]*)</script>', html))


@pytest.mark.parametrize("steps", [255, 127, 63])
def test_the_stated_error_is_the_largest_there_can_be(steps):
    values = np.linspace(0, 1, 200_001)
    errors = np.abs(restored(quantised(values, steps), steps) - values)
    assert errors.max() == pytest.approx(largest_error(steps), rel=1e-3)
    assert (errors <= np.sqrt(values) / steps + 1 / (4 * steps**2) + 1e-12).all()


def test_what_the_file_holds_is_the_maps_within_the_error(two_arms, report):
    arms, examples = two_arms
    data, stored = parts_of(report.html)
    assert data["steps"] == report.steps == 255
    assert report.with_maps == len(examples)
    place = next(i for i, example in enumerate(data["examples"]) if example["id"] == "3")
    for slot, arm in enumerate(arms):
        maps = arm.maps(examples[3].input).maps
        codes = np.frombuffer(zlib.decompress(base64.b64decode(stored[f"maps-{place}-{slot}"]), -15), dtype=np.uint8)
        layers, heads, length, _ = maps.shape
        kept = restored(codes.reshape(layers, heads, length, length), 255).swapaxes(-1, -2)
        assert np.abs(kept - maps).max() <= largest_error(255)


def test_a_file_has_no_more_bytes_than_it_may(two_arms):
    arms, examples = two_arms
    whole = make_report(arms, examples, title="t", lead="l", labels=["good", "bad"])
    least = make_report(arms, examples, title="t", lead="l", labels=["good", "bad"], largest=0)
    assert least.with_maps == 0
    assert "it had no room" in least.html
    for share in (0.2, 0.35):
        largest = int(len(least.html) + share * (len(whole.html) - len(least.html)))
        some = make_report(arms, examples, title="t", lead="l", labels=["good", "bad"], largest=largest)
        assert len(some.html.encode()) <= largest
        assert 0 < some.with_maps < len(examples)
        data, stored = parts_of(some.html)
        has_maps = [example["has_maps"] for example in data["examples"]].count(True)
        has_means = [example["means"] for example in data["examples"]].count(True)
        assert has_maps - has_means == some.with_maps
        assert sum(name.startswith("maps-") for name in stored) == 2 * has_maps
        assert sum(name.startswith("received-") for name in stored) == 2 * (len(examples) - has_maps)


def test_maps_are_kept_in_the_finest_steps_that_all_fit_in():
    texts = [Example(str(i), "a", None, "x") for i in range(4)]
    maps = {text.id: RANDOM.dirichlet(np.ones(12), size=(2, 2, 12)).astype(np.float32) for text in texts}
    names = iter(texts * 10)
    arm = Arm("one", Survey({}, {}), lambda text: Maps((Token("a"),) * 12, maps[next(names).id]))
    needed = {}
    for budget in range(1_000, 9_000, 250):
        names = iter(texts)
        packed = pack(texts, [arm], budget)
        assert packed.size <= budget + 4 * len(packed.examples[0][0].received)
        if packed.with_maps == 4:
            needed.setdefault(packed.steps, budget)
    assert sorted(needed, key=needed.get) == [63, 127, 255]


def test_what_tokens_receive_is_kept_where_there_is_no_room_for_maps(two_arms):
    arms, examples = two_arms
    packed = pack(examples, arms, 0)
    maps = arms[1].maps(examples[0].input).maps
    kept = packed.examples[0][1]
    assert kept.maps is None
    codes = np.frombuffer(base64.b64decode(kept.received), dtype=np.uint8).reshape(3, -1)
    expected = [[sum(maps[layer, h, q, k] for h in range(4) for q in range(maps.shape[2])) / 4 / maps.shape[2]
                 for k in range(maps.shape[3])] for layer in range(3)]  # fmt: skip
    np.testing.assert_allclose(np.square(codes / 255), expected, atol=largest_error(255))


def answered(title, *answers):
    """An arm that says these labels, each with the probability of the first of them."""
    return Arm(title, Survey({}, {}), answers={str(i): Answer(*answer) for i, answer in enumerate(answers)})


def test_examples_on_which_runs_disagree_come_first():
    examples = [Example(str(i), f"text {i}", None, "yes") for i in range(4)]
    one = answered("one", ("yes", {"yes": 0.9}), ("yes", {"yes": 0.6}), ("no", {"yes": 0.1}), ("yes", {"yes": 0.9}))
    two = answered("two", ("yes", {"yes": 0.9}), ("no", {"yes": 0.4}), ("no", {"yes": 0.2}), ("no", {"yes": 0.0}))
    assert [example.id for example in in_order_of_interest(examples, [one, two])] == ["3", "1", "0", "2"]
    assert [example.id for example in in_order_of_interest(examples, [one])] == ["2", "0", "1", "3"]  # its error


def test_some_examples_are_shown_on_which_runs_agree(two_arms):
    arms, examples = two_arms
    data, _ = parts_of(make_report(arms, examples, title="t", lead="l", labels=["good", "bad"], shown=4).html)
    assert [example["interesting"] for example in data["examples"]] == [True, True, False, False]
    assert data["examples"][0]["id"] == "2"  # on which they are farthest apart
    disagreeing = [Arm(arm.title, arm.survey, arm.maps, answers=arm.answers) for arm in arms]
    twice = [*examples[1:3]] * 6
    data, _ = parts_of(
        make_report(disagreeing, [*twice, examples[0]], title="t", lead="l", labels=["good", "bad"], shown=4).html
    )
    assert [example["interesting"] for example in data["examples"]] == [True, True, True, False]


def with_diversity(arm, values):
    survey = Survey({"diversity": np.array(values, dtype=float)[:, None, None]}, {})
    return Arm(arm.title, survey, answers=arm.answers)


def test_a_verdict_says_no_more_than_the_test_does():
    examples = [Example(str(i), "t", None, "yes") for i in range(40)]
    right, wrong = ("yes", {"yes": 0.9}), ("no", {"yes": 0.1})
    base = with_diversity(answered("base", *[right] * 20, *[wrong] * 20), [0.2, 0.3, 0.2, 0.3])
    alike = with_diversity(answered("alike", *[right] * 21, *[wrong] * 19), [0.3, 0.2, 0.3, 0.2])
    better = with_diversity(answered("better", *[right] * 35, *[wrong] * 5), [0.5, 0.6, 0.5, 0.6])
    same = judge(base, alike, examples)
    assert same.headline == "No evidence that alike answers better or worse than base: +2.5 points"
    assert "1 are right only with alike and 0 only with base" in same.grounds
    assert "about as diverse" in same.grounds
    up = judge(base, better, examples)
    assert up.headline == "better answers better than base: +37.5 points"
    assert up.paired.p_value == pytest.approx(2 * 0.5**15)
    assert "The heads of better are more diverse than those of base (diversity 0.250 and 0.550" in up.grounds
    assert judge(better, base, examples).headline == "base answers worse than better: −37.5 points"


def test_a_measure_that_repeats_another_is_told_once(two_arms):
    arms, _ = two_arms
    names = shown_measures(arms)
    assert "sep" in names
    assert "delim" not in names
    assert "period" not in names  # no text has one


def test_text_stays_text_wherever_it_stands(report):
    scripts = re.findall(r"<script[^>]*>", report.html)
    assert scripts[0] == '<script type="application/json" id="data">'
    assert scripts[-1] == "<script>"
    assert all(re.fullmatch(r'<script type="text/plain" id="maps-\d-\d">', tag) for tag in scripts[1:-1])
    assert report.html.count("</script>") == len(scripts)
    assert "<img" not in report.html
    for evil in ("plain <b>", "<u>", "<x>", "<i>none"):
        assert evil not in report.html
    data, _ = parts_of(report.html)
    assert any(example["text"].startswith("<script>window.hacked") for example in data["examples"])
    assert not re.search(r"(?:src|href)=[\"']?(?!#)", report.html.split("<style>")[0])
    assert "http:" not in report.html.replace("http://www.w3.org/2000/svg", "")
    assert "https:" not in report.html


def test_a_report_shows_itself_in_a_notebook(report):
    assert report._repr_html_().startswith('<iframe srcdoc="&lt;!doctype html&gt;')


def test_a_single_run_is_held_against_the_model_before(two_arms):
    (before, run), examples = two_arms
    untrained = Arm("before training", before.survey, before.maps)
    html = make_report([untrained, run], examples, title="t", lead="l", labels=["good", "bad"]).html
    data, _ = parts_of(html)
    assert data["explored"] == [0, 1]
    assert "guided: accuracy 0.833 (0.400 to 0.970)" in html
    with pytest.raises(UserError, match="at least one trained run"):
        make_report([untrained], examples, title="t", lead="l", labels=["good", "bad"])


def test_tokens_are_shown_in_the_letters_of_the_text(minilm):
    _, tokenizer = minilm
    text = ("Pleuritic pain, <b>!", "Élan isn't")
    encoded = tokenizer([text[0]], [text[1]], return_tensors="pt")
    found = shown_tokens(tokenizer, encoded, 0, text)
    assert [token.text for token in found if token.is_special] == ["[CLS]", "[SEP]", "[SEP]"]
    first = "".join(("" if token.is_joined else " ") + token.text for token in found[1:] if not token.is_special)
    assert first == " Pleuritic pain, <b>! Élan isn't"


def test_an_estimate_without_an_interval_is_shown_without_one(two_arms):
    arms, examples = two_arms
    bare = Arm(
        arms[0].title, arms[0].survey, arms[0].maps, {}, {"pearson": Estimate(0.5, None, None, 6)}, arms[0].answers
    )
    html = make_report([bare], examples, title="t", lead="l", labels=["good", "bad"]).html
    assert '<span class="value">0.500</span>' in html
