"""Which modality the predictions of clips hang on: one modality at a time is taken from other clips.

    moved_i = root of the mean of (yhat_i(modality of clip j) - yhat_i)^2 over targets and swaps i -> j

A modality that is never used moves nothing, wherever attention goes. What is put in its place is real and of the right
length, so that a model is not asked about clips that there are none of; that it does not belong to the other modalities
is the point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from excora.data.dataset import Features, Index, Inputs
from excora.errors import InputError
from excora.stats.correlation import pearson, selection_mean

Array = NDArray[np.float64]
#: Other clips that a modality is taken from, for each.
SWAPS = 3


class Swapped:
    """Clips whose modality ``name`` is that of the clip ``donor[i]``."""

    def __init__(self, features: Features, name: str, donor: Index) -> None:
        self.features, self.name, self.donor, self.sizes = features, name, donor, features.sizes

    def read(self, index: Index) -> Inputs:
        """The clips of ``index``."""
        theirs = self.features.read(self.donor[index])
        own = (self.name, f"{self.name}_length", f"{self.name}_ids")
        return self.features.read(index) | {key: theirs[key] for key in own if key in theirs}


class Use(NamedTuple):
    """What a modality is worth."""

    name: str
    moved: Array  #: (n,): how far the prediction of each clip moves, in deviations of the training labels
    pcc: float  #: with that modality from other clips, mean over targets (undefined ones as 0) and swaps


#: Predictions (n, targets), on the standardised scale, of the clips of an index.
Predict = Callable[[Features, Index], Array]


def modality_use(
    predict: Predict, features: Features, index: Index, names: Sequence[str], target: Array, *, seed: int = 0
) -> tuple[float, list[Use]]:
    """The PCC of the clips of ``index`` as they are, labels ``target`` (n, targets), and what each modality is worth.

    Clips change places in a circle drawn by ``seed``, one to three places on: none is its own donor.
    """
    if len(index) < 2 or len(target) != len(index):
        raise InputError(f"two clips or more with their labels are needed, got {len(index)} and {len(target)} labels")
    whole, circle = predict(features, index), np.random.default_rng(seed).permutation(index)
    found = []
    for name in names:
        moved, rho = [], []
        for step in range(1, min(SWAPS, len(index) - 1) + 1):
            donor = np.arange(len(features.sizes))
            donor[circle] = np.roll(circle, step)
            there = predict(Swapped(features, name, donor), index)
            moved.append(np.square(there - whole).mean(1))
            rho.append(_pcc(there, target))
        found.append(Use(name, np.sqrt(np.mean(moved, 0)), float(np.mean(rho))))
    return _pcc(whole, target), found


def _pcc(prediction: Array, target: Array) -> float:
    return selection_mean(pearson(prediction, target))
