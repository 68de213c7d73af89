"""Imports go one way: a layer imports the layers under it, never its equals or those above it."""

import ast
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parent.parent / "src"

# From the lowest to the highest; layers on one line are siblings and may not import each other.
LAYERS = [
    {"errors"},
    {"functional"},
    {"attention"},
    {"methods", "tasks"},
    {"training", "analysis"},
    {"studies"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
MODULES = [path for path in sorted((SRC / "attentune").rglob("*.py")) if path != SRC / "attentune/__init__.py"]


def module_name(path: Path) -> str:
    """`attentune.tasks` for `tasks.py` and for `tasks/__init__.py`."""
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(source: str, package: str) -> Iterator[str]:
    """The full names of the modules that a source in this package imports, wherever in the source it does so."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            target = resolve_name("." * node.level + (node.module or ""), package)
            if target == "attentune":  # `from attentune import tasks` imports that layer
                yield from (f"{target}.{alias.name}" if alias.name in LEVEL else target for alias in node.names)
            else:
                yield target


def wrong_imports(source: str, module: str, *, is_package: bool = False) -> list[str]:
    """What this module of Attentune imports against the order of the layers."""
    own = module.split(".")[1]
    wrong = []
    for target in imported_modules(source, module if is_package else module.rpartition(".")[0]):
        if target == "attentune":
            wrong.append(target)
        elif target.startswith("attentune."):
            layer = target.split(".")[1]
            if layer != own and LEVEL.get(layer, len(LAYERS)) >= LEVEL[own]:
                wrong.append(target)
    return wrong


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_every_module_belongs_to_a_layer(path: Path) -> None:
    assert module_name(path).split(".")[1] in LEVEL


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_imports_only_go_downwards(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert wrong_imports(source, module_name(path), is_package=path.name == "__init__.py") == []


@pytest.mark.parametrize(
    ("module", "source", "wrong"),
    [
        ("attentune.functional", "from attentune.methods import mdg", ["attentune.methods"]),
        ("attentune.functional.patterns", "import attentune.attention.engine as e", ["attentune.attention.engine"]),
        ("attentune.methods.mdg", "from attentune.tasks import load", ["attentune.tasks"]),
        ("attentune.tasks", "from .methods.mdg import MDG", ["attentune.methods.mdg"]),
        ("attentune.analysis.maps", "from ..training.recipe import Recipe", ["attentune.training.recipe"]),
        ("attentune.training", "from attentune.analysis import draw", ["attentune.analysis"]),
        ("attentune.studies", "def late():\n    from attentune import cli", ["attentune.cli"]),
        ("attentune.studies", "from attentune import Trainer", ["attentune"]),
        ("attentune.cli", "import attentune", ["attentune"]),
        ("attentune.errors", "from .functional import mdg_loss", ["attentune.functional"]),
        ("attentune.cli", "from attentune.unheard_of import x", ["attentune.unheard_of"]),
    ],
)
def test_an_upward_or_sideways_import_is_caught(module: str, source: str, wrong: list[str]) -> None:
    assert wrong_imports(source, module) == wrong


def test_relative_imports_are_resolved_from_the_package() -> None:
    source = "from ..attention import attend"
    assert wrong_imports(source, "attentune.functional.patterns") == ["attentune.attention"]
    assert wrong_imports("from .attention import attend", "attentune.functional", is_package=True) == []
    assert wrong_imports("from .attention import attend", "attentune.functional") == ["attentune.attention"]


def test_downward_own_and_foreign_imports_are_allowed() -> None:
    source = """
import attentune.functional
import torch
from attentune import attention
from attentune.errors import UserError
from attentune.attention.engine import attend
from .pdg import PDG
"""
    assert wrong_imports(source, "attentune.methods.mdg") == []
