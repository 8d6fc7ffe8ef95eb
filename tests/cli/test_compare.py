"""The command ``compare``."""

from __future__ import annotations

import json

from cli.samples import QUICK, invoke


def test_compare_says_plainly_what_the_difference_is(table, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "comparison"
    options = ["--target", "y", "--models", "ridge,softmax", "--folds", "2", "--seeds", "2", "--margin", "0.05", *QUICK]
    code, printed, _ = invoke(monkeypatch, capsys, "compare", table, *options, "--output", folder)
    assert code == 0
    assert "95 % interval" in printed
    assert "has the highest PCC" in printed
    content = json.loads((folder / "comparison.json").read_text())
    assert {row["model"] for row in content["rows"]} == {"ridge", "softmax"}
    concluded = printed.split("has the highest PCC")[1]
    assert sum(words in concluded for words in ("is better than the other", "does not differ from", "cannot tell")) == 1
    assert content["setup"]["margin"] == 0.05
    assert "--margin 0.05" in content["rerun"]
    assert (folder / "report.html").exists()
