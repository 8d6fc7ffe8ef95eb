"""The regressor for rows in time order whose columns drift."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from excora.data.scaling import mean_and_std
from excora.errors import InputError
from excora.estimators.checks import input_errors, plain
from excora_studies.steady_members import (
    Array,
    Blocks,
    Label,
    Recipe,
    calibrate,
    mean_of,
    time_blocks,
    train,
    within,
)

FAR, REACH = 9.0, 4.0  # where standardised columns end, for the linear member and for networks
#: The kind of each option, its least value, and what it must be below.
RULES: dict[str, tuple[type, float, float]] = {
    **dict.fromkeys(("blocks", "networks", "width", "short", "long"), (int, 1, 2**32)),
    "seed": (int, 0, 2**32),
    "dropout": (float, 0, 1),
    "learning_rate": (float, 0, np.inf),
    "weight_decay": (float, 0, np.inf),
}


class SteadyRegressor(RegressorMixin, BaseEstimator):
    """For rows in time order and predictions of later ones: a mean of three members that learn little from slow change.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(600, 2)) + np.linspace(0, 3, 600)[:, None]
    >>> y = x[:, 0] - x[:, 1] + 0.1 * rng.normal(size=600)
    >>> model = SteadyRegressor(short=20, long=20).fit(x[:400], y[:400])
    >>> model.predict(x[400:]).shape, model.score(x[400:], y[400:]) > 0.8
    ((200,), True)

    Whatever changes slowly (seasons, sensors that age) rises and falls with the target over a few months by chance, and
    a model that learns from it is wrong in the months that follow. So time is cut into ``blocks`` parts of equal
    length, and what differs *between* them is hardly learned from. With l = log y (``target="log"``) or y ("plain"),
    standardised, and columns x standardised and cut off far out:

    1. linear, within blocks: B = (A'A + n/100 I)^-1 A'l, with A and l centred in each block;
    2. ``networks`` small networks f, ``short`` epochs over all rows: minimise mean (f(x) - l)^2;
    3. as many, ``long`` epochs of batches from one block each: minimise Var(f(x) - l) within the batch.

    Each member goes back to the scale of y, is kept in the range of its training values, and is calibrated by least
    squares, y ~ a + b f, on the training rows; the prediction is the mean of the three.

    Use it where rows come in time order, those to predict come after those to learn from, and columns drift. Expect a
    gain in correlation. It continues no trend, so where columns that matter drift far beyond their values in training
    its MSE may be above that of a ridge regression. Where rows are exchangeable,
    :class:`excora.TabularRegressor` learns more from them. The defaults were chosen on one data set, of 16,000 rows;
    with fewer than some 5,000 an epoch is few batches (of 256), and more epochs may pay. Several targets: one regressor
    each (MultiOutputRegressor).

    ``X`` (n, columns) are numbers; categories, text, dates, NaN and infinity are an :class:`InputError`. ``y`` is (n,).
    ``target="auto"`` is "log" where all of y is positive and its skewness exceeds 2; "log" asks for y > 0. Columns
    constant in training are ignored; with no other, or a constant y, the prediction is the mean of y. Where time stands
    still, or no block would have two rows, there is one block.

    ``width`` of two hidden layers, ``dropout`` after each, ``learning_rate`` and ``weight_decay`` of AdamW. One
    ``seed`` gives the same predictions bit for bit on one machine; global random states are left alone.

    After ``fit``: ``log_`` (whether the logarithm was learned), ``weight_`` (columns,) of the linear member on
    standardised columns, ``networks_`` (those of members 2 and 3), ``n_features_in_``, ``feature_names_in_``.
    """

    n_features_in_: int

    def __init__(
        self,
        *,
        blocks: int = 8,
        networks: int = 3,
        width: int = 64,
        dropout: float = 0.3,
        learning_rate: float = 2e-3,
        weight_decay: float = 0.1,
        short: int = 3,
        long: int = 10,
        target: str = "auto",
        seed: int = 0,
    ) -> None:
        self.blocks = blocks
        self.networks = networks
        self.width = width
        self.dropout = dropout
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.short = short
        self.long = long
        self.target = target
        self.seed = seed

    def fit(self, X: Any, y: Any, time: Any = None) -> Self:
        """Learn from rows (n, columns), labels (n,) and their time (n,): numbers or datetimes, in any order.

        Without ``time``, rows are in time order and evenly spaced. At least 2 rows.
        """
        self._check()
        if y is None:
            raise InputError("SteadyRegressor requires y to be passed, but the target y is None")
        _check_frame(X)
        with input_errors():
            x, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
            y = y.astype(np.float64)
        when = np.arange(len(x), dtype=np.float64) if time is None else seconds(time, len(x))
        order = np.argsort(when, kind="stable")
        x, y, block = x[order], y[order], time_blocks(when[order], self.blocks)
        self._mean, self._scale = np.transpose([mean_and_std(column) for column in x.T])
        label, self._level = Label.learn(y, self.target), mean_and_std(y)[0]
        a, known = self._standardised(x), label.of(y)
        self.log_, self.weight_ = label.log, within(a, known, block)
        self.networks_ = self._train(a, known, block)
        self._calibrations = [calibrate(values, y, label) for values in self._members(a)]
        return self

    def predict(self, X: Any) -> Array:
        """Predictions (n,) on the scale of ``y``; the time of these rows does not matter."""
        check_is_fitted(self)
        _check_frame(X)
        with input_errors():
            x = validate_data(self, X, dtype=np.float64, reset=False)
        members = zip(self._calibrations, self._members(self._standardised(x)), strict=True)
        return self._level + np.mean([calibration(values) for calibration, values in members], 0)

    def _standardised(self, x: Array) -> Array:
        # Cut off before anything is subtracted: a constant column is then exactly 0, and nothing overflows.
        inside = np.clip(x, self._mean - FAR * self._scale, self._mean + FAR * self._scale)
        return (inside - self._mean) / np.where(self._scale > 0, self._scale, 1.0)

    def _members(self, a: Array) -> list[Array]:
        near = torch.from_numpy(np.clip(a, -REACH, REACH))
        return [a @ self.weight_, *(mean_of(networks, near) for networks in self.networks_)]

    def _train(self, a: Array, label: Array, block: Blocks) -> list[list[nn.Module]]:
        near, known = (torch.tensor(v, dtype=torch.float32) for v in (np.clip(a, -REACH, REACH), label))
        recipe = Recipe(self.width, self.dropout, self.learning_rate, self.weight_decay)
        first, count = plain(self.networks) * plain(self.seed), plain(self.networks)
        return [
            [train(near, known, parts, recipe, epochs, seed) for seed in range(first, first + count)]
            for parts, epochs in ((None, self.short), (torch.from_numpy(block), self.long))
        ]

    def _check(self) -> None:
        if self.target not in ("auto", "log", "plain"):
            raise InputError(f"target must be 'auto', 'log' or 'plain', got {self.target!r}")
        for name, (kind, least, below) in RULES.items():
            value = plain(getattr(self, name))
            if type(value) not in (int, kind) or not least <= value < below:
                noun = "an int" if kind is int else "a number"
                raise InputError(f"{name} must be {noun} in [{least}, {below}), got {value!r}")


def seconds(time: Any, rows: int) -> Array:
    """Time as finite numbers (rows,): as they are, or datetimes as seconds since the first of them."""
    found = np.asarray(time) if isinstance(time, Tensor) else time
    if np.ndim(found) != 1 or len(found) != rows:
        raise InputError(f"time must have one entry a row, ({rows},), got {np.shape(found)}")
    with input_errors():
        series = pd.Series(found).reset_index(drop=True).infer_objects()
    if isinstance(series.dtype, pd.DatetimeTZDtype) or series.dtype.kind == "M":
        series = series - series.min()
    if series.dtype.kind == "m":
        series = series.dt.total_seconds()
    if not pd.api.types.is_numeric_dtype(series) or series.dtype.kind == "c":
        raise InputError(f"time must be numbers or datetimes, got {series.dtype}: see pandas.to_datetime")
    values = series.to_numpy(np.float64, na_value=np.nan)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise InputError(f"time must be finite, got {values[bad[0]]} in row {bad[0]}: leave such rows out")
    return values


def _check_frame(X: Any) -> None:
    if not isinstance(X, pd.DataFrame):
        return
    wrong = [str(name) for name, kind in X.infer_objects().dtypes.items() if not pd.api.types.is_numeric_dtype(kind)]
    if wrong:
        raise InputError(
            f"X must hold numbers, and {', '.join(wrong)} does not: encode text and categories (pandas.get_dummies, "
            f"OneHotEncoder), turn dates into hours, days or their like, or leave them out"
        )
