"""The text form of methods: read, written back, and pointed at where it is wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attentune.attention import Selection
from attentune.errors import UserError
from attentune.methods import MDG, PDG, Constant, Linear, SpecError, Sum, Warmup, parse

ends = st.integers(-12, 11)
selections = st.one_of(
    st.just("all"), ends, st.lists(ends, min_size=1, max_size=4), st.just("6-11"), st.just("[0-2,5]"), st.just("-3--1")
)
schedules = st.one_of(st.just(Constant()), st.floats(0, 0.99).map(Linear), st.floats(0.01, 1).map(Warmup))
common = {
    "weight": st.floats(0, 1e6),
    "schedule": schedules,
    "layers": selections,
    "heads": selections,
    "tokens": st.sampled_from(["all", "content"]),
}
methods = st.one_of(st.builds(MDG, **common, temperature=st.floats(1e-3, 1e3)), st.builds(PDG, **common))


@given(st.lists(methods, max_size=4).map(lambda parts: Sum(tuple(parts))))
def test_what_str_writes_parse_reads(method):
    assert parse(str(method)) == method


@pytest.mark.parametrize(
    ("text", "method"),
    [
        ("none", Sum()),
        (" mdg(0.1) ", Sum((MDG(0.1),))),
        ("mdg", Sum((MDG(1.0),))),
        ("mdg()", Sum((MDG(1.0),))),
        ("mdg(weight=0.1)+pdg(1e-3,layers=6-11)", MDG(0.1) + PDG(0.001, layers="6-11")),
        ("pdg(0.1, heads=[0, 2-3], layers=-1)", Sum((PDG(0.1, heads=[0, "2-3"], layers=-1),))),
        ("mdg(0.1, schedule=linear(0.2), temperature=2)", Sum((MDG(0.1, Linear(0.2), temperature=2.0),))),
        ("mdg(0.1, schedule=warmup(0.1)) + mdg(0.2)", MDG(0.1, Warmup(0.1)) + MDG(0.2)),
        ("mdg(0.1, schedule=constant, tokens=content)", Sum((MDG(0.1, tokens="content"),))),
    ],
)
def test_texts_that_are_methods(text, method):
    read = parse(text)
    assert [str(part) for part in read.parts] == [str(part) for part in method.parts]


@pytest.mark.parametrize(
    ("text", "problem", "spot"),
    [
        ("mgd(0.1)", "unknown method 'mgd'; did you mean 'mdg'", "mgd"),
        ("mdg(0.1) + foo(2)", "unknown method 'foo'", "foo"),
        ("mdg(0.1, wieght=2)", "mdg has no parameter 'wieght'; did you mean 'weight'", "wieght"),
        ("pdg(0.1, temperature=2)", "pdg has no parameter 'temperature'", "temperature"),
        ("mdg(-0.1)", "at least 0, not -0.1", "-0.1"),
        ("mdg(nan)", "finite", "nan"),
        ("mdg(inf)", "finite", "inf"),
        ("mdg(abc)", "a number is expected here, not 'abc'", "abc"),
        ("mdg(0.1, 0.2)", "only the first value may stand without its name", "0.2"),
        ("mdg(0.1, weight=0.2)", "weight is given twice", "weight"),
        ("mdg(0.1, layers=six)", "selects nothing", "six"),
        ("mdg(0.1, tokens=some)", "tokens must be all or content", "some"),
        ("mdg(0.1, temperature=0)", "temperature must be above 0", "0"),
        ("mdg(0.1, schedule=lniear(0.1))", "unknown schedule 'lniear'; did you mean 'linear'", "lniear"),
        ("mdg(0.1, schedule=linear(hold=2))", "hold is a share", "2"),
        ("mdg(0.1", "this '(' is never closed", "("),
        ("mdg 0.1)", "this ')' closes nothing", ")"),
        ("mdg 0.1", "a bracket is expected", "0.1"),
        ("mdg(0.1) +", "a method is expected here", ""),
        ("", "a method is expected here", ""),
        ("mdg(weight=)", "a value is missing here", ")"),
        ("mdg(0.1) + none", "none is the unguided model and stands alone; leave it out", "none"),
        ("none(0.1)", "none is the unguided model and stands alone", "none"),
        ("mdg(0.1) pdg(0.1)", "a '+' is expected between methods", "pdg(0.1)"),
        ("mdg(0.1, schedule=linear(0.1)x)", "nothing may follow", "x"),
    ],
)
def test_an_error_points_at_the_bad_spot(text, problem, spot):
    with pytest.raises(SpecError) as caught:
        parse(text)
    message, shown, marks = str(caught.value).split("\n")
    assert problem in message
    assert shown == f"  {text}"
    start = marks.index("^") - 2
    if spot:
        assert text[start : start + marks.count("^")].startswith(spot)


@given(st.text(alphabet="mdgp(),+=[]0.1- layersconstantlinear", max_size=40))
def test_any_text_is_read_or_refused_with_a_sentence(text):
    try:
        method = parse(text)
    except UserError:
        return
    assert parse(str(method)) == method


@pytest.mark.parametrize(
    ("given_as", "count", "chosen"),
    [
        ("all", 3, (0, 1, 2)),
        ("6-11", 12, (6, 7, 8, 9, 10, 11)),
        ("-1", 12, (11,)),
        (-1, 12, (11,)),
        ([0, 2, 2], 4, (0, 2)),
        ("[0-1,-1]", 12, (0, 1, 11)),
        ("-3--1", 12, (9, 10, 11)),
        (range(2, 4), 6, (2, 3)),
    ],
)
def test_selections(given_as, count, chosen):
    assert Selection.parse(given_as).resolve(count, "layer") == chosen


def test_methods_add_up_in_any_grouping():
    a, b, c = MDG(0.1), PDG(0.2), MDG(0.3)
    assert (a + b) + c == a + (b + c) == Sum((a, b, c))
    assert (a + b + c).names == ("mdg", "pdg", "mdg_2")
    with pytest.raises(TypeError):
        a + 1


@pytest.mark.parametrize("wrong", [{"weight": "0.1"}, {"weight": True}, {"schedule": "linear"}, {"tokens": "words"}])
def test_values_are_checked_in_python_too(wrong):
    with pytest.raises(UserError):
        MDG(**wrong)
