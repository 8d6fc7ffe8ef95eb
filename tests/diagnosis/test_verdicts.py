"""The rules of the verdicts."""

from __future__ import annotations

import json

import pytest

from diagnosis.samples import records
from excora.diagnosis.verdicts import TEXTS, Evidence, make_verdict, verdict
from excora.errors import InputError


@pytest.mark.parametrize(
    ("last", "name"),
    [
        ({}, "optimisation-limited"),
        ({"achievable_used": 0.97}, "capacity-limited"),
        ({"achievable_used": 0.97, "achievable_ceiling": 0.999}, "optimisation-limited"),
        ({"attention_spread": 0.98}, "attention collapsed"),
        ({"effective_elements": 1.05, "attention_spread": 0.01}, "attention saturated"),
        ({"probe_gain": 0.0}, "noise-limited"),
        ({"probe_gain": 0.0, "attention_spread": 1.0}, "noise-limited"),
        ({"probe_gain": 0.0, "pcc": 0.97}, "healthy"),
        ({"probe_gain": 0.0, "mse_offset": 0.6}, "scale or offset only"),
        ({"probe_gain": None}, "cannot tell"),
        ({"probe_gain": None, "mse_offset": 0.6}, "scale or offset only"),
        ({"pcc": None}, "cannot tell"),
    ],
)
def test_verdict_rules(last, name) -> None:
    found = verdict(records(**last))
    assert found.name == name
    assert found.advice == TEXTS[name][1]
    assert name in str(found)
    assert json.loads(json.dumps(found.to_dict()))["name"] == name


def test_verdicts_on_moving_series_noise_ceilings_and_constant_ends() -> None:
    rising = [{"pcc": 0.01 * t, "mse": 1.0} for t in range(40)]
    assert verdict(rising).name == "still improving"
    assert "falling" in verdict(rising[::-1]).sentence
    assert verdict(rising[:5]).name == "cannot tell"
    assert verdict(records(), noise_ceiling=0.71).name == "noise-limited"
    assert verdict(records(), noise_ceiling=0.9).name == "optimisation-limited"
    assert "constant" in verdict([*records(), {"pcc": None, "mse": 1.0}]).sentence
    with pytest.raises(InputError, match="noise_ceiling"):
        verdict(records(), noise_ceiling=1.2)
    shown = str(make_verdict("healthy", {"x": Evidence(None, "> 0", False)}))
    assert "x = unknown (> 0: no)" in shown
