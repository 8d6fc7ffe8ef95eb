"""What the sentiment models share: sequences with their lengths, the norm of inputs, encoders of a whole utterance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from excora.functional import full_precision

#: Modalities in the order in which the published models join them.
ORDER = ("audio", "vision", "text")
#: By name: width and longest length.
Streams = Mapping[str, tuple[int, int]]


class Look(nn.Module):
    """softmax(q k' / sqrt(width)) v, of heads; a module, so that one can listen to what attention brings."""

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, dropout: float = 0.0, *, causal: bool = False
    ) -> Tensor:
        """(n, heads, queries, width)."""
        return nn.functional.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal=causal)


class Bridge(NamedTuple):
    """A place where a modality takes in another one: what ``look`` returns."""

    layer: str
    receiver: str
    giver: str
    look: Look


class Sequence(NamedTuple):
    """A modality of a batch: values (n, steps, width), and how many steps of each sample are real, (n,)."""

    values: Tensor
    length: Tensor

    @property
    def mask(self) -> Tensor:
        """(n, steps), True for a real step."""
        return torch.arange(self.values.shape[1], device=self.values.device) < self.length.unsqueeze(1)

    def clean(self) -> Sequence:
        """Zeros behind the end, and no more steps than the longest sample has."""
        longest = int(self.length.max()) if len(self.length) else 1
        short = Sequence(self.values[:, :longest], self.length)
        return short._replace(values=short.values.masked_fill(~short.mask.unsqueeze(2), 0.0))

    def whole(self) -> Sequence:
        """Every step taken for a real one, as code without masks does."""
        return self._replace(length=torch.full_like(self.length, self.values.shape[1]))

    def mean(self) -> Tensor:
        """Of the real steps, (n, width); the values behind the end are zeros.

        >>> Sequence(torch.tensor([[[1.0], [3.0], [0.0]]]), torch.tensor([2])).mean()
        tensor([[2.]])
        """
        return self.values.sum(1) / self.length.unsqueeze(1).to(self.values.dtype)

    def last(self) -> Tensor:
        """The last real step, (n, width).

        >>> Sequence(torch.tensor([[[1.0], [3.0], [0.0]]]), torch.tensor([2])).last()
        tensor([[3.]])
        """
        place = (self.length - 1).view(-1, 1, 1).expand(-1, 1, self.values.shape[2])
        return self.values.gather(1, place).squeeze(1)

    def backwards(self) -> Sequence:
        """The real steps in the other direction; what stands behind the end stays there.

        >>> Sequence(torch.tensor([[[1.0], [3.0], [0.0]]]), torch.tensor([2])).backwards().values.flatten()
        tensor([3., 1., 0.])
        """
        t = torch.arange(self.values.shape[1], device=self.values.device)
        place = torch.where(self.mask, self.length.unsqueeze(1) - 1 - t, t)
        return self._replace(values=self.values.gather(1, place.unsqueeze(2).expand_as(self.values)))


