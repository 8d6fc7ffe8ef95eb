"""The command ``tune``."""

from __future__ import annotations

import json

from cli.samples import invoke


def test_tune_shows_progress_and_its_folder_predicts(table, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "tuned"
    options = ["--target", "y", "--members", "1", "--trials", "2", "--epochs", "1", "--output", folder]
    code, printed, progress = invoke(monkeypatch, capsys, "tune", table, *options)
    assert code == 0
    assert "test PCC" in printed
    assert "trial 2 of 2: validation MSE" in progress
    assert "member 1 of 1" in progress
    assert json.loads((folder / "config.json").read_text())["state"] == "finished"
    code, printed, progress = invoke(monkeypatch, capsys, "tune", table, *options, "--resume", "--quiet")
    assert (code, printed, progress) == (0, "", "")
    code, printed, _ = invoke(monkeypatch, capsys, "predict", folder, table, "--output", tmp_path / "p.csv")
    assert code == 0
    assert (tmp_path / "p.csv").read_text().startswith("id,prediction")
