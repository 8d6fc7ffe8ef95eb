"""The arms: an aggregator in its host, tuned on validation and then fitted once a seed; and what one uses instead."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from excora.data.preparation import Preparation
from excora.estimators import TabularRegressor
from excora.models import Network
from excora.models.base import seeded
from excora.models.parts.retrieval import RetrievalNetwork
from excora.models.pool import PoolNetwork
from excora.peers import Part, peers, tuned
from excora.pooling import ECAPool
from excora.ragged import Ragged
from excora.settings import Settings
from excora.stats.correlation import pearson, selection_mean
from excora.theory import prediction_range
from excora.training import Training, train
from excora.training.building import Built, build
from excora.training.evaluation import predictions

if TYPE_CHECKING:
    from excora_studies.gains.tasks import Sample, Task

Floats = NDArray[np.float64]
HERE = "TabularRegressor()"
#: What the model "pool" is asked for, by arm.
POOLS: dict[str, dict[str, Any]] = {
    "softmax": {"pool": "softmax"},
    "eca": {"pool": "eca"},
    "eca-paper": {"pool": "eca-paper"},
    "mean": {"pool": "mean"},
    "gated": {"pool": "gated"},
    "softmax, 4 heads": {"pool": "softmax", "pool_heads": 4, "pool_values": "shared"},
    "eca, 4 heads": {"pool": "eca", "pool_heads": 4, "pool_values": "shared"},
    "eca-paper without SRA": {"pool": "eca-paper"},
    "eca-paper without DATS": {"pool": "eca-paper"},
    "softmax, moments": {"pool": "softmax", "moments": "attended+mean+spread"},
    "differential": {"pool": "differential"},
    "local-linear": {"pool": "local-linear"},
    "kriging": {"pool": "kriging"},
    "eca, moments": {"pool": "eca", "moments": "attended+mean+spread"},
    "sigmoid": {"pool": "sigmoid"},
    "signed": {"pool": "signed"},
    "softmax, unscaled": {"pool": "eca-paper"},
}
BAGS = tuple(POOLS)
SHORT = ("softmax", "eca", "eca-paper", "mean", "gated", "softmax, 4 heads", "eca, 4 heads", "softmax, moments",
         "differential", "local-linear")  # fmt: skip
FEW = ("softmax", "eca", "eca-paper", "mean", "gated", "softmax, unscaled")
PLAIN = (*FEW[:-1], "softmax, moments")
#: What the model "retrieval" is asked for, by arm.
RETRIEVAL: dict[str, dict[str, Any]] = {
    **{name: {"pool": name} for name in ("softmax", "local-linear", "kriging", "eca")},
    "local-linear, residual": {"pool": "local-linear", "residual": "ridge"},
}
PEERS = {"ExtraTrees": "extratrees", "LightGBM": "lightgbm", "ridge": "ridge"}
TABLES = (HERE, *PEERS)
NEIGHBOURS = (*RETRIEVAL, *TABLES)
FEW_NEIGHBOURS = ("softmax", "local-linear", "eca", *TABLES)
#: Of the paper's form, what each is without; without either it is softmax whose logits are not divided by sqrt(dim).
ABLATED: dict[str, dict[str, Any]] = {
    "eca-paper without SRA": {"residual": None, "temperature": (0.5, 1.0)},
    "eca-paper without DATS": {"residual": "paper", "temperature": None},
    "softmax, unscaled": {"residual": None, "temperature": None},
}


class Fit(NamedTuple):
    """Of one seed: the test part on the standardised scale, (n, targets), and the figures beside it."""

    prediction: Floats
    figures: dict[str, float | int | bool | None]


def settings_of(task: Task, arm: str) -> dict[str, Any]:
    """Host and arm as :class:`Settings` takes them."""
    if task.host == "retrieval":
        return {"model": "retrieval", **task.settings, **RETRIEVAL[arm]}
    return {"model": "pool", **task.settings, **POOLS[arm]}


def fit_network(sample: Sample, arm: str, settings: dict[str, Any], seed: int) -> tuple[Training, Built]:
    """Train it; validation picks the epoch, the test part is not read."""
    settled = Settings(**settings, seed=seed, accelerator="cpu").settled(sample.dataset.kind, len(sample.split.train))
    built = build(sample.dataset, sample.split.train, settled, validation=sample.split.validation)
    if arm in ABLATED:
        with seeded(seed):
            _ablate(built.network, ABLATED[arm])
    training = train(
        built.network, built.features, built.target, sample.split, settled.recipe, settled.machine, progress=False
    )
    return training, built


def _ablate(network: Network, form: dict[str, Any]) -> None:
    """The paper's pool without one of its parts, or both."""
    assert isinstance(network, PoolNetwork)
    dim = network.pool.width
    scorer = nn.Linear(dim, 1)
    scorer.bias.requires_grad_(False)  # as make_pool has it
    network.pool = ECAPool(dim, scorer=scorer, cap=2.0, scale="paper", **form)


