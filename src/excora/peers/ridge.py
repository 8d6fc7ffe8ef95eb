"""Ridge regression in closed form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from excora.peers.base import Context, Fitted, Parameters, Part, Peer, peers
from excora.peers.scaling import Scaled
from excora.stats.ridge import RidgePath

PENALTIES = tuple(10.0**power for power in range(-5, 4))


class Ridge(Peer):
    """min_w sum_i v_i |y_i - x_i w - c|^2 + alpha |w|^2, v the sample weights of mean 1.

    ``alpha``, or ``penalty``, that of a training sample: alpha = n penalty. ``scaled``: columns standardised. All
    penalties come from one eigendecomposition of the smaller Gram matrix.
    """

    label = "ridge"
    candidates = tuple({"scaled": scaled, "penalty": p} for scaled in (False, True) for p in PENALTIES)

    def _fits(self, train: Part, candidates: Sequence[Parameters], context: Context) -> Iterator[Fitted]:  # noqa: ARG002
        known: dict[bool, tuple[Scaled, RidgePath]] = {}
        for parameters in candidates:
            how = bool(parameters.get("scaled", False))
            if how not in known:
                scaled = Scaled(train, how)
                known[how] = scaled, RidgePath(scaled.train.x, scaled.train.y, scaled.train.weight)
            scaled, path = known[how]
            alpha = parameters["alpha"] if "alpha" in parameters else len(train.x) * parameters["penalty"]
            yield Fitted(scaled.before(path.at(alpha).predict), parameters)


peers.register("ridge", Ridge())
