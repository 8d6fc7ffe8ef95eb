"""Guests of the registries, who leave after each test: what others see must not depend on which tests ran before."""

from __future__ import annotations

import importlib
import sys

import pytest

from excora.data import sources
from excora.models import models
from excora.pooling import pools

NAMES = ("toy_pool", "toy_model", "toy_reader")


class Guests(dict):
    """The modules by name, imported anew; they may leave before the test ends."""

    def __init__(self, monkeypatch) -> None:
        super().__init__()
        self.monkeypatch = monkeypatch
        for registry in (pools, models, sources):
            registry.names()
            monkeypatch.setattr(registry, "_things", dict(registry._things))
        for name in NAMES:
            monkeypatch.delitem(sys.modules, f"outside.{name}", raising=False)
        self.update({name: importlib.import_module(f"outside.{name}") for name in NAMES})

    def leave(self) -> None:
        """Put the registries back."""
        self.monkeypatch.undo()


@pytest.fixture
def guests(monkeypatch):
    """The toy pool, the toy model and a model for the toy source."""
    yield Guests(monkeypatch)
    for name in NAMES:
        sys.modules.pop(f"outside.{name}", None)
