"""The model "iccn", after Sun et al. (2020): text with audio and text with vision, made to correlate.

No code of the original is public, and sizes are not known: this is our reading of its description, not a reproduction.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from excora.models.base import Output, register_model
from excora.models.sentiment.base import PUBLISHED, SentimentModel, SentimentNetwork, SentimentOptions
from excora.models.sentiment.parts import LSTM, Sequence, Streams
from excora.options import option

#: Added to the diagonal of covariances.
RIDGE = 1e-3


@dataclasses.dataclass(frozen=True, kw_only=True)
class ICCNOptions(SentimentOptions):
    """Of the model "iccn"."""

    dim: int = option(32, "Width of the vectors of audio, vision and of each pair with the text.", least=1)
    channels: int = option(
        8, "Channels of the first convolution of an outer product; the second has twice as many.", least=1
    )
    dropout: float = option(0.2, "Dropout of what the head reads, in [0, 1).", least=0, below=1)
    correlated: float = option(0.1, "Weight of the mean canonical correlation of the two pairs.", least=0)


def canonical_correlation(a: Tensor, b: Tensor) -> Tensor:
    """The sum of the canonical correlations of a (n, p) and b (n, q): the nuclear norm of S_aa^-1/2 S_ab S_bb^-1/2.

    Covariances have a ridge of 1e-3. With S = L L^T the matrix L_a^-1 S_ab L_b^-T has the same singular values, and a
    gradient that does not break where eigenvalues meet.

    >>> a = torch.tensor([[1.0], [2.0], [3.0]])
    >>> canonical_correlation(a, -2 * a).round(decimals=2)
    tensor(1.)
    """
    wide = torch.promote_types(a.dtype, torch.float64)
    x, y = (part.to(wide) - part.to(wide).mean(0) for part in (a, b))
    n = max(len(x) - 1, 1)

    def whitened(z: Tensor) -> Tensor:
        covariance = z.T @ z / n + RIDGE * torch.eye(z.shape[1], dtype=wide, device=z.device)
        return torch.linalg.solve_triangular(torch.linalg.cholesky(covariance), z.T, upper=False)

    return torch.linalg.svdvals(whitened(x) @ whitened(y).T / n).sum().to(a.dtype)


class Frames(nn.Module):
    """A convolution over three steps, ReLU, and the last state of an LSTM: (n, steps, width) to (n, dim)."""

    def __init__(self, width: int, dim: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(width, dim, 3, padding=1)
        self.lstm = LSTM(dim, dim)

    def forward(self, sequence: Sequence) -> Tensor:
        """Zeros stand before the first and behind the last real step."""
        h = torch.relu(self.convolution(sequence.values.mT).mT)
        return sequence._replace(values=self.lstm.states(h)).last()


class Pair(nn.Module):
    """The outer product of two vectors through two strided convolutions: (n, width) and (n, dim) to (n, dim)."""

    def __init__(self, width: int, dim: int, channels: int) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(1, channels, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(),
        )  # fmt: skip

        def halved(size: int) -> int:
            return (size + 1) // 2

        cells = halved(halved(width)) * halved(halved(dim))
        self.out = nn.Linear(2 * channels * cells, dim)

    def forward(self, text: Tensor, other: Tensor) -> Tensor:
        """The vector of the pair."""
        return self.out(self.convolutions((text.unsqueeze(2) * other.unsqueeze(1)).unsqueeze(1)))


class ICCN(SentimentNetwork):
    """yhat = W [K_ta, text, K_tv] + c; K_ta and K_tv, of text x audio and text x vision, are made to correlate.

    Needs text, audio and vision; the text is the mean of its real steps.

    >>> network = ICCN({"text": (6, 5), "audio": (3, 7), "vision": (4, 2)}, ICCNOptions(dim=4))
    >>> inputs = {"text": torch.randn(2, 5, 6), "audio": torch.randn(2, 7, 3), "vision": torch.randn(2, 2, 4)}
    >>> output = network(inputs | {f"{name}_length": torch.tensor([2, 1]) for name in inputs})
    >>> output.prediction.shape, output.compared.shape
    (torch.Size([2, 1]), torch.Size([2, 2, 4]))
    """

    options: ICCNOptions

    def __init__(self, streams: Streams, options: ICCNOptions | None = None, targets: int = 1) -> None:
        options = options or ICCNOptions()
        super().__init__(streams, options, targets)
        width, dim = streams["text"][0], options.dim
        self.frames = nn.ModuleDict({name: Frames(streams[name][0], dim) for name in ("audio", "vision")})
        self.pairs = nn.ModuleDict({name: Pair(width, dim, options.channels) for name in ("audio", "vision")})
        self.dropout = nn.Dropout(options.dropout)
        self.head = nn.Linear(width + 2 * dim, targets)

    def fuse(self, sequences: dict[str, Sequence]) -> Output:
        """Predictions, and the two pairs, (n, 2, dim)."""
        text = sequences["text"].mean()
        with_audio, with_vision = (
            self.pairs[name](text, frames(sequences[name])) for name, frames in self.frames.items()
        )
        joined = self.dropout(torch.cat([with_audio, text, with_vision], 1))
        return Output(self.head(joined), compared=torch.stack([with_audio, with_vision], 1))

    def compare(self, compared: Tensor, target: Tensor, known: Tensor | None) -> Mapping[str, Tensor]:  # noqa: ARG002
        """Minus the mean canonical correlation; nothing of a batch that is no larger than the vectors are wide."""
        if len(compared) <= self.options.dim:
            return {}
        found = canonical_correlation(*compared.unbind(1)) / self.options.dim
        return {"correlated": -self.options.correlated * found}


@register_model
class ICCNModel(SentimentModel):
    """Our reading of ICCN; needs all three modalities."""

    name = "iccn"
    says = "text with audio and text with vision, made to correlate (our reading of ICCN)"
    needs, fewest = ("text", "audio", "vision"), 3
    Network, Options = ICCN, ICCNOptions
    small = {"dim": 4, "channels": 2}  # noqa: RUF012
    recipe = PUBLISHED | {"learning_rate": 1e-3, "weight_decay": 1e-4, "batch_size": 64}
