"""Records of choices: what each is for, the rule its value keeps, and their way to and from JSON.

A model, the recipe of a training and the machine it runs on have a record each; the command line, the estimators and
the run folder read the declarations.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

from excora.errors import InputError

#: Names of a model that stand for one of the others.
CHOSEN = ("auto", "best")


class ByRows:
    """A default that depends on the number of training rows; for help texts, in words.

    >>> rule = ByRows("1 a row", lambda rows: rows)
    >>> str(rule), rule(7)
    ('1 a row', 7)
    """

    def __init__(self, says: str, rule: Callable[[int], Any]) -> None:
        self.says, self.rule = says, rule

    def __call__(self, rows: int) -> Any:
        """The default for this many rows."""
        return self.rule(rows)

    def __str__(self) -> str:
        return self.says


def option(
    default: Any,
    says: str,
    *,
    choices: Iterable[str] | Callable[[], Iterable[str]] | None = None,
    least: float | None = None,
    below: float | None = None,
    only: str | None = None,
) -> Any:
    """A field of :class:`Options`: what it does, in the words of the command line's help, and the rule of its value.

    Words have ``choices`` (a function where they are not known yet: the names of a registry), numbers a ``least`` value
    and one that they stay ``below``. ``only``: the one kind of samples that it has a meaning for.
    """
    rule = {"choices": choices, "least": least, "below": below, "only": only}
    metadata = {"help": says, **{name: value for name, value in rule.items() if value is not None}}
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Base of the records: a frozen dataclass whose fields are made by :func:`option`.

    A value outside its rule is an :class:`InputError` that names the option; numpy's numbers become Python's.

    >>> @dataclasses.dataclass(frozen=True, kw_only=True)
    ... class Tea(Options):
    ...     minutes: float = option(3.0, "How long it steeps.", least=0)
    >>> Tea(minutes=4), Tea().to_dict()
    (Tea(minutes=4.0), {'minutes': 3.0})
    >>> Tea(minutes=-1)
    Traceback (most recent call last):
    ...
    excora.errors.InputError: minutes must be finite and at least 0, got -1
    """

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, checked(field, getattr(self, field.name)))

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Of the options."""
        return tuple(field.name for field in dataclasses.fields(cls))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Any) -> Self:
        """The record that :meth:`to_dict` gave; an unknown name is an error."""
        if not isinstance(values, dict):
            raise InputError(f"{cls.__name__.lower()} are a dictionary by name, got {type(values).__name__}")
        unknown = sorted(map(str, set(values) - set(cls.names())))
        if unknown:
            raise InputError(f"unknown options {', '.join(unknown)}: written by another version of Excora?")
        return cls(**values)


_KINDS: dict[str, tuple[Any, Any, str]] = {
    "int": (numbers.Integral, int, "a whole number"),
    "float": (numbers.Real, float, "a number"),
    "str": (str, str, "a word"),
    "bool": (bool, bool, "true or false"),
}


def choices_of(rule: Mapping[str, Any]) -> tuple[str, ...]:
    """The words that an option may be; none if it is no choice."""
    given = rule.get("choices", ())
    return tuple(given() if callable(given) else given)


def checked(field: dataclasses.Field[Any], value: Any) -> Any:
    """The value as Python's own kind, if it keeps the field's rule."""
    name, rule = field.name, field.metadata
    accepted, make, words = _KINDS[str(getattr(field.type, "__name__", field.type))]
    if (isinstance(value, bool) and accepted is not bool) or not isinstance(value, accepted):
        raise InputError(f"{name} must be {words}, got {value!r}")
    choices = choices_of(rule)
    if choices and value not in choices:
        raise InputError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
    try:
        plain = make(value)
    except OverflowError:  # a whole number that is too large for a float
        plain = math.inf
    least, below = rule.get("least", -sys.float_info.max), rule.get("below", math.inf)
    if accepted in (numbers.Integral, numbers.Real) and not least <= plain < below:
        if "least" not in rule:
            raise InputError(f"{name} must be a finite number, got {value}")
        bounds = f"in [{least}, {below})" if "below" in rule else f"finite and at least {least}"
        raise InputError(f"{name} must be {bounds}, got {value}")
    return plain
