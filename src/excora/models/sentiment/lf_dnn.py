"""The model "lf-dnn", late fusion: one vector a modality, side by side, and a network on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from excora.models.base import Output, register_model
from excora.models.sentiment.base import PUBLISHED, SentimentModel, SentimentNetwork, SentimentOptions
from excora.models.sentiment.parts import Sequence, Streams, Utterances
from excora.options import option


@dataclasses.dataclass(frozen=True, kw_only=True)
class LFDNNOptions(SentimentOptions):
    """Of the model "lf-dnn"."""

    audio_width: int = option(16, "Width of the vector of the audio.", least=1)
    vision_width: int = option(128, "Width of the vector of the vision.", least=1)
    text_width: int = option(256, "Width of the vector of the text.", least=1)
    lstm_width: int = option(128, "Units of the LSTM over the text.", least=1)
    fusion_width: int = option(128, "Units of the layers behind the vectors.", least=1)
    dropout: float = option(0.2, "Dropout of inputs and of the joined vector, in [0, 1).", least=0, below=1)


class LFDNN(SentimentNetwork):
    """yhat = MLP(drop [audio, vision, text]) of one vector a modality.

    >>> network = LFDNN({"text": (6, 5), "audio": (3, 7)})
    >>> inputs = {"text": torch.randn(2, 5, 6), "audio": torch.randn(2, 7, 3)}
    >>> inputs |= {"text_length": torch.tensor([5, 2]), "audio_length": torch.tensor([7, 1])}
    >>> network(inputs).prediction.shape
    torch.Size([2, 1])
    """

    def __init__(self, streams: Streams, options: LFDNNOptions | None = None, targets: int = 1) -> None:
        options = options or LFDNNOptions()
        super().__init__(streams, options, targets)
        widths = {"audio": options.audio_width, "vision": options.vision_width, "text": options.text_width}
        self.utterances = Utterances(
            streams, widths, lstm=options.lstm_width, dropout=options.dropout, reference=options.reference
        )
        joint, hidden = sum(widths[name] for name in streams), options.fusion_width
        self.body = nn.Sequential(
            nn.Dropout(options.dropout),
            nn.Linear(joint, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, targets),
        )  # fmt: skip

    def fuse(self, sequences: dict[str, Sequence]) -> Output:
        """Predictions."""
        return Output(self.body(torch.cat(self.utterances(sequences), 1)))

    def normed(self, sequences: dict[str, Sequence]) -> Iterator[tuple[nn.Module, Tensor, Tensor]]:
        """Those of audio and vision."""
        return self.utterances.normed(sequences)


@register_model
class LFDNNModel(SentimentModel):
    """Late fusion; takes any modalities that there are."""

    name = "lf-dnn"
    says = "late fusion: one vector a modality, side by side"
    Network, Options = LFDNN, LFDNNOptions
    small = {"audio_width": 4, "vision_width": 4, "text_width": 4, "lstm_width": 6, "fusion_width": 6}  # noqa: RUF012
    recipe = PUBLISHED | {"learning_rate": 1e-3, "weight_decay": 0.01, "batch_size": 128}
