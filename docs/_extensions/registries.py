"""``{registry} KIND`` in a page: what is behind that door, with its options, as the package lists it itself."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import inspect
from collections.abc import Callable, Iterable

from docutils.nodes import Node
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

Rows = Iterable[tuple[str, str, str]]


def _first_line(thing: object) -> str:
    return (inspect.getdoc(thing) or "").split("\n")[0]


def _options(record: type) -> str:
    fields = dataclasses.fields(record) if dataclasses.is_dataclass(record) else ()
    return ", ".join(f"`{field.name}`" for field in fields) or "none"


def _pools() -> Rows:
    from excora.pooling.base import pools

    for name in pools:
        entry = pools[name]
        yield name, _first_line(entry.make).replace("|", "\\|"), "no" if entry.convex else "yes"


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


KINDS: dict[str, tuple[Callable[[], Rows], tuple[str, str, str]]] = {
    "pools": (_pools, ("pool", "what it is", "may leave the hull")),
    "models": (_models, ("model", "what it is", "options")),
    "sources": (_sources, ("source", "what it reads", "roles")),
    "tasks": (_tasks, ("task", "what it makes", "options")),
    "peers": (_peers, ("peer", "what it is", "how it takes part")),
    "studies": (_studies, ("study", "what it shows", "command")),
}


class RegistryTable(SphinxDirective):
    """The table of one kind."""

    required_arguments = 1

    def run(self) -> list[Node]:
        """In the language of the page, Markdown."""
        rows, head = KINDS[self.arguments[0]]
        table = [head, tuple("---" for _ in head), *((f"`{name}`", *rest) for name, *rest in rows())]
        return self.parse_text_to_nodes("\n".join(f"| {' | '.join(row)} |" for row in table))


def setup(app: Sphinx) -> dict[str, bool]:
    """The extension."""
    app.add_directive("registry", RegistryTable)
    return {"parallel_read_safe": True}
