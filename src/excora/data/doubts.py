"""What would make a score too good to be true: columns that give a label away, and copies of rows across the parts.

Columns are judged by the training part alone. What is as good as certain is a warning; a column that is merely very
good is a question, as an honest predictor may be.
"""

from __future__ import annotations

import shlex
from math import lgamma, log

import numpy as np
from numpy.typing import NDArray

from excora.data.dataset import Dataset
from excora.data.scaling import Floats
from excora.data.source import Plain
from excora.data.splits import Split

#: |PCC| from which a column is the label up to rounding, and |PCC| or |Spearman| from which one may ask.
SAME, CLOSE = 1 - 1e-5, 0.99
#: Training samples from which an order or a close correlation says anything.
ENOUGH = 30
#: The largest probability, by chance, of what a warning says.
CHANCE = 1e-6
#: Rows that a first look takes, and lines that are said at most.
LOOK, MOST = 1000, 5


def doubts(dataset: Dataset, parts: Split, plain: Plain | None) -> tuple[str, ...]:
    """Lines for the user, the gravest first; ``plain`` is what the source shows of its samples, None for nothing.

    >>> x = np.arange(40.0)
    >>> data = Dataset(x.astype(str).astype(object), ("y",), (2 * x)[:, None])
    >>> parts = Split(np.arange(30), np.arange(30, 35), np.arange(35, 40))
    >>> doubts(data, parts, Plain(x[:, None], ("a",), np.empty((40, 0), int), ()))[0][:53]
    "warning: column 'a' gives the target 'y' away: in all"
    """
    if plain is None or dataset.target is None or not len(parts.train):
        return ()
    copies = _copies(dataset.target, parts, plain)
    found = _giveaways(dataset, parts, plain)
    if not copies:  # of copied rows every column has the label of its copy
        told = {column for _, column, _ in found}
        found += [one for one in _namesakes(dataset, parts, plain) if one[1] not in told]
    found.sort(key=lambda one: one[0])
    more = [f"{len(found) - MOST} more columns like these"] if len(found) > MOST else []
    return (*copies, *(line for _, _, line in found[:MOST]), *more)


def _giveaways(dataset: Dataset, parts: Split, plain: Plain) -> list[tuple[int, str, str]]:
    """(0 for a warning and 1 for a question, column, line) of each number that follows a target."""
    assert dataset.target is not None
    x, y = plain.numbers[parts.train], dataset.target[parts.train]
    found = []
    for column, target in _candidates(x, y):
        name = plain.names[column]
        judged = None if name is None else _judge(x[:, column], y[:, target], plain.numbers.shape[1])
        if name is None or judged is None:
            continue
        level, many, what = judged
        word, goal = f"{plain.noun} {name!r}", repr(dataset.targets[target])
        drop = f" leave it out: --drop {shlex.quote(name)}" if plain.noun == "column" else " leave it out"
        if level:
            line = f"{word} alone follows the target {goal}, {what}: is it known when you predict, and not computed "
            line += f"from the target? If not,{drop}"
        else:
            over = "all" if many == len(x) else f"{many:,} of"
            line = f"warning: {word} gives the target {goal} away: in {over} {len(x):,} training samples {what}. If it "
            line += f"is computed from the target, or not known when you predict,{drop}"
        found.append((level, name, line))
    return found


def _candidates(x: Floats, y: Floats) -> list[tuple[int, int]]:
    """Pairs of column and target that are worth a look, by some rows; gaps count as means here."""
    some = np.linspace(0, len(x) - 1, min(len(x), LOOK)).astype(np.intp)
    x, y = x[some], y[some]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # wild numbers are no candidates
        plain, ranks = np.abs(_unit(x).T @ _unit(y)), np.abs(_unit(_ranks(x)).T @ _unit(_ranks(y)))
    strength = np.maximum(np.nan_to_num(plain), np.nan_to_num(ranks))
    order = np.argsort(-strength, axis=None, kind="stable")[:50]
    pairs = zip(*np.unravel_index(order, strength.shape), strict=True)
    return [(int(column), int(target)) for column, target in pairs if strength[column, target] > 0.5]


def _judge(x: Floats, y: Floats, columns: int) -> tuple[int, int, str] | None:
    """(0, rows that know both, why it is as good as certain) or (1, rows, how close it is); None for no doubt."""
    known = ~np.isnan(x) & ~np.isnan(y)
    if known.sum() < max(5, 0.2 * len(y)):
        return None
    a, b = x[known], y[known]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        linear = float(np.nan_to_num(_unit(a[:, None])[:, 0] @ _unit(b[:, None])[:, 0]))
    order = float(np.nan_to_num(_unit(_ranks(a[:, None]))[:, 0] @ _unit(_ranks(b[:, None]))[:, 0]))
    unlikely = _arrangements(a) > -log(CHANCE / columns)
    if unlikely and np.array_equal(a, b):
        return 0, len(a), "they are equal"
    if unlikely and abs(linear) >= SAME:
        return 0, len(a), f"one is a straight line of the other (PCC {linear:.6f})"
    if unlikely and len(a) >= ENOUGH and abs(order) > 1 - 1e-9 and len(np.unique(a)) >= 10:
        way = "the same" if order > 0 else "the opposite"
        return 0, len(a), f"they have {way} order (Spearman {order:.0f})"
    if len(a) >= ENOUGH and max(abs(linear), abs(order)) >= CLOSE:
        return 1, len(a), f"PCC {linear:.5f}" if abs(linear) >= CLOSE else f"Spearman {order:.5f}"
    return None


