"""Ridge regression in closed form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from excora.peers.base import Context, Fitted, Parameters, Part, Peer, Predict, peers
from excora.peers.scaling import Scaled
from excora.stats.correlation import Array

PENALTIES = tuple(10.0**power for power in range(-5, 4))


class Ridge(Peer):
    """min_w sum_i v_i |y_i - x_i w - c|^2 + alpha |w|^2, v the sample weights of mean 1.

    ``alpha``, or ``penalty``, that of a training sample: alpha = n penalty. ``scaled``: columns standardised. All
    penalties come from one eigendecomposition of the smaller Gram matrix.
    """

    label = "ridge"
    candidates = tuple({"scaled": scaled, "penalty": p} for scaled in (False, True) for p in PENALTIES)

    def _fits(self, train: Part, candidates: Sequence[Parameters], context: Context) -> Iterator[Fitted]:  # noqa: ARG002
        known: dict[bool, tuple[Scaled, Callable[[float], Predict]]] = {}
        for parameters in candidates:
            how = bool(parameters.get("scaled", False))
            if how not in known:
                scaled = Scaled(train, how)
                known[how] = scaled, _solver(scaled.train)
            scaled, solve = known[how]
            alpha = parameters["alpha"] if "alpha" in parameters else len(train.x) * parameters["penalty"]
            yield Fitted(scaled.before(solve(alpha)), parameters)


def _solver(train: Part) -> Callable[[float], Predict]:
    """alpha to the predictions of the fit with it."""
    n = len(train.x)
    v = np.ones(n) if train.weight is None or not train.weight.any() else train.weight / train.weight.mean()
    mean, level = np.average(train.x, axis=0, weights=v), np.average(train.y, axis=0, weights=v)
    root = np.sqrt(v)[:, None]
    a, b = (train.x - mean) * root, (train.y - level) * root
    wide = a.shape[1] > n
    values, vectors = np.linalg.eigh(a @ a.T if wide else a.T @ a)
    rotated = vectors.T @ (b if wide else a.T @ b)

    def solve(alpha: float) -> Predict:
        # w = (a'a + alpha)^-1 a'b = a' (a a' + alpha)^-1 b
        solved = vectors @ (rotated / (np.maximum(values, 0.0) + alpha)[:, None])
        w: Array = a.T @ solved if wide else solved
        return lambda x: (x - mean) @ w + level

    return solve


peers.register("ridge", Ridge())
