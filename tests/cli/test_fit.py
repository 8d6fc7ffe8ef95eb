"""The command ``fit``, as it is typed: what it prints, writes, refuses."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from commands import call

from cli.samples import QUICK, invoke


def test_fit_prints_the_result_and_the_verdict_and_writes_the_run_folder(run):
    folder, printed = run
    for word in ("PCC", "MSE", "test", "report.html"):
        assert word in printed
    assert json.loads((folder / "results.json").read_text())["verdict"]["sentence"] in " ".join(printed.split())
    names = {file.name for file in folder.iterdir()}
    assert names >= {
        "config.json", "weights.safetensors", "preparation.json", "metrics.csv", "monitor.json", "predictions.csv",
        "results.json", "attention.json", "report.html",
    }  # fmt: skip


def test_fit_refuses_a_folder_that_is_taken_and_resumes_a_finished_run(run, table, monkeypatch, capsys):
    folder, _ = run
    options = ["fit", table, "--target", "y", "--group", "slide", "--output", folder, *QUICK]
    code, _, error = invoke(monkeypatch, capsys, *options)
    assert code == 2
    assert "--resume" in error or "resume" in error
    before = (folder / "weights.safetensors").read_bytes()
    code, printed, _ = invoke(monkeypatch, capsys, *options, "--resume", "--json")
    assert code == 0
    assert json.loads(printed)["test"]["y"]["pcc"] is not None
    assert (folder / "weights.safetensors").read_bytes() == before


def test_the_ft_transformer_is_a_model_of_the_application(table, tmp_path, monkeypatch, capsys):
    folder, out, looked = tmp_path / "run", tmp_path / "out.csv", tmp_path / "attention.csv"
    options = ["--target", "y", "--drop", "slide", "--output", folder, *QUICK, "--model", "ft-transformer", "--json"]
    code, printed, _ = invoke(monkeypatch, capsys, "fit", table, *options)
    assert code == 0
    assert json.loads(printed)["test"]["y"]["mse"] > 0
    code, _, _ = invoke(monkeypatch, capsys, "predict", folder, table, "--output", out, "--attention", looked)
    assert code == 0
    weights = pd.read_csv(looked)
    assert set(weights["element"]) == {"CLS", "size", "age", "kind"}
    assert weights.groupby("id")["weight"].sum().to_numpy() == pytest.approx(np.ones(80), abs=1e-5)
    code, _, error = invoke(monkeypatch, capsys, "fit", table, *options[:-1], "--pool", "mean", "--resume")
    assert code == 2
    assert "pool" in error


def test_a_setting_out_of_range_is_refused_by_name(table, tmp_path):
    options = ["--target", "y", "--output", str(tmp_path / "run"), "--dropout", "1.5"]
    result = call("fit", str(table), *options)
    assert result.exit_code != 0
    assert "dropout" in result.output or "dropout" in str(result.exception)
