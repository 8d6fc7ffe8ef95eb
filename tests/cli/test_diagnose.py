"""The command ``diagnose``."""

from __future__ import annotations

import json
import shutil

import pytest
from commands import call

from cli.samples import invoke
from excora import cli


def test_diagnose_reads_a_run_folder(run, monkeypatch, capsys):
    folder, _ = run
    code, printed, _ = invoke(monkeypatch, capsys, "diagnose", folder, "--json")
    assert code == 0
    assert json.loads(printed)["source"] == "full run"


@pytest.fixture
def predictions(tmp_path):
    file = tmp_path / "predictions.csv"
    rows = [f"{0.5 * y + 3 + (y % 3) / 10},{y},slide{y % 4}" for y in range(60)]
    file.write_text("\n".join(["yhat,y,slide", *rows]) + "\n")
    return file


def test_diagnose_prints_the_verdict_and_both_correlations(predictions):
    options = ["--prediction", "yhat", "--target", "y", "--group", "slide"]
    result = call("diagnose", str(predictions), *options)
    assert result.exit_code == 0, result.output
    assert result.output.startswith("scale or offset only")
    for part in ("pooled", "per group", "affine fix", "next:"):
        assert part in result.output
    found = json.loads(call("diagnose", str(predictions), *options, "--json").output)
    assert found["verdict"]["name"] == "scale or offset only"
    assert found["figures"]["per group"]["groups"] == 4


def test_a_wrong_file_is_one_clear_line(predictions, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["excora", "diagnose", str(predictions)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert "there is no column 'prediction', only 'yhat', 'y', 'slide'" in error
    assert "Traceback" not in error


def test_a_look_inside_needs_a_run_and_data(predictions, monkeypatch, capsys):
    code, _, error = invoke(monkeypatch, capsys, "diagnose", predictions, "--inside", predictions)
    assert code == 2
    assert "looks into a run folder" in error
    code, _, error = invoke(monkeypatch, capsys, "diagnose", predictions, "--transport")
    assert code == 2
    assert "--inside data.csv" in error


def test_a_look_inside_prints_what_the_report_then_shows(run, table, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "run"
    shutil.copytree(run[0], folder)
    code, printed, _ = invoke(monkeypatch, capsys, "diagnose", folder, "--inside", table, "--json")
    assert code == 0
    found = json.loads(printed)["inside"]
    assert found["samples"] >= 8
    assert found["layers"] == []
    assert json.loads((folder / "inside.json").read_text())["pools"] == found["pools"]
