"""Splits: parts that never share a group, keep time, are balanced, and depend on ids and seed alone."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from excora.data.dataset import Dataset
from excora.data.splits import folds, split
from excora.errors import InputError


def make(n, group=None, time=None, ids=None) -> Dataset:
    ids = np.array([f"s{k}" for k in range(n)] if ids is None else ids, object)
    group = None if group is None else np.array([str(g) for g in group], object)
    return Dataset(ids, ("y",), None, group=group, time=None if time is None else np.array(time, float))


def check(data, part) -> None:
    """The laws of every split."""
    everything = np.concatenate(part)
    assert len(set(everything.tolist())) == len(everything)
    for index in part:
        assert (np.diff(index) > 0).all()
        assert len(index) != 1
    if data.group is not None:
        groups = [set(data.group[index]) for index in part]
        assert sum(map(len, groups)) == len(set.union(*groups))
    if data.time is not None:
        keys = data.group if data.group is not None else data.time
        last = np.array([data.time[keys == key].max() for key in keys])
        present = [last[index] for index in part if len(index)]
        for before, after in itertools.pairwise(present):
            assert before.max() <= after.min()
            assert data.group is not None or before.max() < after.min()


def attempt(make_parts, data, **options):
    """The parts, or None if they are refused; with plenty of everything they must not be."""
    try:
        return make_parts(data, **options)
    except InputError:
        kinds = data.ids if data.group is None else data.group
        assert len(set(kinds)) < 12 or data.time is not None
        return None


@given(
    st.integers(1, 60), st.integers(1, 12), st.booleans(), st.booleans(), st.integers(0, 3),
    st.sampled_from([0, 0.1, 0.2, 0.5]), st.sampled_from([0, 0.2, 0.45]),
)  # fmt: skip
def test_the_laws_hold_or_the_split_is_refused(n, kinds, grouped, timed, seed, validation, test):
    generator = np.random.default_rng(seed)
    data = make(
        n,
        generator.geometric(0.3, n) % kinds if grouped else None,
        generator.integers(0, 2 * kinds, n) if timed else None,
    )
    part = attempt(split, data, validation=validation, test=test, seed=seed)
    if part is not None:
        check(data, part)
        assert len(np.concatenate(part)) == n
        assert [len(part.validation) > 0, len(part.test) > 0] == [validation > 0, test > 0]
    found = attempt(folds, data, folds=3, validation=validation, seed=seed)
    if found is not None:
        assert len(found) == 3
        for part in found:
            check(data, part)
        tested = np.concatenate([part.test for part in found])
        assert len(set(tested.tolist())) == len(tested)
        if not timed:
            assert len(tested) == n
            assert all(len(np.concatenate(part)) == n for part in found)


def test_random_splits_have_the_wanted_sizes_and_follow_the_seed():
    data = make(1003)
    part = split(data)
    assert [len(index) for index in part] == [601, 201, 201]
    assert [index.tolist() for index in split(data)] == [index.tolist() for index in part]
    assert split(data, seed=1).test.tolist() != part.test.tolist()
    assert {len(fold.test) for fold in folds(data)} == {200, 201}
    assert {len(fold.validation) for fold in folds(data)} == {160, 161}
    # By chance: neighbours are not kept together.
    assert 80 < np.diff(part.test, prepend=-1).max() * 10 < 400


def test_the_order_of_rows_does_not_matter():
    ids = [f"s{k}" for k in range(50)]
    groups = [k % 7 for k in range(50)]
    order = np.random.default_rng(0).permutation(50)
    for group in (None, groups):
        plain, mixed = (make(50, group, ids=ids), make(50, group and np.array(group)[order], ids=np.array(ids)[order]))
        for one, other in zip(split(plain), split(mixed), strict=True):
            assert set(plain.ids[one]) == set(mixed.ids[other])
        for one, other in zip(folds(plain), folds(mixed), strict=True):
            assert set(plain.ids[one.test]) == set(mixed.ids[other.test])


def test_groups_of_very_different_sizes_are_balanced():
    sizes = [400, 100, 90, 80, 70, 60, 50, 50, 40, 30, 20, 10]
    data = make(sum(sizes), np.repeat(np.arange(len(sizes)), sizes))
    for seed in range(5):
        part = split(data, seed=seed)
        assert abs(len(part.test) - 200) <= 25
        assert abs(len(part.validation) - 200) <= 45
    assert max(len(fold.test) for fold in folds(data, folds=3)) <= 400
    assert folds(data, seed=0)[1].test.tolist() != folds(data, seed=3)[1].test.tolist()


def test_times_and_groups_in_time():
    data = make(10, time=[5, 5, 1, 2, 3, 4, 6, 7, 8, 8])
    assert [index.tolist() for index in split(data)] == [[0, 1, 2, 3, 4, 5], [6, 7], [8, 9]]
    data = make(8, group="aabbccdd", time=[1, 9, 2, 3, 4, 5, 6, 7])  # a lasts longest
    assert [index.tolist() for index in split(data)] == [[2, 3, 4, 5], [6, 7], [0, 1]]
    found = folds(make(60, time=np.arange(60)), folds=5)
    assert [(len(f.train), len(f.validation), f.test[0], len(f.test)) for f in found] == [
        (8, 2, 10, 10), (16, 4, 20, 10), (24, 6, 30, 10), (32, 8, 40, 10), (40, 10, 50, 10),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (make(5), {}, "at least 6 samples, got 5 samples"),
        (make(9, group="aaabbbbbb"), {}, "at least 3 groups and 6 samples, got 2 groups and 9 samples"),
        (make(9, time=[1] * 9), {}, "at least 3 times and 6 samples, got 1 times"),
        (make(9, group="abbbbbbbc"), {}, "needs at least 2 samples, got 1: the 3 groups are too few or too uneven"),
        (make(9), {"test": -0.1}, r"test must be a share in \[0, 1\), got -0.1"),
        (make(9), {"validation": float("nan")}, "validation must be a share"),
        (make(9), {"test": 0.5, "validation": 0.5}, "must leave a share for training"),
    ],
)
def test_too_little_says_how_much_it_takes(data, options, message):
    with pytest.raises(InputError, match=message):
        split(data, **options)


def test_too_little_for_folds():
    with pytest.raises(InputError, match="at least 5 groups and 6 samples, got 3 groups"):
        folds(make(9, group="abcabcabc"))
    with pytest.raises(InputError, match="at least 7 times"):
        folds(make(12, time=np.arange(12) // 2))
    with pytest.raises(InputError, match="folds must be at least 2"):
        folds(make(9), folds=1)
    with pytest.raises(InputError, match="validation must be a share"):
        folds(make(9), validation=1)
    assert all(len(fold.validation) == 0 for fold in folds(make(9), folds=3, validation=0))


# The file's own split.


def given_parts(words: str, **more) -> Dataset:
    names = {"t": "train", "v": "validation", "s": "test"}
    return replace(make(len(words), **more), part=np.array([names[letter] for letter in words], object))


def test_the_file_says_what_is_train_validation_and_test():
    data = given_parts("sttvtvs")
    assert [part.tolist() for part in split(data, seed=4)] == [[1, 2, 4], [3, 5], [0, 6]]
    assert [part.tolist() for part in split(data, validation=0)] == [[1, 2, 3, 4, 5], [], [0, 6]]
    assert [part.tolist() for part in split(data, test=0)] == [[1, 2, 4], [3, 5], []]
    assert data.take(np.array([3, 0])).part.tolist() == ["validation", "test"]
    assert data.fingerprint() != replace(data, part=None).fingerprint()


def test_a_validation_part_that_the_file_lacks_is_taken_from_training():
    data = given_parts("tttttttttss", group=[0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3])
    found = split(data, validation=0.3)
    check(data, found)
    assert found.test.tolist() == [9, 10]
    assert len(found.validation) == 3
    with pytest.raises(InputError, match="own test part needs at least 2"):
        split(given_parts("tttvvs"))


def test_too_few_samples_are_counted_once_and_groups_beside_them():
    with pytest.raises(InputError, match=r"takes at least 6 samples, got 3 samples: give"):
        split(make(3), validation=0.2, test=0.2)
    with pytest.raises(InputError, match=r"at least 10 samples, got 4 samples: give"):
        folds(make(4), folds=10)
    with pytest.raises(InputError, match=r"3 groups and 6 samples, got 2 groups and 8 samples"):
        split(make(8, group="aaaabbbb"), validation=0.2, test=0.2)
