"""The command ``demo``."""

from __future__ import annotations

from commands import call


def test_a_wrong_option_is_refused():
    result = call("demo", "--seeds", "0")
    assert result.exit_code == 2
    assert "--seeds" in result.output
