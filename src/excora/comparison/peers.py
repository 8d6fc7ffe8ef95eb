"""The peers of a comparison: each is tuned on the validation part by the criterion that picks a network's epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from excora.peers import Parameters, Part, peers, tuned
from excora.settings import Settings
from excora.stats.correlation import Array
from excora.stats.scores import criterion


class Fold(NamedTuple):
    """Training and validation parts, and the features of the test part."""

    train: Part
    validation: Part
    test: Array


class Fitted(NamedTuple):
    """Predictions for the test part (n, t), and what the validation part chose."""

    prediction: Array
    chosen: Parameters


def _on_fold(name: str) -> Callable[[Fold, Settings, int], Fitted]:
    def run(fold: Fold, settings: Settings, seed: int) -> Fitted:
        measure = criterion(settings.criterion, settings.correlation_weight)
        found = tuned(peers[name], fold.train, fold.validation, measure, seed=seed)
        return Fitted(found.predict(fold.test), peers[name].chosen(found.parameters))

    return run


PEERS = {name: _on_fold(name) for name in ("ridge", "neighbours", "lightgbm")}
