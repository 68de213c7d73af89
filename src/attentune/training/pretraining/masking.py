"""Masked batches, drawn by transformers' collator for language modelling, row by row from numbers of their own.

What is masked in a row depends on the seed and on the row's number in the draw and on nothing else: not on the batch, the
process or the dropout before it. So a run that goes on masks what it would have masked, and held-out text is always
masked the same.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import DataCollatorForLanguageModeling

from attentune.training.pretraining.recipe import MaskingRecipe

IGNORED = -100
"""The label of a token that isn't to be told."""


class Masking:
    """A data collator: rows of `input_ids` and `draw`, the number that their mask is drawn by, as a masked batch.

    Of the tokens that stand for text, `rate` are to be told. By tokens, 80 % of these are masked, 10 % are another token
    of text, and 10 % stay as they are. By whole words, with `offset_mapping` in the rows, all are masked.
    """

    def __init__(self, tokenizer: Any, recipe: MaskingRecipe, seed: int) -> None:
        self.own = DataCollatorForLanguageModeling(
            tokenizer,
            mlm_probability=recipe.rate,
            whole_word_mask=recipe.whole_word,
            mask_replace_prob=1.0 if recipe.whole_word else 0.8,
            random_replace_prob=0.0 if recipe.whole_word else 0.1,
        )
        self.seed = seed
        self.mask, self.padding = int(tokenizer.mask_token_id), int(tokenizer.pad_token_id)
        special = set(tokenizer.all_special_ids)
        self._special = torch.tensor(sorted(special))
        self._text = torch.tensor([token for token in range(len(tokenizer)) if token not in special])

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """One batch, padded to its longest row."""
        masked = [self._masked(row) for row in rows]
        longest = max(len(ids) for ids, _ in masked)
        ids = torch.stack([pad(ids, (0, longest - len(ids)), value=self.padding) for ids, _ in masked])
        labels = torch.stack([pad(labels, (0, longest - len(labels)), value=IGNORED) for _, labels in masked])
        real = torch.tensor([[1] * len(ids) + [0] * (longest - len(ids)) for ids, _ in masked])
        return {"input_ids": ids, "attention_mask": real, "labels": labels}  # each (batch, length)

    def _masked(self, row: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
        drawn = np.random.SeedSequence((self.seed, int(row["draw"]))).generate_state(1, np.uint64)
        self.own.generator = torch.Generator().manual_seed(int(drawn[0]) >> 1)
        ids = torch.tensor(row["input_ids"])
        given: dict[str, Any] = {"input_ids": ids, "special_tokens_mask": torch.isin(ids, self._special).long()}
        if self.own.whole_word_mask:
            given["offset_mapping"] = row["offset_mapping"]
        batch = self.own([given])
        found, labels = batch["input_ids"][0], batch["labels"][0]
        # A random token that is special would begin or end a document where there is no end.
        wrong = (labels != IGNORED) & torch.isin(found, self._special) & (found != self.mask)
        instead = torch.randint(len(self._text), (int(wrong.sum()),), generator=self.own.generator)
        found[wrong] = self._text[instead]
        return found, labels
