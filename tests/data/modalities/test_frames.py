"""Real steps: lengths given and found, either side of padding, repairs with their count, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from excora.data.modalities.frames import real_frames
from excora.errors import InputError


def padded(lengths, steps, side, width=2, seed=0):
    generator = np.random.default_rng(seed)
    rows = [generator.normal(size=(n, width)).astype(np.float32) + 5 for n in lengths]
    values = np.zeros((len(rows), steps, width), np.float32)
    for k, row in enumerate(rows):
        values[(k, slice(steps - len(row), steps)) if side == "left" else (k, slice(0, len(row)))] = row
    return values, rows


@given(st.lists(st.integers(1, 6), min_size=1, max_size=8), st.sampled_from(["left", "right"]), st.booleans())
def test_real_steps_are_found_on_either_side_with_and_without_lengths(lengths, side, given_lengths):
    values, rows = padded(lengths, 6, side)
    found = real_frames("audio", values, np.array(lengths) if given_lengths else None, range(len(lengths)))
    assert found.lengths.tolist() == lengths
    assert found.notes == ()
    assert found.frames.padding == ("none" if min(lengths) == 6 else side)
    for k, row in enumerate(rows):
        np.testing.assert_array_equal(found.frames.bags.read(k), row)


def test_what_is_not_finite_becomes_zero_and_is_counted():
    values, _ = padded([3, 3], 3, "right")
    values[0, 0, 0], values[0, 1, 1], values[1, 2, 0] = -np.inf, np.nan, np.inf
    found = real_frames("audio", values, None, "ab")
    assert found.notes == ("audio: 1 NaN and 1 -inf and 1 inf read as 0, as the published loaders do with -inf",)
    assert found.frames.bags.read(0)[0, 0] == 0
    values[:] = np.nan
    with pytest.raises(InputError, match="100% of the values are not finite: leave it out with drop=audio"):
        real_frames("audio", values, None, "ab")


def test_lengths_beyond_the_array_are_cut_and_counted():
    values, _ = padded([3, 2], 3, "right")
    found = real_frames("vision", values, np.array([9, 2]), "ab")
    assert found.lengths.tolist() == [3, 2]
    assert found.notes == ("vision: 1 clip of a length beyond the 3 steps of the file: cut to 3",)


def test_features_beyond_the_length_are_ignored_and_counted():
    values, rows = padded([3, 2], 4, "right")
    found = real_frames("vision", values, np.array([2, 2]), "ab")
    assert found.notes == ("vision: 1 clip with features beyond the length that the file gives: these are ignored",)
    np.testing.assert_array_equal(found.frames.bags.read(0), rows[0][:2])


def test_a_clip_without_a_step_has_one_of_zeros():
    values, _ = padded([2, 1], 2, "right")
    values[1] = 0
    for lengths in (None, np.array([2, 0])):
        found = real_frames("audio", values, lengths, "ab")
        assert found.lengths.tolist() == [2, 1]
        assert found.frames.bags.read(1).tolist() == [[0.0, 0.0]]
        assert found.notes == ("audio: 1 clip without any step: one step of zeros stands for it",)


def test_one_vector_a_clip_is_one_step():
    found = real_frames("audio", np.ones((3, 5)), None, "abc")
    assert (found.frames.longest, found.frames.bags.width, found.lengths.tolist()) == (1, 5, [1, 1, 1])


@pytest.mark.parametrize("lengths", [[-1, 2], [1.5, 2], [np.nan, 1]])
def test_lengths_that_are_none_are_refused(lengths):
    values, _ = padded([2, 2], 2, "right")
    with pytest.raises(InputError, match="the lengths of audio must be one whole number a clip"):
        real_frames("audio", values, np.array(lengths), "ab")


@pytest.mark.parametrize("values", [np.zeros(3), np.zeros((3, 0, 2)), np.array([["a"]]), np.zeros((1, 2, 3, 4))])
def test_what_cannot_be_steps_is_refused(values):
    with pytest.raises(InputError, match="audio must hold numbers of shape"):
        real_frames("audio", values, None, "abc")
