"""Which samples share a step: slices, pieces, and batches that depend on seed and epoch alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from excora.training.batches import Rows, Steps, cut, in_order, largest, shuffled
from training.samples import prepared


@given(st.integers(2, 60), st.integers(2, 12), st.integers(1, 4), st.integers(0, 3))
def test_every_sample_is_in_one_slice_of_one_batch(n, size, world, epoch):
    index = np.arange(100, 100 + n)
    batches = shuffled(index, size, seed=7, epoch=epoch)
    assert sorted(np.concatenate(batches).tolist()) == index.tolist()
    assert [len(batch) for batch in batches[:-1]] == [size] * (len(batches) - 1)
    assert 2 <= len(batches[-1]) <= size + 1
    ranks = [list(Steps(lambda: batches, lambda part: [part], rank=rank, world=world)) for rank in range(world)]
    for slices, batch in zip(zip(*ranks, strict=True), batches, strict=True):
        assert np.concatenate([piece for (piece,) in slices]).tolist() == batch.tolist()


def test_batches_depend_on_seed_and_epoch_alone():
    index = np.arange(50)

    def order(seed, epoch):
        return np.concatenate(shuffled(index, 8, seed=seed, epoch=epoch)).tolist()

    assert order(0, 1) == order(0, 1)
    assert order(0, 1) != order(0, 2)
    assert order(0, 1) != order(1, 1)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.integers(1, 60), st.integers(1, 6))
def test_pieces_hold_every_sample_once_within_the_bounds(sizes, limit, pieces):
    sizes, index = np.array(sizes), np.arange(len(sizes))
    for found, most in (
        (in_order(index, sizes, max_elements=limit, most=5), 5),
        (cut(index, sizes, pieces=pieces, max_elements=limit), -(-len(sizes) // pieces)),
    ):
        assert sorted(np.concatenate(found).tolist()) == index.tolist()
        for piece in found:
            assert 1 <= len(piece) <= most
            assert len(piece) == 1 or sizes[piece].sum() <= limit
    assert largest(index, sizes, 3) == np.sort(sizes)[-4:].sum()


def test_cutting_groups_similar_sizes():
    pieces = cut(np.arange(6), np.array([9, 1, 8, 2, 9, 1]), pieces=2, max_elements=100)
    assert [piece.tolist() for piece in pieces] == [[1, 5, 3], [2, 0, 4]]


def test_an_empty_slice_reads_as_an_empty_batch():
    data = prepared()
    batch = Rows(data.features, data.target, None).read(np.empty(0, np.intp))
    assert len(batch) == 0
    assert batch.target.shape == (0, 1)
