"""The curves of training."""

from __future__ import annotations

import pytest

from excora.report import RunRecord
from excora.report.sections import SECTIONS
from report.sections.records import results


@pytest.mark.parametrize("epochs", [1, 3, 12])
def test_a_short_run_has_no_ticks_between_epochs(epochs):
    rows = [{"epoch": k, "validation_pcc": 0.1 * k, "validation_mse": 1.0} for k in range(epochs)]
    record = RunRecord.of(metrics=rows)
    axis = SECTIONS["curves"].make(record).plots[0].views[""].layout["xaxis"]
    assert axis["range"] == [0.5, epochs + 0.5]
    assert axis.get("dtick") == (1 if epochs < 9 else None)


def test_the_band_begins_where_validation_is_flat_and_not_on_its_rise():
    steps = [0.8 * (1 - 2.0 ** (-k / 3)) + 0.002 * (-1) ** k for k in range(60)]
    rows = [{"epoch": k, "validation_pcc": pcc, "validation_mse": 1 - pcc} for k, pcc in enumerate(steps)]
    layout = SECTIONS["curves"].make(RunRecord.of(metrics=rows)).plots[0].views[""].layout
    start = layout["shapes"][0]["x0"]
    assert layout["annotations"][0]["text"] == f"Validation PCC flat from epoch {start}"
    assert steps[-1] - steps[start - 1] < 0.03


def test_a_model_that_is_fitted_as_a_whole_has_no_curve():
    assert "not in epochs" in SECTIONS["curves"].make(results(stopped="fitted")).reason
