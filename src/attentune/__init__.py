"""Attentune: guide, revise and explain the self-attention of stock Hugging Face models while they are trained.

    import attentune

    with attentune.attach(model, "mdg(0.1) + pdg(0.001)") as guided:
        loss = model(**batch).loss + guided.loss()

or `attentune.Trainer`, which is `transformers.Trainer` with `method=`. The equations alone are in
`attentune.functional`.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .attention import Attended, attend, mass
    from .errors import UserError
    from .functional import mdg_loss, pdg_loss
    from .methods import (
        MDG,
        PDG,
        PMI,
        SE,
        SSA,
        Auto,
        Blur,
        Constant,
        Delim,
        Dependency,
        Disagreement,
        First,
        Guided,
        Linear,
        MaskAug,
        Method,
        Mixout,
        Next,
        Period,
        Prev,
        RDrop,
        Same,
        Sum,
        Warmup,
        WordSim,
        attach,
        parse,
        restore,
        save,
    )
    from .training import Recipe, Trainer, load, run_recipe

__version__ = "0.1.0"

_HOMES = {
    "attention": ("Attended", "attend", "mass"),
    "errors": ("UserError",),
    "functional": ("mdg_loss", "pdg_loss"),
    "methods": (
        "MDG", "PDG", "PMI", "SE", "SSA", "Auto", "Blur", "Constant", "Delim", "Dependency", "Disagreement", "First",
        "Guided", "Linear", "MaskAug", "Method", "Mixout", "Next", "Period", "Prev", "RDrop", "Same", "Sum", "Warmup", "WordSim",
        "attach", "parse", "restore", "save",
    ),
    "training": ("Recipe", "Trainer", "load", "run_recipe"),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "MDG",
    "PDG",
    "PMI",
    "SE",
    "SSA",
    "Attended",
    "Auto",
    "Blur",
    "Constant",
    "Delim",
    "Dependency",
    "Disagreement",
    "First",
    "Guided",
    "Linear",
    "MaskAug",
    "Method",
    "Mixout",
    "Next",
    "Period",
    "Prev",
    "RDrop",
    "Recipe",
    "Same",
    "Sum",
    "Trainer",
    "UserError",
    "Warmup",
    "WordSim",
    "attach",
    "attend",
    "load",
    "mass",
    "mdg_loss",
    "parse",
    "pdg_loss",
    "restore",
    "run_recipe",
    "save",
]


def __getattr__(name: str) -> Any:
    """Load what is asked for when it is asked for: the library takes seconds to import, `attentune --help` should not."""
    if name in _HOME_OF:
        return getattr(importlib.import_module(f".{_HOME_OF[name]}", __name__), name)
    if name in ("analysis", "attention", "functional", "methods", "studies", "tasks", "training"):
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
