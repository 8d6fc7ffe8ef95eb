"""What a verdict sees of a run: the kept epoch, the part, the simple models."""

from __future__ import annotations

from diagnosis.samples import curve, records, scores
from excora.diagnosis.case import Case
from excora.diagnosis.evidence import Fit


def case(training, validation=(), **known):
    return Case.of(training, validation, **known)


def test_the_kept_epoch_is_the_best_on_validation_or_the_last() -> None:
    rows = curve()
    assert case(records(), rows).kept == 15
    assert case(records(), rows, kept=7).kept == 7
    alone = case(records())
    assert (alone.kept, alone.part, alone.validated) == (29, "training part", False)
    assert alone.missing == ("validation",)
    assert "30 of 30" in alone.lead


def test_attention_is_that_of_the_held_record_where_it_has_one() -> None:
    held = {"pcc": 0.6, "mse": 0.7, "bags": 90, "probe_gain": 0.1}
    assert case(records(), curve(), held=held).geometry is held
    trained = records()
    assert case(trained, curve(), kept=3).geometry is trained[3]


def test_simple_models_are_compared_on_validation_only() -> None:
    peers = scores(ridge=0.9, trees=0.72)
    assert case(records(), peers=peers).peers == ()
    found = case(records(), curve(), peers=peers)
    assert [one.name for one in found.ahead] == ["ridge"]
    assert found.missing == ("kinds",)
    assert case(records(), curve(), peers=[*peers, *scores(neighbours=0.5)]).missing == ()


def test_predictions_have_no_epochs() -> None:
    fit = Fit.of({"pcc": 0.5, "bags": 50, "mse": 1.0, "mse_affine": 0.9}, "predictions")
    found = Case.of_predictions(fit, None, 0, (), None)
    assert found.lead == f"PCC is {fit} of 50 rows."
    assert set(found.missing) == {"epochs", "training", "peers", "kinds", "pool"}
    assert "kept_epoch" not in found.evidence
