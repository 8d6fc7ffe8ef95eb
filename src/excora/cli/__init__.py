"""The command line. Heavy packages are imported inside the commands, so that ``excora --help`` answers at once."""

from __future__ import annotations

try:
    from rich.console import Console
    from rich.text import Text

    from excora.cli.base import app
except ImportError as error:  # the library alone was installed
    from excora.errors import MissingExtraError

    raise MissingExtraError(str(error.name), "app") from error

from excora.cli import known, reproduce, work

for command in (known.demo, work.fit, work.predict, work.compare, work.validate, known.diagnose):
    app.command()(command)
app.command(cls=reproduce.Listing)(reproduce.reproduce)


def main() -> None:
    """The entry point: errors that Excora raises on purpose are one line, not a traceback."""
    from excora.errors import ExcoraError

    try:
        app()
    except ExcoraError as error:
        Console(stderr=True, soft_wrap=True).print("[red]error:[/red]", Text(str(error)))
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
