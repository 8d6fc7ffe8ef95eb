"""The command ``demo``."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

from commands import call


def test_a_wrong_option_is_refused():
    result = call("demo", "--seeds", "0")
    assert result.exit_code == 2
    assert "--seeds" in result.output


def test_the_options_reach_the_demonstration(monkeypatch):
    seen = {}

    def run(output, **options):
        seen.update(options, output=output)
        return SimpleNamespace(comparisons={"peak": SimpleNamespace(to_dict=lambda: {"rows": []})})

    monkeypatch.setattr("excora.demo.run", run)
    result = call("demo", "--seeds", "2", "--bags", "30", "--output", "here", "--json")
    assert json.loads(result.output) == {"peak": {"rows": []}}
    assert seen == {"output": Path("here"), "seeds": 2, "epochs": 24, "bags": 30, "console": None}
    assert call("demo", "--quiet").output == ""
    assert seen["console"] is None
