"""The plateau detector, the verdicts, diagnose() and its files, and the trained evidence."""

from __future__ import annotations

import io
import json
import math

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import diagnosis as oracle

from excora.diagnosis import detect_plateau, diagnose
from excora.diagnosis.files import diagnose_file
from excora.diagnosis.trend import trend
from excora.diagnosis.verdicts import TEXTS, Evidence, make_verdict, verdict
from excora.errors import InputError
from excora.monitor import PlateauMonitor


def curve(epochs: int, *, rise: float, noise: float, seed: int, memory: float = 0.5) -> np.ndarray:
    """PCC that rises by ``rise`` in all, with AR(1) noise of standard deviation ``noise``."""
    generator = np.random.default_rng(seed)
    wobble = np.zeros(epochs)
    for t in range(1, epochs):
        wobble[t] = memory * wobble[t - 1] + math.sqrt(1 - memory**2) * generator.normal(0, noise)
    return 0.5 + rise * np.arange(epochs) / epochs + wobble


@given(st.lists(st.floats(-1, 1), min_size=10, max_size=60), st.integers(0, 99))
def test_trend_is_least_squares_and_its_interval_holds_the_change(values, seed) -> None:
    series = np.array(values)
    found = trend(series, confidence=0.95, resamples=200, generator=np.random.default_rng(seed))
    assert found.change == pytest.approx(oracle.change(series), abs=1e-9)
    assert found.low <= found.high
    assert found.high - found.low <= 40 * (np.ptp(series) + 1e-12)


def test_flat_noisy_curves_are_seldom_called_improving_and_rising_ones_seldom_flat() -> None:
    mse = np.linspace(1.0, 0.5, 60)
    flat = [detect_plateau(curve(60, rise=0.0, noise=0.01, seed=s), mse).state for s in range(120)]
    rising = [detect_plateau(curve(60, rise=0.3, noise=0.01, seed=s), mse).state for s in range(120)]
    assert flat.count("plateau") >= 104
    assert rising.count("improving") >= 114


def test_detector_names_the_start_the_state_and_is_deterministic() -> None:
    epochs = np.arange(120)
    rho = np.where(epochs < 40, 0.02 * epochs, 0.8) + np.random.default_rng(0).normal(0, 0.003, 120)
    falling, still = 2.0 - 0.01 * epochs, np.ones(120)
    found = detect_plateau(rho, falling)
    assert found.state == "plateau"
    assert 30 <= found.start <= 50
    assert detect_plateau(rho, falling) == found
    assert detect_plateau(rho, falling, seed=1).pcc != found.pcc
    assert detect_plateau(rho, still).state == "converged"
    assert detect_plateau(rho, 1 + 0.01 * epochs).state == "converged"
    assert detect_plateau(rho[::-1], falling).state == "worsening"
    assert detect_plateau(rho[:40], falling[:40]).state == "improving"
    assert detect_plateau(rho, falling, window=100).state == "improving"
    holes = [None if e % 5 == 0 else float(r) for e, r in enumerate(rho)]
    gap = detect_plateau(holes, falling)
    assert gap.state == "plateau"
    assert 30 <= gap.start <= 50


@given(st.integers(0, 14))
def test_short_series_are_too_short_not_an_error(n) -> None:
    found = detect_plateau([0.5] * n, [1.0] * n)
    assert (found.state == "too short") == (n < 12)
    assert found.start is None or n >= 12


def test_detector_refuses_nonsense() -> None:
    with pytest.raises(InputError, match="one number an epoch"):
        detect_plateau([0.1, 0.2], [1.0])
    with pytest.raises(InputError, match="at least 10"):
        detect_plateau([0.1] * 20, [1.0] * 20, window=3)
    assert detect_plateau([None] * 30, [1.0] * 30).state == "too short"


def records(**last: float) -> list[dict[str, float]]:
    base = {"pcc": 0.7, "mse": 1.0, "mse_offset": 0.1, "mse_scale": 0.1, "probe_gain": 0.2, "achievable_ceiling": 0.9}
    base |= {"achievable_used": 0.8, "attention_spread": 0.5, "effective_elements": 5.0, "gradient_ratio": 0.3}
    return [base | last] * 30


