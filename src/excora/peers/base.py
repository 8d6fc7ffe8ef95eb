"""What a peer is: a model of a matrix of features that learns from a training part and predicts any rows.

One file a peer. It says what its settings are called, which of them a tuning tries, and how it is fitted to labels that
are all known; what follows from unknown labels is here, once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from excora.registry import Registry
from excora.stats.correlation import Array
from excora.stats.ridge import known_together
from excora.stats.scores import Measure, squared_error

Parameters = dict[str, Any]
Predict = Callable[[Array], Array]
#: A target with fewer known labels is predicted by their mean.
FEWEST = 2


class Part(NamedTuple):
    """Samples: features (n, p), standardised targets (n, t), NaN where unknown, weights (n,) or None."""

    x: Array
    y: Array
    weight: Array | None = None

    def known(self, targets: Sequence[int]) -> Part:
        """These targets, and the samples that have a label of each of them."""
        y = self.y[:, targets]
        rows = ~np.isnan(y).any(1)
        if rows.all():
            return self._replace(y=y)
        return Part(self.x[rows], y[rows], None if self.weight is None else self.weight[rows])


class Fitted(NamedTuple):
    """Predictions (n, t) of features (n, p), and the settings: those given and what the validation part fixed."""

    predict: Predict
    parameters: Parameters


class Context(NamedTuple):
    """What besides its settings and the training part decides a fit."""

    validation: Part | None = None  #: to find out when to stop; without it the settings say so
    measure: Measure = squared_error  #: what the validation part judges by, lower is better
    seed: int = 0
    threads: int = 1


class Peer(ABC):
    """A model that one would use instead.

    ``candidates``: what :func:`excora.peers.tuned` tries, the first of equals wins. ``separate``: a model a target,
    each tuned by itself; else targets that are known for the same samples are fitted together.
    """

    label: ClassVar[str]  #: its name for people
    candidates: ClassVar[tuple[Parameters, ...]] = ({},)
    separate: ClassVar[bool] = False

    def check(self) -> None:  # noqa: B027  (most need nothing)
        """Raise MissingExtraError where the package that it takes is not installed."""

    def fits(
        self,
        train: Part,
        candidates: Sequence[Parameters],
        *,
        validation: Part | None = None,
        measure: Measure = squared_error,
        seed: int = 0,
        threads: int = 1,
    ) -> Iterator[Fitted]:
        """One fit a candidate, in order, each when it is asked for. What they share is computed once.

        Of each target the samples with a known label count; where there are fewer than 2, it is predicted by their
        mean, or by 0, the mean of standardised targets. Settings that differ by target are ``{"targets": [...]}``.
        """
        together = [[t] for t in range(train.y.shape[1])] if self.separate else known_together(train.y)
        context = Context(validation, measure, seed, threads)
        series = [_fits_of(self, train, targets, candidates, context) for targets in together]
        for fitted in zip(*series, strict=True):
            found = joined(fitted, together, apart=self.separate)
            yield Fitted(_any_rows(found.predict, train.y.shape[1]), found.parameters)

    def fit(self, train: Part, parameters: Parameters, **context: Any) -> Fitted:
        """The fit of one candidate, see :meth:`fits`."""
        return next(self.fits(train, [parameters], **context))

    @abstractmethod
    def _fits(self, train: Part, candidates: Sequence[Parameters], context: Context) -> Iterator[Fitted]:
        """As :meth:`fits`, of labels that are all known, at least 2."""

    def chosen(self, parameters: Parameters) -> Parameters:
        """Of the settings of a fit those that tell what tuning decided."""
        if "targets" in parameters:
            return {"targets": [self.chosen(one) for one in parameters["targets"]]}
        return self._chosen(parameters)

    def _chosen(self, parameters: Parameters) -> Parameters:
        return parameters


#: Of this package by their files; others by the entry points of ``excora.peers``.
peers: Registry[Peer] = Registry("peer", home="excora.peers")


class MeanOfLabels:
    """Predicts the weighted mean of the labels, whatever the features.

    >>> MeanOfLabels(Part(np.zeros((2, 1)), np.array([[1.0], [3.0]])))(np.zeros((3, 1))).tolist()
    [[2.0], [2.0], [2.0]]
    """

    def __init__(self, train: Part) -> None:
        weight = train.weight if train.weight is not None and train.weight.any() else None
        self.level = np.average(train.y, axis=0, weights=weight) if len(train.y) else np.zeros(train.y.shape[1])

    def __call__(self, x: Array) -> Array:
        """(n, t)."""
        return np.tile(self.level, (len(x), 1))


def _any_rows(predict: Predict, targets: int) -> Predict:
    """The same, and nothing for no rows, which some packages refuse."""
    return lambda x: predict(x) if len(x) else np.empty((0, targets))


def _fits_of(
    peer: Peer, train: Part, targets: list[int], candidates: Sequence[Parameters], context: Context
) -> Iterator[Fitted]:
    candidates = [one["targets"][targets[0]] if "targets" in one else one for one in candidates]
    part = train.known(targets)
    if len(part.y) < FEWEST:
        return (Fitted(MeanOfLabels(part), parameters) for parameters in candidates)
    if context.validation is not None:
        held = context.validation.known(targets)
        # Without a label to judge by there is nothing to stop at.
        context = context._replace(validation=held if len(held.y) else None)
    return peer._fits(part, candidates, context)


def joined(fitted: Sequence[Fitted], together: Sequence[Sequence[int]], *, apart: bool) -> Fitted:
    """Fits of groups of targets as one. Settings are one for all if they are the same, unless they are chosen apart."""
    if len(fitted) == 1:
        return fitted[0]
    order = np.argsort(np.concatenate(together))

    def predict(x: Array) -> Array:
        return np.concatenate([one.predict(x) for one in fitted], 1)[:, order]

    every = [one.parameters for one, targets in zip(fitted, together, strict=True) for _ in targets]
    if not apart and all(one == every[0] for one in every):
        return Fitted(predict, every[0])
    return Fitted(predict, {"targets": [every[place] for place in order]})
