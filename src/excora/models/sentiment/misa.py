"""The model "misa" (Hazarika et al. 2020): each modality in a part of its own and a part shared with the others."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor, nn

from excora.data.dataset import Inputs
from excora.functional import full_precision
from excora.models.base import Output, register_model
from excora.models.sentiment.base import PUBLISHED, SentimentModel, SentimentNetwork, SentimentOptions
from excora.models.sentiment.parts import LSTM, Sequence, Streams
from excora.options import option
from excora.reduce import Penalty

#: Central moments that the shared parts are compared by.
MOMENTS = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class MISAOptions(SentimentOptions):
    """Of the model "misa"."""

    dim: int = option(128, "Width of a part; even.", least=2)
    feedforward: int = option(2048, "Hidden units of the transformer layer.", least=1)
    dropout: float = option(0.2, "Dropout of the head, in [0, 1).", least=0, below=1)
    attention_dropout: float = option(0.1, "Dropout of the transformer layer, in [0, 1).", least=0, below=1)
    different: float = option(0.1, "Weight of the loss that keeps the parts different.", least=0)
    similar: float = option(0.3, "Weight of the loss that keeps the shared parts alike.", least=0)
    rebuilding: float = option(1.0, "Weight of the loss of rebuilding a modality from its parts.", least=0)


def difference(a: Tensor, b: Tensor) -> Tensor:
    """mean over entries of (A^T B)^2, with columns centred over the batch and rows over their length, not trained.

    >>> difference(torch.tensor([[1.0], [-1.0]]), torch.tensor([[2.0], [2.0]]))
    tensor(0.)
    """

    def rows(x: Tensor) -> Tensor:
        x = x - x.mean(0)
        return x / (x.norm(dim=1, keepdim=True).detach() + 1e-6)

    return (rows(a).T @ rows(b)).square().mean()


def central_moments(a: Tensor, b: Tensor) -> Tensor:
    """||E a - E b|| + sum_k ||E (a - E a)^k - E (b - E b)^k||, k from 2 to :data:`MOMENTS`.

    >>> central_moments(torch.tensor([[0.0], [2.0]]), torch.tensor([[1.0], [1.0]]))
    tensor(2.0000)
    """
    # DIFF: sqrt(x^2 + 1e-12): where moments agree, as odd ones of two samples do, the slope of |x| is rounding noise.
    x, y = a - a.mean(0), b - b.mean(0)
    gaps = [a.mean(0) - b.mean(0), *(x.pow(k).mean(0) - y.pow(k).mean(0) for k in range(2, MOMENTS + 1))]
    return (torch.stack(gaps).square().sum(1) + 1e-12).sqrt().sum()


class Stacked(nn.Module):
    """Two bidirectional LSTMs with LayerNorm between; the last states of both: (n, steps, width) to (n, 4 width)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = LSTM(width, width, both=True)
        self.norm = nn.LayerNorm(2 * width)
        self.second = LSTM(2 * width, width, both=True)

    def forward(self, sequence: Sequence) -> Tensor:
        """[first forward, second forward, first backward, second backward]."""
        if not len(sequence.length):
            return sequence.values.new_zeros(0, 4 * sequence.values.shape[2])
        with full_precision(sequence.values.device):
            states, early = self.first.both_ways(sequence)
            _, late = self.second.both_ways(states._replace(values=self.norm(states.values)))
        return torch.cat([early, late], 2).flatten(1)


