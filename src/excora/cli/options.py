"""Options that several commands share, made from what roles, recipe, machine and models declare."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from excora.cli.declared import Declared, declarations
from excora.data.roles import Roles
from excora.options import CHOSEN

Data = Annotated[
    list[Path],
    typer.Argument(
        help="A table (.csv, .tsv, .parquet, .feather, .xlsx), a ragged .npz of bags, a folder with one file a bag, or "
        "slides (.h5ad files, Visium folders), any number of them."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Validation = Annotated[float, typer.Option(help="Share of the samples that choose the epoch.", rich_help_panel="Data")]
Test = Annotated[float, typer.Option(help="Share of the samples that are looked at once.", rich_help_panel="Data")]

_SAYS = {role.name: role.says for role in Roles.fields()}
Sep = Annotated[str | None, typer.Option(help=_SAYS["sep"], rich_help_panel="Data")]
Decimal = Annotated[str | None, typer.Option(help=_SAYS["decimal"], rich_help_panel="Data")]
Encoding = Annotated[str | None, typer.Option(help=_SAYS["encoding"], rich_help_panel="Data")]

#: Stands in the words of a line that a shell asks to complete.
COMPLETING = "--completing"

Command = Callable[..., None]
#: Type, default and typer's description of an option.
Option = tuple[Any, Any, Any]
_ROLES: dict[str, tuple[Any, Any]] = {
    "column": (str | None, None),
    "columns": (list[str], []),
    "file": (Path | None, None),
    "word": (str | None, None),
}


def given(data: list[Path]) -> Path | list[Path]:
    """One path as it is, several as a list."""
    return data[0] if len(data) == 1 else data


def roles(command: Command) -> Command:
    """Give a command the options that say what the columns are; it gets them as one argument ``roles``."""
    options = {
        role.name: (*_ROLES[role.kind], typer.Option(help=role.says, rich_help_panel="Data")) for role in Roles.fields()
    }
    return _gather(command, "roles", options, _plain_roles)


def settings(command: Command, words: Sequence[str]) -> Command:
    """Give a command the options of recipe, machine and the model that ``words`` name, as one argument ``settings``.

    Without a model, the options of all models are taken and those that most have are shown.
    """
    found = declarations(help_only="--help" in words or COMPLETING in words)
    models, model = found.models, _named(words)
    chosen = [models[model]] if model in models else list(models.values())
    several = len(chosen) > 1
    known = ", ".join(("auto", "best (on validation)", *models))
    says = f"Which model: {known}; [bold]--model NAME --help[/bold] shows its options."
    options: dict[str, Option] = {
        "model": (Literal[(*CHOSEN, *models)], "auto", typer.Option(help=says, rich_help_panel="Model"))
    }
    presets = {preset for kind in chosen for preset in kind.presets}
    if presets:
        says = (
            f"Options and recipe that belong together, but for what is named beside it: {', '.join(sorted(presets))}."
        )
        options["preset"] = (str | None, None, typer.Option(help=says, rich_help_panel="Model", hidden=several))
    for kind in chosen:
        for field in kind.options:
            hidden = several and not all(field.name in other.names() for other in chosen)
            options.setdefault(field.name, _option(field, {}, "Model", several=several, hidden=hidden))
    for kind in models.values():  # of another model than the one that is named: taken, so that Settings can say so
        for field in kind.options:
            options.setdefault(field.name, _option(field, {}, "Model", several=True, hidden=True))
    wanted = {} if several else chosen[0].recipe
    for fields, panel in ((found.recipe, "Training"), (found.machine, "Machine")):
        for field in fields:
            options[field.name] = _option(field, wanted, panel, several=several)
    return _gather(command, "settings", options, _settings)


def _settings(values: dict[str, Any]) -> Any:
    from excora.settings import Settings

    return Settings(**values)


#: What people need first; the help shows the rest on request.
FIRST = ("target", "group", "time", "bag", "labels", "drop", "model", "epochs")
MORE = "Options of a model and its training: excora {0} --model NAME --help. Every option: excora {0} --all --help."


def brief(command: Command, words: Sequence[str]) -> Command:
    """The command with a help of what people need first; all of its options can be given as before.

    With a model in ``words``, its options and those of its training are shown too, with ``--all`` every one.
    """
    shown = {"Model", "Training"} if _named(words) not in ("auto", "best") else set[str]()
    signature = inspect.signature(command)
    parameters = []
    for parameter in signature.parameters.values():
        kind, extra = parameter.annotation.__origin__, copy.copy(parameter.annotation.__metadata__[0])
        panel = getattr(extra, "rich_help_panel", None)
        if panel is not None and parameter.name not in FIRST and panel not in shown and "--all" not in words:
            extra.hidden = True
        parameters.append(parameter.replace(annotation=Annotated[kind, extra]))
    every = typer.Option("--all", help="With --help: show every option.")
    parameters.append(
        inspect.Parameter("all_", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, every])
    )

    @functools.wraps(command)
    def called(*, all_: bool, **values: Any) -> None:  # noqa: ARG001 (the help has read it)
        command(**values)

    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {p.name: p.annotation for p in parameters}
    return called


def _named(words: Sequence[str]) -> str:
    """The model that a command line names."""
    for place, word in enumerate(words):
        if word == "--model":
            return words[place + 1] if place + 1 < len(words) else "auto"
        if word.startswith("--model="):
            return word.partition("=")[2]
    return "auto"


def _option(field: Declared, wanted: Mapping[str, str], panel: str, *, several: bool, hidden: bool = False) -> Option:
    """An option that is None until somebody names it: then the model's own wish holds."""
    kind: Any = Literal[field.choices] if field.choices and not several else _KINDS[field.kind]
    shown = wanted.get(field.name, field.default)
    if several and (panel == "Model" or field.name in _BY_MODEL):
        shown = "as the model wants"
    extra = typer.Option(help=field.says, rich_help_panel=panel, show_default=shown, hidden=hidden, min=field.least)
    return kind | None, None, extra


_KINDS: dict[str, type] = {"int": int, "float": float, "str": str, "bool": bool}
#: What models want otherwise than the recipe has it.
_BY_MODEL = ("epochs", "batch_size", "schedule", "clip", "average", "weight_decay")


def _plain_roles(values: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def _gather(command: Command, name: str, options: dict[str, Option], make: Callable[[dict[str, Any]], Any]) -> Command:
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
