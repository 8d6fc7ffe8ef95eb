"""``{registry} KIND`` in a page: what is behind that door, with its options, as the package lists it itself."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import inspect
import re
from collections.abc import Callable, Iterable

from docutils.nodes import Node
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

Rows = Iterable[tuple[str, ...]]


def _first_line(thing: object) -> str:
    """Of its docstring, without the roles and bars that mean something elsewhere."""
    line = (inspect.getdoc(thing) or "").split("\n")[0]
    return re.sub(r":\w+:`~?([^`]*)`", r"`\1`", line).replace("|", "\\|")


def _options(record: type) -> str:
    fields = dataclasses.fields(record) if dataclasses.is_dataclass(record) else ()
    return ", ".join(f"`{field.name}`" for field in fields) or "none"


def _parameters(made: Callable[..., object]) -> str:
    """Of what makes it, but for the width, which all have."""
    named = [p for p in inspect.signature(made).parameters if p not in ("dim", "options")]
    return ", ".join(f"`{name}`" for name in named) or "none"


def _pools() -> Rows:
    from excora.pooling.base import pools

    for name in pools:
        entry = pools[name]
        yield name, _first_line(entry.make), "no" if entry.convex else "yes", _parameters(entry.make)


def _models() -> Rows:
    from excora.models.base import models

    for name in models:
        model = models[name]
        yield name, f"{model.says} (reads {', '.join(model.reads)})", _options(model.Options)


def _sources() -> Rows:
    from excora.data import sources

    for name in sources:
        yield name, _first_line(type(sources[name])), ", ".join(f"`{role}`" for role in sources[name].roles)


def _tasks() -> Rows:
    from excora.tasks import tasks

    for name in tasks:
        yield name, tasks[name].says, ", ".join(f"`{p}`" for p in inspect.signature(tasks[name]).parameters)


def _peers() -> Rows:
    from excora.peers.base import peers

    for name in peers:
        yield name, _first_line(type(peers[name])), f"`excora compare … --models {name}`"


def _studies() -> Rows:
    for entry in sorted(importlib.metadata.entry_points(group="excora.studies"), key=lambda entry: entry.name):
        yield entry.name, entry.load().summary, f"`excora reproduce {entry.name}`"


def _adapters() -> Rows:
    from excora.convert import extrapolate_
    from excora.convert.adapter import REGISTERED
    from excora.convert.core import BUILT_IN

    options = ", ".join(f"`{p}`" for p in list(inspect.signature(extrapolate_).parameters)[1:])
    for adapter in [*BUILT_IN, *REGISTERED]:
        yield adapter.judge.__module__.removeprefix("excora."), adapter.looks_for, options


KINDS: dict[str, tuple[Callable[[], Rows], tuple[str, ...]]] = {
    "pools": (_pools, ("pool", "what it is", "may leave the hull", "options")),
    "models": (_models, ("model", "what it is", "options")),
    "sources": (_sources, ("source", "what it reads", "roles")),
    "tasks": (_tasks, ("task", "what it makes", "options")),
    "peers": (_peers, ("peer", "what it is", "how it takes part")),
    "studies": (_studies, ("study", "what it shows", "command")),
    "adapters": (_adapters, ("adapter", "what it converts", "options of `extrapolate_`")),
}


class RegistryTable(SphinxDirective):
    """The table of one kind."""

    required_arguments = 1

    def run(self) -> list[Node]:
        """In the language of the page, Markdown."""
        rows, head = KINDS[self.arguments[0]]
        table = [head, tuple("---" for _ in head), *((f"`{name}`", *rest) for name, *rest in rows())]
        return self.parse_text_to_nodes("\n".join(f"| {' | '.join(row)} |" for row in table))


class OptionTables(SphinxDirective):
    """The options of every model, of the recipe and of the machine, each to be unfolded."""

    def run(self) -> list[Node]:
        """In Markdown; raw HTML for what unfolds."""
        from excora.cli.declared import from_registries

        found = from_registries()
        every = {"recipe: of every training": found.recipe, "machine: what it runs on": found.machine}
        every |= {f"model {name}": kind.options for name, kind in found.models.items()}
        text = []
        for title, options in every.items():
            text += [f"<details><summary>{title}, {len(options)} options</summary>", ""]
            text += ["| option | default | what it does |", "| --- | --- | --- |"]
            for option in options:
                choices = f" One of {', '.join(f'`{c}`' for c in option.choices)}." if option.choices else ""
                says = (option.says + choices).replace("|", "\\|").replace("<", "&lt;")
                text.append(f"| `{option.name}` | {option.default or 'none'} | {says} |")
            text += ["", "</details>", ""]
        return self.parse_text_to_nodes("\n".join(text))


def setup(app: Sphinx) -> dict[str, bool]:
    """The extension."""
    app.add_directive("registry", RegistryTable)
    app.add_directive("model-options", OptionTables)
    return {"parallel_read_safe": True}
