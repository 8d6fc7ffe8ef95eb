"""The model "tfn", tensor fusion (Zadeh et al. 2017): the outer product of one vector a modality."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from excora.data.dataset import Inputs
from excora.models.base import Output, Samples, register_model
from excora.models.sentiment.base import PUBLISHED, SentimentModel, SentimentNetwork, SentimentOptions
from excora.models.sentiment.parts import ORDER, Sequence, Streams, Utterances
from excora.options import option


@dataclasses.dataclass(frozen=True, kw_only=True)
class TFNOptions(SentimentOptions):
    """Of the model "tfn"."""

    audio_width: int = option(32, "Width of the vector of the audio.", least=1)
    vision_width: int = option(128, "Width of the vector of the vision.", least=1)
    text_width: int = option(32, "Width of the vector of the text.", least=1)
    lstm_width: int = option(128, "Units of the LSTM over the text.", least=1)
    fusion_width: int = option(64, "Units of the layers behind the outer product.", least=1)
    dropout: float = option(0.3, "Dropout of the inputs of audio and vision, in [0, 1).", least=0, below=1)
    fusion_dropout: float = option(0.5, "Dropout of the outer product, in [0, 1).", least=0, below=1)


def outer(vectors: list[Tensor]) -> Tensor:
    """[1, a] x [1, b] x ..., flattened, the last running fastest: (n, product of the widths + 1).

    >>> outer([torch.tensor([[2.0]]), torch.tensor([[3.0, 5.0]])])
    tensor([[ 1.,  3.,  5.,  2.,  6., 10.]])
    """
    found = vectors[0].new_ones(len(vectors[0]), 1)
    for vector in vectors:
        longer = torch.cat([torch.ones_like(vector[:, :1]), vector], 1)
        found = (found.unsqueeze(2) * longer.unsqueeze(1)).flatten(1)
    return found


class TFN(SentimentNetwork):
    """yhat = low + (high - low) sigmoid(MLP([1, audio] x [1, vision] x [1, text])), in the range of the labels.

    >>> network = TFN({"text": (6, 5), "audio": (3, 7)}, TFNOptions(audio_width=4))
    >>> inputs = {"text": torch.randn(2, 5, 6), "audio": torch.randn(2, 7, 3)}
    >>> inputs |= {"text_length": torch.tensor([5, 2]), "audio_length": torch.tensor([7, 1])}
    >>> network(inputs).prediction.shape
    torch.Size([2, 1])
    """

    low: Tensor
    high: Tensor

    def __init__(self, streams: Streams, options: TFNOptions | None = None, targets: int = 1) -> None:
        options = options or TFNOptions()
        super().__init__(streams, options, targets)
        widths = {"audio": options.audio_width, "vision": options.vision_width, "text": options.text_width}
        self.utterances = Utterances(
            streams, widths, lstm=options.lstm_width, dropout=options.dropout, reference=options.reference
        )
        joint, hidden = int(np.prod([widths[name] + 1 for name in ORDER if name in streams])), options.fusion_width
        self.body = nn.Sequential(
            nn.Dropout(options.fusion_dropout),
            nn.Linear(joint, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, targets),
        )  # fmt: skip
        self.register_buffer("low", torch.full((targets,), -3.0))
        self.register_buffer("high", torch.full((targets,), 3.0))

    def fuse(self, sequences: dict[str, Sequence]) -> Output:
        """Predictions within the range."""
        logits = self.body(outer(self.utterances(sequences)))
        return Output(self.low + (self.high - self.low) * torch.sigmoid(logits))

    def normed(self, sequences: dict[str, Sequence]) -> Iterator[tuple[nn.Module, Tensor, Tensor]]:
        """Those of audio and vision."""
        return self.utterances.normed(sequences)

    @torch.no_grad()
    def learn(self, samples: Samples) -> None:
        """The range of the labels as well, which is -3 to 3 on MOSI: labels are standardised here."""
        super().learn(samples)
        # DIFF: the published range, -3 to 3, is that of labels that are not standardised.
        known = samples.target[samples.train]
        for k in range(self.targets):
            labels = known[:, k][~np.isnan(known[:, k])]
            if len(labels) and labels.min() < labels.max():
                self.low[k], self.high[k] = float(labels.min()), float(labels.max())

    @torch.no_grad()
    def begin_at_zero(self, inputs: Inputs, *, only_try: bool = False) -> bool:  # noqa: ARG002
        """No weights in the last layer, and the bias whose sigmoid is where 0 lies in the range."""
        if not only_try:
            last = self.body[-1]
            last.weight.zero_()  # type: ignore[operator]
            last.bias.copy_(torch.logit((-self.low / (self.high - self.low)).clamp(1e-6, 1 - 1e-6)))  # type: ignore[operator]
        return True


@register_model
class TFNModel(SentimentModel):
    """Tensor fusion; takes any modalities that there are."""

    name = "tfn"
    says = "tensor fusion: the outer product of one vector a modality"
    Network, Options = TFN, TFNOptions
    small = {"audio_width": 4, "vision_width": 4, "text_width": 4, "lstm_width": 6, "fusion_width": 6}  # noqa: RUF012
    recipe = PUBLISHED | {"learning_rate": 1e-3, "weight_decay": 0.0, "batch_size": 32}
