"""What users would pick instead: ridge, nearest neighbours, ExtraTrees, LightGBM and TabM, with their tuning spaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from excora.comparison.peers import import_lightgbm
from excora.errors import MissingExtraError
from excora_studies.tabular.rows import Fit, Floats, Parameters, Part, Predict, Row

LOG_RIDGE = "ridge, log target"
ROUNDS, BEHIND = 3000, 100  # most trees of LightGBM, and trees without a better validation score


def _scikit(make: Callable[[Parameters, int], Any]) -> Fit:
    def fit(parameters: Parameters, train: Part, validation: Part | None, seed: int) -> tuple[Predict, Parameters]:  # noqa: ARG001
        return make(parameters, seed).fit(train.x, train.y).predict, parameters

    return fit


def _ridge(parameters: Parameters, seed: int) -> Any:  # noqa: ARG001  (nothing in it is random)
    from sklearn.linear_model import Ridge

    return Ridge(**parameters)


def _neighbours(parameters: Parameters, seed: int) -> Any:  # noqa: ARG001
    from sklearn.neighbors import KNeighborsRegressor

    return KNeighborsRegressor(algorithm="brute", **parameters)


def _trees(parameters: Parameters, seed: int) -> Any:
    from sklearn.ensemble import ExtraTreesRegressor

    return ExtraTreesRegressor(random_state=seed, **parameters)


def _log_ridge(parameters: Parameters, train: Part, validation: Part | None, seed: int) -> tuple[Predict, Parameters]:  # noqa: ARG001
    """Ridge on log y, back by exp within the training range, then y ~ a + b f: for a target with a long tail."""
    from sklearn.linear_model import Ridge

    mean, std = train.scale
    raw = np.log(train.y * std + mean)
    model = Ridge(**parameters).fit(train.x, raw)

    def back(x: Floats) -> Floats:
        return np.exp(np.clip(model.predict(x), raw.min(), raw.max()))

    slope, level = np.polyfit(back(train.x), train.y, 1)
    return lambda x: level + slope * back(x), parameters


def _lightgbm(parameters: Parameters, train: Part, validation: Part | None, seed: int) -> tuple[Predict, Parameters]:
    """Boosted trees; how many, the validation part says."""
    engine = import_lightgbm()
    given = {name: value for name, value in parameters.items() if name != "rounds"}
    options = {"objective": "regression", "num_threads": 1, "verbosity": -1, "seed": seed, "bagging_freq": 1, **given}
    data = engine.Dataset(train.x, train.y)
    if validation is None:
        return engine.train(options, data, parameters["rounds"]).predict, parameters
    held = engine.Dataset(validation.x, validation.y, reference=data)
    stop = engine.early_stopping(BEHIND, verbose=False)
    booster = engine.train(options, data, ROUNDS, valid_sets=[held], callbacks=[stop])
    return booster.predict, parameters | {"rounds": booster.best_iteration}


def _tabm(parameters: Parameters, train: Part, validation: Part | None, seed: int) -> tuple[Predict, Parameters]:
    """TabM on piecewise-linear embeddings, AdamW, the mean error of the members; the epochs, validation says.

    Rows are kept in the range of the training part: the outer pieces go on without end, and one wild cell among 7,000
    rows of News would decide the score.
    """
    make = _tabm_maker(parameters, train.x)
    low, high = train.x.min(0), train.x.max(0)

    def predict(rows: Floats) -> Floats:
        return _members(model, np.clip(rows, low, high))

    x, y = (torch.as_tensor(part, dtype=torch.float32) for part in (train.x, train.y))
    with torch.random.fork_rng(devices=()):
        torch.default_generator.manual_seed(seed)
        model = make()
        optimizer = torch.optim.AdamW(model.parameters(), lr=parameters["lr"], weight_decay=parameters["weight_decay"])
        last = parameters["epochs" if validation is None else "most"]
        best, kept, stopped = np.inf, model.state_dict(), last
        for epoch in range(1, last + 1):
            model.train()
            for index in torch.randperm(len(y)).split(256):
                optimizer.zero_grad()
                (model(x[index]).squeeze(-1) - y[index, None]).square().mean().backward()
                optimizer.step()
            if validation is None:
                continue
            score = float(np.square(predict(validation.x) - validation.y).mean())
            if score < best:
                best, stopped = score, epoch
                kept = {name: tensor.clone() for name, tensor in model.state_dict().items()}
            if epoch - stopped == parameters["patience"]:
                break
    if validation is not None:
        model.load_state_dict(kept)
    return predict, parameters | {"epochs": stopped}


def _tabm_maker(parameters: Parameters, x: Floats) -> Callable[[], torch.nn.Module]:
    try:
        from rtdl_num_embeddings import PiecewiseLinearEmbeddings, compute_bins
        from tabm import TabM
    except ImportError as error:
        raise MissingExtraError("tabm", "compare") from error
    shape = {name: parameters[name] for name in ("n_blocks", "d_block", "dropout", "k")}
    # A constant column has no bins; TabM sees it through none of its embeddings either.
    bins = compute_bins(torch.as_tensor(x, dtype=torch.float32), n_bins=parameters["bins"])

    def make() -> torch.nn.Module:
        embeddings = PiecewiseLinearEmbeddings(bins, d_embedding=8, activation=False, version="B")
        model: torch.nn.Module = TabM.make(n_num_features=x.shape[1], d_out=1, num_embeddings=embeddings, **shape)
        return model

    return make


@torch.inference_mode()
def _members(model: torch.nn.Module, x: Floats) -> Floats:
    """The mean over the members."""
    model.eval()
    parts = torch.as_tensor(x, dtype=torch.float32).split(2048)
    found: Floats = torch.cat([model(part).squeeze(-1).mean(1) for part in parts]).double().numpy()
    return found


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
        "ridge": Row(_scikit(_ridge), {"alpha": 1.0}, penalties),
        LOG_RIDGE: Row(_log_ridge, {"alpha": 1.0}, penalties),
        "nearest neighbours": Row(
            _scikit(_neighbours),
            {"n_neighbors": 4, "weights": "distance"},
            {"n_neighbors": (2, 3, 4, 6, 8, 12, 20, 30, 50), "weights": ("uniform", "distance")},
        ),
        "ExtraTrees": Row(
            _scikit(_trees),
            {"n_estimators": trees, "max_features": 1.0, "min_samples_leaf": 1},
            {"max_features": (0.2, 0.33, 0.5, 0.75, 1.0), "min_samples_leaf": (1, 2, 3, 5, 10)},
        ),
        "LightGBM": Row(_lightgbm, {"learning_rate": 0.05, "num_leaves": 31}, boosted),
        "TabM": Row(_tabm, tabm, tabm_space),
    }
