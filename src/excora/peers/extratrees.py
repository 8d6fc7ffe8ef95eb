"""ExtraTrees: a forest of extremely randomised trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from excora.errors import MissingExtraError
from excora.peers.base import Context, Fitted, Parameters, Part, Peer, peers


class ExtraTrees(Peer):
    """scikit-learn's ExtraTreesRegressor, whose options are the settings."""

    label = "ExtraTrees"
    candidates = tuple(
        {"n_estimators": 300, "max_features": share, "min_samples_leaf": held}
        for share in (1.0, 0.33)
        for held in (1, 3)
    )

    def check(self) -> None:
        """Takes scikit-learn."""
        _engine()

    def _fits(self, train: Part, candidates: Sequence[Parameters], context: Context) -> Iterator[Fitted]:
        return (_fit(train, parameters, context) for parameters in candidates)


def _fit(train: Part, parameters: Parameters, context: Context) -> Fitted:
    targets = train.y.shape[1]
    model = _engine()(random_state=context.seed, n_jobs=context.threads, **parameters)
    weight = train.weight if train.weight is not None and train.weight.any() else None
    model.fit(train.x, train.y[:, 0] if targets == 1 else train.y, sample_weight=weight)
    return Fitted(lambda x: np.asarray(model.predict(x), np.float64).reshape(len(x), targets), parameters)


def _engine() -> Any:
    try:
        from sklearn.ensemble import ExtraTreesRegressor
    except ImportError as error:
        raise MissingExtraError("scikit-learn", "app") from error
    return ExtraTreesRegressor


peers.register("extratrees", ExtraTrees())
