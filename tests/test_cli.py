"""The command line: help with examples, the demo's table, clear errors."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from excora import cli, demo
from excora.errors import InputError


def test_help_shows_a_tour_with_examples():
    result = CliRunner().invoke(cli.app, ["--help"])
    assert result.exit_code == 0
    assert "excora demo" in result.output


def test_demo_prints_a_row_for_every_pool_on_every_task():
    result = CliRunner().invoke(cli.app, ["demo", "--seeds", "1", "--steps", "10"])
    assert result.exit_code == 0, result.output
    for setting in demo.SETTINGS:
        assert result.output.count(setting) >= len(demo.POOLS)


def test_demo_trains_eca_past_the_ceiling_of_softmax():
    ticks = []
    results = {(r.setting, r.pool): r for r in demo.run(seeds=1, steps=400, tick=lambda: ticks.append(1))}
    assert len(ticks) == demo.total(1, 400)
    beyond = {pool: results["label beyond the bag", pool] for pool in demo.POOLS}
    assert beyond["softmax"].pcc[0] <= beyond["softmax"].ceiling + 0.01
    assert beyond["ECA"].pcc[0] > beyond["ECA"].ceiling + 0.02


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
