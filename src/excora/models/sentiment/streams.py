"""The model "streams": of each modality an encoder and a pool, side by side, and one head; plain, for clips."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from excora.data.dataset import Inputs, Spec
from excora.models.base import Output, register_model
from excora.models.files import check_depth
from excora.models.pool import hidden_layers
from excora.models.sentiment.base import MASKED, SentimentModel, SentimentNetwork
from excora.models.sentiment.masking import MaskedSteps
from excora.models.sentiment.parts import Sequence, Streams
from excora.models.sentiment.text import TextEncoder
from excora.options import Options, option
from excora.pooling import make_pool, pools
from excora.ragged import Ragged

#: Clips that a text encoder reads at a time, those of about one length together.
TOGETHER = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class StreamsOptions(Options):
    """Of the model "streams"."""

    pool: str = option("eca", "How the steps of a modality become one vector.", choices=pools.names)
    dim: int = option(64, "Width of the steps after the encoder.", least=1)
    layers: int = option(1, "Depth of the encoder of each modality; 0 = none, for good features.", least=0)
    head: int = option(0, "Hidden layers of the head; 0 = linear.", least=0)
    dropout: float = option(0.0, "Dropout of encoders and head, in [0, 1).", least=0, below=1)
    masked: float = option(0.0, MASKED, least=0, below=1)
    text_encoder: str = option("", "Folder of a BERT-like checkpoint that reads the words; empty = text features.")
    tune_text: bool = option(False, "The text encoder learns as well; otherwise it is frozen.")
    own_words: bool = option(False, "Pool the words up to the first end mark, [SEP]; what follows is context alone.")


def real_steps(sequence: Sequence) -> Ragged:
    """A padded sequence without its padding.

    >>> real_steps(Sequence(torch.tensor([[[1.0], [0.0]], [[2.0], [3.0]]]), torch.tensor([1, 2]))).values.flatten()
    tensor([1., 2., 3.])
    """
    return Ragged(sequence.values[sequence.mask], sequence.length)


def by_length(encoder: TextEncoder, ids: Tensor, length: Tensor) -> Tensor:
    """What the encoder says of each text, (n, steps, width), some of about one length at a time.

    A text does not see the padding of another, so the states are those of one call; most of a padded batch is padding.
    """
    states = torch.zeros(*ids.shape, encoder.width, device=ids.device)
    for rows in length.argsort().split(TOGETHER) if len(length) else ():
        longest = int(length[rows].max())
        found = encoder(ids[rows, :longest], length[rows])
        states = states.to(found.dtype).index_put(
            (rows.unsqueeze(1), torch.arange(longest, device=ids.device).unsqueeze(0)), found
        )
    return states


def own_length(ids: Tensor, length: Tensor) -> Tensor:
    """Tokens up to the first end mark, (n,): a text ends with one, and so do the parts that it is made of.

    >>> own_length(torch.tensor([[1, 7, 2, 8, 9, 2], [1, 5, 2, 0, 0, 0]]), torch.tensor([6, 3]))
    tensor([3, 3])
    """
    mark = ids.gather(1, (length - 1).unsqueeze(1))
    return (ids == mark).to(torch.uint8).argmax(1) + 1


class StreamsNetwork(SentimentNetwork):
    """prediction = head([pool_m(encoder_m(x_m)).value for each modality m])."""

    def __init__(self, streams: Streams, options: StreamsOptions, targets: int = 1) -> None:
        super().__init__(streams, cast(Any, options), targets)
        self.names, total = tuple(streams), 0
        encoders, made = {}, {}
        for name, (width, _) in streams.items():
            encoders[name] = nn.Sequential(*hidden_layers(width, options.layers, options))
            made[name] = make_pool(options.pool, options.dim if options.layers else width)
            total += made[name].width
        self.encoders = nn.ModuleDict(encoders)
        self.pool = made[self.names[0]]  #: of the first modality
        self.others = nn.ModuleDict({name: made[name] for name in self.names[1:]})
        self.masked = MaskedSteps(streams, total, options.masked) if options.masked else None
        hidden = hidden_layers(total, options.head, options)
        last = nn.Linear(options.dim if hidden else total, targets)
        self.head = nn.Sequential(*hidden, last) if hidden else last

    def sequences(self, inputs: Inputs) -> dict[str, Sequence]:
        """The modalities of a batch."""
        found = {}
        for name in self.names:
            length = cast(Tensor, inputs[f"{name}_length"])
            if name == "text" and self.encoder is not None:
                ids = cast(Tensor, inputs["text_ids"])
                values = by_length(self.encoder, ids, length)
                if self.options.own_words:  # type: ignore[attr-defined]
                    length = own_length(ids, length)
            else:
                values = cast(Tensor, inputs[name])
            found[name] = Sequence(values, length)
        return found

    def fuse(self, sequences: dict[str, Sequence]) -> Output:
        """Predictions of a batch, and what each pool did, by modality."""
        pooled = {}
        for name in self.names:
            steps = real_steps(sequences[name])
            pool = self.pool if name == self.names[0] else self.others[name]
            pooled[name] = pool(Ragged(self.encoders[name](steps.values), steps.lengths))
        return Output(self.head(torch.cat([one.value for one in pooled.values()], 1)), pooled)

    def pretrained(self) -> Iterator[nn.Parameter]:
        """Those of the text encoder."""
        yield from () if self.encoder is None else self.encoder.parameters()


class OneStream(StreamsNetwork):
    """Of one modality alone: the head reads one pool, so that the monitor can listen to both."""

    monitored = ("pool", "head")


@register_model
class StreamsModel(SentimentModel):
    """Plain, and what fusion is to be compared with; ``--drop`` leaves modalities out."""

    name = "streams"
    says = "for clips: an encoder and a pool of your choice for each modality, side by side, and a head"
    default_for = ("modalities",)
    Options = StreamsOptions
    recipe = {"fewest": 8}  # noqa: RUF012

    @staticmethod
    def Network(streams: Streams, options: Any, targets: int) -> StreamsNetwork:  # type: ignore[override] # noqa: N802
        """Of one modality, or of several."""
        return (OneStream if len(streams) == 1 else StreamsNetwork)(streams, options, targets)

    def check_learned(self, learned: Any, spec: Spec, options: Any, tensors: Mapping[str, Tensor]) -> None:
        """No more layers than tensors."""
        super().check_learned(learned, spec, options, tensors)
        check_depth(options.layers + options.head, tensors)
