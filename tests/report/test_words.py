"""The words of the report."""

from __future__ import annotations

from excora.diagnosis.verdicts import TEXTS
from excora.report.words import VERDICTS


def test_every_verdict_has_plain_words():
    assert set(VERDICTS) == set(TEXTS) - {"cannot tell"}  # that one says why, in its own sentence
