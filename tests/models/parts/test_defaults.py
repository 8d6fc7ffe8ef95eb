"""Defaults that follow the number of training rows."""

from __future__ import annotations

from excora.models.parts.defaults import batches, epochs


def test_batches_are_powers_of_two_within_bounds():
    assert [batches(32)(rows) for rows in (0, 1, 1024, 1500, 4096, 10**7)] == [32, 32, 32, 64, 128, 256]
    assert str(batches(64)) == "rows / 32 from 64 to 256"


def test_epochs_make_the_steps_within_bounds():
    assert [epochs(32, 800, 60)(rows) for rows in (1, 1000, 2000, 10**7)] == [60, 25, 25, 15]
    assert str(epochs(64, 2000, 100)) == "15 to 100 for 2000 steps"
