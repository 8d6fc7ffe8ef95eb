"""The demonstration: ECA ahead where the label reaches beyond the bag, no difference where it stays within."""

from __future__ import annotations

import json

import pytest
from commands import call

from excora import demo
from excora.errors import InputError


@pytest.mark.long
def test_demo_shows_when_to_use_it(tmp_path):
    shown = demo.run(tmp_path / "demo", seeds=2, epochs=16, bags=500)
    beyond, within = (shown.comparisons[name] for name in ("beyond", "within"))
    ceiling = demo.SETTINGS["beyond"].task.best_softmax_pcc
    assert beyond.row("softmax").pcc < ceiling + 0.03
    assert beyond.row("eca").pcc > ceiling + 0.05
    assert beyond.pair("eca", "softmax").low > 0.0
    assert within.pair("eca", "softmax").verdict != "better"
    assert shown.run.results["test"]["target"]["pcc"] > ceiling
    for name in demo.SETTINGS:
        assert (tmp_path / "demo" / name / "report.html").stat().st_size > 1e6


def test_demo_prints_both_settings_and_replaces_only_an_earlier_demonstration(tmp_path):
    folder = tmp_path / "demo"
    for _ in range(2):
        options = ["--seeds", "1", "--epochs", "1", "--bags", "60", "--output", str(folder)]
        result = call("demo", *options)
        assert result.exit_code == 0, result.output
        for setting in demo.SETTINGS.values():
            assert setting.title in result.output
        assert str(folder / "beyond" / "report.html") in result.output
    found = json.loads(call("demo", *options, "--json").output)
    assert set(found) == set(demo.SETTINGS)
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "thesis.txt").write_text("ten years of work")
    with pytest.raises(InputError, match="not empty"):
        demo.run(taken)
    assert (taken / "thesis.txt").read_text() == "ten years of work"
