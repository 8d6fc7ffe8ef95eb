"""The rules of the verdicts."""

from __future__ import annotations

import json

import numpy as np
import pytest

from diagnosis.samples import curve, records, scores
from excora.diagnosis.texts import out_of_reach
from excora.diagnosis.verdicts import TEXTS, Evidence, make_verdict, verdict
from excora.errors import InputError
from excora.stats.intervals import Interval


@pytest.mark.parametrize(
    ("last", "name"),
    [
        ({}, "optimisation-limited"),
        ({"achievable_used": 0.97}, "capacity-limited"),
        ({"achievable_used": 0.97, "achievable_ceiling": 0.999}, "optimisation-limited"),
        ({"attention_spread": 0.98}, "attention collapsed"),
        ({"attention_spread": 1.0, "probe_gain": 0.0}, "attention collapsed"),
        ({"effective_elements": 1.05, "attention_spread": 0.01}, "attention saturated"),
        ({"probe_gain": 0.0}, "cannot tell"),
        ({"probe_gain": 0.2, "probe_error": 0.15}, "cannot tell"),
        ({"probe_gain": 0.0, "attention_spread": 0.98}, "cannot tell"),
        ({"probe_gain": 0.0, "pcc": 0.97}, "cannot tell"),  # of the training part, where memory has the same
        ({"probe_gain": 0.0, "mse": 1.2}, "scale or offset only"),
        ({"probe_gain": None}, "cannot tell"),
        ({"probe_gain": None, "attention_spread": None, "mse": 1.2}, "scale or offset only"),
        ({"pcc": None}, "cannot tell"),
        ({"pcc": 0.1, "bags": 30}, "cannot tell"),
    ],
)
def test_rules_on_the_training_part_alone(last, name) -> None:
    found = verdict(records(**last))
    assert found.name == name
    assert found.advice == TEXTS[name].advice or name == "cannot tell"
    assert TEXTS[name].meaning in found.sentence
    assert json.loads(json.dumps(found.to_dict()))["name"] == name


@pytest.mark.parametrize(
    ("held", "peers", "name"),
    [
        ({}, {}, "cannot tell"),
        ({}, {"ridge": 0.69}, "cannot tell"),  # one simple model is not enough
        (
            {},
            {"ridge": 0.69, "lightgbm": 0.71},
            "cannot tell",
        ),  # nor are two, of which neither knows what a third finds
        ({}, {"ridge": 0.69, "lightgbm": 0.71, "neighbours": 0.6}, "data-limited"),
        ({}, {"ridge": 0.50, "lightgbm": 0.55}, "healthy"),
        ({}, {"ridge": 0.979, "lightgbm": 0.95}, "behind a simple model"),
        ({"pcc": 0.97}, {}, "healthy"),
        ({"pcc": 0.96}, {"ridge": 0.995}, "behind a simple model"),
        ({"mse_affine": 0.2}, {}, "scale or offset only"),
        ({"pcc": 0.05}, {"ridge": 0.02}, "no signal found"),
        ({"pcc": 0.05}, {}, "cannot tell"),
        ({"pcc": 0.05, "bags": 25}, {"ridge": 0.02}, "cannot tell"),
        ({"pcc": 0.05}, {"ridge": 0.9}, "behind a simple model"),
    ],
)
def test_rules_of_the_kept_epoch_on_validation(held, peers, name) -> None:
    rows = curve(**held)
    found = verdict(records(probe_gain=None, attention_spread=None), validation=rows, peers=scores(**peers))
    assert found.name == name
    if name != "cannot tell":
        assert f"{rows[15]['pcc']:.3f} [" in found.sentence
        assert "16 of 30" in found.sentence
    for peer, pcc in peers.items():
        assert found.evidence[f"{peer}_pcc"].value == pcc
        assert f"{pcc:.3f}" in found.sentence


def test_a_run_long_past_its_best_epoch_is_not_still_improving_whatever_its_patience() -> None:
    epochs = np.arange(120)
    training = [{"pcc": 0.5 + 0.004 * t, "mse": 0.8 - 0.006 * t, "bags": 300} for t in epochs]
    held = [{"pcc": 0.6 - 2e-5 * (t - 44) ** 2, "mse": 0.6 + 1e-4 * (t - 44) ** 2, "bags": 100} for t in epochs]
    found = verdict(training, validation=held)
    assert verdict(training).name == "still improving"  # which is all the training part can say
    assert found.name == "overfitting"
    assert found.evidence["kept_epoch"].value == 45
    assert "45 of 120" in found.sentence
    noise = 0.01 * np.random.default_rng(0).normal(size=120)
    noisy = [row | {"mse": 0.6, "pcc": 0.6 + z} for row, z in zip(held, noise, strict=True)]
    assert verdict(training, validation=noisy, kept=44).name == "cannot tell"  # nothing got worse
    rising = [{"pcc": 0.004 * t, "mse": 1 - 0.004 * t, "bags": 300} for t in epochs]
    assert verdict(training, validation=rising).name == "still improving"
    assert verdict(training, validation=rising, kept=44).name == "cannot tell"
    assert "after the kept epoch" in verdict(training, validation=rising, kept=44).sentence
    assert (
        "but none is surely better than the start"
        in verdict(training, validation=rising, kept=-1, held=rising[60]).sentence
    )


