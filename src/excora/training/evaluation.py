"""A trained network on samples, in bounded memory: predictions, attention and their figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from excora.data.dataset import Features, Index, each, in_double
from excora.errors import InputError
from excora.models import Network, Output
from excora.pooling import Pooled
from excora.settings import Machine, Recipe, Setup
from excora.stats.correlation import mean_over_targets, pearson, selection_mean, within_groups
from excora.stats.intervals import pooled_interval
from excora.stats.scores import criterion, squared_error
from excora.training.batches import Rows, in_order
from excora.training.run_monitor import RunMonitor

Floats = NDArray[np.float64]


class Attention(NamedTuple):
    """What a pool did with one sample: weights alpha_i and effective weights (see :class:`Pooled`), (elements,)."""

    weight: NDArray[Any]
    effective: NDArray[Any]
    gamma: float | None  #: None for a pool that has none
    temperature: float | None

    @property
    def effective_elements(self) -> float:
        """exp(entropy of the weights): 1 for one element, n for a plain mean."""
        weight = self.weight.astype(np.float64)
        return float(np.exp(-(weight * np.log(np.where(weight > 0, weight, 1.0))).sum()))


@dataclass(frozen=True)
class Answer:
    """Prediction of one sample on the standardised scale, (targets,), and how it came about, by pool."""

    position: int
    prediction: NDArray[np.float32]
    attention: dict[str, Attention]
    spread: NDArray[np.float32] | None = None  #: (targets,): how far labels are expected from it


def outputs(
    network: Network, features: Features, index: Index, *, max_elements: int, accelerator: str = "cpu",
    double: bool = False, watched: bool = False,
) -> Iterator[tuple[Index, Output]]:  # fmt: skip
    """What the network says of the samples of ``index``, some at a time, and which these are; the one such loop.

    At most ``max_elements`` elements are in memory at once; on a GPU if training would use one. ``double``: inputs in
    float64, for a network that is. ``watched``: a monitor listens, who may want a gradient of the head.
    """
    wants = accelerator in ("auto", "gpu", "cuda")
    device = torch.device("cuda" if wants and torch.cuda.is_available() else "cpu")
    network = network.to(device).eval()
    try:
        for piece in in_order(index, features.sizes, max_elements=max_elements):
            if len(piece):
                inputs = features.read(piece)
                inputs = each(in_double(inputs) if double else inputs, lambda x: x.to(device))
                with torch.no_grad() if watched else torch.inference_mode():
                    output = network(inputs)
                yield piece, output
    finally:
        network.cpu()


def watched(
    network: Network, features: Features, target: Callable[[Index], Floats], index: Index, *, max_elements: int,
    accelerator: str = "cpu", see: Callable[[Output], None] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The monitor's record of the samples of ``index`` under the network as it is.

    ``target`` gives the labels (n, targets) of samples, NaN where unknown. ``see`` is shown what the network says of
    them, some at a time: of one that predicts slowly, once is enough.
    """
    monitor = RunMonitor(network, stage="validation")
    monitor.setup(SimpleNamespace(sanity_checking=False), nn.ModuleDict({"network": network}), "validate")
    every = outputs(network, features, index, max_elements=max_elements, accelerator=accelerator, watched=True)
    try:
        for piece, output in every:
            labels = torch.from_numpy(target(piece)).float().to(output.prediction.device)
            known = ~labels.isnan()
            monitor.take(output.prediction, labels.nan_to_num(0.0), known)
            if see is not None:
                see(output)
    finally:
        monitor.teardown(None, network, "validate")
    return dict(monitor.end_epoch(gather=False))


def predictions(network: Network, features: Features, index: Index, setup: Setup) -> NDArray[np.float64]:
    """Of the samples of ``index``, on the standardised scale: (n, targets)."""
    limit, where = setup.recipe.max_elements, setup.machine.accelerator
    every = outputs(network, features, index, max_elements=limit, accelerator=where)
    return np.concatenate([output.prediction.float().cpu().numpy() for _, output in every]).astype(np.float64)


def start_score(network: Network, rows: Rows, index: Index, recipe: Recipe, machine: Machine) -> dict[str, float]:
    """The validation figures of a network that has not been trained, as a row of metrics.csv has them."""
    limit, where = recipe.max_elements, machine.accelerator
    every = outputs(network, rows.features, index, max_elements=limit, accelerator=where)
    prediction = np.concatenate([output.prediction.float().cpu().numpy() for _, output in every]).astype(np.float64)
    labels = rows.labels(index)
    weight = None if rows.weight is None else rows.weight.numpy()[index].astype(np.float64)
    judged = criterion(recipe.criterion, recipe.correlation_weight)(prediction, labels, weight)
    pcc = selection_mean(pearson(prediction, labels, weight))
    mse = squared_error(prediction, labels, weight)
    return {"validation_pcc": pcc, "validation_mse": mse, "validation_criterion": judged}


#: Paired standard errors by which a network must beat the ridge that it starts from, to be kept by start="auto".
SURELY = 2.0


