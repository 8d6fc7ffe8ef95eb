"""The command line: help with examples, the demo's table, clear errors."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint

import pytest
from commands import call

from excora import cli
from excora.cli import reproduce
from excora.errors import InputError


def test_help_shows_a_tour_with_examples():
    result = call("--help")
    assert result.exit_code == 0
    assert "excora demo" in result.output


def test_a_wrong_option_is_refused():
    result = call("demo", "--seeds", "0")
    assert result.exit_code == 2
    assert "--seeds" in result.output


def test_an_error_of_ours_is_one_line_and_exit_code_2(monkeypatch, capsys):
    def fail(_: object) -> None:
        raise InputError("width 5, got 4")

    monkeypatch.setattr(cli, "application", fail)
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


class Toy:
    summary = "nothing at all, quickly"

    def run(self, output, **options):
        return {"summary": {"output": str(output), **options}, "table": [{"paper": 1}]}


toy = Toy()
ENTRY = EntryPoint("toy", f"{__name__}:toy", reproduce.GROUP)


def test_reproduce_finds_a_study_by_its_entry_point(monkeypatch):
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [ENTRY] if group == reproduce.GROUP else [])
    result = call("reproduce", "toy", "--preset", "quick", "--only", "a", "--json")
    found = json.loads(result.output)
    assert found["table"] == [{"paper": 1}]
    assert found["summary"] == {
        "output": "runs/toy", "data": None, "seeds": None, "preset": "quick", "only": ["a"], "console": None,
    }  # fmt: skip
    assert "toy: nothing at all, quickly" in call("reproduce", "--help").output
    wrong = call("reproduce", "nothing")
    assert str(wrong.exception) == "study must be one of toy, got 'nothing'"


def test_reproduce_without_studies_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [])
    assert "pip install excora-studies" in call("reproduce", "--help").output
    assert "pip install excora-studies" in str(call("reproduce", "grid").exception)


def test_ctrl_c_ends_without_a_traceback(monkeypatch):
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "application", interrupted)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 130
