"""Study ``verdicts``: trained runs get their verdict, and the committed matrices hold the claim."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from excora.diagnosis.verdicts import make_verdict
from excora.monitor import PlateauMonitor
from excora_studies import reproduce
from excora_studies import verdicts as study

RESULTS = Path(__file__).parents[2] / "docs" / "results" / "verdicts"


@pytest.mark.parametrize("cause", ["capacity-limited", "still improving"])
def test_trained_runs_get_their_verdict(cause) -> None:
    assert study.judge(cause, 0)["verdict"] == cause


def test_the_committed_confusion_matrices_hold_the_claim() -> None:
    stored = json.loads((RESULTS / "results.json").read_text())
    for severity in study.SEVERITIES:
        runs = [row for cause in study.CAUSES for row in stored["chunks"][f"{severity}: {cause}"]["result"]]
        again, found = study.score(runs), stored["summary"][severity]
        assert again["confusion"] == found["confusion"]
        assert again["right"] == pytest.approx(found["right"])
        assert again["right"] >= 0.8
        assert again["false_alarms"] <= 0.05
        assert {sum(row.values()) for row in found["confusion"].values()} == {10, 20}
    with (RESULTS / "table.csv").open() as file:
        for row in csv.DictReader(file):
            counts = stored["summary"][row["severity"]]["confusion"][row["cause"]]
            assert {verdict: int(row[verdict]) for verdict in counts} == counts


def test_the_study_scores_what_the_monitor_says(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(study, "train", lambda cause, _, mild: fake(cause, mild))
    summary = reproduce("verdicts", tmp_path, seeds=1)["summary"]
    assert summary["clear"]["right"] == 1 / 8
    assert summary["clear"]["false_alarms"] == 1.0
    assert summary["mild"]["right"] == 1.0
    assert {"results.json", "table.csv", "confusion.png"} <= {path.name for path in tmp_path.iterdir()}


def fake(cause: str, mild: bool) -> PlateauMonitor:
    """A run whose verdict is right where mild, and noise-limited where not."""
    monitor = PlateauMonitor()
    monitor.records = [{}]
    monitor.verdict = lambda: make_verdict(cause if mild else "noise-limited", {})
    return monitor
