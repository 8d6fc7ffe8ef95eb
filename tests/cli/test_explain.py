"""The command explain: a line a sample, the page, JSON."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from excora import Settings, cli, fit


def test_it_says_what_predictions_hang_on(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(80, 2)), columns=["a", "b"])
    frame.assign(y=frame["a"]).to_csv(tmp_path / "t.csv", index=False)
    settings = Settings(model="npt", epochs=1, accelerator="cpu", dim=8, heads=2, context=20)
    fit(tmp_path / "t.csv", target="y", output=tmp_path / "run", settings=settings, baselines=False, progress=False)
    words = ["explain", str(tmp_path / "run"), str(tmp_path / "t.csv"), "--rows", "2"]
    shown = CliRunner().invoke(cli.application(words), [*words, "--output", str(tmp_path / "why.html")])
    assert shown.exit_code == 0, shown.output
    assert shown.output.count("y = ") == 2
    assert "<svg" in (tmp_path / "why.html").read_text()
    found = json.loads(CliRunner().invoke(cli.application(words), [*words, "--json"]).output)
    assert [set(row["changes"]) for row in found["rows"].values()] == [{"a", "b"}] * 2
