"""The rows of the study ``spatial``: each learns from a fold with settings that its validation part has picked."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from excora.data.dataset import Features, Inputs
from excora.data.splits import Split
from excora.models import Network, Samples, models
from excora.models.base import seeded
from excora.models.parts.neighbours import Search
from excora.models.parts.start import REACH
from excora.peers import Part, peers
from excora.settings import Machine, Recipe, Setup
from excora.stats.correlation import Array, pearson, selection_mean
from excora.stats.ridge import RidgePath, left_out_ridge
from excora.stats.scores import criterion, squared_error
from excora.training import train
from excora.training.evaluation import predictions
from excora_studies.spatial.sets import Held, Task

#: What a correlation weighs beside the squared error, in training and where settings are picked: labels have a
#: deviation of 1, so that the dispersion in DNPL is about rho, here 0.2, and would all but switch it off.
WEIGHT = 2.0
PENALTIES = tuple(np.logspace(2, 6, 17).tolist())
NEAREST = (4, 8, 16, 32, 64, 128)
PCA = 256
#: Principal components that trees read, and what is tried of them.
TREES = ({"num_leaves": 4, "min_data_in_leaf": 20}, {"num_leaves": 8, "min_data_in_leaf": 40})

measure = criterion("joint", WEIGHT)


class Picked(NamedTuple):
    """Settings, and how they do on the validation part."""

    settings: dict[str, Any]
    score: float


#: (task, settings, seed, final): predictions (n, genes), standardised, and further settings that were found.
Fit = Callable[[Task, dict[str, Any], int, bool], tuple[Array, dict[str, Any]]]


class Arm(NamedTuple):
    """A row: what is tried, and how it is fitted; ``seeded``: whether chance has a part in it."""

    tried: tuple[dict[str, Any], ...]
    fit: Fit
    seeded: bool = False


def pick(task: Task, arm: Arm) -> Picked:
    """The best of what is tried on the validation part, learned from the training part."""
    found: list[Picked] = []
    for settings in arm.tried:
        prediction, more = arm.fit(task, settings, 0, False)
        rows = task.parts.validation
        found.append(Picked(settings | more, measure(prediction[rows], task.scaled[rows].astype(float), None)))
    return min(found, key=lambda one: one.score)


def scores(prediction: Array, target: Array) -> dict[str, Any]:
    """PCC by gene of the tested part (NaN: undefined), its 25 % quantile, median and mean, and the squared error.

    An undefined correlation counts as 0.
    """
    rho = pearson(prediction, target)
    known = np.nan_to_num(rho)
    found = {"PCC@F": float(np.quantile(known, 0.25)), "PCC@S": float(np.median(known))}
    found |= {"PCC@M": selection_mean(rho), "MSE": squared_error(prediction, target)}
    return found | {"undefined": int(np.isnan(rho).sum()), "by gene": [None if np.isnan(r) else r for r in rho]}


# What needs no training.


def _mean(task: Task, _: dict[str, Any], __: int, final: bool) -> tuple[Array, dict[str, Any]]:
    return np.tile(task.scaled[task.rows(final=final)].mean(0, dtype=float), (len(task.scaled), 1)), {}


def _scaled(x: Array, rows: NDArray[np.intp]) -> Array:
    spread = x[rows].std(0)
    return np.clip((x - x[rows].mean(0)) / np.where(spread > 0, spread, 1.0), -REACH, REACH)


@functools.lru_cache(maxsize=1)
def _path(task: Task, what: str, final: bool) -> tuple[RidgePath, Array]:
    """The ridge of every penalty on what a row reads, and all spots in its coordinates."""
    rows = task.rows(final=final)
    x = np.concatenate([task.own, task.around], 1) if "neighbours" in what else task.own
    x = _scaled(x, rows)
    if "PCA" in what:
        centre = x[rows].mean(0)
        x = (x - centre) @ np.linalg.svd(x[rows] - centre, full_matrices=False)[2][:PCA].T
    path = RidgePath(x[rows], task.scaled[rows].astype(float))
    return path, path.turned(x)


def _ridge(what: str) -> Arm:
    def fit(task: Task, settings: dict[str, Any], _: int, final: bool) -> tuple[Array, dict[str, Any]]:
        path, turned = _path(task, what, final)
        return path.predicted(turned, settings["penalty"]), {}

    return Arm(tuple({"penalty": p} for p in PENALTIES), fit)


def _nearest(task: Task, settings: dict[str, Any], _: int, final: bool) -> tuple[Array, dict[str, Any]]:
    """The mean expression of the k spots of other sections whose vectors are nearest."""
    rows = task.rows(final=final)
    x = torch.from_numpy(_scaled(task.own, rows)).float()
    codes = np.unique(task.group, return_inverse=True)[1]
    apart = Apart(torch.from_numpy(codes), torch.from_numpy(codes[rows]))
    found, allowed = Search(x[rows], exact=True)(x, settings["k"], excluded=apart, numbers=torch.arange(len(x)))  # type: ignore[arg-type]
    weight = allowed.double() / allowed.sum(1, keepdim=True).clamp_min(1)
    y = torch.from_numpy(task.scaled[rows]).double()
    return torch.einsum("nk,nkt->nt", weight, y[found]).numpy(), {}


class Apart:
    """Which spots must not meet: those of one section."""

    def __init__(self, query: Tensor, candidate: Tensor) -> None:
        self.query, self.candidate = query, candidate

    def __call__(self, query: Tensor, candidate: Tensor) -> Tensor:
        """True for pairs that must not."""
        return self.query[query] == self.candidate[candidate]


def _trees(task: Task, settings: dict[str, Any], seed: int, final: bool) -> tuple[Array, dict[str, Any]]:
    """A model a gene on the principal components; the validation part says how many trees, once for all genes."""
    rows, x = task.rows(final=final), task.features.inputs["feature"].double().numpy()[:, : settings["components"]]
    y = task.scaled.astype(float)
    given = {"learning_rate": 0.05, "deterministic": True, "force_row_wise": True, **settings}
    given.pop("components")
    held = task.parts.validation
    found: list[Array] = []
    trees: list[int] = []
    for gene in range(y.shape[1]):
        learned = Part(x[rows], y[rows, gene, None])
        if final:
            model = peers["lightgbm"].fit(learned, given, seed=seed)
        else:
            judge = Part(x[held], y[held, gene, None])
            model = peers["lightgbm"].fit(
                learned, {**given, "rounds": 150, "patience": 20}, validation=judge, seed=seed
            )
            trees.append(model.parameters["rounds"])
        found.append(model.predict(x))
    return np.concatenate(found, 1), {} if final else {"rounds": max(int(np.median(trees)), 1)}


# Networks.


class Given(nn.Module):
    """The ridge of each gene, which is the same for all networks of a fold, as an input."""

    fresh = True

    def forward(self, inputs: Inputs) -> Tensor:
        """(n, targets)."""
        found = inputs["start"]
        assert isinstance(found, Tensor)
        return found


class Start(NamedTuple):
    """The ridge that networks start from: its predictions (n, genes), and labels less those without the own section."""

    prediction: Array
    left: NDArray[np.float32]


@functools.lru_cache(maxsize=2)
def start(task: Task, *, final: bool) -> Start:
    """A ridge a gene on own vectors and those around, one penalty for all by sections that are left out."""
    rows = task.rows(final=final)
    x, y = _scaled(np.concatenate([task.own, task.around], 1), rows), task.scaled[rows].astype(float)
    found = left_out_ridge(x[rows], y, group=task.group[rows], shared=True)
    left = np.full_like(task.scaled, np.nan)
    left[rows] = y - found.left_out
    return Start(found.line.predict(x), left)


def _begun(task: Task, _: dict[str, Any], __: int, final: bool) -> tuple[Array, dict[str, Any]]:
    return start(task, final=final).prediction, {}


def network_of(task: Task, model: str, options: dict[str, Any], seed: int, *, final: bool) -> tuple[Network, Features]:
    """A fresh network on the ridge, and the spots as it reads them."""
    begun, rows = start(task, final=final), task.rows(final=final)
    held = task.features.with_(start=torch.from_numpy(begun.prediction).float())
    kind, made = models[model], models[model].Options(**options)
    learned: dict[str, Any] = {}
    if made.exemplars:  # type: ignore[attr-defined]
        learned = {"exemplars": len(rows)}
    spec = task.spec
    if model == "egn":
        held = _own_patches(held)
        learned["patches"], spec = int(held.sizes[0]), dataclasses.replace(spec, neighbours=0)
    with seeded(seed):
        network: Any = kind.network(spec, made, learned)
    if learned:
        labels = task.scaled if model == "egn" else begun.left
        network.bank.remember(Samples(held, labels, rows))
        network.bank.learn(seed=seed)
    network.linear_start = Given()
    network.begin_at_zero(held.read(rows[:2]))
    return network, network.look_up(held)


def _own_patches(held: Held) -> Held:
    own = int(held.inputs["own"][0])
    return Held(held.inputs | {name: held.inputs[name][:, :own] for name in ("elements", "places")})


def trained_network(model: str, options: dict[str, Any], recipe: dict[str, Any]) -> Fit:
    """A network on the ridge, the validation part picks its epoch; at the end as many epochs on all that is known."""

    def fit(task: Task, settings: dict[str, Any], seed: int, final: bool) -> tuple[Array, dict[str, Any]]:
        network, features = network_of(task, model, options, seed, final=final)
        given = {name: settings[name] for name in ("learning_rate", "weight_decay")}
        epochs = settings.get("epoch", recipe["epochs"])
        how = Recipe(**(recipe | given | {"epochs": max(epochs, 1), "seed": seed, "correlation_weight": WEIGHT}))
        machine, more = Machine(accelerator="cpu"), {}
        parts = Split(task.rows(final=final), np.empty(0, np.intp), task.parts.test) if final else task.parts
        if epochs:  # none: no epoch was better than the ridge
            trained = train(network, features, task.scaled, parts, how, machine, progress=False)
            network, more = trained.network, {} if final else {"epoch": trained.best_epoch + 1}
        everyone = np.arange(len(task.scaled))
        return predictions(network, features, everyone, Setup(model, None, how, machine)), more

    return fit


def arms(configuration: dict[str, Any]) -> dict[str, Arm]:
    """Every row by name."""
    tried = tuple({"learning_rate": rate, "weight_decay": decay} for rate, decay in configuration["tried"])

    def network(model: str, **options: Any) -> Arm:
        return Arm(
            tried, trained_network(model, configuration[model] | options, configuration[f"{model} recipe"]), seeded=True
        )

    looked = {"exemplars": configuration["exemplars"]}
    found = {
        "training mean": Arm(({},), _mean),
        "ridge, PCA-256": _ridge("PCA"),
        "ridge": _ridge("own"),
        "ridge, with neighbours": _ridge("neighbours"),
        "exemplar kNN": Arm(tuple({"k": k} for k in NEAREST), _nearest),
        "ridge start alone": Arm(({},), _begun),
        "spots, mean": network("spots", pool="mean"),
        "spots, softmax": network("spots", pool="softmax"),
        "spots, ECA": network("spots", pool="eca"),
        "spots, [attended, mean, sd]": network("spots", pool="eca", moments="attended+mean+spread"),
        "spots, exemplars, softmax": network("spots", pool="softmax", **looked),
        "spots, exemplars, ECA": network("spots", pool="eca", **looked),
        "EGN": network("egn", pool="softmax"),
        "EGN + ECA": network("egn", pool="eca"),
    }
    trees = tuple({"components": configuration["trees"], **one} for one in TREES)
    return found | ({"LightGBM": Arm(trees, _trees)} if configuration["trees"] else {})
