"""What recipe, machine and models declare, as the command line's help needs it: read without loading torch.

The declarations stand in the files of the models, which load torch to be read. ``declared.json`` is a copy of them for
the help and for shells that complete a line; ``python -m checks.declared`` writes it and a test compares it. A command
that runs, a process that has the models already, and an installation with doors of other packages read the registries.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

FILE = Path(__file__).with_name("declared.json")


class Declared(NamedTuple):
    """An option: what :func:`excora.options.option` was told of it."""

    name: str
    kind: str  #: int, float, str or bool
    default: str  #: in words
    says: str
    choices: tuple[str, ...] = ()
    least: float | None = None

    @classmethod
    def of(cls, field: dataclasses.Field[Any]) -> Self:
        """A field of a record."""
        from excora.options import choices_of

        rule = field.metadata
        kind = type(field.default).__name__
        least = rule.get("least") if kind in ("int", "float") else None
        return cls(field.name, kind, str(field.default), rule["help"], choices_of(rule), least)


class Kind(NamedTuple):
    """A model: its options, the names of its presets, and in words what it wants of a recipe."""

    options: tuple[Declared, ...]
    presets: tuple[str, ...] = ()
    recipe: Mapping[str, str] = {}

    def names(self) -> set[str]:
        """Of its options."""
        return {option.name for option in self.options}


class Declarations(NamedTuple):
    """Everything that the options of a training are made of."""

    models: Mapping[str, Kind]
    recipe: tuple[Declared, ...]
    machine: tuple[Declared, ...]


def declarations(*, help_only: bool) -> Declarations:
    """Of all models that there are; from the file where somebody only wants to read them and the file has them all."""
    known = "excora.models" in sys.modules
    return from_file() if help_only and not known and not _added() else from_registries()


def from_registries() -> Declarations:
    """As the models' files have them."""
    from excora.models import models
    from excora.settings import Machine, Recipe

    kinds = {
        name: Kind(
            _fields(models[name].Options),
            tuple(models[name].presets),
            {wish: str(value) for wish, value in models[name].recipe.items()},
        )
        for name in models
    }
    return Declarations(kinds, _fields(Recipe), _fields(Machine))


def _fields(record: Any) -> tuple[Declared, ...]:
    return tuple(Declared.of(field) for field in dataclasses.fields(record))


def _added() -> bool:
    """Do other packages add models, pools or the like? Studies have no options of a training."""
    groups = importlib.metadata.entry_points().groups
    return any(group.startswith("excora.") and group != "excora.studies" for group in groups)


def from_file(file: Path = FILE) -> Declarations:
    """What :func:`as_text` wrote."""
    found = json.loads(file.read_text(encoding="utf-8"))
    kinds = {
        name: Kind(_read(kind["options"]), tuple(kind["presets"]), kind["recipe"])
        for name, kind in found["models"].items()
    }
    return Declarations(kinds, _read(found["recipe"]), _read(found["machine"]))


def _read(options: Iterable[Mapping[str, Any]]) -> tuple[Declared, ...]:
    return tuple(Declared(**{**option, "choices": tuple(option.get("choices", ()))}) for option in options)


def as_text(found: Declarations) -> str:
    """The file: JSON, a line an option, so that a change is a line."""
    models = ",\n".join(
        f'"{name}": {{"presets": {json.dumps(kind.presets)}, "recipe": {json.dumps(kind.recipe)},\n'
        f'"options": {_lines(kind.options)}}}'
        for name, kind in found.models.items()
    )
    return f'{{"models": {{\n{models}}},\n"recipe": {_lines(found.recipe)},\n"machine": {_lines(found.machine)}}}\n'


def _lines(options: Iterable[Declared]) -> str:
    plain = ({name: value for name, value in o._asdict().items() if value not in ((), None)} for o in options)
    return "[" + ",\n".join(json.dumps(option, ensure_ascii=False) for option in plain) + "]"
