"""One small JSON file for each finished (model, seed, fold), so that a comparison can be interrupted and resumed."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np

from excora.errors import InputError
from excora.models import models
from excora.settings import Machine, Recipe, Setup
from excora.stats.correlation import Array
from excora.stats.scores import Scores
from excora.storage import Parts, plain


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """What one model did on one fold of one seed."""

    model: str
    seed: int
    fold: int
    fingerprint: str  #: of the fold's parts, features and targets: equal for all models that ran on the same
    scores: Scores  #: over the test part
    seconds: float
    details: dict[str, Any]  #: what validation chose: epochs, penalty, neighbours, trees
    prediction: Array  #: (test samples, targets), raw scale


class Store:
    """The records of a comparison in ``folder/runs``; without a folder nothing is kept.

    A folder that holds runs already is refused unless ``resume`` is given.
    """

    def __init__(self, folder: Path | None, *, resume: bool) -> None:
        self.folder = None if folder is None else folder / "runs"
        if self.folder is None:
            if resume:
                raise InputError("resume goes on with the runs of an output folder: give output as well")
            return
        self.parts = Parts(self.folder)
        if not resume and self.parts.files():
            raise InputError(
                f"{folder} holds the runs of a comparison already: go on with them (--resume, resume=True), choose "
                f"another output folder, or remove this one"
            )
        self.parts.claim()

    def load(
        self, model: str, seed: int, fold: int, fingerprint: str, shape: tuple[int, int], settings: dict[str, Any]
    ) -> Record | None:
        """The run if it is there. One on other data, folds or settings is an InputError, as is a broken file."""
        key = _key(model, seed, fold)
        content = None if self.folder is None else self.parts.read(key)
        if content is None:
            return None
        path = self.parts.path(key)
        try:
            used, record = {"start": "none", **content["settings"]}, _record(content)  # as it was until 0.2
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} is not a run of a comparison: remove it, and it is computed again") from error
        used = _defaults(settings) | used  # an option that is younger than the file was at its default
        differ = [f"{k} was {used.get(k)!r} and is {v!r}" for k, v in settings.items() if used.get(k) != v]
        if record.fingerprint != fingerprint:
            differ.append("the data, their roles or the number of folds are others")
        if differ:
            raise InputError(f"{path} belongs to another comparison: {'; '.join(differ)}. Choose another output folder")
        if record.prediction.shape != shape or not np.isfinite(record.prediction).all():
            raise InputError(
                f"{path} must hold {shape[0]} x {shape[1]} finite predictions: remove it to compute it again"
            )
        return record

    def save(self, record: Record, settings: dict[str, Any]) -> None:
        """Keep the run, whole or not at all."""
        if self.folder is None:
            return
        content = dataclasses.asdict(record) | record.scores._asdict() | {"settings": settings}
        del content["scores"]
        self.parts.write(_key(record.model, record.seed, record.fold), plain(content))


def _defaults(settings: dict[str, Any]) -> dict[str, Any]:
    """Of the recipe and of the model's options; none for a peer."""
    known = settings.get("model") in models
    return Recipe().to_dict() | models[settings["model"]].Options().to_dict() if known else {}


def _key(model: str, seed: int, fold: int) -> str:
    return f"{model}-{seed}-{fold}"


def _record(content: dict[str, Any]) -> Record:
    pcc = content["pcc"]
    return Record(
        model=str(content["model"]),
        seed=int(content["seed"]),
        fold=int(content["fold"]),
        fingerprint=str(content["fingerprint"]),
        scores=Scores(math.nan if pcc is None else float(pcc), float(content["mse"]), float(content["mae"])),
        seconds=float(content["seconds"]),
        details=dict(content["details"]),
        prediction=np.array(content["prediction"], np.float64),
    )


def deciding(setup: Setup | None, recipe: Recipe) -> dict[str, Any]:
    """The settings that a run depends on. Pool and seed are in its name; the machine does not count."""
    if setup is None:  # a peer
        return {"criterion": recipe.criterion, "correlation_weight": recipe.correlation_weight}
    free = {"pool", "seed", *Machine.names()} - {"precision"}
    return {name: value for name, value in setup.flat().items() if name not in free}
