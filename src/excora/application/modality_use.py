"""Which modality a trained run of clips uses: what its results.json and its report say of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from excora.data.dataset import Dataset, Features, Index
from excora.data.modalities.content import ModalitySpec
from excora.diagnosis.modality_flow import brought
from excora.diagnosis.modality_use import modality_use
from excora.models import Network, Output
from excora.models.sentiment.base import SentimentNetwork
from excora.settings import Setup
from excora.stats.correlation import Array
from excora.training.building import Built
from excora.training.evaluation import predictions

#: Clips that are looked at, at most; evenly spread. Of attention fewer, as they go one at a time.
MOST, ALONE = 200, 50
#: Clips that the report names.
SHOWN = 12


def used_modalities(
    network: Network, dataset: Dataset, built: Built, setup: Setup, index: Index
) -> dict[str, Any] | None:
    """Of the clips of ``index``, plain values; None where there are fewer than two modalities, or two clips."""
    spec = built.preparation.spec
    if not isinstance(spec, ModalitySpec) or len(spec.modalities) < 2 or len(index) < 2:
        return None
    assert dataset.target is not None
    chosen = np.unique(index[np.linspace(0, len(index) - 1, min(MOST, len(index))).astype(np.intp)])

    def predict(features: Features, rows: Index) -> Array:
        return predictions(network, features, rows, setup)

    pcc, uses = modality_use(predict, built.features, chosen, spec.names, built.target[chosen].astype(np.float64))
    shown = np.argsort(-np.max([one.moved for one in uses], 0), kind="stable")[:SHOWN]
    return {
        "clips": len(chosen),
        "pcc": pcc,
        "uses": [{"modality": one.name, "moved": float(one.moved.mean()), "pcc": one.pcc} for one in uses],
        "by_clip": [
            {"id": str(dataset.ids[chosen[k]]), "moved": {one.name: float(one.moved[k]) for one in uses}} for k in shown
        ],
        "brought": _brought(network, built.features, chosen[:: -(-len(chosen) // ALONE)]),
    }


def _brought(network: Network, features: Features, chosen: Index) -> list[dict[str, Any]]:
    if not isinstance(network, SentimentNetwork):
        return []

    def alone(place: np.intp) -> Callable[[], Output]:
        return lambda: network(features.read(np.array([place])))

    return [one._asdict() for one in brought(network.eval().bridges(), map(alone, chosen))]
