"""Clips that change places in one modality."""

from __future__ import annotations

import numpy as np
import pytest
import samples_data
import torch

from excora.data.preparation import Preparation
from excora.diagnosis.modality_use import SWAPS, Swapped, modality_use
from excora.errors import InputError

DATA = samples_data.modalities(30)
FEATURES = Preparation.fit(DATA, np.arange(20)).features(DATA)
INDEX = np.arange(5, 25)


def audio_mean(features, index):
    inputs = features.read(index)
    return (inputs["audio"].sum(1)[:, :1] / inputs["audio_length"].unsqueeze(1)).double().numpy()


def test_one_modality_comes_from_the_donor_and_the_rest_from_the_clip():
    donor = np.roll(np.arange(30), 7)
    found, own, theirs = Swapped(FEATURES, "audio", donor).read(INDEX), FEATURES.read(INDEX), FEATURES.read(INDEX - 7)
    for name in own:
        assert torch.equal(found[name], (theirs if name.startswith("audio") else own)[name])


def test_only_the_modality_that_is_read_moves_predictions():
    target = audio_mean(FEATURES, INDEX)
    pcc, uses = modality_use(audio_mean, FEATURES, INDEX, ("text", "audio"), target)
    assert pcc == pytest.approx(1.0)
    text, audio = uses
    assert (text.name, audio.name) == ("text", "audio")
    assert not text.moved.any()
    assert text.pcc == pytest.approx(1.0)
    assert (audio.moved > 0).all()
    assert abs(audio.pcc) < 0.4


def test_moved_is_the_root_mean_square_over_swaps():
    target, circle = audio_mean(FEATURES, INDEX), np.random.default_rng(3).permutation(INDEX)
    _, (audio,) = modality_use(audio_mean, FEATURES, INDEX, ("audio",), target, seed=3)
    for k, clip in enumerate(INDEX):
        place = int(np.flatnonzero(circle == clip)[0])
        donors = np.array([circle[place - step] for step in range(1, SWAPS + 1)])
        assert clip not in donors
        away = audio_mean(FEATURES, donors) - target[k]
        assert audio.moved[k] == pytest.approx(np.sqrt(np.mean(away**2)))


def test_two_clips_have_one_swap_and_one_has_none():
    target = audio_mean(FEATURES, INDEX[:2])
    _, (audio,) = modality_use(audio_mean, FEATURES, INDEX[:2], ("audio",), target)
    np.testing.assert_allclose(audio.moved, abs(target[0, 0] - target[1, 0]))
    with pytest.raises(InputError, match="two clips or more"):
        modality_use(audio_mean, FEATURES, INDEX[:1], ("audio",), target[:1])
