"""TabM: columns without spread, and the epochs that the validation part finds."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from excora.errors import MissingExtraError
from excora.peers import peers
from excora.peers.tabm import DEFAULTS
from peers.samples import parts

SMALL = DEFAULTS | {"d_block": 16, "k": 2, "most": 4, "lr": 1e-2}


def test_constant_columns_are_left_out_and_columns_of_two_values_taken():
    train, validation, test = parts()
    train.x[:, 0] = 3.0
    train.x[:, 1] = train.x[:, 1] > 1
    fitted = peers["tabm"].fit(train, SMALL, validation=validation)
    other = test.copy()
    other[:, 0] = -100.0
    np.testing.assert_array_equal(fitted.predict(test), fitted.predict(other))
    assert np.ptp(fitted.predict(test)) > 0
    train.x[:] = 1.0
    np.testing.assert_allclose(peers["tabm"].fit(train, SMALL).predict(test), np.tile(train.y.mean(0), (60, 1)))


def test_the_epochs_that_validation_finds_give_the_same_network_again():
    train, validation, test = parts()
    worse = iter([3.0, 1.0, 2.0, 2.0])
    found = peers["tabm"].fit(train, SMALL, validation=validation, measure=lambda *_: next(worse))
    assert found.parameters["epochs"] == 2
    np.testing.assert_allclose(peers["tabm"].fit(train, found.parameters).predict(test), found.predict(test), rtol=1e-5)


def test_it_leaves_the_random_state_alone():
    import torch

    before = torch.random.get_rng_state()
    peers["tabm"].fit(parts()[0], SMALL | {"epochs": 1})
    assert torch.equal(torch.random.get_rng_state(), before)


def test_missing_it_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tabm", None)
    with pytest.raises(MissingExtraError, match=r"excora\[compare\]"):
        peers["tabm"].check()
