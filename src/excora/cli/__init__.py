"""The command line, one file a command. Heavy packages are imported inside: ``excora --help`` answers at once."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

try:
    import typer
    from rich.console import Console
    from rich.text import Text

    from excora.cli.base import as_options, new_app
except ImportError as error:  # the library alone was installed
    from excora.errors import MissingExtraError

    raise MissingExtraError(str(error.name), "app") from error

from excora.cli import (
    compare,
    convert,
    demo,
    diagnose,
    explain,
    features,
    fit,
    models,
    options,
    predict,
    reproduce,
    tune,
    validate,
)

#: Commands with settings: their options take the models to make, and so are made when the command is called.
TRAINING = ("fit", "compare")


#: Commands that take up what they had begun.
RESUMED = ("fit", "compare", "tune")
#: What a disk says that is full, or that one may not write to.
DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM}


def application(words: Sequence[str]) -> typer.Typer:
    """The application for this command line; ``words`` without the name of the program."""
    app = new_app()
    every = (
        demo.demo,
        fit.fit,
        tune.tune,
        predict.predict,
        explain.explain,
        compare.compare,
        validate.validate,
        convert.convert,
        diagnose.diagnose,
        models.models,
        features.features,
    )
    for command in every:
        name = command.__name__
        if name in TRAINING:
            called = name in words[:1]
            made = options.brief(options.settings(command, words), words) if called else _listed
            app.command(name, help=command.__doc__, epilog=options.MORE.format(name))(made)
        else:
            app.command(name)(command)
    app.command(cls=reproduce.Listing)(reproduce.reproduce)
    return app


def _listed() -> None:
    """A command that another word has called: it stands in the list."""


def _completed() -> list[str]:
    """The line that a shell asks to complete, without the name of the program; nothing where it does not ask."""
    if "_EXCORA_COMPLETE" not in os.environ:
        return []
    asked = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")  # bash, and the others
    return [*asked.split()[1:], "--all", options.COMPLETING]


def main(words: Sequence[str] | None = None) -> None:
    """The entry point: errors that Excora raises on purpose are one line, not a traceback."""
    from excora.errors import ExcoraError

    words = sys.argv[1:] if words is None else words
    resumes = bool(words) and words[0] in RESUMED
    try:
        application(_completed() or words)(list(words), prog_name="excora")
    except ExcoraError as error:
        _end(2, "[red]error:[/red]", Text(as_options(str(error))))
    except OSError as error:
        if error.errno not in DISK:
            raise
        place = f": {error.filename}" if error.filename else ""
        hint = "what is finished stays: make room or give another folder" + (", then --resume" if resumes else "")
        _end(2, "[red]error:[/red]", Text(f"{error.strerror}{place}; {hint}"))
    except KeyboardInterrupt:
        hint = ": the same line with --resume goes on, or begins again where nothing was finished" if resumes else ""
        _end(130, f"stopped{hint}")


def _end(code: int, *said: str | Text) -> NoReturn:
    """End the process with a line instead of a traceback."""
    Console(stderr=True, soft_wrap=True).print(*said)
    raise SystemExit(code) from None
