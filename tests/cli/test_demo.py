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


def test_files_to_try_are_written_and_listed(tmp_path, monkeypatch):
    monkeypatch.setattr("excora.tryout.write", lambda folder: {"table.csv": f"in {folder.name}"})
    shown = call("demo", "--files", str(tmp_path / "try")).output
    assert "table.csv" in shown
    assert "in try" in shown
    assert "excora fit table.csv --target price" in shown
    assert json.loads(call("demo", "--files", str(tmp_path / "try"), "--json").output) == {"table.csv": "in try"}
    assert call("demo", "--files", str(tmp_path / "try"), "--quiet").output == ""