def aligned(sequence: Sequence, steps: Sequence) -> Sequence:
    """``sequence`` in the steps of another: step t of T gets the mean of its frames t L / T to (t + 1) L / T.

    L and T are the real lengths of a sample; of equal ones nothing changes, and a single frame is repeated.

    >>> frames = Sequence(torch.tensor([[[1.0], [3.0], [5.0], [7.0]]]), torch.tensor([4]))
    >>> aligned(frames, Sequence(torch.zeros(1, 3, 9), torch.tensor([2]))).values.flatten()
    tensor([2., 6., 0.])
    """
    values, mask, total = sequence.values, steps.mask, steps.values.shape[1]
    if torch.equal(sequence.length, steps.length):
        missing = max(total - values.shape[1], 0)
        return Sequence(nn.functional.pad(values, (0, 0, 0, missing))[:, :total], steps.length)
    t = torch.arange(total, device=values.device)
    have, want = sequence.length.unsqueeze(1), steps.length.unsqueeze(1)
    start = torch.where(mask, t * have // want, 0)
    stop = torch.where(mask, -(-(t + 1) * have // want), 1)
    running = nn.functional.pad(values.cumsum(1), (0, 0, 1, 0))
    wide = values.shape[2]
    ends = (running.gather(1, place.unsqueeze(2).expand(-1, -1, wide)) for place in (stop, start))
    mean = (next(ends) - next(ends)) / (stop - start).unsqueeze(2).to(values.dtype)
    return Sequence(mean.masked_fill(~mask.unsqueeze(2), 0.0), steps.length)


class InputNorm(nn.Module):
    """w (x - m) / sqrt(v + eps) + b for each of ``width`` channels, the last axis; m and v are those of training.

    It stands where the published models have BatchNorm, which is always on the inputs: there the statistics are those
    of the data, and training does not move them.
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """x (..., width), or fewer of the first channels."""
        wide = x.shape[-1]
        scale = (self.weight * (self.variance + self.eps).rsqrt())[:wide]
        return (x - self.mean[:wide]) * scale + self.bias[:wide]

    @torch.no_grad()
    def learn(self, parts: list[tuple[Tensor, Tensor]]) -> None:
        """Mean and variance of rows (n, channels) where ``real``, boolean, of the same shape; of none: 0 and 1."""
        totals = torch.zeros(3, len(self.mean), dtype=torch.float64)
        for rows, real in parts:
            x = rows.double().masked_fill(~real, 0.0)
            totals[:, : x.shape[1]] += torch.stack([real.double().sum(0), x.sum(0), x.square().sum(0)]).cpu()
        count = totals[0].clamp_min(1.0)
        mean = totals[1] / count
        variance = (totals[2] / count - mean.square()).clamp_min(0.0)
        self.mean.copy_(mean)
        self.variance.copy_(torch.where(totals[0] > 0, variance, 1.0))


def input_norm(width: int, *, reference: bool) -> nn.Module:
    """The norm of inputs (n, width)."""
    # DIFF: BatchNorm makes a sample depend on its batch and fails on one sample; ours has fixed statistics.
    return nn.BatchNorm1d(width) if reference else InputNorm(width)


class LSTM(nn.LSTM):
    """torch's, batch first, in the precision of its weights: half of it is not to be had on every CPU."""

    def __init__(self, width: int, hidden: int, layers: int = 1, *, dropout: float = 0.0, both: bool = False) -> None:
        super().__init__(width, hidden, layers, batch_first=True, dropout=dropout, bidirectional=both)

    def states(self, x: Tensor) -> Tensor:
        """Of the last layer at every step, (n, steps, hidden)."""
        with full_precision(x.device):
            return self(x.to(next(self.parameters()).dtype))[0]

    def both_ways(self, sequence: Sequence) -> tuple[Sequence, Tensor]:
        """Of one layer that runs both ways: states at every step, and the last state of either way, (n, 2, hidden).

        A CPU runs each way over all steps at once, padding included, which no real step sees: a packed batch of
        several lengths goes step by step there, which takes seven times as long for clips of 500 frames.
        """
        with full_precision(sequence.values.device):
            sequence = sequence._replace(values=sequence.values.to(next(self.parameters()).dtype))
            if sequence.values.device.type != "cpu":
                return self._packed(sequence)
            ways = [self._one_way(sequence, ""), self._one_way(sequence.backwards(), "_reverse")]
        states = torch.cat([ways[0].values, ways[1].backwards().values], 2)
        return sequence._replace(values=states), torch.stack([way.last() for way in ways], 1)

    def _one_way(self, sequence: Sequence, name: str) -> Sequence:
        kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        weights = [getattr(self, f"{kind}_l0{name}") for kind in kinds]
        start = sequence.values.new_zeros(1, len(sequence.values), self.hidden_size)
        states = torch.lstm(sequence.values, (start, start), weights, True, 1, 0.0, self.training, False, True)[0]
        return sequence._replace(values=states)

    def _packed(self, sequence: Sequence) -> tuple[Sequence, Tensor]:
        packed = pack_padded_sequence(sequence.values, sequence.length.cpu(), batch_first=True, enforce_sorted=False)
        states, (last, _) = self(packed)
        values, _ = pad_packed_sequence(states, batch_first=True, total_length=sequence.values.shape[1])
        return sequence._replace(values=values), last.transpose(0, 1)


class SubNet(nn.Module):
    """norm, dropout, three times (Linear, ReLU) of one width: (n, width) to (n, hidden)."""

    def __init__(self, width: int, hidden: int, dropout: float, *, reference: bool) -> None:
        super().__init__()
        self.norm = input_norm(width, reference=reference)
        layers: list[nn.Module] = [nn.Dropout(dropout)]
        for before in (width, hidden, hidden):
            layers += [nn.Linear(before, hidden), nn.ReLU()]
        self.body = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """Of one vector a sample."""
        return self.body(self.norm(x))


class TextNet(nn.Module):
    """The last state of an LSTM, then Linear: (n, steps, width) to (n, out)."""

    def __init__(self, width: int, hidden: int, out: int) -> None:
        super().__init__()
        self.lstm = LSTM(width, hidden)
        self.out = nn.Linear(hidden, out)

    def forward(self, text: Sequence) -> Tensor:
        """An LSTM looks back only: its state at the last real step knows nothing of what stands behind the end."""
        return self.out(text._replace(values=self.lstm.states(text.values)).last())


class Utterances(nn.ModuleDict):
    """One vector a modality: a :class:`TextNet` of the text, a :class:`SubNet` of the mean frame of the others.

    ``widths``: of the vectors, by name.
    """

    def __init__(
        self, streams: Streams, widths: Mapping[str, int], *, lstm: int, dropout: float, reference: bool
    ) -> None:
        super().__init__()
        for name in (name for name in ORDER if name in streams):
            width = streams[name][0]
            self[name] = (
                TextNet(width, lstm, widths[name])
                if name == "text"
                else SubNet(width, widths[name], dropout, reference=reference)
            )

    def forward(self, sequences: Mapping[str, Sequence]) -> list[Tensor]:
        """In the order of the published models: audio, vision, text."""
        return [net(sequences[name] if name == "text" else sequences[name].mean()) for name, net in self.items()]

    def normed(self, sequences: Mapping[str, Sequence]) -> Iterator[tuple[nn.Module, Tensor, Tensor]]:
        """The norms with what they read of a batch, and what of it is real."""
        for name in (name for name in self if name != "text"):
            rows = sequences[name].mean()
            norm: Any = self[name].norm
            yield norm, rows, torch.ones_like(rows, dtype=torch.bool)
