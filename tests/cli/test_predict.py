"""The command ``predict``."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from cli.samples import invoke


def test_predict_needs_only_the_run_folder(run, table, tmp_path, monkeypatch, capsys):
    folder, _ = run
    new = tmp_path / "new.csv"
    pd.read_csv(table).drop(columns=["y", "slide"]).head(5).to_csv(new, index=False)
    out, looked = tmp_path / "out.csv", tmp_path / "attention.csv"
    code, printed, _ = invoke(monkeypatch, capsys, "predict", folder, new, "--output", out, "--attention", looked)
    assert code == 0
    assert str(out) in printed
    assert len(pd.read_csv(out)) == 5
    weights = pd.read_csv(looked)
    assert len(weights) == 5 * 3
    assert weights.groupby("id")["weight"].sum().to_numpy() == pytest.approx(np.ones(5), abs=1e-5)


def test_predict_names_the_column_that_is_missing(run, table, tmp_path, monkeypatch, capsys):
    folder, _ = run
    new, out = tmp_path / "new.csv", tmp_path / "out.csv"
    pd.read_csv(table)[["age", "kind"]].to_csv(new, index=False)
    code, _, error = invoke(monkeypatch, capsys, "predict", folder, new, "--output", out)
    assert code == 2
    assert "'size'" in error
    assert "Traceback" not in error
    assert not out.exists()


def test_predict_prints_the_scores_and_keeps_a_file_that_is_there(run, table, tmp_path, monkeypatch, capsys):
    folder, _ = run
    out = tmp_path / "out.csv"
    code, printed, _ = invoke(monkeypatch, capsys, "predict", folder, table, "--output", out)
    assert code == 0
    assert "95 % interval" in printed
    assert "its scores here are no test" in printed
    assert list(pd.read_csv(out)) == ["id", "target", "prediction", "outside"]
    code, _, error = invoke(monkeypatch, capsys, "predict", folder, table, "--output", out)
    assert code == 2
    assert "or say --overwrite" in error
    code, printed, _ = invoke(monkeypatch, capsys, "predict", folder, table, "--output", out, "--overwrite", "--quiet")
    assert (code, printed) == (0, "")
