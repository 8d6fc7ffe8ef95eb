"""The tour of ``excora --help``."""

from __future__ import annotations

from commands import call


def test_help_shows_a_tour_with_examples():
    result = call("--help")
    assert result.exit_code == 0
    assert "excora demo" in result.output