class MISA(SentimentNetwork):
    """Parts of each modality through one transformer layer, then a head; three losses shape the parts.

    Needs two modalities; the text is the mean of its real steps.

    >>> network = MISA({"text": (6, 5), "audio": (3, 7)}, MISAOptions(dim=8))
    >>> inputs = {"text": torch.randn(2, 5, 6), "audio": torch.randn(2, 7, 3)}
    >>> output = network(inputs | {"text_length": torch.tensor([5, 2]), "audio_length": torch.tensor([7, 1])})
    >>> output.prediction.shape, list(output.losses), output.compared.shape
    (torch.Size([2, 1]), ['rebuilding'], torch.Size([2, 4, 8]))
    """

    options: MISAOptions

    def __init__(self, streams: Streams, options: MISAOptions | None = None, targets: int = 1) -> None:
        options = options or MISAOptions()
        super().__init__(streams, options, targets)
        dim = options.dim
        self.names = tuple(name for name in ("text", "vision", "audio") if name in streams)  #: in published order
        self.stacks, self.projections = nn.ModuleDict(), nn.ModuleDict()
        for name in self.names:
            width = streams[name][0]
            if name != "text":
                self.stacks[name] = Stacked(width)
            before = width if name == "text" else 4 * width
            self.projections[name] = nn.Sequential(nn.Linear(before, dim), nn.ReLU(), nn.LayerNorm(dim))
        self.private = nn.ModuleDict({name: nn.Linear(dim, dim) for name in self.names})
        self.shared = nn.Linear(dim, dim)
        self.rebuilt = nn.ModuleDict({name: nn.Linear(dim, dim) for name in self.names})
        self.layer = nn.TransformerEncoderLayer(
            dim, 2, options.feedforward, options.attention_dropout, batch_first=True
        )
        joint = 2 * dim * len(self.names)
        self.head = nn.Sequential(
            nn.Linear(joint, joint // 2), nn.Dropout(options.dropout), nn.ReLU(), nn.Linear(joint // 2, targets)
        )

    def sequences(self, inputs: Inputs) -> dict[str, Sequence]:
        """In the reference the other modalities end where the text does."""
        found = super().sequences(inputs)
        if self.options.reference and "text" in found:
            # DIFF: the published lengths of vision and audio are those of the text, which cuts unaligned clips.
            cut = cast(Tensor, inputs["text_length"])
            for name in (name for name in found if name != "text"):
                found[name] = Sequence(found[name].values, cut.clamp_max(found[name].values.shape[1])).clean()
        return found

    def unmasked(self, sequence: Sequence) -> Sequence:
        """The published code has a mask here."""
        return sequence.clean()

    def fuse(self, sequences: dict[str, Sequence]) -> Output:
        """Predictions, the loss of rebuilding, and the parts, (n, private and shared of each modality, dim)."""
        whole = []
        for name in self.names:
            one = sequences[name]
            whole.append(self.projections[name](one.mean() if name == "text" else self.stacks[name](one)))
        private = [torch.sigmoid(self.private[name](x)) for name, x in zip(self.names, whole, strict=True)]
        shared = [torch.sigmoid(self.shared(x)) for x in whole]
        parts = torch.stack([*private, *shared], 1)
        again = [self.rebuilt[name](p + s) for name, p, s in zip(self.names, private, shared, strict=True)]
        errors = (torch.stack(again) - torch.stack(whole)).float().square()
        count = torch.full_like(errors[:0].sum(), errors.numel()).detach()
        losses = {"rebuilding": Penalty(self.options.rebuilding * errors.sum(), count)}
        return Output(self.head(self.layer(parts).flatten(1)), losses=losses, compared=parts)

    def compare(self, compared: Tensor, target: Tensor, known: Tensor | None) -> Mapping[str, Tensor]:  # noqa: ARG002
        """Private parts differ from the shared one and among each other; shared parts have the same moments."""
        parts = compared.double().unbind(1)
        private, shared = parts[: len(self.names)], parts[len(self.names) :]
        pairs = [*zip(private, shared, strict=True), *itertools.combinations(private, 2)]
        apart = torch.stack([difference(a, b) for a, b in pairs]).sum()
        alike = torch.stack([central_moments(a, b) for a, b in itertools.combinations(shared, 2)]).mean()
        losses = {"different": self.options.different * apart, "similar": self.options.similar * alike}
        return {name: loss.to(torch.promote_types(compared.dtype, torch.float32)) for name, loss in losses.items()}


@register_model
class MISAModel(SentimentModel):
    """Modality-invariant and -specific parts; needs two modalities."""

    name = "misa"
    says = "each modality in a part of its own and a part shared with the others"
    fewest = 2
    Network, Options = MISA, MISAOptions
    small = {"dim": 16, "feedforward": 8}  # noqa: RUF012
    # Published: two batches of 16 a step, gradients of values of at most 0.8.
    recipe = PUBLISHED | {
        "error": "mse", "learning_rate": 1e-4, "weight_decay": 0.0, "batch_size": 32, "clip": 1.0,
    }  # fmt: skip
