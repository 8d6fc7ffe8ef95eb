"""What the files of a run or comparison folder must hold, and the check that says what is wrong with one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from excora.errors import InputError


class Maybe(NamedTuple):
    """The shape, or null."""

    shape: Any


class Each(NamedTuple):
    """An object with any names, every value of this shape."""

    shape: Any


class OneOf(NamedTuple):
    """One of these words."""

    words: tuple[str, ...]


class Scalar:
    """A string, a finite number, a boolean or null: something the user named, or that a package reports."""


_SCORES = {"pcc": Maybe(float), "mse": Maybe(float), "mae": Maybe(float)}
_EVIDENCE = {"value": Maybe(float), "rule": str, "met": bool}
_ELEMENT = {"label": Scalar, "weight": float, "effective": float}
_RUN = _SCORES | {"seed": int, "fold": int, "seconds": float}
_BAG = {
    "id": Scalar, "prediction": object, "target": object, "gamma?": Maybe(float), "temperature?": Maybe(float),
    "elements": int, "top": [_ELEMENT],
}  # fmt: skip

#: A list holds one shape for all of its items; a key that ends in "?" may be absent.
CONFIG = {
    "excora": str, "rerun": str, "data": {"path": Scalar, "target": object}, "split?": dict,
    "settings": {"seed": int, "pool": str}, "state": str, "environment": Each(Scalar),
}  # fmt: skip
RECORD = {"epoch": int, "pcc": Maybe(float), "mse": Maybe(float)}
MONITOR = {"records": [RECORD]}
NUMBERS = {"records": [Each(Maybe(float))]}
RESULTS = {
    "best_epoch": Maybe(int),
    "epochs": int,
    "seconds?": Maybe(float),
    "stopped?": Maybe(str),
    "counts": {"train": int, "validation": int, "test": int},
    "validation": Each(_SCORES),
    "test": Each(_SCORES | {"low": Maybe(float), "high": Maybe(float)}),
    "groups?": {"test?": [{"group": Scalar, "n": int, "pcc": Maybe(float), "mse": Maybe(float)}]},
    "verdict?": Maybe({"name": str, "sentence": str, "advice": str, "evidence": Each(_EVIDENCE)}),
    "notes?": [str],
}
ATTENTION = {
    "gamma": [float], "temperature": [float], "effective_elements": [float], "elements": [int], "bags": [_BAG],
}  # fmt: skip
_ROW = _SCORES | {"model": str, "label": str, "pcc_sd": Maybe(float), "mse_sd": Maybe(float), "mae_sd": Maybe(float)}
VERDICT = OneOf(("better", "no difference", "worse"))
_PAIR = {"model": str, "against": str, "difference": float, "low": float, "high": float, "verdict": VERDICT}
COMPARISON = {
    "reference": str, "rows": [_ROW | {"seconds": float, "runs": [_RUN]}], "pairs": [_PAIR], "sentence": str,
    "notes?": [str], "setup?": dict, "rerun": str,
}  # fmt: skip

LARGEST = 1e100  # what is beyond is no measurement, and its square no number
_WORDS = {str: "text", int: "a whole number", float: "a finite number", bool: "true or false", dict: "an object"}


def check(path: Path, value: Any, shape: Any, where: str = "") -> None:
    """Raise an InputError that names the file, the place in it and the rule, unless ``value`` has the shape.

    >>> check(Path("a.json"), {"n": 3, "more": [1]}, {"n": int, "pcc?": Maybe(float)})
    >>> check(Path("a.json"), {"rows": [{"n": 1}, {}]}, {"rows": [{"n": int}]})
    Traceback (most recent call last):
    excora.errors.InputError: a.json: rows[1] must have 'n', got only nothing; write the folder again
    """
    if isinstance(shape, Maybe):
        if value is not None:
            check(path, value, shape.shape, where)
    elif isinstance(shape, list):
        _demand(path, where, "a list", value, isinstance(value, list))
        for index, item in enumerate(value):
            check(path, item, shape[0], f"{where}[{index}]")
    elif isinstance(shape, Each | dict):
        _demand(path, where, "an object", value, isinstance(value, dict))
        names = dict.fromkeys(value, shape.shape) if isinstance(shape, Each) else shape
        for name, part in names.items():
            key = name if isinstance(shape, Each) else name.removesuffix("?")
            if key in value:
                check(path, value[key], part, f"{where}.{key}" if where else key)
            elif key == name:
                have = ", ".join(map(repr, value)) or "nothing"
                raise InputError(f"{path}: {where or 'it'} must have {key!r}, got only {have}; write the folder again")
    elif isinstance(shape, OneOf):
        _demand(path, where, f"one of {', '.join(shape.words)}", value, value in shape.words)
    elif shape is not object:
        word = "text, a number or null" if shape is Scalar else _WORDS[shape]
        _demand(path, where, word, value, _fits(value, shape))


def _demand(path: Path, where: str, expected: str, value: Any, good: bool) -> None:
    if not good:
        shown = repr(value)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        raise InputError(f"{path}: {where or 'it'} must be {expected}, got {shown}; write the folder again")


def _fits(value: Any, shape: type) -> bool:
    if shape is Scalar:
        return value is None or isinstance(value, str | bool) or _fits(value, float)
    if isinstance(value, bool) or shape is bool:
        return isinstance(value, bool) and shape is bool
    if shape is float:
        return isinstance(value, int | float) and abs(value) < LARGEST  # False for NaN too
    return isinstance(value, shape)
