"""One model on one fold: networks by the application's training, peers on the feature matrix of the same fold."""

from __future__ import annotations

import dataclasses
import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from excora.comparison.peers import PEERS, Fitted, Fold
from excora.comparison.records import Record, fingerprint
from excora.data.dataset import Dataset, Features, Index
from excora.data.preparation import Preparation
from excora.data.splits import Split
from excora.errors import ExcoraError
from excora.models.building import Samples, build_on
from excora.peers import Part
from excora.settings import POOLS, Settings
from excora.stats.correlation import Array
from excora.stats.scores import score
from excora.training import train
from excora.training.evaluation import answers

LABELS = {
    "mean": "mean", "softmax": "softmax", "gated": "gated", "eca-paper": "ECA (paper)", "eca": "ECA (ours)",
    "ridge": "ridge", "neighbours": "nearest neighbours", "lightgbm": "LightGBM",
}  # fmt: skip
MODELS = (*POOLS, *PEERS)


class Material(NamedTuple):
    """What every model of a fold is given."""

    seed: int
    fold: int
    split: Split
    preparation: Preparation
    features: Features
    matrix: Array
    target: Array
    weight: Array | None
    group: NDArray[np.object_] | None
    time: Array | None
    fingerprint: str


def prepare(dataset: Dataset, split: Split, seed: int, fold: int, scaling: str) -> Material:
    """Learn scales and codes from the training part, once for all models of the fold."""
    assert dataset.target is not None
    preparation = Preparation.fit(dataset, split.train, scaling=scaling)
    matrix = preparation.matrix(dataset)
    mark = fingerprint(split, matrix, dataset.target, dataset.weight)
    parts = (preparation.features(dataset), matrix, dataset.target, dataset.weight, dataset.group, dataset.time)
    return Material(seed, fold, split, preparation, *parts, mark)


def run(model: str, material: Material, settings: Settings, scale: Array) -> Record:
    """Train, tune on validation, predict the test part once; errors are measured in units of ``scale`` (targets,)."""
    start = time.perf_counter()
    # A start of its own for each fold, the same for all models: encoders begin with equal weights.
    seed = int(np.random.SeedSequence([material.seed, material.fold]).generate_state(1)[0])
    fitted = (_peer if model in PEERS else _network)(model, material, settings, seed)
    seconds = time.perf_counter() - start
    prediction = material.preparation.unscale(fitted.prediction)
    target = material.target[material.split.test]
    return Record(
        model=model,
        seed=material.seed,
        fold=material.fold,
        fingerprint=material.fingerprint,
        scores=score(prediction / scale, target / scale),
        seconds=seconds,
        details=fitted.chosen,
        prediction=prediction,
    )


def _peer(model: str, material: Material, settings: Settings, seed: int) -> Fitted:
    y = material.preparation.scale(material.target).astype(np.float64)

    def part(index: Index) -> Part:
        weight = None if material.weight is None else material.weight[index]
        return Part(material.matrix[index], y[index], weight)

    split = material.split
    return PEERS[model](Fold(part(split.train), part(split.validation), material.matrix[split.test]), settings, seed)


def _network(model: str, material: Material, settings: Settings, seed: int) -> Fitted:
    """A network that diverges predicts the training mean: one bad run must not end a comparison of hours."""
    settings = dataclasses.replace(settings, pool=model, seed=seed)
    weight = None if material.weight is None else material.weight.astype(np.float32)
    target, test = material.preparation.scale(material.target), material.split.test
    samples = Samples(material.features, target, material.split.train, material.group, material.time, weight)
    network, features = build_on(material.preparation.inputs, samples, settings)
    try:
        training = train(network, features, target, material.split, settings, weight=weight, progress=False)
        rows = [answer.prediction for answer in answers(training.network, features, test, settings)]
        prediction = np.array(rows, np.float64)
        chosen = {"epoch": training.best_epoch, "epochs": training.epochs, "stopped": training.stopped}
    except ExcoraError as error:
        if isinstance(error, ValueError | ImportError):
            raise
        prediction, chosen = np.full((len(test), target.shape[1]), np.nan), {"stopped": "diverged"}
    if not np.isfinite(prediction).all():
        return Fitted(np.zeros_like(prediction), {**chosen, "stopped": "diverged"})
    return Fitted(prediction, chosen)