@pytest.mark.parametrize(
    ("last", "name"),
    [
        ({}, "optimisation-limited"),
        ({"achievable_used": 0.97}, "capacity-limited"),
        ({"achievable_used": 0.97, "achievable_ceiling": 0.999}, "optimisation-limited"),
        ({"attention_spread": 0.98}, "attention collapsed"),
        ({"effective_elements": 1.05, "attention_spread": 0.01}, "attention saturated"),
        ({"probe_gain": 0.0}, "noise-limited"),
        ({"probe_gain": 0.0, "attention_spread": 1.0}, "noise-limited"),
        ({"probe_gain": 0.0, "pcc": 0.97}, "healthy"),
        ({"probe_gain": 0.0, "mse_offset": 0.6}, "scale or offset only"),
        ({"probe_gain": None}, "cannot tell"),
        ({"probe_gain": None, "mse_offset": 0.6}, "scale or offset only"),
        ({"pcc": None}, "cannot tell"),
    ],
)
def test_verdict_rules(last, name) -> None:
    found = verdict(records(**last))
    assert found.name == name
    assert found.advice == TEXTS[name][1]
    assert name in str(found)
    assert json.loads(json.dumps(found.to_dict()))["name"] == name


def test_verdicts_on_moving_series_noise_ceilings_and_constant_ends() -> None:
    rising = [{"pcc": 0.01 * t, "mse": 1.0} for t in range(40)]
    assert verdict(rising).name == "still improving"
    assert "falling" in verdict(rising[::-1]).sentence
    assert verdict(rising[:5]).name == "cannot tell"
    assert verdict(records(), noise_ceiling=0.71).name == "noise-limited"
    assert verdict(records(), noise_ceiling=0.9).name == "optimisation-limited"
    assert "constant" in verdict([*records(), {"pcc": None, "mse": 1.0}]).sentence
    with pytest.raises(InputError, match="noise_ceiling"):
        verdict(records(), noise_ceiling=1.2)
    shown = str(make_verdict("healthy", {"x": Evidence(None, "> 0", False)}))
    assert "x = unknown (> 0: no)" in shown


