"""SSA, self-supervised attention (Kou et al. 2021): a small classifier learns which tokens the model's answer hangs on, from
labels that the model itself has given (`methods.token_labels`).

`mode=co` only trains it beside the task (section 3.2); in `mode=hybrid` its scores also weigh the tokens into the sentence
vector that the head works on (Eq. 1). The equations are `functional.ssa_loss` and `ssa_vector`.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from attentune.attention import Reading
from attentune.attention.inputs import real_tokens
from attentune.errors import UserError
from attentune.functional import ssa_loss, ssa_vector
from attentune.methods.base import Method, Objective, check_number
from attentune.methods.epochs import Epoch, Made, Preparing
from attentune.methods.masking import MaskedCopies, choose_rows
from attentune.methods.passes import Pass
from attentune.methods.site import check_site, final_hidden
from attentune.methods.token_labels import batch_labels, judge, unlabelled
from attentune.methods.tokens import TokenKinds

Mode = Literal["co", "hybrid"]

LOGITS = "logits"


@dataclass(frozen=True)
class SSA(Objective, Preparing):
    """The loss is α · task + (1 − α) · token loss; `gamma` masked copies of each text give the labels of an epoch.

    >>> str(SSA(mode="hybrid", beta=0.2))
    'ssa(mode=hybrid, beta=0.2)'
    """

    name: ClassVar[str] = "ssa"
    summary: ClassVar[str] = "the model learns which tokens its own answer hangs on, and may weigh them by it"
    paper: ClassVar[str] = "Kou et al. 2021, Self-Supervised Attention, Eq. 1 and sections 3.1 to 3.3"
    works_on_final_hidden: ClassVar[bool] = True

    mode: Mode = "co"
    alpha: float = 0.9
    beta: float = 0.5
    gamma: float = 1.0
    mask_rate: float = 0.3
    flip: float = 0.3

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise UserError(f"mode must be co or hybrid, not {self.mode!r}")
        check_number("alpha", self.alpha, above=0, most=1)
        check_number("beta", self.beta, least=0, most=1)
        check_number("gamma", self.gamma, above=0)
        check_number("mask_rate", self.mask_rate, above=0, most=1)
        check_number("flip", self.flip, above=0)

    @property
    def is_lasting(self) -> bool:
        """It adds the classifier of tokens, and in `hybrid` changes what the head works on."""
        return True

    @property
    def task_share(self) -> float:
        """α."""
        return self.alpha

    def check_model(self, model: PreTrainedModel, before: Sequence[Method]) -> None:
        """On encoders that are known, once."""
        if any(isinstance(other, SSA) for other in before):
            raise UserError("ssa can't be there twice: each would scale the task's loss, and label the same tokens")
        try:
            check_site(model)
        except UserError as error:
            raise UserError(f"ssa can't be used here: {error}") from None

    def added(self, model: PreTrainedModel) -> "TokenClassifier":
        """w_SSA, and which ids of the vocabulary are special tokens."""
        config = model.config.get_text_config()
        spread = float(getattr(config, "initializer_range", 0.02))
        return TokenClassifier(int(config.hidden_size), int(config.vocab_size), spread)

    def introduce(self, added: nn.Module | None, kinds: TokenKinds | None) -> None:
        """Special tokens have no importance."""
        assert isinstance(added, TokenClassifier)
        if kinds is None:
            raise UserError(
                "ssa needs the tokenizer, to tell special tokens and to mask words: attach(model, method, tokenizer), or "
                "Trainer(processing_class=tokenizer)"
            )
        known = [i for i in kinds.special if i < len(added.is_special)]
        added.is_special[known] = 1

    def applied(self, model: PreTrainedModel, added: nn.Module | None) -> AbstractContextManager[None]:
        """The classifier sees the last hidden states; in `hybrid` each becomes β R + (1 − β) Σ softmax(y) R: so whichever
        of them the head pools, or their mean, it is given Eq. 1."""
        assert isinstance(added, TokenClassifier)

        def revise(last: Tensor, layers: list[Tensor], content: Tensor | None) -> Tensor:
            assert content is not None
            logits, scores = added(last, content)
            if self.mode == "co":
                tied: Tensor = _Tied.apply(last, logits) if torch.is_grad_enabled() else last
                return tied
            with torch.autocast(last.device.type, enabled=False):
                return ssa_vector(last, last, scores, beta=self.beta, mask=content)

        return final_hidden(model, revise, counted=added.content, is_normalised=True)

    def reads(self, seen: Pass) -> tuple[Reading, ...]:
        """Nothing of the attention; of the classifier, its logits in the pass that begins."""
        if isinstance(seen.added, TokenClassifier):
            seen.added.listener = seen.kept
        return ()

    def loss(self, seen: Pass) -> Tensor:
        """The token loss, for the labels that were brought along; in a look at the model without any, 0."""
        logits, labels = seen.kept[LOGITS], seen.given.get(seen.name)
        if labels is None:
            if seen.observation.with_grad:
                raise UserError(
                    "ssa has no labels for this pass: use attentune.Trainer, or in a loop of your own call "
                    "guided.begin_epoch(number, rows) before each epoch, and batch = guided.bring(numbers, batch) with the "
                    "numbers of a batch's rows"
                )
            labels = logits.new_full(logits.shape[:2], -1)
        return ssa_loss(logits, labels.to(logits.device))

    def weight_at(self, progress: float, measured: float) -> float:
        """1 − α."""
        return 1 - self.alpha

    def prepare(self, epoch: Epoch) -> tuple[Made, Mapping[str, float]]:
        """Labels by the model of the epoch before; so there are none in the first."""
        if epoch.number == 0:
            return unlabelled(), {}
        draw = epoch.draws()
        chosen = choose_rows(len(epoch.rows), self.gamma, draw)
        copies = MaskedCopies.draw(epoch.rows, chosen, epoch.kinds, self.mask_rate, draw, epoch.progress)
        return judge(copies, epoch, self.flip)

    def bring(self, made: Made, numbers: Tensor, inputs: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        """The labels of a batch's tokens."""
        real = real_tokens(inputs)
        if real is None:
            real = torch.ones_like(inputs["input_ids"], dtype=torch.bool)
        return batch_labels(made, numbers, real), inputs