def tune(sample: Sample, task: Task, arm: str, seed: int) -> list[dict[str, Any]]:
    """The same trials for every arm, best first: all rates, then the other decays at the best of them."""
    found: list[dict[str, Any]] = []

    def attempt(rate: float, decay: float) -> None:
        settings = settings_of(task, arm) | {"learning_rate": rate, "weight_decay": decay}
        training, _ = fit_network(sample, arm, settings, seed)
        best = max(row["validation_pcc"] for row in training.rows)
        best = max(best, (training.start or {}).get("validation_pcc", -1.0))
        found.append({"rate": rate, "decay": decay, "validation": best, "edge": _edge(training)})

    for rate in task.rates:
        attempt(rate, task.decays[0])
    best = max(found, key=lambda trial: trial["validation"])["rate"]
    for decay in task.decays[1:]:
        attempt(best, decay)
    return sorted(found, key=lambda trial: -trial["validation"])


def _edge(training: Training) -> bool:
    """Whether the best epoch was the last that the schedule has, so that more might have helped."""
    return training.stopped == "epochs" and training.best_epoch == training.epochs - 1


def network_run(sample: Sample, task: Task, arm: str, chosen: dict[str, Any], seed: int) -> Fit:
    """A fit with the chosen rate and decay, and the one look at the test part."""
    begun = time.process_time()
    settings = settings_of(task, arm) | {"learning_rate": chosen["rate"], "weight_decay": chosen["decay"]}
    training, built = fit_network(sample, arm, settings, seed)
    setup = Settings(**settings, accelerator="cpu").settled(sample.dataset.kind, len(sample.split.train))
    held = training.held or {}
    figures = {
        "epoch": training.best_epoch + 1,
        "epochs": training.epochs,
        "edge": _edge(training),
        "validation": max(row["validation_pcc"] for row in training.rows),
        "gamma": held.get("gamma_50"),
        "ceiling": held.get("achievable_ceiling"),
        "used": held.get("achievable_used"),
        "proven": held.get("hull_ceiling"),
        "outside": outside(training.network, built, sample.split.validation),
    }
    prediction = predictions(training.network, built.features, sample.split.test, setup)
    return Fit(prediction, figures | {"seconds": time.process_time() - begun})


@torch.no_grad()
def outside(network: Network, built: Built, index: NDArray[np.intp]) -> float | None:
    """Share of the labels of ``index`` that no convex weights reach: beyond what every element alone would predict.

    Of neighbours: beyond all their labels. Of bags: beyond w.h_i + c of every element, for a linear head.
    """
    target = torch.from_numpy(built.target[index])
    inputs: Any = built.features.read(index)
    if isinstance(network, RetrievalNetwork):
        labels = network.context_labels[inputs["neighbours"]]
        low, high = labels.amin(1), labels.amax(1)
    elif isinstance(network, PoolNetwork) and isinstance(network.head, nn.Linear):
        h = network.encoder(inputs)
        made = getattr(network.pool, "elements", None)
        h = h if made is None else made(h)
        padded, mask = h.pad() if isinstance(h, Ragged) else (h, None)
        low, high = prediction_range(padded, network.head.weight, network.head.bias, mask=mask)
        if network.linear_start is not None:
            start = network.linear_start(inputs)
            low, high = low + start, high + start
    else:
        return None
    return float(((target < low) | (target > high)).double().mean())


def table_run(sample: Sample, arm: str, seed: int) -> Fit:
    """The default for tables, or a peer: tuned on validation, then fitted to training and validation part together."""
    begun, split = time.process_time(), sample.split
    dataset, both = sample.dataset, np.concatenate([sample.split.train, sample.split.validation])
    prepared = Preparation.fit(dataset, split.train)
    assert dataset.target is not None
    y = prepared.scale(dataset.target).astype(np.float64)
    if arm == HERE:
        frame: Any = dataset.content.frame  # type: ignore[union-attr]
        groups = None if dataset.group is None else dataset.group[both]
        model = TabularRegressor(random_state=seed).fit(frame.iloc[both], y[both, 0], groups=groups)
        prediction = np.asarray(model.predict(frame.iloc[split.test]), np.float64)[:, None]
    else:
        x, peer = prepared.matrix(dataset), peers[PEERS[arm]]
        found = tuned(peer, Part(x[split.train], y[split.train]), Part(x[split.validation], y[split.validation]))
        prediction = peer.fit(Part(x[both], y[both]), found.parameters, seed=seed).predict(x[split.test])
    return Fit(prediction, {"seconds": time.process_time() - begun})


def run(sample_of: Any, task: Task, arm: str, seeds: list[int], tuning_seed: int) -> dict[str, Any]:
    """Trials where there are any, then every seed; predictions as (n, targets) by seed."""
    network = arm not in TABLES
    trials = tune(sample_of(tuning_seed), task, arm, tuning_seed) if network else []
    fits = []
    for seed in seeds:
        sample = sample_of(seed)
        fit = network_run(sample, task, arm, trials[0], seed) if network else table_run(sample, arm, seed)
        fits.append(fit)
    return {"trials": trials, "fits": fits}


def scores(prediction: Floats, target: Floats) -> dict[str, float]:
    """PCC, mean over targets, and MSE in units of the variance of the training labels."""
    return {
        "PCC": selection_mean(pearson(prediction, target)),
        "MSE": float(np.square(prediction - target).mean()),
    }
