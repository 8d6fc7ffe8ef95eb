"""The regressor for bags of elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from excora.data.bags import ArrayBags, BagSet, finite
from excora.data.dataset import Dataset
from excora.errors import InputError
from excora.estimators.base import Regressor
from excora.estimators.checks import unlabelled
from excora.ragged import Ragged
from excora.training.evaluation import attention


class BagRegressor(Regressor, kind="bags"):
    """A network for bags of elements: a small network for each element, a pool, a head; MSE + correlation loss.

    >>> rng = np.random.default_rng(0)
    >>> bags = [rng.normal(size=(1, 3)) + 0.1 * rng.normal(size=(n, 3)) for n in rng.integers(1, 9, 80)]
    >>> y = [bag[:, 0].mean() for bag in bags]
    >>> model = BagRegressor(dim=16, epochs=20, learning_rate=0.01, random_state=0).fit(bags, y)
    >>> model.score(bags, y) > 0.9
    True
    >>> weights, effective = model.attention(bags[:1])[0]
    >>> len(weights) == len(bags[0]), round(float(effective.sum()), 4)
    (True, 1.0)

    ``X`` is a list of bags (n_i, d), arrays or tensors, n_i >= 1, finite; one array (n, elements, d); or a
    :class:`excora.Ragged`. Cross-validation picks samples by index: give it a list or an array.

    Parameters and fitted attributes are like those of :class:`excora.TabularRegressor`, without ``feature_names_in_``;
    ``n_features_in_`` is d. An empty bag, NaN or another width is an :class:`InputError` that names the bag.
    """

    def attention(self, X: Any) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """For each bag ``(weights, effective)``, (n_i,) each, the weights of sum 1.

        weights: the pool's attention alpha. effective: the share of each element in the pooled value,
        see :class:`excora.Pooled`; below 0 for elements of little attention where gamma > 1. The same as the weights
        for convex pools. Of a network that starts from a ridge, this is the part that it adds.
        """
        check_is_fitted(self)
        samples = self._samples(X, reset=False)
        found = []
        for output in self._outputs(samples):
            pooled = next(iter(output.pooled.values()), None)
            if pooled is None:
                raise InputError(f"the model {self.setup_.model!r} has no pool, so there is no attention")
            found += [(one.weight, one.effective) for one in attention(pooled)]
        return found

    def _samples(self, X: Any, *, reset: bool) -> Dataset:
        bags = [_bag(bag, k) for k, bag in enumerate(_listed(X))]
        if not bags:
            raise InputError("X must hold at least one bag, got none")
        width = bags[0].shape[1] if reset else self.n_features_in_
        for k, bag in enumerate(bags):
            if bag.shape[1] != width:
                raise InputError(
                    f"bag {k} must have elements of width {width}, like {'bag 0' if reset else 'those of training'}, "
                    f"got {bag.shape[1]}"
                )
        if reset:
            self.n_features_in_ = width
        lengths = [len(bag) for bag in bags]
        return unlabelled(BagSet(ArrayBags(np.concatenate(bags), lengths)))

    def _joined(self, first: BagSet, second: BagSet) -> BagSet:
        bags = [one.bags.read(k) for one in (first, second) for k in range(len(one))]
        return BagSet(ArrayBags(np.concatenate(bags), [len(bag) for bag in bags]))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags


def _listed(X: Any) -> Any:
    """The bags one by one."""
    if isinstance(X, Ragged):
        return torch.split(X.values, X.lengths.tolist())
    if isinstance(X, str | bytes | dict) or not hasattr(X, "__len__") or getattr(X, "ndim", 1) == 0:
        raise InputError(
            f"X must be a list of bags of shape (elements, width), or an excora.Ragged, got {type(X).__name__}"
        )
    return X


def _bag(bag: Any, k: int) -> NDArray[np.float32]:
    """A bag as float32; what cannot be one is an error that names it."""
    if isinstance(bag, torch.Tensor):
        bag = bag.detach().cpu()
        bag = (bag.float() if bag.dtype == torch.bfloat16 else bag).numpy()  # numpy has no bfloat16
    try:
        values = np.asarray(bag)
    except ValueError as error:
        raise InputError(f"bag {k} must be an array of shape (elements, width), got rows of several widths") from error
    if values.ndim != 2 or values.dtype.kind not in "fiub":
        raise InputError(
            f"bag {k} must be numbers of 2 dimensions, (elements, width), got {values.dtype} of shape {values.shape}"
        )
    if not values.size:
        raise InputError(f"bag {k} is empty, of shape {values.shape}: leave it and its label out")
    return finite(values, f"bag {k}")
