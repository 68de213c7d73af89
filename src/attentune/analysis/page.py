"""A page of tables and pictures in one file: it opens from disk, asks the network for nothing, and escapes all text."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined


@dataclass(frozen=True)
class Picture:
    """A PNG file, and what it shows."""

    path: Path
    caption: str

    @property
    def data_uri(self) -> str:
        """The picture itself, to stand in the page."""
        return "data:image/png;base64," + base64.b64encode(self.path.read_bytes()).decode()


def render_page(
    title: str,
    lead: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    verdict: str,
    pictures: Sequence[Picture],
    commands: Sequence[str],
) -> str:
    """The page as HTML."""
    environment = Environment(loader=PackageLoader("attentune.analysis"), autoescape=True, undefined=StrictUndefined)
    return environment.get_template("page.html.j2").render(
        title=title, lead=lead, columns=columns, rows=rows, verdict=verdict, pictures=pictures, commands=commands
    )
