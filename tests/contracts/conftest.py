"""Contracts are about what a model is, not how good: what it learns while it is built, it learns briefly."""

from __future__ import annotations

import pytest

from excora.models.parts import kriging, neighbours


@pytest.fixture(autouse=True)
def _briefly(monkeypatch):
    monkeypatch.setattr(neighbours, "STEPS", 20)
    monkeypatch.setattr(kriging, "STEPS", 20)
