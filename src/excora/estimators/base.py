"""What both regressors share: options, training, prediction, and what scikit-learn asks of an estimator."""

from __future__ import annotations

import copy
import dataclasses
import difflib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from excora.data.dataset import Dataset, Index
from excora.data.preparation import Preparation
from excora.data.scaling import CLIP
from excora.data.splits import Split, split
from excora.errors import InputError
from excora.estimators import checks, files  # checks names the extra if scikit-learn is missing
from excora.models import Network, Output, models
from excora.peers.baselines import baselines
from excora.settings import Recipe, Settings, Setup
from excora.training import train
from excora.training.building import build
from excora.training.choosing import choose, with_model
from excora.training.evaluation import outputs, reach_of
from excora.training.progress import say

if TYPE_CHECKING:
    from excora.diagnosis.verdicts import Verdict


def parameters(kind: str) -> dict[str, Any]:
    """Of an estimator for this kind of samples, by name: what its models and the recipe declare, and its own.

    None is "as the model wants".
    """
    reading = [models[name].Options for name in models if kind in models[name].reads]
    fields = [field for record in (*reading, Recipe) for field in dataclasses.fields(record)]
    named = [field.name for field in fields if field.metadata.get("only", kind) == kind and field.name != "seed"]
    return {"model": "auto"} | dict.fromkeys(named) | checks.OWN


