"""The parts of a record."""

from __future__ import annotations

import pytest

from excora.errors import InputError
from excora.report import write_report
from report.samples import write_run


def test_a_missing_column_is_named(tmp_path):
    write_run(tmp_path, samples=60)
    path = tmp_path / "predictions.csv"
    path.write_text(path.read_text().replace("prediction", "guess", 1))
    with pytest.raises(InputError, match="'prediction' is missing"):
        write_report(tmp_path)
