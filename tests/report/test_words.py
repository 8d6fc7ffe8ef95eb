"""The words of the report."""

from __future__ import annotations

import numpy as np

from excora.diagnosis import detect_plateau
from excora.diagnosis.verdicts import TEXTS
from excora.report.words import STATES, VERDICTS


def test_every_verdict_has_plain_words():
    # "cannot tell" says why, in its own sentence; "noise-limited" stands in runs of older versions
    assert set(VERDICTS) == set(TEXTS) - {"cannot tell"} | {"noise-limited"}


def test_every_state_of_the_detector_has_its_sentence():
    mse = np.linspace(2.0, 1.0, 60)
    rise = np.minimum(np.arange(60) * 0.04, 0.8) + np.random.default_rng(0).normal(0, 0.003, 60)
    found = [
        detect_plateau(rise, mse), detect_plateau(rise, np.ones(60)), detect_plateau(rise[::-1], mse),
        detect_plateau(np.linspace(0, 0.9, 60), mse), detect_plateau([0.5], [1.0]),
    ]  # fmt: skip
    assert {one.state for one in found} == set(STATES)
    for one in found:
        assert ("{start}" in STATES[one.state]) == (one.state in ("plateau", "converged"))
