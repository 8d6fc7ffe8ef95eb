"""The studies of the companion systems: they run, are resumed, and their blocks can be set; results on file hold."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from excora.models.parts.company import Company
from excora_studies import STUDIES, reproduce
from excora_studies.cooccurrence import reached
from excora_studies.pages import blocks

RESULTS = Path(__file__).parents[2] / "docs" / "results"
MADE = ("explanations", "datapoints", "depth", "modality-flow", "rerank")


@pytest.mark.parametrize("name", MADE)
def test_a_study_runs_and_is_shown(name: str, tmp_path: Path) -> None:
    found = reproduce(name, tmp_path, preset="quick")
    assert (tmp_path / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
    assert blocks()[name]({name: found}).count("|") > 10
    assert reproduce(name, tmp_path, preset="quick")["table"] == found["table"]


@pytest.mark.parametrize("name", ["cooccurrence", "meeting"])
def test_a_study_of_a_real_table_runs_on_a_file_like_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(Company.fit.__kwdefaults__, "steps", 5)  # that it runs is asked, not how well it ranks
    rng = np.random.default_rng(0)
    automobile = [
        ",".join([*(rng.choice(["a", "b", "c"], 10)), *(f"{x:.3f}" for x in rng.normal(size=16))]) for _ in range(60)
    ]
    (tmp_path / "imports-85.data").write_text("\n".join(automobile) + "\n")
    cars = [" ".join(f"{x:.3f}" for x in [*rng.normal(size=7), float(rng.integers(1, 4))]) for _ in range(60)]
    (tmp_path / "auto-mpg.data").write_text("\n".join(cars) + "\n")
    servo = [",".join([*rng.choice(["A", "B"], 2), *(f"{x:.3f}" for x in rng.normal(size=3))]) for _ in range(60)]
    (tmp_path / "servo.data").write_text("\n".join(servo) + "\n")
    named = {"class": rng.choice(["B", "C"], 60), "area": rng.integers(1, 3, 60), "C": rng.normal(size=60)}
    flares = pd.DataFrame({**named, "M": 0, "X": 0})
    flares.to_csv(tmp_path / "flare.data2", sep=" ", index=False)
    named = {"date": "1/1/2015", "team": rng.integers(1, 4, 60), "day": rng.choice(["Monday", "Sunday"], 60)}
    garments = pd.DataFrame({**named, "over_time": rng.normal(size=60), "actual_productivity": rng.uniform(size=60)})
    garments.to_csv(tmp_path / "garments_worker_productivity.csv", index=False)
    found = reproduce(name, tmp_path / "out", preset="quick", data=tmp_path)
    assert all(np.isfinite(row["test PCC"]) for row in found["table"])
    assert blocks()[name]({name: found}).startswith("|")


def test_epochs_to_a_level() -> None:
    assert [reached([0.1, 0.5, 0.4], level) for level in (0.1, 0.45, 0.9)] == [1, 2, 4]


def on_file(name: str) -> dict:
    path = RESULTS / name / "results.json"
    if name not in STUDIES or not path.exists():
        pytest.skip(f"{path} is not there")
    return json.loads(path.read_text())


def test_the_lookup_on_file_is_as_good_as_asked() -> None:
    *readers, single = on_file("datapoints")["table"]
    assert all(row["held-out"] > 0.97 and abs(row["old"]) < 0.1 for row in readers)
    assert abs(single["held-out"]) < 0.1
    assert on_file("datapoints")["summary"]["equivariance"] < 1e-5


def test_re_ranking_on_file_gains_a_tenth() -> None:
    assert on_file("rerank")["summary"]["least gain"] > 0.10


def test_ranks_on_file_are_those_listed() -> None:
    assert [row["separation rank"] for row in on_file("depth")["table"]] == [3, 5, 7, 7, 5, 18, 17]
