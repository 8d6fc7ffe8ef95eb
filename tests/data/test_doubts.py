"""What would make a score too good to be true is said; what is merely good is asked or passes."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from excora import compare, fit, validate
from excora.data import sources
from excora.data.dataset import Dataset
from excora.data.doubts import doubts
from excora.data.preparation import Preparation
from excora.data.splits import split
from excora.data.table import Table
from excora.settings import Settings

N = 200


def said(frame: pd.DataFrame, y, **roles) -> tuple[str, ...]:
    y = np.asarray(y, np.float64).reshape(len(frame), -1)
    ids, names = np.arange(len(frame)).astype(str).astype(object), tuple(f"y{k}" for k in range(y.shape[1]))
    data = Dataset(ids, names, y, Table(frame), **roles)
    parts = split(data)
    prepared = Preparation.fit(data, parts.train)
    return doubts(data, parts, sources["table"].plain(data, prepared.content))


def table(seed: int, rows: int = N, columns: int = 4) -> pd.DataFrame:
    draws = np.random.default_rng(seed).normal(size=(rows, columns))
    return pd.DataFrame(draws, columns=[f"x{k}" for k in range(columns)])


def label(frame: pd.DataFrame, noise: float = 1.0) -> np.ndarray:
    return frame["x0"].to_numpy() + noise * np.random.default_rng(9).normal(size=len(frame))


@pytest.mark.parametrize(
    ("leak", "words"),
    [
        (lambda y: y, "they are equal"),
        (lambda y: np.round(3 - 2.54 * y, 2), r"straight line of the other \(PCC -1"),
        (lambda y: 1e12 + 1e9 * y, "straight line"),
        (np.exp, r"the same order \(Spearman 1\)"),
        (lambda y: -(y**3), r"the opposite order \(Spearman -1\)"),
    ],
)
def test_a_column_that_gives_the_label_away_is_a_warning(leak, words) -> None:
    frame = table(0)
    y = label(frame)
    (line,) = said(frame.assign(**{"the answer": leak(y)}), y)
    assert line.startswith("warning: column 'the answer' gives the target 'y0' away: in all 120 training samples")
    assert line.endswith("leave it out: --drop 'the answer'")
    assert re.search(words, line)


def test_gaps_and_several_targets() -> None:
    frame = table(1)
    y = np.stack([label(frame), np.random.default_rng(1).normal(size=N)], 1)
    y[::5, 1] = np.nan
    leak = y[:, 1].copy()
    leak[1::4] = np.nan
    (line,) = said(frame.assign(leak=leak), y)
    assert line.startswith("warning: column 'leak' gives the target 'y1' away: in ")
    assert " of 120 training samples they are equal" in line


@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_a_strong_honest_predictor_is_asked_about(noise: float) -> None:
    frame = table(2)
    (line,) = said(frame, label(frame, noise))
    assert line.startswith("column 'x0' alone follows the target 'y0', PCC 0.99")
    assert "?" in line
    assert "warning" not in line


def test_honest_tables_pass() -> None:
    frame = table(3)
    mixed = 2 * frame["x0"] - frame["x1"] + 0.5 * frame["x2"]  # exact, but no column has it alone
    trend = frame.assign(day=pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(N), unit="D"))
    discrete = pd.DataFrame(np.random.default_rng(3).integers(0, 3, (N, 3)), columns=list("abc")).astype(str)
    for one, y in [
        (frame, label(frame)),
        (frame, mixed),
        (frame, np.random.default_rng(4).normal(size=N)),
        (trend, np.arange(N) * 1.0),
        (discrete, np.random.default_rng(5).integers(0, 2, N)),
        (table(6, 12), label(table(6, 12), 0.05)),
        (table(7, N, 2).round(), (table(7, N, 2)["x0"].round() > 0) * 1.0 + 0.3 * table(8)["x0"].round()),
    ]:
        assert said(one, y) == ()


def test_chance_among_few_rows_and_many_columns_passes() -> None:
    rows = 12
    draws = np.random.default_rng(0).integers(0, 2, (rows, 4000))
    frame = pd.DataFrame(draws, columns=[f"x{k}" for k in range(4000)])
    assert said(frame, np.arange(rows) % 2) == ()


def test_a_column_that_names_what_the_label_belongs_to() -> None:
    patient = np.arange(N) % 20
    survival = np.random.default_rng(0).normal(size=20)[patient]
    for column in (np.array([f"p{k}" for k in patient], object), patient):
        (line,) = said(table(0).assign(patient=column), survival)
        assert line.startswith("warning: each of the 20 values of column 'patient' has one value of the target 'y0'")
        assert "--group patient" in line
    noisy = survival + 0.1 * np.random.default_rng(1).normal(size=N)
    assert said(table(0).assign(patient=patient), noisy) == ()


def test_copies_across_the_parts_are_counted() -> None:
    frame = table(5, 100)
    y = label(frame)
    twice = pd.concat([frame, frame], ignore_index=True)
    (line,) = said(twice, np.tile(y, 2))
    assert line.startswith("warning: ")
    assert "of 80 validation and test samples equal a training sample in every feature and in the label" in line
    assert said(twice, np.concatenate([y, y + np.random.default_rng(0).normal(size=100)])) == ()  # measured again
    kept = np.tile(np.arange(100).astype(str).astype(object), 2)
    assert said(twice, np.tile(y, 2), group=kept) == ()


def test_validate_fit_and_compare_say_so(tmp_path) -> None:
    frame = table(0, 60)
    y = label(frame)
    path = tmp_path / "a.csv"
    frame.assign(leak=2 * y, y=y).to_csv(path, index=False)
    found = validate(path, target="y").notes
    run = fit(path, target="y", output=tmp_path / "run", settings=Settings(epochs=1, dim=8), progress=False)
    both = compare(path, target="y", models=["ridge", "peer:mean"], folds=2, seeds=1, progress=False)
    for notes in (found, run.results["notes"], both.notes):
        assert any(line.startswith("warning: column 'leak' gives the target 'y' away") for line in notes)
    assert "gives the target" in (tmp_path / "run" / "report.html").read_text()


def test_bags(tmp_path) -> None:
    rng = np.random.default_rng(0)
    bag = np.repeat(np.arange(60), 3)
    y = rng.normal(size=60)
    rows = pd.DataFrame(rng.normal(size=(180, 2)), columns=["a", "b"]).assign(bag=bag, y=y[bag])
    rows.to_csv(tmp_path / "honest.csv", index=False)
    rows.assign(score=3 * y[bag]).to_csv(tmp_path / "leak.csv", index=False)
    assert validate(tmp_path / "honest.csv", target="y", bag="bag").notes == ()
    (line,) = validate(tmp_path / "leak.csv", target="y", bag="bag").notes
    assert line.startswith("warning: column 'score' gives the target 'y' away")
    mean = rows.groupby("bag")["a"].transform("mean")  # what a pool is for gives nothing away
    rows.assign(y=mean).to_csv(tmp_path / "mean.csv", index=False)
    assert validate(tmp_path / "mean.csv", target="y", bag="bag").notes == ()
