"""From a data set to a network: what is learned from the training part alone, and what is refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import samples_data
import torch

from excora.data.preparation import Preparation
from excora.errors import InputError
from excora.settings import Settings
from excora.training.building import build

TRAIN = np.arange(50)


def test_samples_beyond_the_training_part_change_nothing():
    data = samples_data.table()
    setup = Settings("ft-transformer", embeddings="piecewise", dim=8).settled("table", 50)
    target, frame = data.target.copy(), data.content.frame.copy()
    target[50:] += 100
    frame.loc[50:, "a"] *= 1e3
    other = dataclasses.replace(data, target=target, content=dataclasses.replace(data.content, frame=frame))
    first, second = (build(dataset, TRAIN, setup) for dataset in (data, other))
    assert first.preparation == second.preparation
    for name, tensor in first.network.state_dict().items():
        assert torch.equal(tensor, second.network.state_dict()[name]), name
    np.testing.assert_array_equal(first.target[:50], second.target[:50])


def test_the_target_is_standardised_and_unknown_labels_stay_unknown():
    data = samples_data.bags(targets=2)
    data.target[3, 1] = np.nan
    built = build(data, TRAIN, Settings("pool").settled("bags", 50))
    assert np.isnan(built.target[3]).tolist() == [False, True]
    np.testing.assert_allclose(np.nanmean(built.target[:50], 0), 0, atol=1e-6)
    np.testing.assert_allclose(np.nanstd(built.target[:50], 0), 1, atol=1e-6)


def test_the_model_says_how_its_numbers_are_scaled():
    data = samples_data.table()
    built = build(data, TRAIN, Settings("pool", scaling="quantile").settled("table", 50))
    assert built.preparation == Preparation.fit(data, TRAIN, scaling="quantile")
    with pytest.raises(InputError, match="scaling of bags is standard, got 'quantile'"):
        build(samples_data.bags(), TRAIN, Settings("pool", scaling="quantile").settled("bags", 50))


def test_a_preparation_that_is_known_is_kept():
    data = samples_data.table()
    known = Preparation.fit(data, np.arange(20))
    assert build(data, TRAIN, Settings("pool").settled("table", 50), preparation=known).preparation is known


def test_copies_of_samples_do_not_see_their_originals():
    data = samples_data.table(20)
    origin = np.tile(np.arange(20), 2)
    built = build(
        data.take(origin), np.arange(20), Settings("retrieval", metric="plain").settled("table", 20), origin=origin
    )
    inputs = built.features.read(np.arange(40))
    assert not (inputs["allowed"] & (inputs["neighbours"] == torch.from_numpy(origin)[:, None])).any()
    assert torch.equal(inputs["neighbours"][:20], inputs["neighbours"][20:])


def test_what_cannot_be_trained_on_is_named():
    data = samples_data.bags()
    with pytest.raises(InputError, match="training needs labelled samples"):
        build(data.without_target(), TRAIN, Settings("pool").settled("bags", 50))
    with pytest.raises(InputError, match="model 'retrieval' reads table, and these are bags"):
        build(data, TRAIN, Settings("retrieval").settled("table", 50))
    with pytest.raises(InputError, match="heads must divide dim"):
        build(samples_data.table(), TRAIN, Settings("pool", dim=6).settled("table", 50))
