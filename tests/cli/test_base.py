"""The tour of ``excora --help``."""

from __future__ import annotations

import io
import json

import pytest
from commands import call
from rich.console import Console

import excora
from excora.cli import base
from excora.cli.base import TOUR


def test_help_shows_a_tour_with_examples():
    result = call("--help")
    assert result.exit_code == 0
    assert "excora demo" in result.output


def test_every_command_of_the_tour_is_one():
    words = [line.split()[1] for line in TOUR.splitlines() if line.startswith("  excora ")]
    assert len(words) == 5
    for word in words:
        assert call(word, "--help").exit_code == 0


def test_where_nobody_looks_lines_stay_whole(monkeypatch):
    for terminal, lines in ((False, 1), (True, 10)):
        file = io.StringIO()
        monkeypatch.setattr(base, "console", Console(file=file, width=40, force_terminal=terminal))
        base.show("word " * 80)
        assert len(file.getvalue().splitlines()) == lines


def test_json_is_one_document(capsys):
    base.echo_json({"a": [1, None]})
    assert json.loads(capsys.readouterr().out) == {"a": [1, None]}


def test_the_version_is_printed():
    result = call("--version")
    assert (result.exit_code, result.output) == (0, f"excora {excora.__version__}\n")


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("name it with target=", "name it with --target"),
        ("needs labels=, a table", "needs --labels, a table"),
        ("(id=)", "(--id)"),
        ("by noise_ceiling=", "by --noise-ceiling"),
        ("resume=True stays, x==y and --a=b", "resume=True stays, x==y and --a=b"),
    ],
)
def test_errors_speak_of_options(message, shown):
    assert base.as_options(message) == shown
