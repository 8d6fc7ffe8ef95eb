"""The model "lmf", low-rank fusion (Liu et al. 2018): tensor fusion whose weights are a sum of few products."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from excora.data.dataset import Inputs
from excora.models.base import Output, register_model
from excora.models.sentiment.base import PUBLISHED, SentimentModel, SentimentNetwork, SentimentOptions
from excora.models.sentiment.parts import ORDER, Sequence, Streams, Utterances
from excora.options import option


@dataclasses.dataclass(frozen=True, kw_only=True)
class LMFOptions(SentimentOptions):
    """Of the model "lmf"."""

    audio_width: int = option(16, "Width of the vector of the audio.", least=1)
    vision_width: int = option(128, "Width of the vector of the vision.", least=1)
    text_width: int = option(64, "Width of the vector of the text.", least=1)
    lstm_width: int = option(128, "Units of the LSTM over the text.", least=1)
    rank: int = option(3, "Products that make up the weights of the tensor.", least=1)
    dropout: float = option(0.3, "Dropout of the inputs of audio and vision, in [0, 1).", least=0, below=1)


class LMF(SentimentNetwork):
    """yhat = sum_r w_r prod_m ([1, h_m] . F_mr) + b, with one vector h_m a modality and factors F of ``rank``.

    >>> network = LMF({"text": (6, 5), "audio": (3, 7)})
    >>> inputs = {"text": torch.randn(2, 5, 6), "audio": torch.randn(2, 7, 3)}
    >>> inputs |= {"text_length": torch.tensor([5, 2]), "audio_length": torch.tensor([7, 1])}
    >>> network(inputs).prediction.shape
    torch.Size([2, 1])
    """

    def __init__(self, streams: Streams, options: LMFOptions | None = None, targets: int = 1) -> None:
        options = options or LMFOptions()
        super().__init__(streams, options, targets)
        widths = {"audio": options.audio_width, "vision": options.vision_width, "text": options.text_width}
        self.utterances = Utterances(
            streams, widths, lstm=options.lstm_width, dropout=options.dropout, reference=options.reference
        )
        self.factors = nn.ParameterDict()
        for name in (name for name in ORDER if name in streams):
            factor = nn.Parameter(torch.empty(options.rank, widths[name] + 1, targets))
            self.factors[name] = nn.init.xavier_normal_(factor)
        # DIFF: the published optimiser leaves these two out, so that they stay as they were drawn.
        trained = not options.reference
        self.weight = nn.Parameter(nn.init.xavier_normal_(torch.empty(1, options.rank)), requires_grad=trained)
        self.bias = nn.Parameter(torch.zeros(1, targets), requires_grad=trained)

    def fuse(self, sequences: dict[str, Sequence]) -> Output:
        """Predictions."""
        fused: Any = 1.0
        for vector, factor in zip(self.utterances(sequences), self.factors.values(), strict=True):
            longer = torch.cat([torch.ones_like(vector[:, :1]), vector], 1)
            fused = fused * torch.einsum("nw,rwt->nrt", longer, factor)
        return Output(torch.einsum("r,nrt->nt", self.weight[0], fused) + self.bias)

    def normed(self, sequences: dict[str, Sequence]) -> Iterator[tuple[nn.Module, Tensor, Tensor]]:
        """Those of audio and vision."""
        return self.utterances.normed(sequences)

    @torch.no_grad()
    def begin_at_zero(self, inputs: Inputs, *, only_try: bool = False) -> bool:  # noqa: ARG002
        """No fusion weights."""
        if not only_try:
            self.weight.zero_()
            self.bias.zero_()
        return True


@register_model
class LMFModel(SentimentModel):
    """Low-rank fusion; takes any modalities that there are."""

    name = "lmf"
    says = "low-rank tensor fusion of one vector a modality"
    Network, Options = LMF, LMFOptions
    small = {"audio_width": 4, "vision_width": 4, "text_width": 4, "lstm_width": 6}  # noqa: RUF012
    recipe = PUBLISHED | {"learning_rate": 1e-3, "weight_decay": 0.005, "batch_size": 64}
