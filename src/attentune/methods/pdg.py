"""PDG, attention pattern decorrelation guiding (Wang et al. 2022, section 2.3.2): tokens looked at by different heads."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from attentune.attention import Reading
from attentune.functional import pdg_loss
from attentune.methods.base import Guide
from attentune.methods.passes import Pass, Tokens, check_tokens


@dataclass(frozen=True)
class PDG(Guide):
    """The positions' patterns over all heads of all guided layers are decorrelated (Eq. 12).

    >>> str(PDG(0.001, tokens="content"))
    'pdg(weight=0.001, tokens=content)'
    """

    name: ClassVar[str] = "pdg"
    summary: ClassVar[str] = "tokens are looked at by different heads, so that more of them are looked at"
    paper: ClassVar[str] = "Wang et al. 2022, Attention Guiding, Eq. 12"

    tokens: Tokens = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_tokens(self.tokens)

    def reads(self, seen: Pass) -> tuple[Reading, ...]:
        """Received attention: the rows of M of Eq. 9."""
        return ("received",)

    def loss(self, seen: Pass) -> Tensor:
        """Eq. 12, a mean over each example's tokens and the batch."""
        return pdg_loss(seen.stacked("received"), mask=seen.tokens(self.tokens))
