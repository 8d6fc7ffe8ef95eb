"""diagnose on arrays: figures, groups, the affine fix, and what it concludes."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import diagnosis as oracle

from diagnosis.samples import grouped, scores
from excora.diagnosis import diagnose
from excora.errors import InputError
from excora.monitor import PlateauMonitor


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
    assert not any("pooled but" in note for note in diagnose(x, y).notes)


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
    assert fix["gain"] >= 1 - 1 / (1 - 2 / 40) ** 2 - 1e-12


def test_verdicts_from_predictions_alone() -> None:
    y = torch.randn(200, generator=torch.Generator().manual_seed(0))
    noise = torch.randn(200, generator=torch.Generator().manual_seed(1))
    assert diagnose(0.3 * y + 2, y).verdict.name == "scale or offset only"
    assert diagnose(y + 0.05 * noise, pd.Series(y.numpy())).verdict.name == "healthy"
    stretched = diagnose(y + 2 * noise, y).verdict  # a line would help, and nothing is said of the order
    assert (stretched.name, "correlation stays as it is" in stretched.sentence) == ("scale or offset only", True)
    blurred = 0.5 * (y + noise)
    rho = float(torch.corrcoef(torch.stack([blurred, y]))[0, 1])
    assert diagnose(blurred, y[:, None]).verdict.name == "cannot tell"
    assert diagnose(blurred, y, noise_ceiling=rho + 0.01).verdict.name == "data-limited"
    assert diagnose(blurred, y, peers=scores(ridge=rho, trees=rho - 0.1, near=0.3)).verdict.name == "data-limited"
    assert diagnose(blurred, y, peers=scores(ridge=0.98)).verdict.name == "behind a simple model"
    constant = diagnose(torch.ones(200), y)
    assert constant.verdict.name == "cannot tell"
    assert "constant" in constant.verdict.sentence
    assert constant.to_dict()["figures"]["pooled"]["PCC"]["value"] is None


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_never_right_up_to_scale_and_offset(seed) -> None:
    generator = np.random.default_rng(seed)
    y, x = generator.normal(size=300), 0.02 * generator.normal(size=300)
    found = diagnose(x, y)
    assert found.verdict.name == "cannot tell"
    assert found.figures["affine fix"]["gain"] < 0.05
    mse = found.figures["MSE"]
    assert mse["order"] > 0.9 * mse["total"]  # not a wrong spread: shrinking is right where nothing is known
    assert mse["level"] + mse["spread"] + mse["order"] == pytest.approx(mse["total"])


def test_few_samples_without_an_established_correlation_cannot_be_told() -> None:
    generator = np.random.default_rng(3)
    y = generator.normal(size=28)
    z = generator.normal(size=28)
    z -= y * (z @ y) / (y @ y)
    y, z = (v / v.std() for v in (y - y.mean(), z - z.mean()))
    x = 5 + 10 * (0.163 * y + math.sqrt(1 - 0.163**2) * z)
    found = diagnose(x, y)
    assert found.figures["pooled"]["PCC"].low < 0 < found.figures["pooled"]["PCC"].high
    assert found.verdict.name == "cannot tell"
    assert "No correlation is established" in found.verdict.sentence


def loop(epochs: int = 20) -> tuple[PlateauMonitor, PlateauMonitor]:
    """Two lines a loop, for each part."""
    generator = torch.Generator().manual_seed(0)
    training, validation = PlateauMonitor(), PlateauMonitor()
    y = torch.randn(200, generator=generator)
    for _ in range(epochs):
        for monitor in (training, validation):
            monitor.update(0.5 * (y + torch.randn(200, generator=generator)), y)
            monitor.end_epoch()
    return training, validation


def test_a_monitor_of_any_loop_is_diagnosed_and_says_what_it_cannot_tell() -> None:
    training, validation = loop()
    alone = diagnose(training)
    assert (alone.source, alone.verdict) == ("full run", training.verdict())
    for verdict in ("overfitting", "behind a simple model", "capacity-limited"):
        assert verdict in " ".join(alone.notes)
    assert alone.figures["kept epoch, training part"]["bags"] == 200
    rho = max(record["pcc"] for record in validation.records)
    peers = scores(ridge=rho, trees=rho, neighbours=rho)
    both = diagnose(training, validation=validation, peers=peers)
    assert both.verdict.name == "data-limited"
    assert both.verdict == training.verdict(validation=validation, peers=peers)
    assert "kept epoch, validation" in both.figures
    validation.stage = "validation"
    assert "Not possible here: overfitting" in " ".join(diagnose(validation).notes)


def test_a_monitor_and_arrays_do_not_mix() -> None:
    training, _ = loop(2)
    with pytest.raises(InputError, match="its own targets"):
        diagnose(training, [1.0, 2.0, 3.0])
    with pytest.raises(InputError, match="need their target"):
        diagnose([1.0, 2.0, 3.0])


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
