"""The model "mult", the multimodal transformer (Tsai et al. 2019): every modality looks at every other."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import nn

from excora.data.dataset import Spec
from excora.errors import InputError
from excora.models.base import Output, register_model
from excora.models.sentiment.base import PUBLISHED, LayeredModel, SentimentNetwork, SentimentOptions
from excora.models.sentiment.crossmodal import Convolution, Encoder, Layer, Residual
from excora.models.sentiment.parts import Bridge, Sequence, Streams
from excora.options import option


@dataclasses.dataclass(frozen=True, kw_only=True)
class MulTOptions(SentimentOptions):
    """Of the model "mult"."""

    dim: int = option(50, "Width of a modality after its convolution.", least=1)
    heads: int = option(10, "Attention heads.", least=1)
    layers: int = option(4, "Layers of each transformer.", least=1)
    kernel: int = option(5, "Steps that a convolution sees.", least=1)
    input_dropout: float = option(0.5, "Dropout of the text features, in [0, 1).", least=0, below=1)
    embedding_dropout: float = option(0.2, "Dropout of what enters a transformer, in [0, 1).", least=0, below=1)
    text_dropout: float = option(0.3, "Dropout of attention to text and within pairs, in [0, 1).", least=0, below=1)
    audio_dropout: float = option(0.2, "Dropout of attention to audio, in [0, 1).", least=0, below=1)
    vision_dropout: float = option(0.0, "Dropout of attention to vision, in [0, 1).", least=0, below=1)
    dropout: float = option(0.5, "Dropout of the head, in [0, 1).", least=0, below=1)


class MulT(SentimentNetwork):
    """For each modality: it looks at each other one, the views side by side look at themselves, the last step counts.

    Needs two modalities. A query sees the keys up to its own moment (:func:`.crossmodal.up_to_now`).

    >>> network = MulT({"text": (6, 9), "audio": (3, 7)}, MulTOptions(dim=10, heads=2))
    >>> inputs = {"text": torch.randn(2, 9, 6), "audio": torch.randn(2, 7, 3)}
    >>> inputs |= {"text_length": torch.tensor([9, 2]), "audio_length": torch.tensor([7, 1])}
    >>> network(inputs).prediction.shape
    torch.Size([2, 1])
    """

    def __init__(self, streams: Streams, options: MulTOptions | None = None, targets: int = 1) -> None:
        options = options or MulTOptions()
        super().__init__(streams, options, targets)
        dim, names = options.dim, [*streams]
        rates = {"text": options.text_dropout, "audio": options.audio_dropout, "vision": options.vision_dropout}

        def encoder(width: int, rate: float) -> Encoder:
            return Encoder(
                width, options.heads, options.layers,
                attention_dropout=rate, embedding_dropout=options.embedding_dropout,
                # DIFF: the published code has positions switched off, the paper's own does not.
                positions="none" if options.reference else "all",
            )  # fmt: skip

        self.input_dropout = nn.Dropout(options.input_dropout)
        self.convolutions = nn.ModuleDict({name: Convolution(streams[name][0], dim, options.kernel) for name in names})
        self.views = nn.ModuleDict()
        for name in names:
            self.views[name] = nn.ModuleDict({other: encoder(dim, rates[other]) for other in names if other != name})
        joint = dim * (len(names) - 1)
        self.memories = nn.ModuleDict({name: encoder(joint, options.text_dropout) for name in names})
        self.residual = Residual(joint * len(names), options.dropout)
        self.head = nn.Linear(joint * len(names), targets)

    def fuse(self, sequences: dict[str, Sequence]) -> Output:
        """Predictions."""
        convolved = {}
        for name, convolution in self.convolutions.items():
            one = sequences[name]
            one = one._replace(values=self.input_dropout(one.values)) if name == "text" else one
            convolved[name] = convolution.over(one)  # type: ignore[operator]
        last = []
        for name, views in self.views.items():
            seen = [view(convolved[name], convolved[other]).values for other, view in views.items()]  # type: ignore[operator]
            last.append(self.memories[name](convolved[name]._replace(values=torch.cat(seen, 2))).last())
        return Output(self.head(self.residual(torch.cat(last, 1))))

    def bridges(self) -> Iterator[Bridge]:
        """Every modality looks at every other."""
        for receiver, views in self.views.items():
            for giver, view in cast(nn.ModuleDict, views).items():
                for number, layer in enumerate(cast(Encoder, view).layers, 1):
                    yield Bridge(f"layer {number}", receiver, giver, cast(Layer, layer).attention.look)


@register_model
class MulTModel(LayeredModel):
    """The multimodal transformer; needs two modalities."""

    name = "mult"
    says = "the multimodal transformer: every modality looks at every other"
    fewest = 2
    Network, Options = MulT, MulTOptions
    small = {"dim": 8, "heads": 2, "layers": 1}  # noqa: RUF012
    # Published: gradients of eight batches of 16 summed a step, values of at most 0.6; a rate that falls on plateaus.
    recipe = PUBLISHED | {"learning_rate": 2e-3, "weight_decay": 0.0, "batch_size": 128, "clip": 1.0}

    def check(self, spec: Spec, options: Any) -> None:
        """Heads must divide the width."""
        super().check(spec, options)
        if options.dim % options.heads:
            raise InputError(f"heads must divide dim, got heads {options.heads} and dim {options.dim}")
