"""The command ``validate``."""

from __future__ import annotations

from typing import Any

from rich.progress import Progress

from excora.cli import options
from excora.cli.base import console, echo_json, show
from excora.cli.options import Data, Json, Quiet, Test, Validation


@options.roles
def validate(
    data: Data,
    roles: dict[str, Any],
    validation: Validation = 0.2,
    test: Test = 0.2,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Check data as training would, and everything at once: files, columns, targets, bags, groups, the split.

    Examples:

      excora validate slides.csv --target y --group slide

      excora validate features/ --labels labels.csv --target y
    """
    from excora.data.validation import validate as check

    with Progress(console=console, transient=True, disable=not console.is_terminal or as_json or quiet) as progress:
        task = progress.add_task("reading bags", visible=False)

        def tell(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total, visible=True)

        summary = check(options.given(data), validation=validation, test=test, progress=tell, **roles)
    if as_json:
        echo_json(summary.to_dict())
    else:
        show(summary, quiet=quiet)
