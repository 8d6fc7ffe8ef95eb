"""The model "best": those that compete are fitted to the training part, and the validation part says which it is.

The test part is not read. The one that is chosen is then fitted as if it had been named: a run of it can be resumed,
repeated and loaded like any other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from excora.data.dataset import Dataset
from excora.data.splits import Split
from excora.errors import InputError
from excora.models import models
from excora.settings import Machine, Recipe, Settings
from excora.stats.correlation import pearson, selection_mean
from excora.stats.scores import criterion, squared_error
from excora.training.batches import Rows
from excora.training.building import build
from excora.training.evaluation import predictions
from excora.training.progress import duration
from excora.training.timing import PASSES, forward_time
from excora.training.trainer import train

#: Seconds that all of them may take, unless ``seconds`` is named.
SECONDS = 600.0

Tell = Callable[[str], None]


def choose(
    dataset: Dataset, parts: Split, settings: Settings, *, tell: Tell, clock: Callable[[], float] = time.monotonic
) -> tuple[Settings, list[dict[str, Any]]]:
    """The settings with the best model's name in place of "best", and a record of each that competed.

    A record has ``model``, ``seconds``, ``validation`` (``pcc``, ``mse`` and ``criterion``, targets standardised; None
    of one that was left out) and ``note``. The least criterion of the recipe wins. The first is always tried; a further
    one if what it may take at most fits into what is left of ``seconds``.
    """
    names = rivals(settings, dataset.kind)
    machine = Machine(**{name: x for name, x in settings.named.items() if name in Machine.names()})
    if not len(parts.validation):
        raise InputError(
            "model 'best' is chosen on the validation part, and there is none: give it a share of the rows"
        )
    if machine.devices * machine.nodes > 1:
        raise InputError("model 'best' is chosen by one process: name a model for several devices")
    limit, begun = float(settings.named.get("seconds", SECONDS)), clock()
    tell(f"best of {', '.join(names)} on validation, in {duration(limit)} at most; the best is then fitted once more")
    tried: list[dict[str, Any]] = []
    for name in names:
        before = clock()
        left = limit - (before - begun) if tried else np.inf
        judged = _judged(with_model(settings, name), dataset, parts, left, clock)
        note = f"left out: {judged}" if isinstance(judged, str) else ""
        scores = None if isinstance(judged, str) else judged
        tried.append({"model": name, "seconds": clock() - before, "validation": scores, "note": note})
        tell(said(tried[-1]))
    best = min((one for one in tried if one["validation"]), key=lambda one: one["validation"]["criterion"])
    return with_model(settings, best["model"]), tried


def rivals(settings: Settings, kind: str) -> list[str]:
    """The models that compete for samples of this kind and have the options that are named, the quickest kind first.

    >>> rivals(Settings("best"), "table"), rivals(Settings("best", dim=32), "table")
    (['kriging', 'ft-transformer', 'retrieval'], ['ft-transformer', 'retrieval'])
    """
    options = {*settings.named} - {*Recipe.names(), *Machine.names(), "seconds"}
    every = [models[name] for name in models if kind in models[name].rival_for]
    every.sort(key=lambda model: model.trained)
    if not every:
        raise InputError(f"model 'best' is for tables, and these are {kind}: take 'auto', or name a model")
    found = [model.name for model in every if options <= set(model.Options.names())]
    if not found:
        raise InputError(f"no model that competes for 'best' has all of {', '.join(sorted(options))}: name a model")
    return found


def said(record: dict[str, Any]) -> str:
    """A record in words.

    >>> said({"model": "retrieval", "seconds": 0.1, "validation": None, "note": "left out: it takes 2 h"})
    'retrieval left out: it takes 2 h'
    """
    scores = record["validation"]
    if scores is None:
        return f"{record['model']} {record['note']}"
    figures = f"PCC {scores['pcc']:.4f}, MSE {scores['mse']:.4g} (targets standardised)"
    return f"{record['model']}: validation {figures} in {duration(record['seconds'])}"


def summary(tried: Sequence[dict[str, Any]], chosen: str) -> list[str]:
    """For the notes of a run."""
    if not tried:
        return []
    every = "; ".join(said(one) for one in tried)
    return [f"{chosen} is the best of these on the validation part, which is no fresh part for it any more: {every}"]


def with_model(settings: Settings, name: str) -> Settings:
    """The same settings of the model of this name; ``seconds`` is not an option of all of them.

    >>> with_model(Settings("best", seconds=60.0), "retrieval")
    Settings(model='retrieval')
    """
    kept = {key: x for key, x in settings.named.items() if key != "seconds" or key in models[name].Options.names()}
    return Settings(name, **kept)


def _judged(
    settings: Settings, dataset: Dataset, parts: Split, left: float, clock: Callable[[], float]
) -> dict[str, float] | str:
    """Its scores on validation; or why there was no time for it."""
    if left <= 0:
        return "the time is over"
    setup = settings.settled(dataset.kind, len(parts.train))
    recipe, built = setup.recipe, build(dataset, parts.train, setup, validation=parts.validation)
    network, weight = built.network, None if dataset.weight is None else dataset.weight.astype(np.float32)
    rows = Rows(built.features, np.ascontiguousarray(built.target, np.float32), weight)
    if models[setup.model].trained:
        a_sample = forward_time(network, rows, parts.train, recipe.batch_size, clock)
        most = recipe.epochs * (PASSES * len(parts.train) + len(parts.validation)) * a_sample
        if most > left:
            return f"it may take {duration(most)}, and {duration(left)} are left"
        given = (built.features, built.target, parts, recipe, setup.machine)
        network = train(network, *given, weight=weight, progress=False).network
    labels = rows.labels(parts.validation)
    heavy = None if dataset.weight is None else dataset.weight[parts.validation]
    judged = (predictions(network, built.features, parts.validation, setup), labels, heavy)
    measure = criterion(recipe.criterion, recipe.correlation_weight)
    pcc, mse = float(selection_mean(pearson(*judged))), squared_error(*judged)
    return {"pcc": pcc, "mse": mse, "criterion": float(measure(*judged))}