class TokenClassifier(nn.Module):
    """y_i = softmax(w_SSA R_i), one layer for all positions; `latest` is what each token scored in the last pass.

    What counts is content: real tokens, and not special ones.
    """

    is_special: Tensor

    def __init__(self, width: int, vocabulary: int, spread: float) -> None:
        super().__init__()
        self.linear = nn.Linear(width, 2)
        nn.init.normal_(self.linear.weight, std=spread)
        nn.init.zeros_(self.linear.bias)
        self.register_buffer(
            "is_special", torch.zeros(vocabulary, dtype=torch.uint8)
        )  # saved: loading needs no tokenizer
        self.latest: Tensor | None = None
        self.listener: dict[str, Tensor] | None = None  # who wants the logits of this pass, with their graph

    def content(self, inputs: Mapping[str, Any]) -> Tensor:
        """Which tokens count, (batch, length), of what the model is called with."""
        ids = inputs.get("input_ids")
        if not isinstance(ids, Tensor):
            raise UserError("ssa must know the tokens of a text: call the model with input_ids, not with inputs_embeds")
        content = self.is_special[ids] == 0
        real = real_tokens(inputs)
        return content if real is None else content & real

    def forward(self, last: Tensor, content: Tensor) -> tuple[Tensor, Tensor]:
        """The logits (batch, length, 2) and the scores (batch, length) of the last hidden states."""
        with torch.autocast(last.device.type, enabled=False):
            logits = nn.functional.linear(last.float(), self.linear.weight.float(), self.linear.bias.float())
            scores = logits.softmax(dim=-1)[..., 1]
        self.latest = scores.detach().masked_fill(~content, 0)
        listener, self.listener = self.listener, None
        if listener is not None:
            listener[LOGITS] = logits
        return logits, scores


class _Tied(torch.autograd.Function):
    """The hidden states as they are, but as if they hung on the logits: DistributedDataParallel looks for the parameters
    that a step uses behind the model's outputs, and the token loss is none of them."""

    @staticmethod
    def forward(ctx: Any, last: Tensor, logits: Tensor) -> Tensor:
        ctx.of_logits = logits.shape, logits.dtype
        return last.view_as(last)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, Tensor]:
        shape, dtype = ctx.of_logits
        return upstream[0], upstream[0].new_zeros(()).to(dtype).expand(shape)


def token_scores(added: nn.ModuleDict) -> Tensor:
    """What each token scored in the last pass, among what methods have added."""
    classifier = dict(added.items()).get(SSA.name)
    if not isinstance(classifier, TokenClassifier):
        raise UserError("there are no token scores: none of the methods is ssa(…)")
    if classifier.latest is None:
        raise UserError("there are no token scores yet: run the model forward once")
    return classifier.latest
