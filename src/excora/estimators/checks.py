"""Labels, weights, groups and seeds as users hand them in, checked; and the preparation of what came through."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from excora.data.dataset import Content, Dataset, Index
from excora.data.preparation import Preparation
from excora.data.scaling import mean_and_std
from excora.errors import InputError, MissingExtraError

try:
    from sklearn.utils import check_array
except ModuleNotFoundError as error:
    if error.name != "sklearn":
        raise
    raise MissingExtraError("scikit-learn", "app") from error

#: The parameters of an estimator that are no settings of a run, and their defaults.
OWN = {
    "validation_fraction": 0.2, "warm_start": False, "random_state": None, "verbose": False, "baselines": False,
}  # fmt: skip
#: The target names of a one-dimensional y; those of columns are numbered, and so tell (n, 1) from (n,).
ONE = ("y",)
#: The scale of a label that never varies: small enough that what a network adds to it is lost in rounding.
TINY = 1e-200


@contextmanager
def input_errors() -> Iterator[None]:
    """What scikit-learn's checks raise as ValueError, in its words, as an :class:`InputError`."""
    try:
        yield
    except InputError:
        raise
    except ValueError as error:
        raise InputError(str(error)) from error


def plain(value: Any) -> Any:
    """A Python number for numpy's, which parameter grids are full of."""
    return value.item() if isinstance(value, np.generic) else value


def framed(X: Any) -> Any:
    """A frame of pandas for what can become one, such as those of polars and Arrow; the rest as it is."""
    return X if isinstance(X, np.ndarray) or not hasattr(X, "to_pandas") else X.to_pandas()


def seed(random_state: Any) -> int:
    """A seed from what scikit-learn calls a random state; None draws a fresh one, not from numpy's global state."""
    if random_state is None:
        return secrets.randbits(31)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    value = plain(random_state)
    if type(value) is not int or not 0 <= value < 2**32:
        raise InputError(f"random_state must be None, an int in [0, 2^32) or a RandomState, got {random_state!r}")
    return value


def labelled(samples: Dataset, y: Any, sample_weight: Any, groups: Any, estimator: Any) -> Dataset:
    """The samples with their labels, weights and groups; those of weight 0 are left out."""
    name = type(estimator).__name__
    if y is None:
        raise InputError(f"{name} requires y to be passed, but the target y is None")
    with input_errors():
        target = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y", estimator=estimator)
    _check_length("y", len(target), len(samples))
    if len(samples) < 2:
        raise InputError(f"{name} needs at least 2 samples to learn from, got 1 sample")
    names = ONE if target.ndim == 1 else tuple(f"y{k}" for k in range(target.shape[1]))
    group = _groups(groups, len(samples))
    found = replace(samples, targets=names, target=target.reshape(len(target), -1), group=group)
    weight = _weight(sample_weight, len(samples))
    if weight is None:
        return found
    return take(replace(found, weight=weight), np.flatnonzero(weight))


def unlabelled(content: Content) -> Dataset:
    """Samples named by their place, with features alone."""
    return Dataset(_places(len(content)), (), None, content)


def one_pair(eval_set: Any) -> tuple[Any, Any]:
    """X and y of ``[(X, y)]``, as LightGBM and XGBoost take it, or of ``(X, y)``.

    >>> one_pair([([[1.0]], [2.0])])
    ([[1.0]], [2.0])
    """
    given = eval_set
    if isinstance(given, list) and len(given) == 1:
        given = given[0]
    if not isinstance(given, tuple) or len(given) != 2:
        raise InputError("eval_set must be one pair of samples and labels, [(X, y)]: a single part picks the epoch")
    return given


def join(first: Dataset, second: Dataset, content: Content) -> Dataset:
    """Both data sets, one after the other: a sample of the second weighs 1, and is in a group of its own."""
    assert first.target is not None and second.target is not None  # noqa: PT018
    if first.targets != second.targets:
        raise InputError(
            f"the y of eval_set must have the shape of y: {_shape(first)} and {_shape(second)} have other targets"
        )
    places = _places(len(second))
    return replace(
        first,
        ids=_places(len(first) + len(second)),
        target=np.concatenate([first.target, second.target]),
        content=content,
        weight=None if first.weight is None else np.concatenate([first.weight, np.ones(len(second))]),
        group=None if first.group is None else np.concatenate([first.group, "eval_set " + places]),
    )


def _shape(dataset: Dataset) -> str:
    return "(n,)" if dataset.targets == ONE else f"(n, {len(dataset.targets)})"


def take(dataset: Dataset, index: Index) -> Dataset:
    """The samples of ``index``, in that order and named by their new place; one may come twice."""
    return replace(dataset.take(index), ids=_places(len(index)))


def _places(count: int) -> NDArray[np.object_]:
    return np.array([str(k) for k in range(count)], object)


def prepare(dataset: Dataset, index: Index, **options: Any) -> Preparation:
    """:meth:`Preparation.fit`, and a label that does not vary over ``index`` gets the scale it has elsewhere, or none.

    scikit-learn expects a constant label to be predicted, where the application refuses it.
    """
    assert dataset.target is not None
    train = dataset.target[index]
    constant = train.min(0) == train.max(0)
    ramp = np.arange(len(dataset), dtype=np.float64)[:, None]
    found = Preparation.fit(replace(dataset, target=np.where(constant, ramp, dataset.target)), index, **options)
    spread = [max(mean_and_std(column)[1], TINY) for column in dataset.target.T]
    return replace(
        found,
        mean=tuple(np.where(constant, train[0], found.mean).tolist()),
        std=tuple(np.where(constant, spread, found.std).tolist()),
    )


def _check_length(name: str, got: int, samples: int) -> None:
    if got != samples:
        raise InputError(f"{name} must have one entry a sample: X has {samples} samples, {name} has {got}")


def _weight(sample_weight: Any, samples: int) -> NDArray[np.float64] | None:
    if sample_weight is None:
        return None
    with input_errors():
        weight = check_array(sample_weight, dtype=np.float64, ensure_2d=False, input_name="sample_weight")
    if weight.ndim != 1:
        raise InputError(f"sample_weight must have the shape ({samples},), got {weight.shape}")
    _check_length("sample_weight", len(weight), samples)
    if (weight < 0).any():
        raise InputError(f"sample_weight must not be negative, got {weight.min():g} for sample {weight.argmin()}")
    if np.count_nonzero(weight) < 2:
        raise InputError("sample_weight must be above zero for at least 2 samples: all others count as absent")
    return weight / weight.max()  # only ratios matter, and these fit into single precision


def _groups(groups: Any, samples: int) -> NDArray[np.object_] | None:
    if groups is None:
        return None
    found = np.asarray(groups)
    if found.ndim != 1:
        raise InputError(f"groups must have the shape ({samples},), got {found.shape}")
    _check_length("groups", len(found), samples)
    return found.astype(str).astype(object)
