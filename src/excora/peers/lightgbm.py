"""LightGBM: boosted trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from excora.errors import MissingExtraError
from excora.peers.base import Context, Fitted, Parameters, Part, Peer, peers
from excora.stats.correlation import Array

ROUNDS, PATIENCE = 2000, 50
#: The number of threads must not change a sum.
EXACT: Parameters = {"deterministic": True, "force_row_wise": True}


class LightGBM(Peer):
    """A model a target, stopped early by the validation part.

    ``rounds``: trees, at most, which the validation part makes fewer; without one, as many. ``patience``: trees without
    a better score after which it stops. All else is LightGBM's own.
    """

    label = "LightGBM"
    candidates = tuple(
        {"learning_rate": 0.05, "num_leaves": leaves, "min_data_in_leaf": held, **EXACT}
        for leaves, held in ((7, 5), (31, 20))
    )
    separate = True

    def check(self) -> None:
        """Takes lightgbm."""
        import_lightgbm()

    def _chosen(self, parameters: Parameters) -> Parameters:
        """Size and number of trees."""
        return {"leaves": parameters["num_leaves"], "trees": parameters.get("rounds")}

    def _fits(self, train: Part, candidates: Sequence[Parameters], context: Context) -> Iterator[Fitted]:
        return (_fit(train, parameters, context) for parameters in candidates)


def _fit(train: Part, parameters: Parameters, context: Context) -> Fitted:
    engine, held = import_lightgbm(), context.validation
    rounds, patience = parameters.get("rounds", ROUNDS), parameters.get("patience", PATIENCE)
    given = {name: value for name, value in parameters.items() if name not in ("rounds", "patience")}
    options = {
        "objective": "regression", "metric": "none", "num_threads": context.threads, "verbosity": -1,
        "seed": context.seed, **given,
    }  # fmt: skip
    common: dict[str, Any] = {"params": options, "free_raw_data": False}
    data = engine.Dataset(train.x, train.y[:, 0], weight=train.weight, **common)
    if held is None:
        booster = engine.train(options, data, rounds)
        return Fitted(lambda x: booster.predict(x)[:, None], parameters)

    def measure(raw: Array, _: Any) -> tuple[str, float, bool]:
        return "criterion", context.measure(raw[:, None], held.y, held.weight), False

    validation = engine.Dataset(held.x, held.y[:, 0], weight=held.weight, reference=data, **common)
    stop = engine.early_stopping(patience, verbose=False)
    booster = engine.train(options, data, rounds, valid_sets=[validation], feval=measure, callbacks=[stop])
    # Predictions stop at the best tree by themselves.
    return Fitted(lambda x: booster.predict(x)[:, None], parameters | {"rounds": booster.best_iteration})


def import_lightgbm() -> Any:
    """The package, or an error that names the extra."""
    try:
        import lightgbm as engine
    except ImportError as error:
        raise MissingExtraError("lightgbm", "compare") from error
    return engine


peers.register("lightgbm", LightGBM())
