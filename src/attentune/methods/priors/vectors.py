"""Word vectors from a file: GloVe's and word2vec's text format, or a matrix `.npy` beside a vocabulary. Never a pickle."""

import hashlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path

import numpy as np

from attentune.errors import UserError
from attentune.methods.priors.relations import FloatArray

LINES_AT_ONCE = 20_000


class WordVectors:
    """Vectors of length 1 by word; a word is looked up as it is written, then in lower case.

    >>> vectors = WordVectors(["hot", "warm", "cold"], np.array([[2.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]))
    >>> vectors.similarity(["Hot", "warm", "cold", "tea"])[0].tolist()
    [1.0, 1.0, -1.0, 0.0]
    """

    def __init__(self, words: Sequence[str], matrix: np.ndarray) -> None:
        norms = np.linalg.norm(matrix, axis=1, keepdims=True)
        self._unit = np.divide(matrix, norms, out=np.zeros(matrix.shape, np.float32), where=norms > 0, casting="unsafe")
        self._index: dict[str, int] = {}
        for number, word in enumerate(words):
            self._index.setdefault(word, number)  # of a word that is there twice, the first and so more frequent

    def __len__(self) -> int:
        return len(self._index)

    def similarity(self, words: Sequence[str]) -> FloatArray:
        """The cosine of each two words, (words, words); 0 for a word without a vector."""
        rows = np.array([self._index.get(w, self._index.get(w.lower(), -1)) for w in words], dtype=np.int64)
        held = np.zeros((len(rows), self._unit.shape[1]), dtype=np.float32)
        held[rows >= 0] = self._unit[rows[rows >= 0]]
        return held @ held.T


@lru_cache(maxsize=2)
def load_vectors(path: str, vocabulary: str | None = None) -> WordVectors:
    """Vectors in text, or a matrix `.npy` with its vocabulary: one word a line, or a Parquet file with one column."""
    if vocabulary is not None and not path.endswith(".npy"):
        raise UserError(f"a vocabulary goes with a matrix .npy, but {path} holds its words itself; leave it out")
    if not path.endswith(".npy"):
        return WordVectors(*_read_text(_existing(path)))
    if vocabulary is None:
        raise UserError(f"{path} holds no words; give its vocabulary too, a text file with one word a line")
    words, matrix = _read_vocabulary(_existing(vocabulary)), _read_matrix(_existing(path))
    if len(words) != len(matrix):
        raise UserError(f"{vocabulary} has {len(words):,} words, but {path} has {len(matrix):,} rows; they must agree")
    return WordVectors(words, matrix)


def digest_of(path: str) -> str:
    """The SHA-256 of a file."""
    with _existing(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _existing(path: str) -> Path:
    if not Path(path).is_file():
        raise UserError(
            f"no such file: {path}; give word vectors in text, as from https://nlp.stanford.edu/projects/glove, or as .npy"
        )
    return Path(path)


def _read_matrix(path: Path) -> np.ndarray:
    try:
        matrix: np.ndarray = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"{path} is not a matrix in numpy's format ({error})") from error
    if matrix.ndim != 2 or not np.issubdtype(matrix.dtype, np.floating) or not np.isfinite(matrix).all():
        raise UserError(
            f"{path} must hold one row of finite numbers a word, not {matrix.dtype} of shape {matrix.shape}"
        )
    return matrix


def _read_vocabulary(path: Path) -> list[str]:
    if path.suffix == ".parquet":
        from pyarrow import ArrowInvalid, parquet

        try:
            columns = parquet.read_table(path).columns
        except ArrowInvalid as error:
            raise UserError(f"{path} is not a Parquet file ({error})") from error
        if len(columns) != 1:
            raise UserError(f"{path} must have one column, the words, but has {len(columns)}")
        return [str(word) for word in columns[0].to_pylist()]
    return [line for _, line in _lines(path)]


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines; only a line feed ends one, because some vocabularies hold other characters that might."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield number, line.decode("utf-8").rstrip("\r\n ")
            except UnicodeDecodeError as error:
                raise UserError(f"line {number} of {path} is not UTF-8 ({error.reason})") from error


def _read_text(path: Path) -> tuple[list[str], np.ndarray]:
    """`word number number …` a line; word2vec's first line, `words numbers`, may be there."""
    lines = _lines(path)
    first = next(lines, (0, ""))
    parts = first[1].split(" ")
    header = len(parts) == 2 and all(part.isdigit() for part in parts)
    size = int(parts[1]) if header else len(parts) - 1
    if size < 1:
        raise UserError(f"line 1 of {path} is not a word and its numbers, as GloVe and word2vec write them")
    words: list[str] = []
    blocks: list[np.ndarray] = []
    pending = [] if header else [first]
    while pending or (pending := list(islice(lines, LINES_AT_ONCE))):
        blocks.append(_numbers(path, pending, size))
        words.extend(_word(line, size) for _, line in pending)
        pending = []
    if not words:
        raise UserError(f"{path} has no vectors")
    return words, np.concatenate(blocks)


def _word(line: str, size: int) -> str:
    """The word of a line; a few vocabularies have words with spaces."""
    return line.split(" ", 1)[0] if line.count(" ") == size else line.rsplit(" ", size)[0]


def _numbers(path: Path, lines: Sequence[tuple[int, str]], size: int) -> np.ndarray:
    """The numbers of some lines, (lines, size); a line that has others is named."""
    for number, line in lines:
        if line.count(" ") < size:
            raise UserError(f"line {number} of {path} has {line.count(' ')} numbers where {size} are expected")
    values = [line[len(_word(line, size)) + 1 :] for _, line in lines]
    try:
        matrix: np.ndarray = np.loadtxt(values, dtype=np.float32, comments=None, delimiter=" ", ndmin=2)
        if matrix.shape == (len(lines), size) and np.isfinite(matrix).all():
            return matrix
    except ValueError:
        pass
    for (number, _), row in zip(lines, values, strict=True):
        for value in row.split(" "):
            if not _is_finite(value):
                raise UserError(f"line {number} of {path}: {value!r} is not a finite number")
    raise UserError(
        f"{path} can't be read as numbers; write each line as a word and {size} numbers, with one space between"
    )


def _is_finite(value: str) -> bool:
    try:
        return bool(np.isfinite(np.float32(value)))
    except ValueError:
        return False
