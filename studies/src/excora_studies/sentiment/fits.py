"""One fit: trained, the epoch chosen on validation for all figures, the test part predicted once."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from excora.data.preparation import Preparation
from excora.data.splits import Split
from excora.models import models
from excora.options import ByRows
from excora.peers import Part as Rows
from excora.peers import peers, tuned
from excora.settings import Recipe, Settings, Setup
from excora.stats.sentiment import sentiment_scores
from excora.training import Training, train
from excora.training.building import Built, build
from excora.training.evaluation import answers, predictions
from excora_studies.sentiment.arms import Arm
from excora_studies.sentiment.clips import Clips, checkpoint
from excora_studies.tabular.scores import pack

#: Clips whose words are shown.
SHOWN = 4
#: The preset in which the test part chooses the epoch, as published results have it: labelled so in every table.
PUBLISHED = "published"


def run(
    clips: Clips, arm: Arm, trial: dict[str, Any], seed: int, *, chooses: str, epochs: int | None
) -> dict[str, Any]:
    """Figures of the test part, its predictions, and how the epoch was chosen."""
    begun = time.process_time()
    if arm.ridge:
        prediction, about = _ridge(clips, seed)
    else:
        prediction, about = _network(clips, arm, trial, seed, chooses=chooses, epochs=epochs)
    assert clips.dataset.target is not None
    label = clips.dataset.target[clips.split.test, 0]
    found = sentiment_scores(prediction, label).named()
    return found | about | {"seconds": time.process_time() - begun, "prediction": pack(prediction)}


def _network(
    clips: Clips, arm: Arm, trial: dict[str, Any], seed: int, *, chooses: str, epochs: int | None
) -> tuple[NDArray[np.float64], dict[str, Any]]:
    settings = asked(arm, trial, len(clips.split.train)) | ({} if epochs is None else {"epochs": epochs})
    setup = Settings(**settings, seed=seed, accelerator="cpu").settled("modalities", len(clips.split.train))
    parts = clips.split
    if chooses == "test":
        parts = Split(parts.train, parts.test, parts.test)
    built = build(clips.dataset, parts.train, setup, validation=parts.validation)
    with _listening(built.network) as heard:
        training = train(
            built.network, built.features, built.target, parts, setup.recipe, setup.machine, progress=False
        )
    found = built.preparation.unscale(predictions(training.network, built.features, clips.split.test, setup))[:, 0]
    about = _about(training)
    about["curves"]["mae"] = _errors(heard, built, clips, parts.validation, len(training.rows))
    return found, about | _looked_at(clips, training, built, setup, found)


@contextlib.contextmanager
def _listening(network: torch.nn.Module) -> Iterator[list[Tensor]]:
    """What the network predicts when it is not trained: the validation part after each epoch, in its order."""
    heard: list[Tensor] = []
    hook = network.register_forward_hook(
        lambda module, _, output: None if module.training else heard.append(output.prediction.detach())
    )
    try:
        yield heard
    finally:
        hook.remove()


def _errors(heard: list[Tensor], built: Built, clips: Clips, index: NDArray[np.intp], epochs: int) -> list[float]:
    """MAE of the validation part after each epoch, in the unit of the labels."""
    assert clips.dataset.target is not None
    made = built.preparation.unscale(torch.cat(heard).double().numpy())[:, 0]
    label = clips.dataset.target[index, 0]
    return [float(np.abs(part - label).mean()) for part in made[: epochs * len(index)].reshape(epochs, -1)]


def _looked_at(clips: Clips, training: Training, built: Built, setup: Setup, found: Any) -> dict[str, Any]:
    """Of some test clips, from the lowest to the highest prediction: the words and the frames, and the weight of each.

    What a model looks at beside them, such as ALMT's own tokens, is left out.
    """
    name_of = built.features.element_name  # type: ignore[attr-defined]
    order = np.argsort(found)[np.linspace(0, len(found) - 1, SHOWN).round().astype(int)]
    shown: list[dict[str, Any]] = []
    for place, answer in zip(
        order, answers(training.network, built.features, clips.split.test[order], setup), strict=True
    ):
        seen = {name: one.effective[training.network.leading :] for name, one in answer.attention.items()}
        if not seen:
            return {}
        label = clips.dataset.target[answer.position, 0]  # type: ignore[index]
        one: dict[str, Any] = {"predicted": float(found[place]), "label": float(label)}
        if "text" in seen:
            weights = seen.pop("text")
            one["words"] = [(name_of("text", answer.position, k), float(x)) for k, x in enumerate(weights)]
        shown.append(one | {"frames": {name: [float(x) for x in weights] for name, weights in seen.items()}})
    return {"attention": shown}


def asked(arm: Arm, trial: dict[str, Any], rows: int) -> dict[str, Any]:
    """Settings of a run; "slower" in a trial divides the model's own rate."""
    found = {**arm.settings, **{name: value for name, value in trial.items() if name != "slower"}}
    if {"words", "near"} & {*arm.modalities}:
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
