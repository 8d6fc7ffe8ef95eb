"""One run of a comparison: a network that diverges, and errors that are none."""

from __future__ import annotations

import pytest

from comparison.samples import quick, table
from excora.comparison import runs
from excora.errors import ExcoraError, InputError


def test_a_network_that_diverges_does_not_end_the_comparison(monkeypatch):
    def diverge(*_, **__):
        raise ExcoraError("training diverged in its first epoch")

    monkeypatch.setattr(runs, "train", diverge)
    found = quick(table(), models=("softmax", "ridge"))
    assert found.row("softmax").pcc == 0.0
    assert found.row("softmax").folds is None
    assert (found.best, found.pair("softmax").verdict) == ("ridge", "worse")
    assert any(note.startswith("softmax: training diverged in 6 runs") for note in found.notes)
    assert "undefined" in str(found)


def test_another_error_of_training_is_not_taken_for_divergence(monkeypatch):
    def refuse(*_, **__):
        raise InputError("no")

    monkeypatch.setattr(runs, "train", refuse)
    with pytest.raises(InputError, match="no"):
        quick(table(), models=("softmax",))
