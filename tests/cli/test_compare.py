"""The command ``compare``."""

from __future__ import annotations

import json

from cli.samples import QUICK, invoke


def test_compare_says_plainly_what_the_difference_is(table, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "comparison"
    options = ["--target", "y", "--models", "ridge,softmax", "--folds", "2", "--seeds", "2", *QUICK]
    code, printed, _ = invoke(monkeypatch, capsys, "compare", table, *options, "--output", folder)
    assert code == 0
    assert "95 % interval" in printed
    assert "cannot be told apart" in printed or "is better than" in printed or "is worse than" in printed
    content = json.loads((folder / "comparison.json").read_text())
    assert {row["model"] for row in content["rows"]} == {"ridge", "softmax"}
    assert (folder / "report.html").exists()
