"""What the tests of this folder share."""

from __future__ import annotations

import pytest

from excora import cli

QUICK = ["--model", "pool", "--dim", "8", "--heads", "2", "--epochs", "3"]


def invoke(monkeypatch, capsys, *arguments):
    """Through main(), as a shell would: exit code, output, errors."""
    monkeypatch.setattr("sys.argv", ["excora", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    return stop.value.code, *capsys.readouterr()