def test_a_flat_correlation_whose_error_still_falls_by_much_is_not_judged_yet() -> None:
    rows = [row | {"mse": 1.0 - 0.02 * t, "mse_affine": 0.2} for t, row in enumerate(curve(mse=1.0))]
    assert verdict(records(), validation=rows, kept=29).name == "still improving"
    assert verdict(records(), validation=curve(mse_affine=0.2)).name != "still improving"


def test_the_test_part_may_forbid_a_verdict_but_never_makes_one() -> None:
    rows = curve()
    known = {"validation": rows, "peers": scores(ridge=0.6, lightgbm=0.6)}
    assert verdict(records(), **known).name == "optimisation-limited"
    doubt = verdict(records(), **known, test=Interval(0.163, -0.22, 0.51, "Fisher"))
    assert doubt.name == "cannot tell"
    assert "0.163 [-0.220, 0.510]" in doubt.sentence
    assert verdict(records(), **known, test=Interval(0.7, 0.6, 0.8, "Fisher")).name == "optimisation-limited"


def test_samples_that_are_not_independent_widen_the_interval() -> None:
    rows = curve(pcc=0.4)
    assert verdict([], validation=rows, peers=scores(ridge=0.4, trees=0.4, near=0.4)).name == "data-limited"
    wide = Interval(0.4, -0.1, 0.8, "bootstrap over groups")
    assert (
        verdict([], validation=rows, peers=scores(ridge=0.4, trees=0.4, near=0.4), interval=wide).name == "cannot tell"
    )


def test_moving_series_noise_ceilings_and_constant_ends() -> None:
    rising = [{"pcc": 0.01 * t, "mse": 1.0, "bags": 500} for t in range(40)]
    assert verdict(rising).name == "still improving"
    assert "falling" in verdict([dict(row, pcc=0.9 - row["pcc"]) for row in rising]).sentence
    assert verdict(rising[:5]).name == "cannot tell"
    still = records(probe_gain=0.0)
    assert verdict(still, noise_ceiling=0.71).name == "data-limited"
    assert verdict(still, noise_ceiling=0.9).name == "cannot tell"
    assert "constant" in verdict([*still, {"pcc": None, "mse": 1.0}]).sentence
    with pytest.raises(InputError, match="noise_ceiling"):
        verdict(still, noise_ceiling=1.2)
    shown = str(make_verdict("healthy", {"x": Evidence(None, "> 0", False)}))
    assert "x = unknown (> 0: no)" in shown


def test_what_is_missing_is_said() -> None:
    found = verdict([{"pcc": 0.7, "mse": 0.5, "bags": 100}] * 20)
    assert found.name == "cannot tell"
    for word in ("overfitting", "validation=", "capacity-limited", "pooled= and h="):
        assert word in found.advice


def test_uniform_attention_is_a_fault_only_if_it_never_moved_or_if_signal_is_left_unread() -> None:
    even = {"attention_spread": 0.9999, "probe_gain": 0.0, "pcc": 0.987}
    level = {"validation": curve(pcc=0.987, mse=0.03), "peers": scores(ridge=0.987, lightgbm=0.95)}
    assert verdict(records(**even), **level).name == "healthy"  # the mean is right
    assert verdict(records(**even | {"attention_spread": 1.0}), **level).name == "attention collapsed"
    moved = [*records(**even)[:10], *records(**even | {"attention_spread": 1.0})[:20]]
    assert verdict(moved, **level).name == "healthy"


def test_a_run_whose_last_epoch_is_its_best_is_not_judged_while_both_errors_fall() -> None:
    """Servo, stopped after 16 epochs: PCC past its top, attention still near its even start, a probe far ahead."""
    training = [{"mse": 1.01 - 0.007 * t} for t in range(16)]
    held = [{"pcc": 0.52 - 2e-4 * (t - 10) ** 2, "mse": 1.268 - 0.002 * t, "bags": 41} for t in range(16)]
    held[-1] |= {"probe_gain": 0.25, "probe_error": 0.1, "attention_spread": 0.995, "effective_elements": 11.9}
    assert verdict(training, validation=held).name == "still improving"
    assert verdict([{"mse": 0.9}] * 16, validation=held).name == "attention collapsed"  # training has come to rest


