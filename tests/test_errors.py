"""Errors: one base, and the built-in kinds by which a stranger would catch them."""

from __future__ import annotations

import inspect

import pytest

from excora import errors
from excora.errors import DataError, ExcoraError, InputError, MissingExtraError


def test_every_error_is_ours():
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    assert len(kinds) == 5
    assert all(issubclass(kind, ExcoraError) for kind in kinds)


@pytest.mark.parametrize(("kind", "known"), [(InputError, ValueError), (MissingExtraError, ImportError)])
def test_they_are_caught_as_what_python_calls_them(kind, known):
    assert issubclass(kind, known)


def test_all_problems_of_the_data_come_at_once_a_line_each():
    error = DataError(["row 3: empty", "row 9: inf"])
    assert str(error) == "row 3: empty\nrow 9: inf"
    assert error.problems == ["row 3: empty", "row 9: inf"]
    assert isinstance(error, InputError)


def test_a_missing_package_names_the_extra_that_brings_it():
    assert str(MissingExtraError("lightgbm", "compare")) == (
        "'lightgbm' is needed here and is not installed: pip install 'excora[compare]'"
    )
