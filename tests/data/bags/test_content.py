"""Bags as content: some of them, their mark, and a batch of them."""

from __future__ import annotations

import hashlib

import numpy as np
import torch

from data.bags.made import BAGS
from excora.data.bags import ArrayBags, BagFeatures, BagSet, BagSpec
from excora.data.bags.statistics import ElementStatistics


def whole() -> BagSet:
    return BagSet(ArrayBags(np.concatenate(BAGS), [len(bag) for bag in BAGS]), ("a", "b", "c"))


def test_some_of_the_bags():
    taken = whole().take(np.array([3, 0, 3]))
    assert (len(taken), taken.kind, taken.names) == (3, "bags", ("a", "b", "c"))
    np.testing.assert_array_equal(taken.bags.read(2), BAGS[3])
    assert BagSpec(targets=1, width=3).kind == "bags"


def test_the_mark_knows_sizes_and_width():
    def mark(width: int, lengths: list[int]) -> str:
        found = hashlib.sha256()
        BagSet(ArrayBags(np.zeros((sum(lengths), width)), lengths)).mark(found)
        return found.hexdigest()

    assert len({mark(2, [1, 2]), mark(2, [2, 1]), mark(3, [1, 2]), mark(2, [1, 2, 1]), mark(2, [1, 2])}) == 4


def test_a_batch_is_a_tensor_or_ragged():
    bags = whole().bags
    features = BagFeatures(bags, ElementStatistics.learn(bags, np.arange(len(BAGS))))
    ragged, plain = features.read(np.array([2, 0]))["elements"], features.read(np.array([3, 7]))["elements"]
    assert (ragged.lengths.tolist(), plain.shape) == ([3, 1], torch.Size([2, 4, 3]))
    one = features.read(np.array([7]))["elements"]
    torch.testing.assert_close(one[0], plain[1], rtol=0, atol=0)
    assert features.sizes.tolist() == [len(bag) for bag in BAGS]
