"""One entrant on one fold: networks by the application's training, peers on the feature matrix of the same fold."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from excora.comparison.entrants import Entrant
from excora.comparison.records import Record
from excora.data.dataset import Dataset, Index
from excora.data.preparation import Preparation
from excora.data.splits import Split
from excora.errors import ExcoraError
from excora.models import models
from excora.peers import Part, peers, tuned
from excora.settings import Recipe, Setup
from excora.stats.correlation import Array
from excora.stats.scores import criterion, score
from excora.storage import fingerprint
from excora.training import train
from excora.training.building import build
from excora.training.evaluation import predictions

Prediction = tuple[Array, dict[str, Any]]
"""Of the test part, standardised, (n, targets), and what the validation part chose."""


@dataclass
class Fold:
    """What every entrant is given: the same samples in the same parts. Scales and codes are learned once a way."""

    dataset: Dataset
    split: Split
    seed: int
    number: int
    prepares: dict[str, Any]  #: of the host: what the matrix of the peers is made with
    preparations: dict[tuple[Any, ...], Preparation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.dataset.target is not None
        self.target: Array = self.dataset.target
        self.matrix = self.preparation(self.prepares).matrix(self.dataset)
        self.fingerprint = fingerprint(*self.split, self.matrix, self.target, self.dataset.weight)

    def preparation(self, options: dict[str, Any]) -> Preparation:
        """Learned from the training part, with these options of the source."""
        key = tuple(sorted(options.items()))
        if key not in self.preparations:
            self.preparations[key] = Preparation.fit(self.dataset, self.split.train, **options)
        return self.preparations[key]


def run(entrant: Entrant, setup: Setup | None, fold: Fold, recipe: Recipe, scale: Array) -> Record:
    """Train, tune on validation, predict the test part once; errors are measured in units of ``scale`` (targets,).

    ``setup``: of a network; ``recipe``: what peers are tuned by.
    """
    start = time.perf_counter()
    # A start of its own for each fold, the same for all models: encoders begin with equal weights.
    seed = int(np.random.SeedSequence([fold.seed, fold.number]).generate_state(1)[0])
    if setup is None:
        assert entrant.peer is not None
        prediction, chosen = _peer(entrant.peer, fold, recipe, seed)
    else:
        prediction, chosen = _network(setup, fold, seed)
    seconds = time.perf_counter() - start
    prediction = fold.preparation(fold.prepares).unscale(prediction)
    return Record(
        model=entrant.name,
        seed=fold.seed,
        fold=fold.number,
        fingerprint=fold.fingerprint,
        scores=score(prediction / scale, fold.target[fold.split.test] / scale),
        seconds=seconds,
        details=chosen,
        prediction=prediction,
    )


def _peer(name: str, fold: Fold, recipe: Recipe, seed: int) -> Prediction:
    y = fold.preparation(fold.prepares).scale(fold.target).astype(np.float64)
    weights = fold.dataset.weight

    def part(index: Index) -> Part:
        return Part(fold.matrix[index], y[index], None if weights is None else weights[index])

    measure = criterion(recipe.criterion, recipe.correlation_weight)
    found = tuned(peers[name], part(fold.split.train), part(fold.split.validation), measure, seed=seed)
    return found.predict(fold.matrix[fold.split.test]), peers[name].chosen(found.parameters)


def _network(setup: Setup, fold: Fold, seed: int) -> Prediction:
    """A network that diverges predicts the training mean: one bad run must not end a comparison of hours."""
    setup = setup.with_seed(seed)
    weight = None if fold.dataset.weight is None else fold.dataset.weight.astype(np.float32)
    preparation = fold.preparation(models[setup.model].prepares(setup.options))
    split = fold.split
    built = build(fold.dataset, split.train, setup, validation=split.validation, preparation=preparation)
    nothing = np.full((len(fold.split.test), built.target.shape[1]), np.nan)
    try:
        training = train(
            built.network, built.features, built.target, fold.split, setup.recipe, setup.machine,
            weight=weight, progress=False,
        )  # fmt: skip
        prediction = predictions(training.network, built.features, fold.split.test, setup)
        chosen = {"epoch": training.best_epoch, "epochs": training.epochs, "stopped": training.stopped}
    except ExcoraError as error:
        if isinstance(error, ValueError | ImportError):
            raise
        prediction, chosen = nothing, {"stopped": "diverged"}
    if not np.isfinite(prediction).all():
        return np.zeros_like(nothing), {**chosen, "stopped": "diverged"}
    return prediction, chosen