class Regressor(MultiOutputMixin, RegressorMixin, BaseEstimator, ABC):
    """Base of the regressors: a subclass says of which ``kind`` its samples are, and how they become a data set."""

    network_: Network
    preparation_: Preparation
    setup_: Setup
    history_: list[dict[str, float]]
    verdict_: Verdict
    best_epoch_: int
    n_iter_: int
    n_features_in_: int
    baselines_: list[dict[str, Any]]
    candidates_: list[dict[str, Any]]

    def __init_subclass__(cls, *, kind: str, **rest: Any) -> None:
        """Give the class its parameters, which scikit-learn reads from the signature."""
        super().__init_subclass__(**rest)
        defaults = parameters(kind)

        def init(self: Any, **named: Any) -> None:
            for name in named.keys() - defaults.keys():
                near = difflib.get_close_matches(name, defaults, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise TypeError(f"{cls.__name__} has no parameter {name!r}{hint}")
            for name, default in defaults.items():
                setattr(self, name, named.get(name, default))

        keyword = inspect.Parameter.KEYWORD_ONLY
        given = [inspect.Parameter(name, keyword, default=default) for name, default in defaults.items()]
        first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        init.__signature__ = inspect.Signature([first, *given])  # type: ignore[attr-defined]
        init.__qualname__, init.__name__ = f"{cls.__qualname__}.__init__", "__init__"
        cls.__init__ = init  # type: ignore[method-assign]
        cls.__signature__ = inspect.Signature(given)

    @abstractmethod
    def _samples(self, X: Any, *, reset: bool) -> Dataset:
        """``X`` checked, as a data set without labels; ``reset``: the width is learned, not compared."""

    @abstractmethod
    def _joined(self, first: Any, second: Any) -> Any:
        """The samples of two contents, one after the other."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, eval_set: Any = None) -> Self:
        """Train, and keep the weights of the best epoch.

        ``y`` (n,) or (n, targets), finite. ``sample_weight`` (n,), >= 0: a factor of each sample's part in the loss and
        in the validation score; a sample of weight 0 is as good as absent. ``groups`` (n,): the validation part holds
        whole groups. ``eval_set``, ``[(X, y)]``, is the validation part in place of a share of the samples: it picks
        the epoch and ends training, and nothing else is learned from it. With ``warm_start`` a second call goes on from
        the present weights, in the present scales.
        """
        again = bool(self.warm_start) and hasattr(self, "network_")
        settings = self._settings()
        samples = self._samples(X, reset=not again)
        dataset = checks.labelled(samples, y, sample_weight, groups, self)
        if settings.model == "best":
            settings = self._chosen(settings, dataset, eval_set, again=again)
        if eval_set is None:
            trained = settings.model_for(dataset.kind).trained
            dataset, parts, origin = self._split(dataset, settings.named["seed"], trained=trained)
        else:
            dataset, parts, origin = *self._validated(dataset, eval_set), None
        setup = settings.settled(dataset.kind, len(parts.train))
        if again:
            self._check_going_on(setup, dataset)
            preparation = replace(self.preparation_, targets=dataset.targets)
        else:
            preparation = checks.prepare(dataset, parts.train, **models[setup.model].prepares(setup.options))
        start = self.network_ if again else None
        given: dict[str, Any] = {"preparation": preparation, "start": start, "origin": origin}
        built = build(dataset, parts.train, setup, validation=parts.validation, **given)
        weight = None if dataset.weight is None else dataset.weight.astype(np.float32)
        training = train(
            built.network, built.features, built.target, parts, setup.recipe, setup.machine,
            weight=weight, progress=bool(self.verbose),
        )  # fmt: skip
        self.network_, self.preparation_, self.setup_ = training.network, preparation, setup
        known: list[dict[str, Any]] = []
        if self.baselines:
            simple = baselines(dataset, parts, preparation, setup.recipe)
            self.baselines_ = known = simple.records({"validation": parts.validation})
        self.history_, self.verdict_ = training.rows, training.verdict(peers=known)
        self.best_epoch_, self.n_iter_ = training.best_epoch, training.epochs
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predictions on the scale of ``y``: (n,) or (n, targets), as ``y`` was in :meth:`fit`."""
        check_is_fitted(self)
        samples = self._samples(X, reset=False)
        scaled = np.concatenate([output.prediction.numpy() for output in self._outputs(samples)])
        prediction = self.preparation_.unscale(scaled)
        return prediction[:, 0] if self.preparation_.targets == checks.ONE else prediction

    def predict_interval(self, X: Any, level: float = 0.9) -> NDArray[np.float64]:
        """The ends of an interval that holds ``level`` of all labels: (n, 2) or (n, targets, 2), on the scale of ``y``.

        Of a model that says how far labels are expected from its predictions ("kriging"); another is an
        :class:`InputError`. How far the interval reaches was learned from left-out training rows.
        """
        check_is_fitted(self)
        reach = reach_of(self.network_, self.setup_.model, level)
        found = list(self._outputs(self._samples(X, reset=False)))
        middle, spread = (
            np.concatenate([getattr(x, name).numpy() for x in found]) for name in ("prediction", "spread")
        )
        ends = [self.preparation_.unscale(middle + sign * reach * spread) for sign in (-1.0, 1.0)]
        interval = np.stack(ends, -1)
        return interval[:, 0] if self.preparation_.targets == checks.ONE else interval

    def _outputs(self, samples: Dataset) -> Iterator[Output]:
        """What the network says of the samples, batch by batch."""
        # In single precision a prediction would change in its last digits with the samples it shares a batch with.
        network = copy.deepcopy(self.network_).double()
        features = network.look_up(self.preparation_.features(samples))
        most = self.setup_.recipe.max_elements
        for _, output in outputs(network, features, np.arange(len(samples)), max_elements=most, double=True):
            yield output

    def save(self, path: str | Path) -> None:
        """Write the fitted regressor to one safetensors file, which :meth:`load` reads.

        A ``random_state`` that is an object is written as None.
        """
        check_is_fitted(self)
        files.save(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The regressor that :meth:`save` wrote; never runs code from the file, and refuses what does not fit."""
        return files.load(cls, Path(path))

    def _settings(self) -> Settings:
        seed = checks.seed(self.random_state)
        fraction = self.validation_fraction
        if isinstance(fraction, bool) or not isinstance(fraction, float | int | np.number) or not 0 <= fraction < 1:
            raise InputError(f"validation_fraction must be in [0, 1), got {fraction!r}")
        named = {
            name: checks.plain(value) for name, value in self.get_params(deep=False).items() if name not in checks.OWN
        }
        return Settings(**named, seed=seed)

    def _chosen(self, settings: Settings, dataset: Dataset, eval_set: Any, *, again: bool) -> Settings:
        """With the name of the best model on a validation part in place of "best"; a warm start goes on with it."""
        if again:
            return with_model(settings, self.setup_.model)
        if eval_set is None:
            parts = split(dataset, validation=float(self.validation_fraction), test=0.0, seed=settings.named["seed"])
        else:
            dataset, parts = self._validated(dataset, eval_set)
        tell: Callable[[str], None] = say if self.verbose else lambda _: None
        settings, self.candidates_ = choose(dataset, parts, settings, tell=tell)
        return settings

    def _split(self, dataset: Dataset, seed: int, *, trained: bool) -> tuple[Dataset, Split, Index | None]:
        """A validation part of whole groups; where it would hold fewer than 2 samples, all are taken twice instead.

        Then the place of each sample's original comes with it. None for a model that is not trained in steps.
        """
        n, fraction = len(dataset), float(self.validation_fraction)
        if not trained:
            return dataset, Split(np.arange(n), np.arange(0), np.arange(0)), None
        groups = n if dataset.group is None else len(set(dataset.group))
        if round(fraction * n) < 2 or groups < 2:
            everything = np.arange(n)
            origin = np.concatenate([everything, everything])
            return checks.take(dataset, origin), Split(everything, n + everything, everything[:0]), origin
        return dataset, split(dataset, validation=fraction, test=0.0, seed=seed), None

    def _validated(self, dataset: Dataset, eval_set: Any) -> tuple[Dataset, Split]:
        """The samples with those of ``eval_set`` behind them, as training and validation part."""
        X, y = checks.one_pair(eval_set)
        held = checks.labelled(self._samples(X, reset=False), y, None, None, self)
        joined = checks.join(dataset, held, self._joined(dataset.content, held.content))
        n, everything = len(dataset), np.arange(len(dataset) + len(held))
        return joined, Split(everything[:n], everything[n:], everything[:0])

    def _check_going_on(self, setup: Setup, dataset: Dataset) -> None:
        assert dataset.target is not None
        mine, theirs = ({"model": x.model} | x.options.to_dict() for x in (self.setup_, setup))
        for name, then in mine.items():
            now = theirs.get(name)
            if now != then:
                raise InputError(
                    f"{name} is {now!r} and the network of the first fit has {then!r}: a warm start goes on with that "
                    f"network; set warm_start=False for a new one"
                )
        now, then = len(dataset.targets), len(self.preparation_.targets)
        if now != then:
            raise InputError(
                f"the first fit had {then} target(s) and y now has {now}: a warm start goes on with the same network; "
                f"set warm_start=False for a new one"
            )
        if np.abs(self.preparation_.scale(dataset.target)).max() >= CLIP:
            raise InputError(
                "y lies too far from the labels of the first fit, in whose scale a warm start goes on; set "
                "warm_start=False for a new one"
            )
