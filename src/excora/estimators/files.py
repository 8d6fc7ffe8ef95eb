"""A fitted regressor as one safetensors file: the weights as tensors, all else as JSON in its header."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

import excora
from excora.data.preparation import Preparation
from excora.diagnosis.verdicts import Evidence, Verdict
from excora.errors import InputError, MissingExtraError
from excora.estimators.checks import OWN, plain
from excora.models import models
from excora.models.files import read_weights
from excora.settings import Recipe, Setup
from excora.storage import write_atomically

try:
    from safetensors import safe_open
    from safetensors.torch import save as pack
except ModuleNotFoundError as error:
    raise MissingExtraError("safetensors", "app") from error

if TYPE_CHECKING:
    from excora.estimators.base import Regressor

R = TypeVar("R", bound="Regressor")

#: The key of the description in the file's header.
KEY = "excora"


def save(model: Regressor, path: Path) -> None:
    """Write the whole file or nothing."""
    params = {name: plain(value) for name, value in model.get_params(deep=False).items()}
    if isinstance(params["random_state"], np.random.RandomState):
        params["random_state"] = None
    names = getattr(model, "feature_names_in_", None)
    described = {
        "version": excora.__version__,
        "class": type(model).__name__,
        "params": params,
        "settings": model.setup_.to_dict(),
        "network": model.network_.learned,
        "preparation": model.preparation_.to_dict(),
        "history": model.history_,
        "verdict": model.verdict_.to_dict(),
        "best_epoch": model.best_epoch_,
        "n_iter": model.n_iter_,
        "n_features": int(model.n_features_in_),
        "feature_names": None if names is None else [str(name) for name in names],
    }
    weights = {name: value.contiguous() for name, value in model.network_.state_dict().items()}
    write_atomically(path, pack(weights, {KEY: json.dumps(described)}))


def load(kind: type[R], path: Path) -> R:
    """The regressor of a file; whatever is wrong with it is an InputError that names the file."""
    text = _description(path)
    try:
        described = json.loads(text)
        if described["class"] != kind.__name__:
            raise InputError(f"it holds a {described['class']}: use excora.{described['class']}.load")
        return _restore(kind, described, path)
    except InputError as error:
        raise InputError(f"{path} is not a {kind.__name__} that can be loaded: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError) as error:
        raise InputError(
            f"{path} does not describe a {kind.__name__} as .save writes it: {type(error).__name__}: {error}"
        ) from error


def _description(path: Path) -> str:
    """The text in the header."""
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    try:
        with safe_open(path, framework="pt") as file:
            text: str | None = (file.metadata() or {}).get(KEY)
    except Exception as error:  # a foreign file fails in as many ways as there are files
        raise InputError(f"{path} is not a safetensors file ({error}): give a file that .save has written") from error
    if text is None:
        raise InputError(f"{path} is a safetensors file, but not one that .save of a regressor has written")
    return text


def _restore(kind: type[R], described: dict[str, Any], path: Path) -> R:
    setup = Setup.from_dict(described["settings"])
    params = described["params"]
    if "options" not in described["settings"]:  # in 0.1 an estimator had the options of every model
        known = {*models[setup.model].Options.names(), *Recipe.names(), "model", *OWN}
        params = {name: value for name, value in params.items() if name in known & {*kind._get_param_names()}}
    model = kind(**params)
    model.setup_ = setup
    model.preparation_ = Preparation.from_dict(described["preparation"])
    learned = described.get("network", {})
    model.network_ = read_weights(path, setup.model, model.preparation_.spec, setup.options, learned)
    model.history_ = [{str(name): value for name, value in row.items()} for row in described["history"]]
    model.verdict_ = _verdict(described["verdict"])
    model.best_epoch_, model.n_iter_ = _whole(described, "best_epoch", least=-1), _whole(described, "n_iter")
    model.n_features_in_ = _whole(described, "n_features")
    names = described["feature_names"]
    if names is not None:
        if len(names) != model.n_features_in_:
            raise InputError(f"{len(names)} feature names for {model.n_features_in_} features")
        model.feature_names_in_ = np.array([str(name) for name in names], object)
    return model


def _verdict(values: dict[str, Any]) -> Verdict:
    evidence = {str(name): Evidence(**item) for name, item in values["evidence"].items()}
    return Verdict(str(values["name"]), str(values["sentence"]), evidence, str(values["advice"]))


def _whole(described: dict[str, Any], name: str, least: int = 0) -> int:
    value = described[name]
    if type(value) is not int or value < least:
        raise InputError(f"{name} should be a whole number, got {value!r}")
    return value
