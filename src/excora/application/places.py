"""Attention in place: the shares of a sample's elements where these lie, for the picture in the report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from excora.application.tissue import backdrop
from excora.data.dataset import Dataset, Features, Index
from excora.errors import InputError
from excora.models import Network
from excora.settings import Setup
from excora.training.evaluation import answers

DRAWN = 2000  #: elements of a picture, at most
HEAVIEST = 500  #: of them, those with the largest shares; the others are spread evenly over the rest

#: From the place of a sample and the name of a pool to the picture, None where the elements have no place.
Placer = Callable[[int, str], dict[str, Any] | None]


def placer(network: Network, dataset: Dataset, setup: Setup, features: Features) -> Placer:
    """By the positions that the samples bring along, such as ``coords`` beside the features of a slide.

    Features whose pools weigh different things say themselves where these lie: ``positions(sample, pool, elements)``.
    """
    known: Any = getattr(features, "positions", None)
    plain: Any = getattr(dataset.content, "positions", None)
    if known is None and plain is not None:
        known = lambda sample, *_: plain(sample)  # noqa: E731

    def place(sample: int, pool: str) -> dict[str, Any] | None:
        if known is None:
            return None
        share = next(answers(network, features, np.array([sample]), setup)).attention[pool].effective
        try:
            where = known(sample, pool, len(share))
        except InputError:  # features are fine, or training had ended: their places are broken
            where = None
        if where is None or len(share) != len(where):
            return None
        under = backdrop(dataset, sample, where)
        return picture(where, share) | ({} if under is None else {"under": under})

    return place


def picture(where: NDArray[np.float64], share: NDArray[Any]) -> dict[str, Any]:
    """Places and shares of the elements that are drawn.

    >>> picture(np.array([[0.0, 1.0], [2.0, 3.0]]), np.array([0.25, 0.75]))
    {'x': [0.0, 2.0], 'y': [1.0, 3.0], 'effective': [0.25, 0.75]}
    """
    kept = drawn(share)
    columns = {"x": where[kept, 0], "y": where[kept, 1], "effective": share[kept]}
    return {name: [float(f"{value:.5g}") for value in values] for name, values in columns.items()}


def drawn(share: NDArray[Any]) -> Index:
    """All elements, or of many the heaviest and an even choice of the others, in their order."""
    if len(share) <= DRAWN:
        return np.arange(len(share))
    order = np.argsort(-np.abs(share), kind="stable")
    rest = np.sort(order[HEAVIEST:])
    even = rest[np.linspace(0, len(rest) - 1, DRAWN - HEAVIEST).round().astype(np.intp)]
    return np.sort(np.concatenate([order[:HEAVIEST], even]))