def grouped(groups: int, rows: int, within: float, between: float, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Target with group means; the prediction follows them and, less, the rows."""
    generator = np.random.default_rng(seed)
    level = np.repeat(generator.normal(0, between, groups), rows)
    inside = generator.normal(size=groups * rows)
    y = level + inside
    x = level + within * inside + generator.normal(0, math.sqrt(1 - within**2), groups * rows)
    return x, y, np.repeat(np.arange(groups), rows)


def test_pooled_and_per_group_side_by_side() -> None:
    x, y, group = grouped(25, 40, 0.12, 1.0)
    found = diagnose(x, y, [f"slide {g}" for g in group])
    pooled, section = found.figures["pooled"]["PCC"], found.figures["per group"]
    each = [oracle.pcc(x[group == g], y[group == g]) for g in range(25)]
    assert pooled.value == pytest.approx(oracle.pcc(x, y), abs=1e-12)
    assert section["mean PCC"].value == pytest.approx(np.mean(each), abs=1e-12)
    assert [section["lowest"], section["highest"]] == pytest.approx([min(each), max(each)], abs=1e-12)
    assert section["mean PCC"].high < pooled.low
    assert pooled.method == "bootstrap over groups"
    assert "pooled but" in found.notes[0]
    assert "tells groups apart" in str(found)
    assert diagnose(x, y).notes == ()


def test_groups_that_cannot_be_judged_are_counted() -> None:
    x, y = np.array([1.0, 2, 3, 4, 9, 9, 9, 5]), np.array([1.0, 2, 4, 3, 1, 2, 3, 5])
    section = diagnose(x, y, [0, 0, 0, 0, 1, 1, 1, 2]).figures["per group"]
    assert (section["groups"], section["undefined"]) == (3, 2)
    assert section["mean PCC"].value == pytest.approx(oracle.pcc(x[:4], y[:4]))
    nothing = diagnose([1.0, 2.0, 3.0], [1.0, 2.0, 4.0], [1, "b", None]).figures["per group"]
    assert nothing["undefined"] == 3
    assert math.isnan(nothing["mean PCC"].value)


@given(st.floats(-3, 3), st.floats(-50, 50), st.floats(0.05, 3), st.integers(0, 50))
def test_affine_fix_is_least_squares(slope, offset, noise, seed) -> None:
    generator = np.random.default_rng(seed)
    x = generator.normal(size=40)
    y = slope * x + offset + noise * generator.normal(size=40)
    fix = diagnose(x, y).figures["affine fix"]
    a, b = np.polyfit(x, y, 1)
    assert (fix["slope"], fix["intercept"]) == pytest.approx((a, b), abs=1e-7)
    assert fix["MSE after"] == pytest.approx(((a * x + b - y) ** 2).mean(), rel=1e-7)
    assert fix["gain"] >= -1e-12


def test_verdicts_from_predictions_alone() -> None:
    y = torch.randn(200, generator=torch.Generator().manual_seed(0))
    noise = torch.randn(200, generator=torch.Generator().manual_seed(1))
    assert diagnose(0.3 * y + 2, y).verdict.name == "scale or offset only"
    assert diagnose(y + 0.05 * noise, pd.Series(y.numpy())).verdict.name == "healthy"
    assert diagnose(y + 2 * noise, y).verdict.name == "cannot tell"  # shrinking it would help, its scale is no fault
    blurred = 0.5 * (y + noise)
    rho = float(torch.corrcoef(torch.stack([blurred, y]))[0, 1])
    assert diagnose(blurred, y[:, None]).verdict.name == "cannot tell"
    assert diagnose(blurred, y, noise_ceiling=rho + 0.01).verdict.name == "noise-limited"
    constant = diagnose(torch.ones(200), y)
    assert constant.verdict.name == "cannot tell"
    assert "constant" in constant.verdict.sentence
    assert constant.to_dict()["figures"]["pooled"]["PCC"]["value"] is None


def test_epochs_use_the_last_and_see_all() -> None:
    generator = np.random.default_rng(0)
    y = np.tile(generator.normal(size=80), 30)
    epoch = np.repeat(np.arange(30), 80)
    x = y + generator.normal(size=2400) * (3.0 - 0.09 * epoch)
    order = generator.permutation(2400)
    rising = diagnose(x[order], y[order], epochs=epoch[order])
    assert rising.verdict.name == "still improving"
    assert rising.source == "predictions per epoch"
    assert rising.figures["pooled"]["PCC"].value == pytest.approx(oracle.pcc(x[-80:], y[-80:]), abs=1e-12)
    flat = diagnose(0.5 * (y + generator.normal(size=2400)), y, epochs=epoch)
    assert flat.plateau.state == "converged"
    assert flat.verdict.name == "cannot tell"
    assert "PCC changed by" in str(flat)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 2.0], [1.0, 2.0]), "at least 3"),
        (([1.0, 2.0, 3.0], [1.0, 2.0]), "got 3 and 2"),
        (([1.0, math.nan, 3.0], [1.0, 2.0, 3.0]), "nan in row 1"),
        ((["a", "b", "c"], [1.0, 2.0, 3.0]), "must be numbers"),
        ((np.ones((3, 2)), np.ones((3, 2))), "one target at a time"),
        (([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [1, 2]), "one entry a row"),
        (([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], None, [0, 0, 1]), "last epoch"),
    ],
)
def test_diagnose_refuses_what_it_cannot_use(arguments, message) -> None:
    with pytest.raises(InputError, match=message):
        diagnose(*arguments)


def test_files_give_what_arrays_give(tmp_path) -> None:
    x, y, group = grouped(12, 20, 0.4, 1.0)
    frame = pd.DataFrame({"prediction": x, "target": y, "group": [f"g{g}" for g in group]})
    frame.to_csv(tmp_path / "p.csv", index=False)
    frame.to_csv(tmp_path / "p.tsv.gz", index=False, sep="\t")
    frame.rename(columns={"prediction": "yhat", "group": "slide"}).to_parquet(tmp_path / "p.parquet")
    wanted = diagnose(x, y, group).to_dict()
    found = [
        diagnose_file(tmp_path / "p.csv"),
        diagnose_file(str(tmp_path / "p.tsv.gz")),
        diagnose_file(tmp_path / "p.parquet", prediction="yhat", group="slide"),
    ]
    for one in found:
        got = json.loads(json.dumps(one.to_dict()))
        assert got["verdict"]["name"] == wanted["verdict"]["name"]
        assert got["figures"]["per group"]["groups"] == 12
        assert got["figures"]["pooled"]["PCC"]["value"] == pytest.approx(wanted["figures"]["pooled"]["PCC"]["value"])
    assert "per group" not in diagnose_file(tmp_path / "p.parquet", prediction="yhat").figures
    rich = pytest.importorskip("rich.console")
    console = rich.Console(width=200, record=True, file=io.StringIO())
    console.print(found[0])
    text = console.export_text()
    assert "per group" in text
    assert "next:" in text


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", "the file is empty"),
        ("a.csv", "prediction,target\n", "at least 3 rows, got 0"),
        ("a.csv", "prediction,truth\n1,2\n3,4\n5,6\n", r"no column 'target', only 'prediction', 'truth'.*target="),
        ("a.csv", "prediction,target\n1,2\n3,x\n5,6\n", "column 'target'.*got 'x' in row 3"),
        ("a.csv", "prediction,target\n1,2\n3,\n5,6\n7,\n", r"column 'target'.*empty cell in row 3 \(2 such rows\)"),
        ("a.csv", "prediction,target\n1,2\ninf,3\n5,6\n", "column 'prediction'.*got inf in row 3"),
        ("a.csv", "prediction,target,epoch\n1,2,a\n3,3,b\n5,6,c\n", "column 'epoch'.*got 'a' in row 2"),
        ("a.csv", "prediction,target,group\n1,2,a\n3,3,\n5,6,c\n", "column 'group'.*empty cell in row 3"),
        ("a.csv", "prediction,target\n1,2\n3,4,5,6\n", "not readable as delimited text"),
        ("a.parquet", "nonsense", "not readable as Parquet"),
        ("a.json", "{", "not readable as JSON"),
        ("a.json", '{"records": []}', "PlateauMonitor.to_json"),
        ("a.xlsx", "", "expected a name ending in"),
    ],
)
def test_bad_files_are_named_with_column_and_row(tmp_path, name, content, message) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message) as caught:
        diagnose_file(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)


def test_missing_file_missing_option_column_and_bytes(tmp_path) -> None:
    with pytest.raises(InputError, match="no such file"):
        diagnose_file(tmp_path / "absent.csv")
    (tmp_path / "a.csv").write_text("prediction,target\n1,2\n3,4\n5,7\n")
    with pytest.raises(InputError, match=r"no column 'slide'.*group="):
        diagnose_file(tmp_path / "a.csv", group="slide")
    (tmp_path / "b.csv").write_bytes(b"prediction,target\n\xff\xfe1,2\n")
    with pytest.raises(InputError, match="not readable"):
        diagnose_file(tmp_path / "b.csv")


def test_a_recorded_run_is_diagnosed_from_its_file(tmp_path) -> None:
    monitor = PlateauMonitor()
    monitor.records = [dict(r, epoch=t) for t, r in enumerate(records(achievable_used=0.99))]
    monitor.to_json(tmp_path / "run.json")
    found = diagnose_file(tmp_path / "run.json")
    assert (found.verdict.name, found.source) == ("capacity-limited", "full run")
    assert found.verdict == monitor.verdict()
    assert found.figures["last epoch"]["pcc"] == 0.7


def test_a_run_folder_is_diagnosed_in_view_of_validation(tmp_path) -> None:
    with pytest.raises(InputError, match=r"no monitor\.json in this folder"):
        diagnose_file(tmp_path)
    monitor = PlateauMonitor()
    rising = [0.02 * t for t in range(30)]
    monitor.records = [{"epoch": t, "pcc": pcc, "mse": 1 - pcc} for t, pcc in enumerate(rising)]
    monitor.to_json(tmp_path / "monitor.json")
    assert diagnose_file(tmp_path).verdict.name == "still improving"  # it has not ended: there is no results.json
    ended = {"stopped": "patience", "epochs": 30, "best_epoch": 14}
    (tmp_path / "results.json").write_text(json.dumps(ended))
    found = diagnose_file(tmp_path)
    assert found.verdict.name == "overfitting"
    assert found.verdict.evidence["epochs after the best"].value == 15
    (tmp_path / "results.json").write_text(json.dumps(ended | {"stopped": "epochs"}))
    assert diagnose_file(tmp_path).verdict.name == "still improving"
    (tmp_path / "results.json").write_text(json.dumps(ended | {"epochs": "30"}))
    with pytest.raises(InputError, match="expected stopped, epochs and best_epoch"):
        diagnose_file(tmp_path)