def test_overfitting_shows_in_the_error_where_the_correlation_is_in_doubt() -> None:
    """News: 0.262 of 120 samples, 2.9 standard errors."""
    epochs = np.arange(60)
    training = [{"mse": 0.9 - 0.01 * t} for t in epochs]
    held = [{"pcc": 0.262 - 0.002 * abs(t - 3), "mse": 0.93 + 0.01 * abs(t - 3), "bags": 120} for t in epochs]
    assert verdict(training, validation=held).name == "overfitting"
    noise = [row | {"pcc": row["pcc"] - 0.2} for row in held]
    assert verdict(training, validation=noise).name == "cannot tell"
    assert verdict(training, validation=noise, peers=scores(ridge=0.0)).name == "no signal found"


def test_a_simple_model_that_was_tuned_on_noise_is_not_ahead() -> None:
    """Real Estate with its labels permuted: LightGBM 0.311 of 103 validation samples, 0.014 on test."""
    held = [{"pcc": 0.083, "mse": 1.0, "bags": 103}] * 20
    peers = scores(ridge=0.129, lightgbm=0.311)
    assert verdict([], validation=held, peers=peers).name == "cannot tell"
    tested = [one | {"test": {"pcc": 0.014}} for one in peers]
    test = Interval(0.077, -0.12, 0.27, "Fisher")
    assert verdict([], validation=held, peers=tested, test=test).name == "no signal found"
    real = [one | {"test": {"pcc": 0.4}} for one in scores(ridge=0.42, lightgbm=0.45)]
    assert verdict([], validation=held, peers=real, test=test).name == "behind a simple model"


def test_level_is_within_a_standard_error_and_never_said_of_few_rows() -> None:
    """Shares without half of its columns: 0.663 of 131 samples, ridge 0.684."""
    held = curve(pcc=0.663, bags=131)
    assert verdict([], validation=held, peers=scores(ridge=0.684, lightgbm=0.659, near=0.6)).name == "data-limited"
    assert verdict([], validation=held, peers=scores(ridge=0.72, lightgbm=0.659, near=0.6)).name == "cannot tell"
    few = curve(pcc=0.896, bags=41)
    assert verdict([], validation=few, peers=scores(ridge=0.681, lightgbm=0.869, near=0.7)).name == "cannot tell"


def test_a_third_kind_of_model_may_be_ahead_where_two_are_level() -> None:
    """Wind: 0.638 of 120 samples; ridge and LightGBM level, ExtraTrees and neighbours far ahead of all three."""
    held, two = curve(pcc=0.638, bags=120), scores(ridge=0.525, lightgbm=0.656)
    assert verdict([], validation=held, peers=two).name == "cannot tell"
    known = [*two, *scores(extratrees=0.725, neighbours=0.747)]
    found = verdict([], validation=held, peers=known)
    assert found.name == "behind a simple model"
    assert "neighbours reaches 0.747, extratrees 0.725" in found.sentence


def test_a_level_high_correlation_of_few_rows_is_not_called_healthy() -> None:
    """Horsepower: 0.983 of 50 validation rows beside 0.986, but 0.819 beside 0.895 on as many others."""
    peers = scores(lightgbm=0.986, ridge=0.977)
    assert verdict([], validation=curve(pcc=0.983, bags=50), peers=peers).name == "cannot tell"
    assert verdict([], validation=curve(pcc=0.983, bags=60), peers=peers).name == "healthy"


def test_behind_is_not_said_of_a_model_that_is_ahead_on_the_test_part() -> None:
    held, test = curve(), Interval(0.7, 0.6, 0.78, "Fisher")
    peers = scores(ridge=0.85)
    assert verdict([], validation=held, peers=peers, test=test).name == "behind a simple model"
    peers[0] |= {"test": {"pcc": 0.73}}
    assert verdict([], validation=held, peers=peers, test=test).name == "behind a simple model"
    peers[0] |= {"test": {"pcc": 0.706}}  # heavy tails: 0.609 beside 0.267 on validation, not so on test
    assert verdict([], validation=held, peers=peers, test=test).name == "cannot tell"


def test_level_claims_no_more_than_that_nobody_who_ran_is_ahead() -> None:
    found = verdict([], validation=curve(), peers=scores(ridge=0.69, trees=0.7, neighbours=0.6))
    assert found.name == "data-limited"
    assert "Nothing here rules out that another model finds more." in found.sentence
    assert "likelier" not in found.sentence + found.advice


