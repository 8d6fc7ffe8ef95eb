"""The parts of inside.json: what is there is typed, what an older file lacks has a default."""

from __future__ import annotations

import pytest

from excora.errors import InputError
from excora.report.checking import build
from excora.report.insides import Inside


def test_a_file_becomes_a_record_and_an_older_one_lacks_parts():
    spectrum = {"of": "pool", "kind": "elements", "directions": 2, "most": 4, "shares": [0.5, 0.5], "reading": "few"}
    found = build(
        Inside, {"samples": 9, "pools": [{"pool": "pool", "gain": 2.0}], "spectra": [spectrum]}, "inside.json"
    )
    assert found.pools[0].gain == 2.0
    assert found.spectra[0].shares == [0.5, 0.5]
    assert found.spectra[0].mean_cosine is None
    assert found.layers == []
    assert build(Inside, {"samples": 9, "pools": []}, "inside.json").spectra == []


def test_what_is_no_number_is_refused():
    broken = {"of": "pool", "kind": "elements", "directions": 2, "most": 4, "shares": ["x"], "reading": "few"}
    with pytest.raises(InputError, match=r"inside.json: spectra\[0\].shares\[0\] must be a finite number"):
        build(Inside, {"samples": 9, "pools": [], "spectra": [broken]}, "inside.json")
