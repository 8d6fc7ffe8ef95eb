"""LightGBM: silent, repeatable, and missing where it is not installed."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from excora.errors import MissingExtraError
from excora.peers import peers, tuned
from peers.samples import parts


def test_it_is_silent_and_repeats_itself(capfd):
    train, validation, test = parts(n=8, targets=2)  # fewer than a leaf of the larger trees may hold
    train.x[:, 0] = 1.0
    first, second = (tuned(peers["lightgbm"], train, validation, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first.predict(test), second.predict(test))
    assert capfd.readouterr() == ("", "")


def test_it_stops_by_the_measure_that_it_is_given():
    train, validation, _ = parts()
    given = peers["lightgbm"].candidates[0]
    low, high = (lambda raw, *_: float(raw.mean())), (lambda raw, *_: -float(raw.mean()))
    first, second = (peers["lightgbm"].fit(train, given, validation=validation, measure=one) for one in (low, high))
    assert first.parameters["rounds"] != second.parameters["rounds"]


def test_missing_it_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(MissingExtraError, match=r"excora\[compare\]"):
        peers["lightgbm"].check()
    train, validation, _ = parts()
    with pytest.raises(MissingExtraError, match=r"excora\[compare\]"):
        tuned(peers["lightgbm"], train, validation)