def test_a_claim_is_withdrawn_where_the_test_part_contradicts_it() -> None:
    held, test = curve(), Interval(0.6, 0.5, 0.69, "Fisher")
    ahead, level = (scores(ridge=0.69, lightgbm=0.71, near=0.6) for _ in range(2))
    ahead[0] |= {"test": {"pcc": 0.8}}
    level[0] |= {"test": {"pcc": 0.68}}
    found = verdict([], validation=held, peers=ahead, test=test)
    assert found.name == "cannot tell"
    assert "ridge reaches 0.800" in found.sentence
    assert verdict([], validation=held, peers=level, test=test).name == "data-limited"
    noise = [{"pcc": 0.01, "mse": 1.0, "bags": 120}] * 20
    luck = [one | {"test": {"pcc": 0.31}} for one in scores(ridge=-0.03, lightgbm=0.07)]  # 3.5 standard errors
    assert verdict([], validation=noise, peers=luck, test=Interval(0.0, -0.18, 0.18, "x")).name == "no signal found"


def test_a_run_that_still_gets_better_is_not_called_behind_before_its_correlation_is_established() -> None:
    """Bikes by the hour, stopped after 16 epochs: 0.26 of 120 samples, LightGBM 0.864."""
    training = [{"mse": 1.0 - 0.007 * t} for t in range(16)]
    held = [{"pcc": 0.01 * t + 0.11, "mse": 1.0 - 0.004 * t, "bags": 120} for t in range(16)]
    assert verdict(training, validation=held, peers=scores(lightgbm=0.864)).name == "still improving"
    still = [{"pcc": 0.26, "mse": 0.94, "bags": 120}] * 16
    assert verdict(training, validation=still, peers=scores(lightgbm=0.864)).name == "behind a simple model"


def test_what_drifts_while_the_order_gets_better_is_scale_or_offset() -> None:
    """Trained by correlation alone: PCC rises after the kept epoch, which the growing error of scale has picked."""
    epochs = np.arange(40)
    rows = [{"pcc": 0.98 - 0.03 * 0.8**t, "mse": 1.0 + 0.1 * abs(t - 4), "bags": 500} for t in epochs]
    rows[4] |= {"mse_affine": 0.1, "probe_gain": 0.04, "probe_error": 0.005, "attention_spread": 0.5}
    rows[4] |= {"effective_elements": 5.0}
    assert verdict([], validation=rows).name == "scale or offset only"
    flat = [row | {"pcc": 0.95} for row in rows]
    assert verdict([], validation=flat).name == "optimisation-limited"


def test_a_fit_without_epochs_is_not_asked_for_them_and_says_why_nothing_is_told() -> None:
    """40 to 50 validation rows of a model in closed form, level with everybody."""
    held = {"pcc": 0.839, "mse": 0.3, "mse_affine": 0.3, "bags": 40}
    found = verdict([], held=held, peers=scores(ridge=0.841, trees=0.79, neighbours=0.82))
    assert found.name == "cannot tell"
    assert "worth 40 independent ones" in found.sentence
    assert "monitor.update" not in found.advice


def test_what_predictions_can_have_is_not_called_impossible() -> None:
    assert not {"healthy", "data-limited"} & set(out_of_reach("epochs")[0].split(": ")[1].split(", "))


def test_an_interval_above_0_that_is_not_enough_is_explained() -> None:
    held = {"pcc": 0.83, "mse": 0.3, "mse_affine": 0.3, "bags": 8}
    found = verdict([], held=held, peers=scores(ridge=0.83))
    assert found.name == "cannot tell"
    assert "3 standard errors" in found.sentence


def test_an_error_of_rounding_is_no_fault_of_scale() -> None:
    """An exactly linear table: a third of 1e-10 is nothing to repair, and 60 rows tell as much as can be told."""
    rho = 1 - 5e-11
    held = {"pcc": rho, "mse": 3e-10, "mse_affine": 2 * (1 - rho**2), "bags": 60}
    spread = Interval(rho, 1 - 4e-10, 1 - 5e-12, "bootstrap")  # as good as 16 rows
    found = verdict([], held=held, interval=spread, peers=scores(ridge=1.0, trees=0.99, neighbours=0.96))
    assert found.name == "healthy"
    assert "look for the label among the features" in found.sentence
    doubled = held | {"mse": 2.0}
    assert verdict([], held=doubled, peers=scores(ridge=1.0)).name == "scale or offset only"
