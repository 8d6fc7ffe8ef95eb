"""One fit: trained, the epoch chosen on validation for all figures, the test part predicted once."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from excora.data.preparation import Preparation
from excora.data.splits import Split
from excora.models import models
from excora.options import ByRows
from excora.peers import Part as Rows
from excora.peers import peers, tuned
from excora.settings import Recipe, Settings
from excora.stats.sentiment import sentiment_scores
from excora.training import Training, train
from excora.training.building import build
from excora.training.evaluation import predictions
from excora_studies.sentiment.arms import Arm
from excora_studies.sentiment.clips import Clips, checkpoint
from excora_studies.tabular.scores import pack

#: With this protocol the test part chooses the epoch, as published results have it: labelled so in every table.
PUBLISHED = "published"


def run(
    clips: Clips, arm: Arm, trial: dict[str, Any], seed: int, *, protocol: str, epochs: int | None
) -> dict[str, Any]:
    """Figures of the test part, its predictions, and how the epoch was chosen."""
    begun = time.process_time()
    if arm.ridge:
        prediction, about = _ridge(clips, seed)
    else:
        prediction, about = _network(clips, arm, trial, seed, protocol=protocol, epochs=epochs)
    assert clips.dataset.target is not None
    label = clips.dataset.target[clips.split.test, 0]
    found = sentiment_scores(prediction, label).named()
    return found | about | {"seconds": time.process_time() - begun, "prediction": pack(prediction)}


def _network(
    clips: Clips, arm: Arm, trial: dict[str, Any], seed: int, *, protocol: str, epochs: int | None
) -> tuple[NDArray[np.float64], dict[str, Any]]:
    settings = asked(arm, trial, len(clips.split.train)) | ({} if epochs is None else {"epochs": epochs})
    setup = Settings(**settings, seed=seed, accelerator="cpu").settled("modalities", len(clips.split.train))
    parts = clips.split
    if protocol == PUBLISHED:
        parts = Split(parts.train, parts.test, parts.test)
    built = build(clips.dataset, parts.train, setup, validation=parts.validation)
    training = train(built.network, built.features, built.target, parts, setup.recipe, setup.machine, progress=False)
    found = built.preparation.unscale(predictions(training.network, built.features, clips.split.test, setup))
    return found[:, 0], _about(training)


def asked(arm: Arm, trial: dict[str, Any], rows: int) -> dict[str, Any]:
    """Settings of a run; "slower" in a trial divides the model's own rate."""
    found = {**arm.settings, **{name: value for name, value in trial.items() if name != "slower"}}
    if "words" in arm.modalities:
        found["text_encoder"] = checkpoint()
    if "slower" in trial:
        own = models[found["model"]].recipe.get("learning_rate", Recipe().learning_rate)
        found["learning_rate"] = (own(rows) if isinstance(own, ByRows) else own) / trial["slower"]
    return found


def _about(training: Training) -> dict[str, Any]:
    rows, best = training.rows, training.best_epoch
    kept = rows[best] if best >= 0 else training.start or {}
    curves = {name: [row[f"validation_{name}"] for row in rows] for name in ("pcc", "mse")}
    return {
        "epoch": best + 1, "epochs": training.epochs, "validation": kept.get("validation_pcc"),
        "criterion": kept.get("validation_criterion"), "gamma": (training.held or {}).get("gamma_50"), "curves": curves,
        "edge": training.stopped == "epochs" and best == training.epochs - 1,
    }  # fmt: skip


def _ridge(clips: Clips, seed: int) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """On the mean of each feature over the steps; its penalty by validation, then fitted to both parts."""
    dataset, split = replace(clips.dataset, group=None), clips.split
    prepared = Preparation.fit(dataset, split.train)
    assert dataset.target is not None
    x, y = prepared.matrix(dataset), prepared.scale(dataset.target).astype(np.float64)
    peer, both = peers["ridge"], np.concatenate([split.train, split.validation])
    found = tuned(peer, Rows(x[split.train], y[split.train]), Rows(x[split.validation], y[split.validation]))
    made = peer.fit(Rows(x[both], y[both]), found.parameters, seed=seed).predict(x[split.test])
    return prepared.unscale(made)[:, 0], {"validation": None, "criterion": None}
