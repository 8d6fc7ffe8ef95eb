"""Every registered model with every kind of samples that it reads, and each of its choices once."""

from __future__ import annotations

import copy
import dataclasses
import functools
from typing import Any, NamedTuple

import numpy as np
import pytest
import samples_data

from excora.data.dataset import Dataset
from excora.data.splits import Split
from excora.models import Model, models
from excora.options import choices_of
from excora.settings import Machine, Recipe, Setup
from excora.training.building import Built, build

PARTS = Split(np.arange(42), np.arange(42, 60), np.arange(60, 70))


class Case(NamedTuple):
    """A model, the kind of its samples, and what is asked otherwise than it would have it."""

    name: str
    kind: str
    change: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return "-".join([self.name, self.kind, *(word for _, word in self.change)])

    @property
    def model(self) -> Model:
        """What the registry has."""
        return models[self.name]

    def options(self) -> Any:
        """Without dropout, an option that brings chance into training has that word in its name; of two members."""
        names = self.model.Options.names()
        calm = {name: 0.0 for name in names if "dropout" in name} | {name: 2 for name in names if name == "members"}
        return self.model.Options(**dict(self.model.small) | calm | dict(self.change))

    def setup(self, **recipe: Any) -> Setup:
        """Of a run, with a plain recipe unless one is given: of the network alone."""
        machine = {name: recipe.pop(name) for name in Machine.names() if name in recipe}
        plain = {"epochs": 2, "batch_size": 16, "correlation_weight": 0.5, "start": "none"} | recipe
        return Setup(self.name, self.options(), Recipe(**plain), Machine(**{"accelerator": "cpu", **machine}))

    def dataset(self, targets: int = 1) -> Dataset:
        """70 samples."""
        if self.kind not in samples_data.KINDS:
            pytest.fail(f"tests/samples_data.py has no small data set of kind {self.kind!r}: give it one")
        return samples_data.KINDS[self.kind](targets=targets)

    def built(self, seed: int = 0, targets: int = 1) -> Built:
        """A fresh network of its own, and its samples."""
        found = _built(self, seed, targets)
        return found._replace(network=copy.deepcopy(found.network))


@functools.cache  # some learn a little of the samples, which takes half a second
def _built(case: Case, seed: int, targets: int) -> Built:
    return build(case.dataset(targets), PARTS.train, case.setup(seed=seed))


def _choices(case: Case) -> list[Case]:
    """The case with each of the other words that an option may be."""
    fields = dataclasses.fields(case.model.Options)
    meant = [field for field in fields if field.metadata.get("only", case.kind) == case.kind]
    others = [(field.name, word) for field in meant for word in choices_of(field.metadata) if word != field.default]
    return [case._replace(change=((name, word),)) for name, word in others]


CASES = [Case(name, kind) for name in models for kind in models[name].reads]
#: Those that a training changes; the others are fitted when they are built.
TRAINED = [case for case in CASES if case.model.trained]
CHOICES = [choice for case in CASES for choice in (case, *_choices(case))]
#: Each word of an option with the first of the models that have it: what a word does to training is the same in all.
ONCE = [*CASES, *{case.change: case for case in reversed(CHOICES) if case.change}.values()]
