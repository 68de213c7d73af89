"""MDG, attention map discrimination guiding (Wang et al. 2022, section 2.3.1): heads told apart by what tokens receive."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from attentune.attention import Reading
from attentune.errors import UserError
from attentune.functional import mdg_loss
from attentune.methods.base import Guide
from attentune.methods.passes import Pass, Tokens, check_tokens


@dataclass(frozen=True)
class MDG(Guide):
    """Every head of every guided layer is classified as itself, by its received attention (Eq. 8 to 11).

    >>> str(MDG(0.1, layers="6-11"))
    'mdg(weight=0.1, layers=6-11)'
    """

    name: ClassVar[str] = "mdg"
    summary: ClassVar[str] = "heads are told apart by the attention that tokens receive"
    paper: ClassVar[str] = "Wang et al. 2022, Attention Guiding, Eq. 11"

    temperature: float = 1.0
    tokens: Tokens = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_tokens(self.tokens)
        if not self.temperature > 0:
            raise UserError(f"temperature must be above 0, not {self.temperature}")

    def reads(self, seen: Pass) -> tuple[Reading, ...]:
        """Received attention: m of Eq. 8."""
        return ("received",)

    def loss(self, seen: Pass) -> Tensor:
        """Eq. 11, a mean over heads and batch."""
        return mdg_loss(seen.stacked("received"), mask=seen.tokens(self.tokens), temperature=self.temperature)
