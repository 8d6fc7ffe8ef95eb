"""A row of the table: a model, how it is fitted, and what may be tuned.

Every row, peer or ours, goes the same way: trials on the validation part of one seed, the defaults or the quickest
first, at most :data:`TRIALS` of them and as long as the budget of CPU seconds lasts; then, for every seed, one fit on
training and validation part together with everything fixed, the number of steps too; then one look at the test part.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from excora.data.splits import Split
from excora.estimators.ensemble import SEEDS, pcc

Floats = NDArray[np.float64]
Parameters = dict[str, Any]
Predict = Callable[[Floats], Floats]
TRIALS = 10


@dataclass(frozen=True)
class Part:
    """Features (n, p) and target (n,), both standardised by the training part; group and time (n,) where they exist."""

    x: Floats
    y: Floats
    group: NDArray[np.intp] | None = None
    time: Floats | None = None
    scale: tuple[float, float] = (0.0, 1.0)  #: mean and standard deviation of the target: raw = y * std + mean

    def take(self, rows: NDArray[np.intp]) -> Part:
        """Some of the rows."""
        group = None if self.group is None else self.group[rows]
        return Part(self.x[rows], self.y[rows], group, None if self.time is None else self.time[rows], self.scale)


class Parts(NamedTuple):
    """A set, split and standardised; the same for every row of the table."""

    whole: Part
    split: Split
    fingerprint: str
    unit: NDArray[np.intp]  #: (n,) what is resampled together: blocks of time, compositions, rows

    @property
    def train(self) -> Part:
        """To learn from while tuning."""
        return self.whole.take(self.split.train)

    @property
    def validation(self) -> Part:
        """To choose by."""
        return self.whole.take(self.split.validation)

    @property
    def both(self) -> Part:
        """To learn from when everything is chosen."""
        return self.whole.take(np.concatenate([self.split.train, self.split.validation]))

    @property
    def test(self) -> Part:
        """To look at once."""
        return self.whole.take(self.split.test)


class Fit(Protocol):
    """Learns from a part, and with a validation part finds out when to stop."""

    def __call__(
        self, parameters: Parameters, train: Part, validation: Part | None, seed: int
    ) -> tuple[Predict, Parameters]:
        """Predictions from features, and the parameters with what validation fixed; without it they are all given."""


class Trial(NamedTuple):
    """What a trial chose, and how it does on validation."""

    parameters: Parameters
    prediction: Floats  #: for the validation part
    mse: float
    pcc: float
    seconds: float  #: of CPU


@dataclass(frozen=True)
class Row:
    """How a model is fitted, its defaults, and the values that may be tried.

    - ``listed``: all trials, as changes of the defaults, written down instead of drawn from ``space``.
    - ``tuned_as``: the row whose trials this one uses, with ``changes``, so that two rows differ in one thing alone.
    - ``members``: how many fits are averaged. Which trials they are, validation says, see
      :func:`excora.estimators.ensemble.pick`.
    """

    fit: Fit
    defaults: Parameters
    space: Mapping[str, tuple[Any, ...]]
    tuned_as: str | None = None
    changes: Parameters = field(default_factory=dict)
    members: int = 1
    listed: tuple[Parameters, ...] = ()

    def trial(self, number: int) -> Parameters:
        """The parameters of a trial: what is listed, or the defaults and then draws from the space."""
        if self.listed:
            return self.defaults | self.listed[number]
        if number == 0:
            return dict(self.defaults)
        draw = np.random.default_rng(number)
        return self.defaults | {name: values[draw.integers(len(values))] for name, values in self.space.items()}

    def tune(self, train: Part, validation: Part, *, trials: int, budget: float, seed: int) -> list[Trial]:
        """The trials, best first: by validation MSE, which every peer minimises too."""
        found: list[Trial] = []
        start = time.process_time()
        count = trials if self.space else len(self.listed) or 1
        for number in range(min(trials, count)):
            if found and time.process_time() - start > budget:
                break
            found.append(self._try(self.trial(number), train, validation, seed))
        return sorted(found, key=lambda trial: trial.mse)

    def again(self, trial: Trial, train: Part, validation: Part, seed: int) -> Trial:
        """The trial with another seed, so that picking it twice counts for what it is worth."""
        return self._try(trial.parameters, train, validation, seed)

    def _try(self, parameters: Parameters, train: Part, validation: Part, seed: int) -> Trial:
        begun = time.process_time()
        predict, fixed = self.fit(parameters, train, validation, seed)
        prediction = np.asarray(predict(validation.x), np.float64)
        seconds = time.process_time() - begun
        return Trial(fixed, prediction, mse(prediction, validation.y), pcc(prediction, validation.y), seconds)

    def predict(self, chosen: list[Parameters], train: Part, test: Floats, seed: int) -> Floats:
        """The mean over fits of everything that was chosen, each with a seed of its own."""
        found = [
            self.fit(parameters | self.changes, train, None, seed + SEEDS * number)[0](test)
            for number, parameters in enumerate(chosen)
        ]
        return np.mean(found, 0)


def mse(prediction: Floats, target: Floats) -> float:
    """Mean squared error."""
    return float(np.square(prediction - target).mean())
