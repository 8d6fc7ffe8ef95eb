"""Fixtures that the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from excora.convert.adapter import REGISTERED


@pytest.fixture(autouse=True)
def _registry() -> Iterator[None]:
    before = list(REGISTERED)
    yield
    REGISTERED[:] = before