def adds_surely(network: Network, rows: Rows, index: Index, recipe: Recipe, machine: Machine) -> bool:
    """Whether a trained network has a smaller squared error on ``index`` than its ridge, beyond the noise of a sample.

    d_i = w_i sum_t [(ridge_it - y_it)^2 - (yhat_it - y_it)^2] over the known labels: mean(d) > 2 sd(d) / sqrt(n). The
    best of many epochs on few samples is ahead by luck; the ridge, which has seen none of them, is the safer one.
    """
    assert network.linear_start is not None
    every = outputs(network, rows.features, index, max_elements=recipe.max_elements, accelerator=machine.accelerator)
    gains = []
    for piece, output in every:
        y = rows.labels(piece)
        device = output.prediction.device
        ridge = network.linear_start(each(rows.features.read(piece), lambda x: x.to(device)))  # noqa: B023  (at once)
        before, after = (x.detach().double().cpu().numpy() - y for x in (ridge, output.prediction))
        weight = 1.0 if rows.weight is None else rows.weight.numpy()[piece].astype(np.float64)
        gains.append(weight * np.nansum(before**2 - after**2, 1))
    d = np.concatenate(gains)
    return bool(len(d) > 1 and d.mean() > SURELY * d.std(ddof=1) / np.sqrt(len(d)))


def answers(network: Network, features: Features, index: Index, setup: Setup) -> Iterator[Answer]:
    """The samples of ``index`` in order, with what each pool did."""
    limit, where = setup.recipe.max_elements, setup.machine.accelerator
    for piece, output in outputs(network, features, index, max_elements=limit, accelerator=where):
        looked = {name: attention(pooled) for name, pooled in output.pooled.items()}
        spread = None if output.spread is None else output.spread.float().cpu().numpy()
        for k, row in enumerate(output.prediction.float().cpu().numpy()):
            about = {name: found[k] for name, found in looked.items()}
            yield Answer(int(piece[k]), row, about, None if spread is None else spread[k])


def reach_of(network: Network, model: str, level: float) -> Floats:
    """How many spreads around a prediction hold ``level`` of all labels, (targets,)."""
    if isinstance(level, bool) or not isinstance(level, float | int | np.number) or not 0 < level < 1:
        raise InputError(f"the level of an interval must be in (0, 1), got {level!r}")
    reach = network.reach(float(level))
    if reach is None:
        raise InputError(f"the model {model!r} gives no intervals: it does not say how far labels are expected")
    return reach.double().numpy()


def attention(pooled: Pooled) -> list[Attention]:
    """Sample by sample, without what stands behind its last real element."""
    ends = _ends(pooled)
    parts = [_rows(x, ends) for x in (pooled.weights, pooled.effective)]
    parts += [_figures(pooled, name) for name in ("gamma", "temperature")]
    return [Attention(*one) for one in zip(*parts, strict=True)]


def _figures(pooled: Pooled, name: str) -> list[Any]:
    """A number of each sample; None for a pool that has none."""
    found = pooled.details.get(name)
    return [None] * len(pooled.value) if found is None else found.float().cpu().tolist()


def _ends(pooled: Pooled) -> list[int] | None:
    """The number of elements of each sample up to its last real one; None: all."""
    if pooled.real is None:
        return None
    if pooled.weights.dim() == 1:
        return pooled.real.tolist()
    places = torch.arange(1, pooled.real.shape[1] + 1, device=pooled.real.device)
    return (places * pooled.real).amax(1).tolist() if pooled.real.shape[1] else [0] * len(pooled.real)


def _rows(x: torch.Tensor, ends: list[int] | None) -> list[NDArray[Any]]:
    """One array a sample, of padded rows or of bags of several sizes end to end."""
    values: NDArray[Any] = x.cpu().numpy()
    if ends is None:
        return list(values)
    if values.ndim == 1:
        return np.split(values, np.cumsum(ends)[:-1])
    return [row[:end] for row, end in zip(values, ends, strict=True)]


def scores(
    prediction: Floats, target: Floats, names: tuple[str, ...], group: NDArray[Any] | None
) -> dict[str, dict[str, float]]:
    """PCC with its 95 % interval (groups resampled whole), MSE and MAE of each target over its known labels.

    NaN where undefined.
    """
    codes = None if group is None else np.unique(group, return_inverse=True)[1]
    found = {}
    for k, name in enumerate(names):
        known = ~np.isnan(target[:, k])
        if not known.any():
            found[name] = dict.fromkeys(("pcc", "mse", "mae", "low", "high"), np.nan)
            continue
        interval = pooled_interval(prediction[:, k], target[:, k], codes)
        error = (prediction[:, k] - target[:, k])[known]
        figures = {"mse": float(np.square(error).mean()), "mae": float(np.abs(error).mean())}
        found[name] = {"pcc": interval.value, **figures, "low": interval.low, "high": interval.high}
    return found


def group_scores(prediction: Floats, target: Floats, group: NDArray[Any]) -> list[dict[str, Any]]:
    """PCC and MSE within each group over its known labels, means over the (defined) targets."""
    names, codes = np.unique(group, return_inverse=True)
    pairs = list(zip(prediction.T, target.T, strict=True))
    rho = np.stack([within_groups(x, y, codes, len(names)) for x, y in pairs])
    wrong = np.square(prediction - target)
    mse = np.stack([_means(column, codes, len(names)) for column in wrong.T])
    figures = zip(names, np.bincount(codes), mean_over_targets(rho), mean_over_targets(mse), strict=True)
    return [{"group": str(name), "n": int(n), "pcc": float(r), "mse": float(m)} for name, n, r, m in figures]


def _means(values: Floats, codes: NDArray[np.intp], groups: int) -> Floats:
    """Of what is known in each group; NaN where nothing is."""
    known = ~np.isnan(values)
    count = np.bincount(codes[known], minlength=groups)
    total = np.bincount(codes[known], values[known], minlength=groups)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
