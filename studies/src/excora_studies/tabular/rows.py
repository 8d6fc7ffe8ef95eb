"""A row of the table: a model, how it is fitted, and what may be tuned.

Every row, peer or ours, goes the same way: trials on the validation part of one seed, the defaults or the quickest
first, at most :data:`TRIALS` of them and as long as the budget of CPU seconds lasts; then, for every seed, one fit on
training and validation part together with everything fixed, the number of steps too; then one look at the test part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from excora import peers
from excora.data.splits import Split
from excora.estimators.ensemble import SEEDS
from excora.stats.correlation import pearson, selection_mean
from excora.stats.scores import squared_error

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
    - ``tuned``: whether there are trials at all; without them the defaults are fitted.
    """

    fit: Fit
    defaults: Parameters
    space: Mapping[str, tuple[Any, ...]]
    tuned_as: str | None = None
    changes: Parameters = field(default_factory=dict)
    members: int = 1
    listed: tuple[Parameters, ...] = ()
    tuned: bool = True

    def trials(self, most: int) -> list[Parameters]:
        """The parameters to try: what is listed, or the defaults and then draws from the space."""
        if self.listed:
            return [self.defaults | change for change in self.listed[:most]]
        return peers.drawn(self.defaults, self.space, most)

    def tune(self, train: Part, validation: Part, *, trials: int, budget: float, seed: int) -> list[Trial]:
        """The trials, best first: by validation MSE, which every peer minimises too."""
        return self._try(self.trials(trials), train, validation, seed, budget)

    def again(self, trial: Trial, train: Part, validation: Part, seed: int) -> Trial:
        """The trial with another seed, so that picking it twice counts for what it is worth."""
        return self._try([trial.parameters], train, validation, seed)[0]

    def _try(
        self, given: list[Parameters], train: Part, validation: Part, seed: int, budget: float = np.inf
    ) -> list[Trial]:
        fits = (peers.Fitted(*self.fit(parameters, train, validation, seed)) for parameters in given)
        y = validation.y
        return [
            Trial(t.fitted.parameters, t.prediction, t.score, selection_mean(pearson(t.prediction, y)), t.seconds)
            for t in peers.search(fits, peers.Part(validation.x, y), squared_error, seconds=budget)
        ]

    def predict(self, chosen: list[Parameters], train: Part, test: Floats, seed: int) -> Floats:
        """The mean over fits of everything that was chosen, each with a seed of its own."""
        found = [
            self.fit(parameters | self.changes, train, None, seed + SEEDS * number)[0](test)
            for number, parameters in enumerate(chosen)
        ]
        return np.mean(found, 0)
