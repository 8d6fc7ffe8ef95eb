"""The curves of training."""

from __future__ import annotations

import pytest

from excora.report import RunRecord
from excora.report.sections import SECTIONS


@pytest.mark.parametrize("epochs", [1, 3, 12])
def test_a_short_run_has_no_ticks_between_epochs(epochs):
    rows = [{"epoch": k, "validation_pcc": 0.1 * k, "validation_mse": 1.0} for k in range(epochs)]
    record = RunRecord.of(metrics=rows)
    axis = SECTIONS["curves"].make(record).plots[0].views[""].layout["xaxis"]
    assert axis["range"] == [0.5, epochs + 0.5]
    assert axis.get("dtick") == (1 if epochs < 9 else None)
