"""The standing texts."""

from __future__ import annotations

from excora.diagnosis.texts import GIVEN, TEXTS, out_of_reach
from excora.report.words import VERDICTS


def test_every_verdict_has_its_texts_here_and_in_the_report() -> None:
    assert set(TEXTS) - {"cannot tell"} <= set(VERDICTS)
    for text in TEXTS.values():
        assert text.advice.endswith(".")
        assert set(text.needs) <= set(GIVEN)


def test_what_is_missing_names_the_verdicts_it_takes() -> None:
    (line,) = out_of_reach("training")
    assert line.startswith("Not possible here: overfitting: that takes a PlateauMonitor of the training part")
    assert out_of_reach() == ()
