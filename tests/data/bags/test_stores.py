"""Where elements lie: one by one or some at a time, views, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from data.bags.made import BAGS, N, labelled
from excora.data.bags import ArrayBags, ChosenBags, PickedBags
from excora.data.preparation import Preparation
from excora.errors import InputError


def test_numbers_too_large_for_float32_are_refused():
    with pytest.raises(InputError, match="element 0, feature 0 is 1e"):
        ArrayBags(np.array([[1e300]]), [1]).read(0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_some_bags_at_once_are_the_bags_one_by_one(folder, dtype):
    lengths, index = [len(bag) for bag in BAGS], np.array([5, 0, 5, 11])
    arrays = ArrayBags((10 * np.concatenate(BAGS)).astype(dtype), lengths)
    kinds = [arrays, PickedBags(arrays, [2, 0]), labelled(folder).content.bags, ChosenBags(arrays, np.arange(N)[::-1]),
             ChosenBags(ChosenBags(arrays, np.arange(N)[::-1]), np.arange(N))]  # fmt: skip
    for bags in kinds:
        found = bags.gather(index)
        assert found.dtype == np.float32
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, np.concatenate([bags.read(k) for k in index]))
        found[:] = 0  # a copy
        assert bags.gather(index).any()
    broken = np.concatenate(BAGS).astype(np.float64)
    broken[lengths[0], 1] = 1e300
    with pytest.raises(InputError, match=r"bag '1': element 0, feature 1 is 1e\+300"):
        ArrayBags(broken, lengths).gather(np.array([3, 1]))


def test_workers_read_what_one_process_reads(folder):
    data = labelled(folder)
    features = Preparation.fit(data, np.arange(N)).features(data)

    class Samples(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return N

        def __getitem__(self, place: int) -> torch.Tensor:
            return features.read(np.array([place]))["elements"][0]

    loader = torch.utils.data.DataLoader(Samples(), batch_size=None, num_workers=2, multiprocessing_context="fork")
    for k, bag in enumerate(loader):
        torch.testing.assert_close(bag, features.read(np.array([k]))["elements"][0], rtol=0, atol=0)


def test_a_choice_of_a_choice():
    bags = ChosenBags(ChosenBags(ArrayBags(np.arange(6.0)[:, None], [1, 2, 3]), np.array([2, 0])), np.array([1, 0, 1]))
    assert (bags.lengths.tolist(), bags.width) == ([1, 3, 1], 1)
    assert bags.gather(np.array([0, 1])).tolist() == [[0], [3], [4], [5]]
