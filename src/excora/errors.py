"""Errors: one base class; every message states the rule, what came instead, and what to do."""

from __future__ import annotations


class ExcoraError(Exception):
    """Base of every error that Excora raises on purpose."""


class InputError(ExcoraError, ValueError):
    """An argument breaks a stated rule (shape, dtype, range, combination)."""


class DataError(InputError):
    """Everything that is wrong with a user's data at once, a line each, in ``problems``."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class ConversionError(ExcoraError):
    """A model, or a part of it, cannot be given extrapolation."""


class MissingExtraError(ExcoraError, ImportError):
    """An optional dependency is not installed; the message names the extra that brings it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package!r} is needed here and is not installed: pip install 'excora[{extra}]'")
