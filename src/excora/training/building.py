"""From a data set to a network that can be trained on it: the same way for fit, compare and the estimators."""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from excora.data.dataset import Dataset, Features, Index
from excora.data.preparation import Preparation
from excora.errors import InputError
from excora.models import Network, Samples, models
from excora.models.parts.start import Begun, begin
from excora.settings import Setup


class Built(NamedTuple):
    """A network and what it is trained on."""

    network: Network
    features: Features  #: as the network reads them
    target: NDArray[np.float32]  #: (n, targets), standardised, NaN where unknown
    preparation: Preparation
    start: Begun | None = None  #: what a fresh network starts from, and why


def build(
    dataset: Dataset,
    train: Index,
    setup: Setup,
    *,
    validation: Index | None = None,
    preparation: Preparation | None = None,
    start: Network | None = None,
    origin: Index | None = None,
) -> Built:
    """Prepare the samples, by what ``train`` shows of them alone, and build the network of ``setup`` for them.

    ``validation``: samples that help to decide whether the network starts from a ridge (``setup.recipe.start``).
    ``preparation``: one that is known already. ``start``: a trained network of the same setup to go on from.
    ``origin`` (n,): where samples repeat others, the place of each one's original.

    A model that cannot read such samples is an :class:`InputError`.
    """
    if dataset.target is None:
        raise InputError("training needs labelled samples: name the target, or give a Dataset with one")
    model = models[setup.model]
    if preparation is None:
        preparation = Preparation.fit(dataset, train, **model.prepares(setup.options))
    model.check(preparation.spec, setup.options)
    target = preparation.scale(dataset.target)
    about = (dataset.group, dataset.time, dataset.weight, origin)
    samples = Samples(preparation.features(dataset), target, train, *about)
    if start is not None:
        network, features = model.go_on(start, preparation.spec, samples, setup.options)
        network.linear_start = copy.deepcopy(start.linear_start)
        return Built(network, features, target, preparation)
    network, features = model.build(preparation.spec, samples, setup.options, seed=setup.recipe.seed)
    if not model.trained:  # it is fitted, and not to what a ridge leaves
        return Built(network, features, target, preparation)
    read = samples._replace(features=features)
    begun = begin(network, preparation.spec, read, setup.recipe.start, validation)
    return Built(network, features, target, preparation, begun)
