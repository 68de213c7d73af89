"""BERT-mask, the baseline of self-supervised attention (Kou et al. 2021, section 4.2): masked copies of the training texts,
made as there, as training examples with their text's label.

Which texts have copies stays the same in a training; which words are masked changes with each epoch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from attentune.attention.inputs import real_tokens
from attentune.methods.base import check_number
from attentune.methods.epochs import Epoch, Made, Preparing
from attentune.methods.masking import MaskedCopies, choose_rows


@dataclass(frozen=True)
class MaskAug(Preparing):
    """`gamma` masked copies of each training text beside it, in each epoch.

    >>> str(MaskAug(0.6))
    'maskaug(gamma=0.6)'
    """

    name: ClassVar[str] = "maskaug"
    summary: ClassVar[str] = "masked copies of the training texts as further examples"
    paper: ClassVar[str] = "Kou et al. 2021, Self-Supervised Attention, BERT-mask"

    asks_model: ClassVar[bool] = False

    gamma: float = 1.0
    mask_rate: float = 0.3

    def __post_init__(self) -> None:
        check_number("gamma", self.gamma, above=0)
        check_number("mask_rate", self.mask_rate, above=0, most=1)

    def extra_rows(self, count: int, seed: int) -> np.ndarray:
        """The texts that have copies, once for each copy."""
        return choose_rows(count, self.gamma, np.random.default_rng([seed]))

    def prepare(self, epoch: Epoch) -> tuple[Made, Mapping[str, float]]:
        """Which words are masked in this epoch. The copies stand behind the texts."""
        count = len(epoch.rows)
        chosen = self.extra_rows(count, epoch.seed)
        copies = MaskedCopies.draw(epoch.rows, chosen, epoch.kinds, self.mask_rate, epoch.draws(), epoch.progress)
        place = np.full(len(chosen), -1)  # of each copy's masks; a row of nothing but special tokens has none
        place[np.isin(chosen, copies.row)] = np.arange(len(copies))
        made = {**copies.to_tensors(), "place": torch.from_numpy(place), "mask_token": torch.tensor(epoch.mask_token)}
        return {**made, "count": torch.tensor(count)}, {}

    def bring(self, made: Made, numbers: Tensor, inputs: dict[str, Any]) -> tuple[None, dict[str, Any]]:
        """The batch with its copies masked."""
        copies = MaskedCopies.from_tensors(made)
        count, places = int(made["count"]), made["place"].numpy()
        ids: Tensor = inputs["input_ids"].clone()
        real = real_tokens(inputs)
        where = (torch.ones_like(ids, dtype=torch.bool) if real is None else real).cpu().numpy()
        masks = np.zeros(ids.shape, dtype=bool)
        for b, number in enumerate(numbers.tolist()):
            if number >= count and (place := int(places[number - count])) >= 0:
                masks[b, np.flatnonzero(where[b])[copies.positions(place)]] = True
        ids[torch.from_numpy(masks).to(ids.device)] = int(made["mask_token"])
        return None, {**inputs, "input_ids": ids}