def _namesakes(dataset: Dataset, parts: Split, plain: Plain) -> list[tuple[int, str, str]]:
    """The same of each column, whole numbers or categories, whose every value has one label: a group, or the label."""
    assert dataset.target is not None
    x, found = plain.numbers[parts.train], []
    whole = [(name, x[:, k]) for k, name in enumerate(plain.names) if name is not None and _is_whole(x[:, k])]
    named = [*whole, *zip(plain.categories, plain.codes[parts.train].T, strict=True)]
    for name, values in named:
        for target, y in zip(dataset.targets, dataset.target[parts.train].T, strict=True):
            if (count := _constant_within(np.asarray(values), y)) and plain.noun == "column":
                line = (
                    f"warning: each of the {count:,} values of column {name!r} has one value of the target {target!r}: "
                )
                line += f"if it names what the label belongs to (a patient, a slide), say --group {shlex.quote(name)}; "
                found.append((0, name, line + f"if it is the label in other words, --drop {shlex.quote(name)}"))
                break
    return found


def _is_whole(values: Floats) -> bool:
    known = values[~np.isnan(values)]
    return bool(len(known) and (known == np.floor(known)).all())


def _constant_within(values: NDArray[np.generic], y: Floats) -> int:
    """How many values there are, if each comes three times on average and has one label, beyond chance; else 0."""
    known = ~np.isnan(y) & ~np.isnan(values.astype(np.float64))
    _, place, counts = np.unique(values[known], return_inverse=True, return_counts=True)
    labels, shares = np.unique(y[known], return_counts=True)
    if not 2 <= len(counts) <= known.sum() / 3 or len(labels) < 2:
        return 0
    low, high = np.full(len(counts), np.inf), np.full(len(counts), -np.inf)
    np.minimum.at(low, place, y[known])
    np.maximum.at(high, place, y[known])
    if (low < high).any():
        return 0
    shares = shares / shares.sum()
    chance = sum(log(float((shares**size).sum())) for size in counts)  # each value draws its labels at random
    return len(counts) if chance < log(CHANCE) else 0


def _copies(target: Floats, parts: Split, plain: Plain) -> tuple[str, ...]:
    """A warning if held-out samples equal a training sample in every feature and label, more often than by chance."""
    everything = np.concatenate([plain.numbers, plain.codes], 1, dtype=np.float64)
    held = np.concatenate([parts.validation, parts.test])
    alike, same = _marks(everything), _marks(np.concatenate([everything, target], 1))
    twins = np.isin(alike[held], alike[parts.train])
    count = int((np.isin(same[held], same[parts.train]) & ~np.isnan(target[held]).all(1)).sum())
    if count < max(3, 0.01 * len(held)) or count < 0.9 * twins.sum():
        return ()
    expected = float(len(held) * len(parts.train))
    some = np.linspace(0, len(target) - 1, min(len(target), 2 * LOOK)).astype(np.intp)
    for column in (*everything[some].T, *target[some].T):
        repeats = np.unique(column, return_counts=True)[1].astype(float)
        expected *= float((repeats * (repeats - 1)).sum()) / max(len(some) * (len(some) - 1), 1)
    if count < 10 * expected:
        return ()
    return (
        f"warning: {count:,} of {len(held):,} validation and test samples equal a training sample in every feature and "
        "in the label: if they are copies, their scores are too good. Remove copies, or keep them together by --group",
    )


def _marks(rows: Floats) -> NDArray[np.uint64]:
    """(n,) a number of 64 bits a row: other rows have another one."""
    bits = np.ascontiguousarray(np.where(np.isnan(rows), np.nan, rows + 0.0)).view(np.uint64)  # one zero, one NaN
    odd = np.random.default_rng(0).integers(1, 2**63, size=rows.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    mixed = (bits ^ (bits >> np.uint64(32))) * odd
    found: NDArray[np.uint64] = (mixed ^ (mixed >> np.uint64(29))).sum(1, dtype=np.uint64)
    return found


def _arrangements(values: Floats) -> float:
    """The logarithm of how many ways there are to put these values in a row."""
    counts = np.unique(values, return_counts=True)[1]
    return lgamma(len(values) + 1) - sum(lgamma(count + 1) for count in counts)


def _ranks(x: Floats) -> Floats:
    from scipy.stats import rankdata

    return np.asarray(rankdata(x, axis=0, nan_policy="omit"), np.float64)


def _unit(x: Floats) -> Floats:
    """Columns without their mean, of length 1; 0 where nothing is known, and for what is constant."""
    size = np.nan_to_num(np.nanmax(np.abs(np.where(np.isfinite(x), x, 0.0)), axis=0))
    x = x / np.where(size > 0, size, 1.0)
    known = ~np.isnan(x)
    centred = np.where(known, x - np.where(known, x, 0.0).sum(0) / np.maximum(known.sum(0), 1), 0.0)
    length = np.sqrt((centred**2).sum(0))
    found: Floats = centred / np.where(length > 1e-12, length, np.inf)
    return found
