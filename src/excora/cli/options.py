"""Options that several commands share; the fields of :class:`Settings` as options of the same names."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from excora.settings import Settings

Data = Annotated[
    Path,
    typer.Argument(help="A table (.csv, .tsv, .parquet), a ragged .npz of bags, or a folder with one file a bag."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_ROLES: dict[str, tuple[Any, Any, str]] = {
    "target": (list[str], [], "Column to predict; repeat it for several."),
    "group": (str | None, None, "Column of the slide, subject, date: no split cuts a group."),
    "time": (str | None, None, "Column that orders the samples: the latest are the test part."),
    "weight": (str | None, None, "Column of sample weights."),
    "bag": (str | None, None, "Long tables: column that says which bag a row belongs to."),
    "labels": (Path | None, None, "Folders of bags: the table of targets, one row a bag."),
    "id": (str | None, None, "Column that names the samples; in a label table, the file's name."),
    "drop": (list[str], [], "Column to leave out; repeat it for several."),
}


def roles(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say what the columns are; it gets them as one argument ``roles``."""
    options = {
        name: (kind, default, typer.Option(help=text, rich_help_panel="Data"))
        for name, (kind, default, text) in _ROLES.items()
    }
    return _gather(command, "roles", options, _plain_roles)


def settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each field of :class:`Settings`; it gets them as one argument ``settings``."""
    options = {}
    for field in dataclasses.fields(Settings):
        rule = field.metadata
        kind: Any = Literal[rule["choices"]] if "choices" in rule else type(rule["default"])
        shown: Any = True
        if "own" in rule:
            kind = kind | None
            shown = ", ".join([str(rule["default"]), *(f"{model} {value}" for model, value in rule["own"].items())])
        says = {"help": rule["help"], "rich_help_panel": rule["panel"], "show_default": shown}
        options[field.name] = (kind, field.default, typer.Option(min=rule.get("least"), **says))
    return _gather(command, "settings", options, lambda values: Settings(**values))


def _plain_roles(values: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def _gather(
    command: Callable[..., None],
    name: str,
    options: dict[str, tuple[Any, Any, Any]],
    make: Callable[[dict[str, Any]], Any],
) -> Callable[..., None]:
    """The command with ``options`` in its signature in place of the one argument ``name``, which is made of them."""
    signature = inspect.signature(command, eval_str=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [p.replace(kind=keyword) for p in signature.parameters.values() if p.name != name]
    parameters += [
        inspect.Parameter(option, keyword, default=default, annotation=Annotated[kind, extra])
        for option, (kind, default, extra) in options.items()
    ]

    @functools.wraps(command)
    def gathered(**values: Any) -> None:
        command(**{name: make({option: values.pop(option) for option in options})}, **values)

    gathered.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    gathered.__annotations__ = {p.name: p.annotation for p in parameters}
    return gathered
