"""The mean of the nearest training samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from excora.errors import MissingExtraError
from excora.peers.base import Context, Fitted, Parameters, Part, Peer, Predict, peers
from excora.peers.scaling import Scaled
from excora.stats.correlation import Array

NEIGHBOURS = (1, 2, 3, 5, 8, 12, 20, 30, 50)


class Neighbours(Peer):
    """Mean of the k nearest training samples, plain or weighted by 1 / distance, times their own weights.

    ``neighbours``, at most those that there are; ``by distance``; ``scaled``: columns standardised; ``algorithm`` of
    scikit-learn's search. At distance 0 the mean weighted by distance is that of the samples at distance 0.
    """

    label = "nearest neighbours"
    candidates = tuple(
        {"scaled": scaled, "neighbours": k, "by distance": by_distance}
        for scaled in (False, True)
        for k in NEIGHBOURS
        for by_distance in (False, True)
    )

    def check(self) -> None:
        """Takes scikit-learn."""
        _engine()

    def _fits(self, train: Part, candidates: Sequence[Parameters], context: Context) -> Iterator[Fitted]:
        most = max(parameters["neighbours"] for parameters in candidates)
        known: dict[tuple[bool, str], _Index] = {}
        for parameters in candidates:
            how = bool(parameters.get("scaled", False)), parameters.get("algorithm", "auto")
            if how not in known:
                known[how] = _Index(Scaled(train, how[0]), most, how[1], context.threads)
            yield Fitted(known[how].predictor(parameters["neighbours"], parameters["by distance"]), parameters)


class _Index:
    """The training samples; the same rows are looked up once, for all numbers of neighbours."""

    def __init__(self, scaled: Scaled, most: int, algorithm: str, threads: int) -> None:
        self.scaled, self.train = scaled, scaled.train
        most = min(most, len(self.train.x))
        self.index = _engine()(n_neighbors=most, algorithm=algorithm, n_jobs=threads).fit(self.train.x)
        self.asked: tuple[Array, Any] | None = None

    def look_up(self, x: Array) -> Any:
        """Distances and places of the nearest ones of each row."""
        if self.asked is None or self.asked[0] is not x:
            self.asked = x, self.index.kneighbors(self.scaled(x))
        return self.asked[1]

    def predictor(self, k: int, by_distance: bool) -> Predict:
        def predict(x: Array) -> Array:
            distance, place = self.look_up(x)
            return _mean(distance[:, :k], place[:, :k], self.train, by_distance)

        return predict


def _mean(distance: Array, place: Any, train: Part, by_distance: bool) -> Array:
    """(n, t)."""
    weight = np.ones_like(distance)
    if by_distance:
        same = distance == 0.0
        # Relative to the nearest: 1 / distance itself may overflow.
        weight = np.where(same.any(1, keepdims=True), same, distance[:, :1] / np.where(same, 1.0, distance))
    if train.weight is not None:
        weight = weight * train.weight[place]
        # All neighbours of weight 0: nothing prefers one of them.
        weight = np.where(weight.any(1, keepdims=True), weight, 1.0)
    return np.einsum("nk,nkt->nt", weight, train.y[place]) / weight.sum(1, keepdims=True)


def _engine() -> Any:
    try:
        from sklearn.neighbors import NearestNeighbors
    except ImportError as error:
        raise MissingExtraError("scikit-learn", "app") from error
    return NearestNeighbors


peers.register("neighbours", Neighbours())
