"""The model "ef-lstm", early fusion: all modalities side by side at each step, and an LSTM over the steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from excora.models.base import Output, register_model
from excora.models.sentiment.base import PUBLISHED, LayeredModel, SentimentNetwork, SentimentOptions
from excora.models.sentiment.parts import LSTM, Sequence, Streams, aligned, input_norm
from excora.options import option


@dataclasses.dataclass(frozen=True, kw_only=True)
class EFLSTMOptions(SentimentOptions):
    """Of the model "ef-lstm"."""

    lstm_width: int = option(128, "Units of the LSTM and of the layer behind it.", least=1)
    layers: int = option(4, "Layers of the LSTM.", least=1)
    dropout: float = option(0.5, "Dropout between layers, in [0, 1).", least=0, below=1)


class EFLSTM(SentimentNetwork):
    """yhat = W_2 drop relu(W_1 drop(h)) with h the last state of an LSTM over norm([text, audio, vision]).

    The norm has a mean and a scale for each step, over all features. Modalities of other lengths are brought to the
    steps of the first (:func:`excora.models.sentiment.parts.aligned`).

    >>> network = EFLSTM({"text": (6, 5), "audio": (3, 5)}, EFLSTMOptions(lstm_width=8))
    >>> inputs = {"text": torch.randn(2, 5, 6), "audio": torch.randn(2, 5, 3)}
    >>> inputs |= {"text_length": torch.tensor([5, 2]), "audio_length": torch.tensor([5, 2])}
    >>> network(inputs).prediction.shape
    torch.Size([2, 1])
    """

    def __init__(self, streams: Streams, options: EFLSTMOptions | None = None, targets: int = 1) -> None:
        options = options or EFLSTMOptions()
        super().__init__(streams, options, targets)
        width, hidden = sum(width for width, _ in streams.values()), options.lstm_width
        between = options.dropout if options.layers > 1 else 0.0  # torch warns of dropout that has no place
        self.norm = input_norm(next(iter(streams.values()))[1], reference=options.reference)
        self.lstm = LSTM(width, hidden, options.layers, dropout=between)
        self.head = nn.Sequential(
            nn.Dropout(options.dropout), nn.Linear(hidden, hidden), nn.ReLU(),
            nn.Dropout(options.dropout), nn.Linear(hidden, targets),
        )  # fmt: skip

    def joined(self, sequences: dict[str, Sequence]) -> Sequence:
        """[text, audio, vision] at each step."""
        first = next(iter(sequences.values()))
        # DIFF: the published model refuses data that are not aligned.
        return first._replace(values=torch.cat([aligned(one, first).values for one in sequences.values()], 2))

    def fuse(self, sequences: dict[str, Sequence]) -> Output:
        """Predictions."""
        joined = self.joined(sequences)
        normed = self.norm(joined.values) if self.options.reference else self.norm(joined.values.mT).mT
        return Output(self.head(joined._replace(values=self.lstm.states(normed)).last()))

    def normed(self, sequences: dict[str, Sequence]) -> Iterator[tuple[nn.Module, Tensor, Tensor]]:
        """A channel is a step."""
        joined = self.joined(sequences)
        real = joined.mask.unsqueeze(2).expand_as(joined.values)
        yield self.norm, joined.values.mT.flatten(0, 1), real.mT.flatten(0, 1)


@register_model
class EFLSTMModel(LayeredModel):
    """Early fusion; takes any modalities that there are."""

    name = "ef-lstm"
    says = "early fusion: an LSTM over all modalities side by side"
    Network, Options = EFLSTM, EFLSTMOptions
    small = {"lstm_width": 6, "layers": 2}  # noqa: RUF012
    recipe = PUBLISHED | {"learning_rate": 1e-3, "weight_decay": 0.005, "batch_size": 32}
