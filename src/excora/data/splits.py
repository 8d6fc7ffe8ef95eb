"""Training, validation and test parts: whole groups, later samples last, the same for the same ids and seed."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from excora.data.dataset import Dataset, Index
from excora.errors import InputError

Chosen = NDArray[np.bool_]
"""(units,) which units a part has."""

#: Samples without which a part has no correlation.
FEWEST = 2


class Split(NamedTuple):
    """Positions of the samples of each part, ascending; no sample is in two parts."""

    train: Index
    validation: Index
    test: Index


class Units(NamedTuple):
    """What a split deals out whole: samples, groups, or the samples of one time; numbered in the order of dealing."""

    noun: str
    unit: Index  #: (n,) the unit of each sample
    sizes: Index  #: (units,) samples of each
    ordered: bool  #: in time; otherwise by chance

    def samples(self, chosen: Chosen) -> Index:
        """Positions of the samples of the chosen units."""
        return np.flatnonzero(chosen[self.unit])


def split(dataset: Dataset, *, validation: float = 0.2, test: float = 0.2, seed: int = 0) -> Split:
    """Three parts with about these shares of the samples; a share of 0 gives an empty part.

    Samples are dealt out by chance, which depends on the seed and the set of ids alone, not on the order of rows.
    With groups, whole groups are, by chance too, filling a part as near to its share as they fit. With times nothing
    is left to chance: the latest samples are the test part and the latest of the rest the validation part; samples of
    one time stay together, and with groups as well, whole groups stand in the order of their last time. Where the file
    itself says what is train, validation and test, that is the split; a share of 0 for validation gives it to training,
    one for the test part leaves it out, and a validation part that the file lacks is taken from its training part.

    >>> data = Dataset(np.array(list("abcdefghij"), object), ("y",), None, time=np.arange(10.0))
    >>> [part.tolist() for part in split(data)]
    [[0, 1, 2, 3, 4, 5], [6, 7], [8, 9]]

    Too few samples, groups or times for parts of two samples each are an InputError that says how many it takes.
    """
    for name, share in (("validation", validation), ("test", test)):
        if not 0 <= share < 1:
            raise InputError(f"{name} must be a share in [0, 1), got {share}")
    if validation + test >= 1:
        raise InputError(f"validation and test must leave a share for training, got {validation} + {test}")
    if dataset.part is not None:
        return _given(dataset, dataset.part, validation, test=test > 0, seed=seed)
    units = _units(dataset, seed)
    parts = 1 + bool(validation) + bool(test)
    _refuse_few(units, parts * (FEWEST if units.noun == "samples" else 1), parts)
    everything = np.ones(len(units.sizes), bool)
    held = _cut(units, everything, test, len(dataset), 1 + bool(validation))
    tuned = _cut(units, ~held, validation, len(dataset), 1)
    return _part(units, held, tuned, ~held & ~tuned)


def folds(dataset: Dataset, *, folds: int = 5, validation: float = 0.2, seed: int = 0) -> list[Split]:
    """One split a fold; ``validation`` is the share of what is not in its test part.

    Without times every sample is in one test part, and these are of about one size, groups whole. With times the
    samples are cut into ``folds`` + 1 stretches: each but the first is a test part once, and only earlier ones are
    used with it.

    >>> data = Dataset(np.array(list("abcdefghij"), object), ("y",), None)
    >>> sorted(np.concatenate([fold.test for fold in folds(data)]).tolist())
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]

    Too few samples, groups or times are an InputError.
    """
    if folds < 2:
        raise InputError(f"folds must be at least 2, got {folds}")
    if not 0 <= validation < 1:
        raise InputError(f"validation must be a share in [0, 1), got {validation}")
    units = _units(dataset, seed)
    parts = 1 + bool(validation)
    _refuse_few(units, folds + parts if units.ordered else max(folds, parts + 1), parts + 1)
    found = []
    for test, rest in _stretches(units, folds, parts) if units.ordered else _deals(units, folds):
        tuned = _cut(units, rest, validation, int(units.sizes[rest].sum()), 1)
        found.append(_part(units, test, tuned, rest & ~tuned))
    return found


def _units(dataset: Dataset, seed: int) -> Units:
    labels: NDArray[Any]
    if dataset.group is not None:
        noun, labels = "groups", dataset.group.astype(str)
    elif dataset.time is not None:
        noun, labels = "times", dataset.time
    else:
        noun, labels = "samples", dataset.ids.astype(str)
    names, unit, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    if dataset.time is None:
        order = np.random.default_rng(seed).permutation(len(names))
    else:
        last = np.full(len(names), -np.inf)
        np.maximum.at(last, unit, dataset.time)
        order = np.argsort(last, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return Units(noun, place[unit], sizes[order], dataset.time is not None)


def _cut(units: Units, among: Chosen, share: float, of: int, spare: int) -> Chosen:
    """Units of about ``share * of`` samples, the last ones in time; ``spare`` units at least are left."""
    taken = np.zeros_like(among)
    places = np.flatnonzero(among)
    wanted, most, sizes = max(FEWEST, round(of * share)), len(places) - spare, units.sizes[places]
    if not share or most < 1:
        return taken
    if units.ordered:
        count = int(np.abs(sizes[::-1].cumsum()[:most] - wanted).argmin()) + 1
        taken[places[-count:]] = True
        return taken
    # In the order of dealing, what still fits; then the smallest unit left, if that brings the total nearer.
    total = number = 0
    for place, size in zip(places, sizes, strict=True):
        if total == wanted or number == most:
            break
        if total + size <= wanted:
            taken[place], total, number = True, total + size, number + 1
    left = places[~taken[places]]
    smallest = left[units.sizes[left].argmin()]
    over = total + units.sizes[smallest] - wanted
    taken[smallest] = number < most and (total < FEWEST or over < wanted - total)
    return taken


def _deals(units: Units, folds: int) -> list[tuple[Chosen, Chosen]]:
    """Units to folds, the largest first, each to the fold that has least so far."""
    # Classes a factor of 2 wide: by their exact sizes nothing would be left to chance.
    order = np.argsort(-np.floor(np.log2(units.sizes)), kind="stable")
    load, fold = [0] * folds, np.empty(len(order), np.intp)
    for place in order:
        fold[place] = lightest = load.index(min(load))
        load[lightest] += int(units.sizes[place])
    return [(fold == k, fold != k) for k in range(folds)]


def _stretches(units: Units, folds: int, before: int) -> list[tuple[Chosen, Chosen]]:
    """Consecutive stretches of about equal size; the first holds ``before`` units at least, the others one."""
    reached, number = units.sizes.cumsum(), np.arange(len(units.sizes))
    edges: list[int] = []
    for k in range(1, folds + 1):
        nearest = int(np.abs(reached - reached[-1] * k / (folds + 1)).argmin()) + 1
        least = edges[-1] + 1 if edges else before
        edges.append(min(max(nearest, least), len(reached) - (folds + 1 - k)))
    edges.append(len(reached))
    return [((start <= number) & (number < stop), number < start) for start, stop in itertools.pairwise(edges)]


def _given(dataset: Dataset, part: NDArray[np.object_], validation: float, *, test: bool, seed: int) -> Split:
    """The file's own split; a validation part that it lacks is taken from its training part."""
    train, held, last = (np.flatnonzero(part == name) for name in ("train", "validation", "test"))
    if not validation:
        train, held = np.sort(np.concatenate([train, held])), held[:0]
    elif not len(held):
        inner = split(replace(dataset.take(train), part=None), validation=validation, test=0.0, seed=seed)
        train, held = train[inner.train], train[inner.validation]
    found = Split(train, held, last if test else last[:0])
    for name, index, asked in zip(found._fields, found, (True, validation > 0, test), strict=True):
        if asked and len(index) < FEWEST:
            raise InputError(f"the file's own {name} part needs at least {FEWEST} samples, got {len(index)}: add some")
    return found


def _refuse_few(units: Units, need: int, parts: int) -> None:
    if len(units.sizes) < need or len(units.unit) < parts * FEWEST:
        least, found = f"{parts * FEWEST} samples", f"{len(units.unit)} samples"
        if units.noun == "samples":
            least = f"{max(need, parts * FEWEST)} samples"
        else:
            least, found = f"{need} {units.noun} and {least}", f"{len(units.sizes)} {units.noun} and {found}"
        raise InputError(f"this split takes at least {least}, got {found}: give more data, or ask for fewer parts")


def _part(units: Units, test: Chosen, validation: Chosen, train: Chosen) -> Split:
    found = Split(units.samples(train), units.samples(validation), units.samples(test))
    for name, index in found._asdict().items():
        if len(index) < FEWEST and (len(index) or name == "train"):
            raise InputError(
                f"the {name} part needs at least {FEWEST} samples, got {len(index)}: the {len(units.sizes)} "
                f"{units.noun} are too few or too uneven for this split"
            )
    return found
