"""The command line: help with examples, the demo's table, clear errors."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from excora import cli
from excora.errors import InputError


def test_help_shows_a_tour_with_examples():
    result = CliRunner().invoke(cli.app, ["--help"])
    assert result.exit_code == 0
    assert "excora demo" in result.output


def test_a_wrong_option_is_refused():
    result = CliRunner().invoke(cli.app, ["demo", "--seeds", "0"])
    assert result.exit_code == 2
    assert "--seeds" in result.output


def test_an_error_of_ours_is_one_line_and_exit_code_2(monkeypatch, capsys):
    def fail() -> None:
        raise InputError("width 5, got 4")

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 2
    assert capsys.readouterr().err.strip() == "error: width 5, got 4"


@pytest.fixture
def predictions(tmp_path):
    file = tmp_path / "predictions.csv"
    rows = [f"{0.5 * y + 3 + (y % 3) / 10},{y},slide{y % 4}" for y in range(60)]
    file.write_text("\n".join(["yhat,y,slide", *rows]) + "\n")
    return file


def test_diagnose_prints_the_verdict_and_both_correlations(predictions):
    options = ["--prediction", "yhat", "--target", "y", "--group", "slide"]
    result = CliRunner().invoke(cli.app, ["diagnose", str(predictions), *options])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("scale or offset only")
    for part in ("pooled", "per group", "affine fix", "next:"):
        assert part in result.output
    found = json.loads(CliRunner().invoke(cli.app, ["diagnose", str(predictions), *options, "--json"]).output)
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


def test_reproduce_runs_a_study_and_shows_the_papers_column(tmp_path):
    result = CliRunner().invoke(
        cli.app, ["reproduce", "gradients", "--preset", "quick", "--output", str(tmp_path / "out")]
    )
    assert result.exit_code == 0, result.output
    assert {"results.json", "table.csv", "figures.html"} <= {file.name for file in (tmp_path / "out").iterdir()}
    assert "paper" in (tmp_path / "out" / "table.csv").read_text().splitlines()[0]
    again = CliRunner().invoke(
        cli.app, ["reproduce", "gradients", "--preset", "quick", "--output", str(tmp_path / "out"), "--json"]
    )
    assert json.loads(again.output)["table"] == json.loads((tmp_path / "out" / "results.json").read_text())["table"]


def test_ctrl_c_ends_without_a_traceback(monkeypatch):
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "app", interrupted)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 130
