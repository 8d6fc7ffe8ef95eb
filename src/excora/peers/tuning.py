"""Tuning with a budget: settings are tried one after the other, and the validation part judges."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from excora.peers.base import Context, Fitted, Parameters, Part, Peer, joined
from excora.stats.correlation import Array
from excora.stats.scores import Measure, squared_error


class Trial(NamedTuple):
    """A fit and how it does on validation."""

    fitted: Fitted
    prediction: Array  #: for the validation part, (n, t)
    score: float  #: lower is better
    seconds: float  #: of CPU


def search(
    fits: Iterable[Fitted], validation: Part, measure: Measure = squared_error, *, seconds: float = math.inf
) -> list[Trial]:
    """The fits, best first, the first of equals before the others. None is asked for after ``seconds`` of CPU, but the
    first one.

    ``fits`` makes them one by one, as :meth:`Peer.fits` does; how many there are is the other half of the budget.
    """
    found: list[Trial] = []
    start = begun = time.process_time()
    for fitted in fits:
        prediction = np.asarray(fitted.predict(validation.x), np.float64)
        now = time.process_time()
        found.append(Trial(fitted, prediction, measure(prediction, validation.y, validation.weight), now - begun))
        if now - start > seconds:
            break
        begun = time.process_time()
    # What cannot be judged comes last.
    return sorted(found, key=lambda trial: math.inf if math.isnan(trial.score) else trial.score)


def drawn(defaults: Parameters, space: Mapping[str, Sequence[Any]], trials: int) -> list[Parameters]:
    """Settings to try: the defaults, then draws from the values of the space, always the same ones.

    >>> drawn({"alpha": 1.0, "k": 3}, {"alpha": (0.1, 1.0, 10.0)}, 3)
    [{'alpha': 1.0, 'k': 3}, {'alpha': 1.0, 'k': 3}, {'alpha': 10.0, 'k': 3}]
    """
    found = [dict(defaults)]
    for number in range(1, trials if space else 1):
        draw = np.random.default_rng(number)
        found.append(defaults | {name: values[int(draw.integers(len(values)))] for name, values in space.items()})
    return found[:trials]


def tuned(
    peer: Peer,
    train: Part,
    validation: Part,
    measure: Measure = squared_error,
    *,
    seed: int = 0,
    threads: int = 1,
    seconds: float = math.inf,
    candidates: Sequence[Parameters] | None = None,
) -> Fitted:
    """The best of the peer's candidates, or of these, on the validation part.

    >>> from excora.peers import peers
    >>> x = np.random.default_rng(0).normal(size=(60, 2))
    >>> y = x @ [[2.0], [1.0]] + 0.1
    >>> found = tuned(peers["ridge"], Part(x[:40], y[:40]), Part(x[40:], y[40:]))
    >>> found.parameters["penalty"], float(np.abs(found.predict(x) - y).max()) < 1e-3
    (1e-05, True)

    A peer that has a model a target picks each by itself, and its settings are then ``{"targets": [...]}``.
    """
    targets = train.y.shape[1]
    if peer.separate and targets > 1:
        each = []
        for t in range(targets):
            learned, held = (part._replace(y=part.y[:, t, None]) for part in (train, validation))
            budget = seconds / targets
            each.append(tuned(peer, learned, held, measure, seed=seed, threads=threads, seconds=budget,
                              candidates=candidates))  # fmt: skip
        return joined(each, [[t] for t in range(targets)], apart=True)
    context = Context(validation, measure, seed, threads)
    fits = peer.fits(train, candidates or peer.candidates, **context._asdict())
    return search(fits, validation, measure, seconds=seconds)[0].fitted
