"""What both regressors share: options, training, prediction, and what scikit-learn asks of an estimator."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from excora.data.dataset import Dataset, Index
from excora.data.features import CLIP
from excora.data.preparation import Preparation
from excora.data.splits import Split, split
from excora.errors import InputError
from excora.estimators import checks, files  # checks names the extra if scikit-learn is missing
from excora.models.building import Samples, build_on
from excora.models.network import Network, Output
from excora.settings import MODEL_OF, Settings
from excora.training import train
from excora.training.batches import in_order

if TYPE_CHECKING:
    from excora.diagnosis.verdicts import Verdict

#: Settings of a run, of which an estimator has options under the same names; and those that a warm start cannot change.
SETTINGS = frozenset(field.name for field in fields(Settings)) - {"seed"}
BUILT = tuple(field.name for field in fields(Settings) if field.metadata["panel"] == "Model")


class Regressor(MultiOutputMixin, RegressorMixin, BaseEstimator, ABC):
    """Base of the regressors: a subclass says how its samples become a :class:`Dataset`."""

    network_: Network
    preparation_: Preparation
    settings_: Settings
    history_: list[dict[str, float]]
    verdict_: Verdict
    best_epoch_: int
    n_iter_: int
    n_features_in_: int

    def __init__(
        self,
        *,
        pool: str = "eca",
        dim: int | None = 64,
        layers: int | None = 1,
        head: int = 0,
        heads: int = 4,
        dropout: float | None = 0.0,
        correlation: str = "dnpl",
        correlation_weight: float = 0.5,
        epochs: int | None = 100,
        patience: int = 15,
        batch_size: int | None = 64,
        learning_rate: float = 1e-3,
        schedule: str | None = "constant",
        clip: float | None = 0.0,
        average: float | None = 0.0,
        weight_decay: float | None = 1e-5,
        criterion: str = "joint",
        validation_fraction: float = 0.2,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.pool = pool
        self.dim = dim
        self.layers = layers
        self.head = head
        self.heads = heads
        self.dropout = dropout
        self.correlation = correlation
        self.correlation_weight = correlation_weight
        self.epochs = epochs
        self.patience = patience
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.clip = clip
        self.average = average
        self.weight_decay = weight_decay
        self.criterion = criterion
        self.validation_fraction = validation_fraction
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    @abstractmethod
    def _samples(self, X: Any, *, reset: bool) -> Dataset:
        """``X`` checked, as a data set without labels; ``reset``: the width is learned, not compared."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Train, and keep the weights of the best epoch.

        ``y`` (n,) or (n, targets), finite. ``sample_weight`` (n,), >= 0: a factor of each sample's part in the loss and
        in the validation score; a sample of weight 0 is as good as absent. ``groups`` (n,): the validation part holds
        whole groups. With ``warm_start`` a second call goes on from the present weights, in the present scales.
        """
        again = bool(self.warm_start) and hasattr(self, "network_")
        settings = self._settings()
        samples = self._samples(X, reset=not again)
        dataset = checks.labelled(samples, y, sample_weight, groups, self)
        dataset, parts, origin = self._split(dataset, settings.seed)
        settings = settings.settled(MODEL_OF[dataset.kind], len(parts.train))
        if again:
            self._check_going_on(settings, dataset)
            preparation = replace(self.preparation_, targets=dataset.targets)
        else:
            preparation = checks.prepare(dataset, parts.train, settings.scaling)
        assert dataset.target is not None
        target = preparation.scale(dataset.target)
        weight = None if dataset.weight is None else dataset.weight.astype(np.float32)
        given = Samples(preparation.features(dataset), target, parts.train, group=dataset.group, origin=origin)
        network, features = build_on(preparation.inputs, given, settings, start=self.network_ if again else None)
        training = train(network, features, target, parts, settings, weight=weight, progress=bool(self.verbose))
        self.network_, self.preparation_, self.settings_ = training.network, preparation, settings
        self.history_, self.verdict_ = training.rows, training.verdict()
        self.best_epoch_, self.n_iter_ = training.best_epoch, training.epochs
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predictions on the scale of ``y``: (n,) or (n, targets), as ``y`` was in :meth:`fit`."""
        check_is_fitted(self)
        samples = self._samples(X, reset=False)
        scaled = np.concatenate([output.prediction.numpy() for output in self._outputs(samples)])
        prediction = self.preparation_.unscale(scaled)
        return prediction[:, 0] if self.preparation_.targets == checks.ONE else prediction

    def _outputs(self, samples: Dataset) -> Iterator[Output]:
        """What the network says of the samples, batch by batch."""
        # In single precision a prediction would change in its last digits with the samples it shares a batch with.
        network = copy.deepcopy(self.network_).double()
        features = network.look_up(self.preparation_.features(samples))
        for index in in_order(np.arange(len(samples)), features.sizes, max_elements=self.settings_.max_elements):
            with torch.inference_mode():
                output = network(checks.in_double(features.read(index)))
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
        named = {name: checks.plain(value) for name, value in self.get_params(deep=False).items() if name in SETTINGS}
        return Settings(**named, seed=seed)

    def _split(self, dataset: Dataset, seed: int) -> tuple[Dataset, Split, Index | None]:
        """A validation part of whole groups; where it would hold fewer than 2 samples, all are taken twice instead.

        Then the place of each sample's original comes with it.
        """
        n, fraction = len(dataset), float(self.validation_fraction)
        groups = n if dataset.group is None else len(set(dataset.group))
        if round(fraction * n) < 2 or groups < 2:
            everything = np.arange(n)
            origin = np.concatenate([everything, everything])
            return checks.take(dataset, origin), Split(everything, n + everything, everything[:0]), origin
        return dataset, split(dataset, validation=fraction, test=0.0, seed=seed), None

    def _check_going_on(self, settings: Settings, dataset: Dataset) -> None:
        assert dataset.target is not None
        for name in BUILT:
            now, then = getattr(settings, name), getattr(self.settings_, name)
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
