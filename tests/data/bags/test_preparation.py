"""The preparation of bags: against plain numpy, and what does not fit is refused."""

from __future__ import annotations

import numpy as np
import pytest

from data.bags.made import dataset, labelled, random_bags
from data.made import frame, table
from excora.data.bags import ArrayBags, BagSet, BagSpec
from excora.data.dataset import Dataset
from excora.data.preparation import Preparation
from excora.data.splits import split
from excora.errors import InputError


def test_bags_against_plain_numpy():
    bags, plain = random_bags(shift=1000)
    data = Dataset(np.arange(50).astype(str).astype(object), ("y",), np.arange(50.0)[:, None], content=BagSet(bags))
    index = np.arange(0, 50, 2)
    prepared = Preparation.fit(data, index)
    seen = np.concatenate([plain[k] for k in index])
    np.testing.assert_allclose(prepared.content.statistics.mean, seen.mean(0), rtol=1e-12)
    np.testing.assert_allclose(prepared.content.statistics.std[:3], seen.std(0)[:3], rtol=1e-9)
    assert prepared.content.statistics.std[3] == 1
    assert prepared.notes == ("1 of 4 features never change in training",)
    assert prepared.spec == BagSpec(targets=1, width=4)
    batch = prepared.features(data).read(np.array([3, 1]))
    wanted = (np.concatenate([plain[3], plain[1]]) - seen.mean(0)) / prepared.content.statistics.std
    np.testing.assert_allclose(
        batch["elements"].values, wanted, atol=2e-3
    )  # float32 at a distance of 10,000 deviations
    scaled = [(bag - seen.mean(0)) / prepared.content.statistics.std for bag in plain]
    rows = [np.concatenate([b.mean(0), b.std(0), b.min(0), b.max(0), [np.log(len(b))]]) for b in scaled]
    np.testing.assert_allclose(prepared.matrix(data), rows, atol=1e-9)
    assert len(prepared.matrix_names) == 17
    same = np.array([np.flatnonzero(bags.lengths == bags.lengths[0])[0]] * 2)
    assert prepared.features(data).read(same)["elements"].shape == (2, bags.lengths[same[0]], 4)


def test_bags_of_all_sizes_are_split_and_prepared(folder):
    data = labelled(folder)
    parts = split(data)
    prepared = Preparation.fit(data, parts.train)
    batch = prepared.features(data).read(parts.train)
    everything = np.concatenate([data.content.bags.read(k) for k in parts.train]).astype(float)
    wanted = (everything - everything.mean(0)) / everything.std(0)
    np.testing.assert_allclose(batch["elements"].values.numpy(), wanted, atol=2e-6)
    assert prepared.features(data).sizes.tolist() == data.content.bags.lengths.tolist()


def test_outside_means_half_the_range_beyond_for_an_element():
    prepared = Preparation.fit(dataset(ArrayBags(np.array([[0.0, 0], [10, 1]]), [1, 1])), np.arange(2))
    new = dataset(ArrayBags(np.array([[15.0, 0], [15.1, 2], [-5.1, 9]]), [1, 2]))
    assert prepared.examine(new).outside.tolist() == [0, 2]
    assert prepared.examine(new, np.array([1])).outside.tolist() == [2]


def test_tables_and_other_bags_do_not_fit():
    prepared = Preparation.fit(dataset(random_bags()[0]), np.arange(30))
    with pytest.raises(InputError, match="training had bags, and these data are a table; name the column of the bags"):
        prepared.features(table(frame()))
    with pytest.raises(InputError, match="had 4 features in training and have 2 now"):
        prepared.features(dataset(ArrayBags(np.ones((50, 2)), np.ones(50, int))))
    lengths = np.ones(51, int)
    lengths[7] = 0
    with pytest.raises(InputError, match="bag '7' is empty"):
        prepared.features(dataset(ArrayBags(np.ones((50, 4)), lengths)))
    assert prepared.element_names is None
