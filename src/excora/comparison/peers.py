"""What one would use instead: ridge regression, nearest neighbours, LightGBM, on one matrix of features.

Each is tuned on the validation part by the criterion that picks a network's epoch, and learns from the training part
alone. Targets are standardised; predictions are for the samples of the test part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from excora.comparison.scores import Array, criterion
from excora.errors import MissingExtraError
from excora.settings import Settings

RIDGES = tuple(10.0**power for power in range(-5, 4))  #: penalty a training sample
NEIGHBOURS = (1, 2, 3, 5, 8, 12, 20, 30, 50)
TREES = ({"num_leaves": 7, "min_data_in_leaf": 5}, {"num_leaves": 31, "min_data_in_leaf": 20})
ROUNDS, PATIENCE, RATE = 2000, 50, 0.05
Choice = dict[str, Any]
Tried = tuple[Choice, Array, Array]  #: what was chosen, its predictions for validation and test


class Part(NamedTuple):
    """Samples of a fold: features (n, p), standardised targets (n, t), weights (n,) or None."""

    x: Array
    y: Array
    weight: Array | None


class Fold(NamedTuple):
    """Training and validation parts, and the features of the test part."""

    train: Part
    validation: Part
    test: Array


class Fitted(NamedTuple):
    """Predictions for the test part (n, t), and what the validation part chose."""

    prediction: Array
    chosen: Choice


def ridge(fold: Fold, settings: Settings, seed: int) -> Fitted:  # noqa: ARG001  (nothing in it is random)
    """min_w sum v_i |y_i - x_i w - c|^2 + n lambda |w|^2, v the sample weights of mean 1; lambda of :data:`RIDGES`,
    columns as they are or standardised.

    All lambdas come from one eigendecomposition of the smaller Gram matrix.
    """
    return _best(_both_scales(fold, _ridges), fold, settings)


def _ridges(fold: Fold) -> Iterator[Tried]:
    train = fold.train
    n = len(train.x)
    v = np.ones(n) if train.weight is None else train.weight / train.weight.mean()
    mean, level = np.average(train.x, axis=0, weights=v), np.average(train.y, axis=0, weights=v)
    root = np.sqrt(v)[:, None]
    a, b = (train.x - mean) * root, (train.y - level) * root
    wide = a.shape[1] > n
    values, vectors = np.linalg.eigh(a @ a.T if wide else a.T @ a)
    rotated = vectors.T @ (b if wide else a.T @ b)
    for penalty in RIDGES:
        solved = vectors @ (rotated / (np.maximum(values, 0.0) + n * penalty)[:, None])
        w = a.T @ solved if wide else solved
        yield {"penalty": penalty}, *((x - mean) @ w + level for x in (fold.validation.x, fold.test))


def neighbours(fold: Fold, settings: Settings, seed: int) -> Fitted:  # noqa: ARG001  (nothing in it is random)
    """Mean of the k nearest training samples, plain or weighted by 1 / distance; columns as they are or standardised.

    At distance 0 the mean weighted by distance is that of the samples at distance 0.
    """
    return _best(_both_scales(fold, _means), fold, settings)


def _means(fold: Fold) -> Iterator[Tried]:
    try:
        from sklearn.neighbors import NearestNeighbors
    except ImportError as error:
        raise MissingExtraError("scikit-learn", "app") from error
    train = fold.train
    most = min(NEIGHBOURS[-1], len(train.x))
    index = NearestNeighbors(n_neighbors=most).fit(train.x)
    found = [index.kneighbors(x) for x in (fold.validation.x, fold.test)]
    for k in (k for k in NEIGHBOURS if k <= most):
        for by_distance in (False, True):
            held, test = (_mean(d[:, :k], i[:, :k], train, by_distance) for d, i in found)
            yield {"neighbours": k, "by distance": by_distance}, held, test


def _mean(distance: Array, index: Any, train: Part, by_distance: bool) -> Array:
    """(n, t)."""
    weight = np.ones_like(distance)
    if by_distance:
        same = distance == 0.0
        # Relative to the nearest: 1 / distance itself may overflow.
        weight = np.where(same.any(1, keepdims=True), same, distance[:, :1] / np.where(same, 1.0, distance))
    if train.weight is not None:
        weight = weight * train.weight[index]
        # All neighbours of weight 0: nothing prefers one of them.
        weight = np.where(weight.any(1, keepdims=True), weight, 1.0)
    return np.einsum("nk,nkt->nt", weight, train.y[index]) / weight.sum(1, keepdims=True)


def lightgbm(fold: Fold, settings: Settings, seed: int) -> Fitted:
    """Boosted trees, one model a target, stopped early on the validation part; the better of two sizes of trees."""
    fits = [_boosted(fold, target, settings, seed) for target in range(fold.train.y.shape[1])]
    chosen = fits[0].chosen if len(fits) == 1 else {"targets": [fit.chosen for fit in fits]}
    return Fitted(np.concatenate([fit.prediction for fit in fits], 1), chosen)


def _boosted(fold: Fold, target: int, settings: Settings, seed: int) -> Fitted:
    engine = import_lightgbm()
    train, validation = (part._replace(y=part.y[:, target, None]) for part in (fold.train, fold.validation))

    def measure(raw: Array, _: Any) -> tuple[str, float, bool]:
        return "criterion", criterion(raw[:, None], validation.y, validation.weight, settings), False

    tried = []
    for size in TREES:
        parameters = {
            "objective": "regression", "metric": "none", "learning_rate": RATE, "num_threads": 1, "verbosity": -1,
            "deterministic": True, "force_row_wise": True, "seed": seed, **size,
        }  # fmt: skip
        options: dict[str, Any] = {"params": parameters, "free_raw_data": False}
        data = engine.Dataset(train.x, train.y[:, 0], weight=train.weight, **options)
        held = engine.Dataset(validation.x, validation.y[:, 0], weight=validation.weight, reference=data, **options)
        stop = engine.early_stopping(PATIENCE, verbose=False)
        booster = engine.train(parameters, data, ROUNDS, valid_sets=[held], feval=measure, callbacks=[stop])
        chosen = {"leaves": size["num_leaves"], "trees": booster.best_iteration}
        tried.append((chosen, *(booster.predict(x)[:, None] for x in (validation.x, fold.test))))
    return _best(iter(tried), fold._replace(validation=validation), settings)


def import_lightgbm() -> Any:
    """The package, or an error that names the extra."""
    try:
        import lightgbm as engine
    except ImportError as error:
        raise MissingExtraError("lightgbm", "compare") from error
    return engine


PEERS: dict[str, Callable[[Fold, Settings, int], Fitted]] = {
    "ridge": ridge, "neighbours": neighbours, "lightgbm": lightgbm,
}  # fmt: skip


def _both_scales(fold: Fold, model: Callable[[Fold], Iterator[Tried]]) -> Iterator[Tried]:
    """The model on the columns as they are, then on columns of mean 0 and standard deviation 1 in training."""
    for choice, held, test in model(fold):
        yield {"scaled": False, **choice}, held, test
    mean, std = fold.train.x.mean(0), fold.train.x.std(0)
    std = np.where(std > 0, std, 1.0)
    train, validation = (part._replace(x=(part.x - mean) / std) for part in (fold.train, fold.validation))
    for choice, held, test in model(Fold(train, validation, (fold.test - mean) / std)):
        yield {"scaled": True, **choice}, held, test


def _best(tried: Iterator[Tried], fold: Fold, settings: Settings) -> Fitted:
    """The one with the lowest criterion on validation, the first of equals."""
    validation = fold.validation
    return min(
        ((criterion(held, validation.y, validation.weight, settings), Fitted(test, c)) for c, held, test in tried),
        key=lambda pair: pair[0],
    )[1]
