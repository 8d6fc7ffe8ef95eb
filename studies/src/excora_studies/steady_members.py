"""The members of :class:`SteadyRegressor`, and how each becomes a prediction."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from excora.data.scaling import mean_and_std
from excora.errors import InputError

Array = NDArray[np.float64]
Blocks = NDArray[np.intp]

SKEW = 2.0  # of a positive target, from which "auto" learns its logarithm
PENALTY = 0.01  # of the linear member, a row
BATCH = 256  # rows a step of a network
ROWS = 65_536  # rows predicted at once
FLAT = 1e-10  # a member whose values spread less than this, relative to the largest, says nothing


def time_blocks(time: Array, blocks: int) -> Blocks:
    """The block (n,) of each row, 0 to ``blocks`` - 1, of equal length in time; one where none would have two rows.

    >>> time_blocks(np.array([0.0, 1.0, 4.0, 5.0, 8.0]), 2)
    array([0, 0, 1, 1, 1])
    """
    half = time / 2  # whose range cannot overflow
    span = half.max() - half.min()
    if not span > 0:
        return np.zeros(len(time), np.intp)
    block = np.minimum((half - half.min()) / span * blocks, blocks - 1).astype(np.intp)
    return block if len(np.unique(block)) < len(block) else np.zeros(len(time), np.intp)


def centred(a: Array, block: Blocks) -> Array:
    """``a`` (n,) or (n, columns) less its mean in each block."""
    out = a.copy()
    for i in np.unique(block):
        out[block == i] -= a[block == i].mean(0)
    return out


def within(a: Array, label: Array, block: Blocks) -> Array:
    """Member 1, B = (A'A + n/100 I)^-1 A'l of centred A (n, columns) and l (n,).

    By Frisch and Waugh the slopes of a ridge regression with one more, unpenalised column a block, 1 in it and else 0.
    """
    x, z = centred(a, block), centred(label, block)
    return np.asarray(np.linalg.solve(x.T @ x + PENALTY * len(a) * np.eye(a.shape[1]), x.T @ z), np.float64)


def batches(block: Tensor | None, n: int) -> list[Tensor]:
    """Row numbers in random order; with ``block`` (n,), each batch from one block, and none of a single row."""
    if block is None:
        return list(torch.randperm(n).split(BATCH))
    parts: list[Tensor] = []
    for i in block.unique():
        rows = (block == i).nonzero()[:, 0]
        parts += [part for part in rows[torch.randperm(len(rows))].split(BATCH) if len(part) > 1]
    return [parts[i] for i in torch.randperm(len(parts)).tolist()]


def block_loss(residual: Tensor) -> Tensor:
    """Member 3: min over c of mean (r - c)^2 = Var(r), so that each batch, of one block, has a level c of its own."""
    return residual.var(unbiased=False)


class Recipe(NamedTuple):
    """A network: ``width`` of two hidden layers, ``dropout`` after each; rate and decay of AdamW."""

    width: int
    dropout: float
    learning_rate: float
    weight_decay: float


def train(a: Tensor, label: Tensor, block: Tensor | None, recipe: Recipe, epochs: int, seed: int) -> nn.Module:
    """A network of member 2 (``block`` None) or 3 on rows (n, columns) and labels (n,); in float64 once trained."""
    width, drop = recipe.width, nn.Dropout(recipe.dropout)
    with torch.random.fork_rng(devices=()), torch.enable_grad():
        torch.default_generator.manual_seed(seed)
        hidden = nn.Linear(a.shape[1], width), nn.ReLU(), drop, nn.Linear(width, width), nn.ReLU(), drop
        network = nn.Sequential(*hidden, nn.Linear(width, 1))
        optimiser = torch.optim.AdamW(network.parameters(), recipe.learning_rate, weight_decay=recipe.weight_decay)
        for _ in range(epochs):
            for rows in batches(block, len(a)):
                residual = network(a[rows])[:, 0] - label[rows]
                loss = residual.square().mean() if block is None else block_loss(residual)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
    # In single precision a prediction would change in its last digits with the rows it shares a batch with.
    return network.eval().double()


@torch.no_grad()
def mean_of(networks: list[nn.Module], x: Tensor) -> Array:
    """Mean (n,) of what networks say of rows (n, columns)."""
    parts = [torch.stack([network(part)[:, 0] for network in networks]).mean(0) for part in x.split(ROWS)]
    return torch.cat(parts).numpy()


class Label(NamedTuple):
    """What is learned of y: its logarithm or itself, standardised; and the greatest y."""

    log: bool
    mean: float
    std: float
    top: float

    def of(self, y: Array) -> Array:
        """(log y - mean) / std, or (y - mean) / std."""
        return ((np.log(y) if self.log else y) - self.mean) / self.std

    @classmethod
    def learn(cls, y: Array, target: str) -> Label:
        """By the name of the target: "log", "plain", or "auto", which decides by the skewness of a positive y."""
        if target == "log" and not y.min() > 0:
            raise InputError(f"target='log' needs y > 0, got {y.min():g}: use target='plain' or 'auto'")
        mean, std = mean_and_std(y)
        skewness = (((y - mean) / (std or 1.0)) ** 3).mean()
        log = target == "log" or (target == "auto" and bool(y.min() > 0 and skewness > SKEW))
        mean, std = mean_and_std(np.log(y)) if log else (mean, std)
        return cls(log, mean, std or 1.0, float(y.max()))


class Calibration(NamedTuple):
    """A member's values v as predictions of y less its mean: slope (f - centre), with f = g(v) kept in [low, high].

    g(v) = exp(mean of log y + std (v - middle)) / max y, at most 1, where the logarithm was learned; else v.
    """

    label: Label
    middle: float
    low: float
    high: float
    centre: float
    slope: float

    def raw(self, values: Array) -> Array:
        """g(v), (n,)."""
        if not self.label.log:
            return values
        level = self.label.mean + self.label.std * (values - self.middle)
        return np.exp(np.minimum(level - np.log(self.label.top), 0.0))

    def __call__(self, values: Array) -> Array:
        """Predictions (n,) of y less its mean."""
        return self.slope * (np.clip(self.raw(values), self.low, self.high) - self.centre)


def calibrate(values: Array, y: Array, label: Label) -> Calibration:
    """Least squares of y (n,) on a member's values (n,): slope = Cov(f, y) / Var(f), 0 where f hardly varies."""
    mean, std = mean_and_std(y)
    found = Calibration(label, float(values.mean()), 0.0, 0.0, 0.0, 0.0)
    f = found.raw(values)
    centre, spread = mean_and_std(f)
    slope = 0.0
    if spread > FLAT * np.abs(f).max():
        slope = float((((f - centre) / spread) * ((y - mean) / (std or 1.0))).mean() * (std / spread))
    return found._replace(low=float(f.min()), high=float(f.max()), centre=centre, slope=slope)
