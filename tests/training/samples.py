"""What the tests of training share: prepared samples, a run on them, the distance between two results."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import samples_data
from numpy.typing import NDArray

from excora.data.dataset import Dataset, Features, Spec
from excora.data.preparation import Preparation
from excora.data.splits import Split
from excora.models import Network, Samples, models
from excora.settings import Settings, Setup
from excora.training import Training, train

PARTS = Split(np.arange(43), np.arange(43, 60), np.arange(60, 70))
TINY = Settings(model="pool", dim=8, epochs=3, batch_size=10, learning_rate=0.01)


class Data(NamedTuple):
    """Prepared samples."""

    features: Features
    target: NDArray[np.float32]
    spec: Spec

    def network(self, setup: Setup) -> Network:
        """A fresh one."""
        model = models[setup.model]
        samples = Samples(self.features, self.target, PARTS.train)
        return model.build(self.spec, samples, setup.options, seed=setup.recipe.seed)[0]


def prepared(dataset: Dataset | None = None) -> Data:
    """By the training part of 70 samples; bags unless given."""
    dataset = samples_data.bags() if dataset is None else dataset
    preparation = Preparation.fit(dataset, PARTS.train)
    return Data(preparation.features(dataset), preparation.scale(dataset.target), preparation.spec)


def run(data: Data, settings: Settings = TINY, parts: Split = PARTS, **options: Any) -> Training:
    """A training."""
    setup = settings.settled(data.spec.kind, len(parts.train))
    network = data.network(setup)
    arguments = (network, data.features, data.target, parts, setup.recipe, setup.machine)
    return train(*arguments, progress=False, **options)


def far(a: Any, b: Any) -> float:
    """The largest difference of two trainings, or of their weights by name."""
    a, b = (x.network.state_dict() if isinstance(x, Training) else x for x in (a, b))
    assert a.keys() == b.keys()
    return max(float((a[name] - b[name]).abs().max()) for name in a)
