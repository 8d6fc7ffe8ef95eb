"""A trained network on samples, in bounded memory: predictions, attention and their figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from excora.data.dataset import Features, Index, RetrievalInput, move
from excora.models.network import Network
from excora.settings import Settings
from excora.stats.correlation import correlations, unit_moments
from excora.stats.intervals import pooled_interval
from excora.training.batches import in_order

Floats = NDArray[np.float64]


class Attention(NamedTuple):
    """Attention of one sample: weights alpha_i and effective weights (1 - gamma) / n + gamma alpha_i, (elements,).

    Elements that the sample may not see are not among the n.
    """

    weight: NDArray[np.float32]
    effective: NDArray[np.float32]
    gamma: float | None  #: None for a pool that has none
    temperature: float | None

    @property
    def effective_elements(self) -> float:
        """exp(entropy of the weights): 1 for one element, n for a plain mean."""
        weight = self.weight.astype(np.float64)
        return float(np.exp(-(weight * np.log(np.where(weight > 0, weight, 1.0))).sum()))


@dataclass(frozen=True)
class Answer:
    """Prediction of one sample on the standardised scale, (targets,), and how it came about."""

    position: int
    prediction: NDArray[np.float32]
    attention: Attention


def answers(network: Network, features: Features, index: Index, settings: Settings) -> Iterator[Answer]:
    """The samples of ``index`` in order, ``max_elements`` elements at a time; on a GPU if training would use one."""
    wants = settings.accelerator in ("auto", "gpu", "cuda")
    device = torch.device("cuda" if wants and torch.cuda.is_available() else "cpu")
    network = network.to(device).eval()
    try:
        for piece in in_order(index, features.sizes, max_elements=settings.max_elements):
            if len(piece):
                yield from _piece(network, features, piece, device)
    finally:
        network.cpu()


@torch.inference_mode()
def _piece(network: Network, features: Features, piece: Index, device: torch.device) -> list[Answer]:
    x = features.read(piece)
    output = network(move(x, device))
    details = output.pooled.details
    gamma, temperature = (details[k].cpu().tolist() if k in details else None for k in ("gamma", "temperature"))
    attended = output.pooled.weights.float().cpu().numpy()
    # One row a sample, or bags of several sizes end to end.
    weights = list(attended) if attended.ndim == 2 else np.split(attended, np.cumsum(features.sizes[piece])[:-1])
    if isinstance(x, RetrievalInput):  # the allowed ones come first
        weights = [row[:n] for row, n in zip(weights, x.allowed.sum(1).tolist(), strict=True)]
    found = []
    for k, row in enumerate(output.prediction.float().cpu().numpy()):
        gain = 1.0 if gamma is None else gamma[k]
        effective = np.float32((1.0 - gain) / max(len(weights[k]), 1)) + np.float32(gain) * weights[k]
        attention = Attention(
            weights[k], effective, gamma and gamma[k], temperature and temperature[k]
        )  # fmt: skip
        found.append(Answer(int(piece[k]), row, attention))
    return found


def scores(
    prediction: Floats, target: Floats, names: tuple[str, ...], group: NDArray[Any] | None
) -> dict[str, dict[str, float]]:
    """PCC with its 95 % interval (groups resampled whole), MSE and MAE of each target; NaN where undefined."""
    codes = None if group is None else np.unique(group, return_inverse=True)[1]
    found = {}
    for k, name in enumerate(names):
        error = prediction[:, k] - target[:, k]
        interval = pooled_interval(prediction[:, k], target[:, k], codes)
        figures = {"mse": float(np.square(error).mean()), "mae": float(np.abs(error).mean())}
        found[name] = {"pcc": interval.value, **figures, "low": interval.low, "high": interval.high}
    return found


def group_scores(prediction: Floats, target: Floats, group: NDArray[Any]) -> list[dict[str, Any]]:
    """PCC and MSE within each group, means over the (defined) targets."""
    names, codes = np.unique(group, return_inverse=True)
    pairs = zip(prediction.T, target.T, strict=True)
    rho = np.stack([correlations(unit_moments(x, y, codes, len(names))) for x, y in pairs])
    counts = np.bincount(codes)
    mse = np.bincount(codes, np.square(prediction - target).mean(1)) / counts
    defined = ~np.isnan(rho)
    mean = np.where(defined, rho, 0.0).sum(0) / np.where(defined.any(0), defined.sum(0), np.nan)
    return [
        {"group": str(name), "n": int(n), "pcc": float(r), "mse": float(m)}
        for name, n, r, m in zip(names, counts, mean, mse, strict=True)
    ]
