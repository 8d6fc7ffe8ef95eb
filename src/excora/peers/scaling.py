"""Columns as they are, or of mean 0 and standard deviation 1 in training: what suits distances, validation says."""

from __future__ import annotations

from excora.peers.base import Part, Predict
from excora.stats.correlation import Array


class Scaled:
    """A training part whose columns are standardised, and the way of other rows there.

    >>> import numpy as np
    >>> scaled = Scaled(Part(np.array([[1.0, 5.0], [3.0, 5.0]]), np.zeros((2, 1))), True)
    >>> scaled.train.x.tolist(), scaled(np.array([[2.0, 7.0]])).tolist()
    ([[-1.0, 0.0], [1.0, 0.0]], [[0.0, 2.0]])
    """

    def __init__(self, train: Part, scaled: bool) -> None:
        self.scaled = scaled
        self.mean, std = train.x.mean(0), train.x.std(0)
        std[~(std > 0)] = 1.0
        self.std = std
        self.train = train._replace(x=self(train.x))

    def __call__(self, x: Array) -> Array:
        """The rows, their columns as those of the training part are."""
        return (x - self.mean) / self.std if self.scaled else x

    def before(self, predict: Predict) -> Predict:
        """``predict`` of standardised rows as that of rows as they are."""
        return lambda x: predict(self(x))
