"""What the tests of tasks share: the real data sets beside the repository, files to write, errors to hear."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from attentune.errors import UserError


@pytest.fixture(scope="session")
def glue() -> Path:
    """GLUE in the layout of the official download; it lies beside the repository and not in it."""
    folder = Path(__file__).parents[2].parent / "shared" / "data" / "glue"
    if not folder.is_dir():
        pytest.skip(f"needs GLUE's official files in {folder}")
    return folder


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    """Writes a file with the given content and gives its path."""

    def written(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return written


@pytest.fixture
def told() -> Callable[..., str]:
    """Gives the one sentence of the user's error that a call raises, at once or while its rows are read."""

    def sentence(call, *args, **kwargs) -> str:
        def done() -> None:
            result = call(*args, **kwargs)
            if isinstance(result, Iterator):
                list(result)

        with pytest.raises(UserError) as error:
            done()
        assert "\n" not in str(error.value)
        return str(error.value)

    return sentence
