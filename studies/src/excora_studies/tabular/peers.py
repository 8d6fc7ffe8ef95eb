"""What users would pick instead, with the spaces of their tuning: the package's peers in the words of the study."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from excora.peers import Part as Samples
from excora.peers import peers as registry
from excora_studies.tabular.rows import Fit, Floats, Parameters, Part, Predict, Row

LOG_RIDGE = "ridge, log target"
ROUNDS, BEHIND = 3000, 100  # most trees of LightGBM, and trees without a better validation score


def _peer(name: str, words: Callable[[Parameters], Parameters] = dict) -> Fit:
    """A peer whose settings are called as in scikit-learn; ``words`` are those of :mod:`excora.peers`."""

    def fit(parameters: Parameters, train: Part, validation: Part | None, seed: int) -> tuple[Predict, Parameters]:
        held = None if validation is None else _samples(validation)
        found = registry[name].fit(_samples(train), words(parameters), validation=held, seed=seed)
        fixed = {key: found.parameters[key] for key in ("rounds", "epochs") if key in found.parameters}
        return lambda x: found.predict(x)[:, 0], parameters | fixed

    return fit


def _samples(part: Part) -> Samples:
    return Samples(part.x, part.y[:, None])


def _neighbours(parameters: Parameters) -> Parameters:
    by_distance = parameters["weights"] == "distance"
    return {"neighbours": parameters["n_neighbors"], "by distance": by_distance, "algorithm": "brute"}


def _lightgbm(parameters: Parameters) -> Parameters:
    return {"rounds": ROUNDS, "patience": BEHIND, "bagging_freq": 1} | parameters


def _log_ridge(parameters: Parameters, train: Part, validation: Part | None, seed: int) -> tuple[Predict, Parameters]:  # noqa: ARG001
    """Ridge on log y, back by exp within the training range, then y ~ a + b f: for a target with a long tail."""
    mean, std = train.scale
    raw = np.log(train.y * std + mean)
    model = registry["ridge"].fit(Samples(train.x, raw[:, None]), parameters)

    def back(x: Floats) -> Floats:
        return np.exp(np.clip(model.predict(x)[:, 0], raw.min(), raw.max()))

    slope, level = np.polyfit(back(train.x), train.y, 1)
    return lambda x: level + slope * back(x), parameters


def peers(*, trees: int, epochs: int) -> dict[str, Row]:
    """The rows; ``trees`` of ExtraTrees, at most ``epochs`` of TabM."""
    boosted = {
        "num_leaves": (15, 31, 63, 127, 255),
        "learning_rate": (0.03, 0.05, 0.1),
        "min_data_in_leaf": (5, 10, 20, 50),
        "bagging_fraction": (0.7, 0.85, 1.0),
        "feature_fraction": (0.5, 0.7, 1.0),
        "lambda_l2": (0.0, 1.0, 10.0),
    }
    tabm = {
        "n_blocks": 2, "d_block": 128, "dropout": 0.1, "k": 8, "bins": 16, "lr": 2e-3, "weight_decay": 3e-4,
        "most": epochs, "patience": 10,
    }  # fmt: skip
    tabm_space = {
        "n_blocks": (2, 3), "d_block": (96, 128, 192), "dropout": (0.0, 0.1, 0.2), "bins": (8, 16, 32),
        "lr": (1e-3, 2e-3, 4e-3), "weight_decay": (0.0, 3e-4, 3e-2),
    }  # fmt: skip
    penalties = {"alpha": tuple(10.0**k for k in range(-3, 6))}
    return {
        "ridge": Row(_peer("ridge"), {"alpha": 1.0}, penalties),
        LOG_RIDGE: Row(_log_ridge, {"alpha": 1.0}, penalties),
        "nearest neighbours": Row(
            _peer("neighbours", _neighbours),
            {"n_neighbors": 4, "weights": "distance"},
            {"n_neighbors": (2, 3, 4, 6, 8, 12, 20, 30, 50), "weights": ("uniform", "distance")},
        ),
        "ExtraTrees": Row(
            _peer("extratrees"),
            {"n_estimators": trees, "max_features": 1.0, "min_samples_leaf": 1},
            {"max_features": (0.2, 0.33, 0.5, 0.75, 1.0), "min_samples_leaf": (1, 2, 3, 5, 10)},
        ),
        "LightGBM": Row(_peer("lightgbm", _lightgbm), {"learning_rate": 0.05, "num_leaves": 31}, boosted),
        "TabM": Row(_peer("tabm"), tabm, tabm_space),
    }
