"""The command ``validate``."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd

from cli.samples import invoke


def test_validate_says_what_is_there_and_names_every_problem(table, tmp_path, monkeypatch, capsys):
    code, printed, _ = invoke(monkeypatch, capsys, "validate", table, "--target", "y", "--json")
    assert code == 0
    assert json.loads(printed)["samples"] == 80
    broken = tmp_path / "broken.csv"
    frame = pd.read_csv(table)
    frame.loc[3, "y"] = np.inf
    frame.loc[7, "size"] = -np.inf
    frame.to_csv(broken, index=False)
    code, _, error = invoke(monkeypatch, capsys, "validate", broken, "--target", "y")
    assert code == 2
    assert "row 5" in error
    assert "row 9" in error
    assert "Traceback" not in error
