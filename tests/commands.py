"""The command line as a user calls it, in this process."""

from __future__ import annotations

from typing import Any

from typer.testing import CliRunner

from excora import cli


def call(*words: object) -> Any:
    """The result of ``excora WORDS``."""
    said = [str(word) for word in words]
    return CliRunner().invoke(cli.application(said), said)
