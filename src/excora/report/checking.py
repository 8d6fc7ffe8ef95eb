"""The one checker: plain values, from a file or from memory, become typed records, or an error says what is wrong."""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from numbers import Integral, Real
from typing import Any, Literal, get_args, get_origin

from excora.errors import InputError

LARGEST = 1e100  # what is beyond is no measurement, and its square no number
_WORDS = {str: "text", int: "a whole number", float: "a finite number", bool: "true or false", list: "a list"}


def build(kind: Any, value: Any, source: object, place: str = "") -> Any:
    """``value`` as ``kind``: a dataclass, a plain type, a list or dict of such, a Literal, one of them or None, or Any.

    A field without a default must be there, and a name that is no field is passed over: files of other versions have
    more. A number that is not finite counts as None where None is allowed. numpy's numbers become Python's.

    >>> build(list[float | None], [1, float("nan")], "a.json")
    [1.0, None]
    >>> build(dict[str, list[int]], {"rows": [1, "x"]}, "a.json")
    Traceback (most recent call last):
    excora.errors.InputError: a.json: rows[1] must be a whole number, got 'x'; write the folder again
    """
    if types.NoneType in get_args(kind):
        if value is None or (isinstance(value, Real) and not isinstance(value, Integral) and not math.isfinite(value)):
            return None
        kind = get_args(kind)[0]
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        expected, good = f"one of {', '.join(inner)}", value in inner
    elif origin is dict or dataclasses.is_dataclass(kind):
        expected, good = "an object", isinstance(value, dict)
    else:
        expected, good = _WORDS.get(origin or kind, ""), kind is Any or _fits(origin or kind, value)
    if not good:
        shown = repr(value) if len(repr(value)) <= 60 else repr(value)[:57] + "..."
        raise InputError(f"{source}: {place or 'it'} must be {expected}, got {shown}; write the folder again")
    if origin is list:
        if inner[0] in (int, float) and all(type(item) is inner[0] and -LARGEST < item < LARGEST for item in value):
            return list(value)  # the quick way for a figure of each sample
        return [build(inner[0], item, source, f"{place}[{index}]") for index, item in enumerate(value)]
    if origin is dict:
        return {str(name): build(inner[1], item, source, _within(place, name)) for name, item in value.items()}
    if dataclasses.is_dataclass(kind):
        return _record(kind, value, source, place)
    return kind(value) if kind in (int, float) else value


def _fits(kind: Any, value: Any) -> bool:
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    if kind is float and isinstance(value, Real):
        number: Any = value if isinstance(value, Integral) else float(value)  # not every integer has a float
        return bool(-LARGEST < number < LARGEST)  # False for NaN too
    return isinstance(value, Integral if kind is int else kind)


@functools.cache
def _fields(kind: Any) -> dict[str, tuple[Any, bool]]:
    """Names of a dataclass: what they must be, and whether they must be there."""
    hints, without = typing.get_type_hints(kind), (dataclasses.MISSING, dataclasses.MISSING)
    return {f.name: (hints[f.name], (f.default, f.default_factory) == without) for f in dataclasses.fields(kind)}


def _record(kind: Any, value: dict[str, Any], source: object, place: str) -> Any:
    found = {}
    for name, (part, needed) in _fields(kind).items():
        if name in value:
            found[name] = build(part, value[name], source, _within(place, name))
        elif needed:
            have = ", ".join(map(repr, value)) or "nothing"
            raise InputError(f"{source}: {place or 'it'} must have {name!r}, got only {have}; write the folder again")
    return kind(**found)


def _within(place: str, name: object) -> str:
    return f"{place}.{name}" if place else str(name)
