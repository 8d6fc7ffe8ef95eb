"""Guests of the registries, who leave after each test: what others see must not depend on which tests ran before."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import pytest

from excora.models import models
from excora.pooling import pools


@pytest.fixture
def guests(monkeypatch) -> dict[str, ModuleType]:
    """The modules of toy pool and toy model, imported anew."""
    for registry in (pools, models):
        registry.names()
        monkeypatch.setattr(registry, "_things", dict(registry._things))
    names = ("toy_pool", "toy_model")
    for name in names:
        monkeypatch.delitem(sys.modules, f"outside.{name}", raising=False)
    found = {name: importlib.import_module(f"outside.{name}") for name in names}
    yield found
    for name in names:
        sys.modules.pop(f"outside.{name}", None)
