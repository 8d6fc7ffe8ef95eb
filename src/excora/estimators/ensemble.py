"""The ensemble for tables: several attentions over neighbours, which a validation part picks, and the default."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from excora.data.dataset import Index
from excora.data.splits import split
from excora.errors import InputError
from excora.estimators import checks
from excora.estimators.tabular import TabularRegressor
from excora.settings import Settings
from excora.stats.correlation import pearson, selection_mean
from excora.storage import write_atomically

Floats = NDArray[np.float64]
Options = dict[str, Any]
#: Options of all trials, of :class:`TabularRegressor`.
COMMON: Options = {
    "model": "retrieval", "metric": "full", "scaling": "standard", "neighbours": 24, "shared": 0, "layers": 1,
    "bins": 8, "dropout": 0.1, "attention_dropout": 0.2, "correlation": "dnpl", "correlation_weight": 0.5,
    "learning_rate": 2e-3, "weight_decay": 1e-2, "schedule": "cosine", "clip": 1.0, "average": 0.99,
    "criterion": "mse",
}  # fmt: skip
SEEDS = 1000  #: seeds of the members are this far apart
#: The file of a saved ensemble that names its members.
INDEX = "ensemble.json"
#: The file of the default in it.
DEFAULT = "default.safetensors"


def listed(epochs: int, batch: int = 256) -> list[Options]:
    """The trials, quickest first, each a change of :data:`COMMON`, for this many epochs of batches of this size.

    Two kinds of search (ranks in the plain metric, numbers in a learned one), with much regularisation for targets that
    are mostly noise and with little; then encoders that neighbours pass too.
    """
    ranks: Options = {"scaling": "quantile", "metric": "plain"}
    careful: Options = ranks | {
        "bins": 16, "dropout": 0.5, "attention_dropout": 0.4, "learning_rate": 7e-4, "weight_decay": 0.1,
        "batch_size": 2 * batch, "epochs": max(3 * epochs // 4, 1),
    }  # fmt: skip
    deep: Options = {"shared": 1, "layers": 0, "bins": 0}
    found: list[Options] = [
        careful, careful | {"metric": "diagonal", "bins": 8, "dropout": 0.4}, ranks | {"neighbours": 48}, deep, {},
        deep | {"neighbours": 12}, ranks, careful | {"neighbours": 48},
        deep | {"dropout": 0.25, "attention_dropout": 0.3},
        ranks | {"neighbours": 48, "batch_size": 2 * batch, "learning_rate": 3e-3},
    ]  # fmt: skip
    return [{"epochs": epochs, "batch_size": batch} | trial for trial in found]


def suited(rows: int) -> tuple[int, int]:
    """Epochs and batch size for this many rows: 12 epochs for many, for few what makes 800 steps, up to 60.

    >>> suited(100), suited(2000), suited(20_000)
    ((60, 32), (25, 64), (12, 256))
    """
    batch = Settings(model="retrieval").settled("table", rows).recipe.batch_size
    return min(max(math.ceil(800 / math.ceil(rows / batch)), 12), 60), batch


def pick(predictions: Sequence[Floats], target: Floats, members: int) -> list[int]:
    """Whose mean is best, one after the other, the same one again if that helps most.

    Caruana et al. (2004): each step adds the prediction that lowers the MSE of the mean most.

    >>> given = [np.array(y) for y in ([0.0, 2.0], [2.0, 1.0], [0.0, 1.0])]
    >>> pick(given, np.array([0.0, 1.0]), 1), pick(given[:2], np.array([1.0, 1.5]), 2)
    ([2], [0, 1])
    """
    chosen: list[int] = []
    total = np.zeros_like(target)
    for count in range(1, members + 1):
        errors = [np.square((total + prediction) / count - target).mean() for prediction in predictions]
        chosen.append(int(np.argmin(errors)))
        total = total + predictions[chosen[-1]]
    return chosen


class TabularEnsemble(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Several attentions over neighbours and the default, where accuracy is worth minutes; "Excora" in docs/tabular.md.

    >>> x = np.random.default_rng(0).normal(size=(120, 3))
    >>> y = 5 + x @ [2.0, -1.0, 0.0]
    >>> model = TabularEnsemble(trials=2, members=2, epochs=6, random_state=0).fit(x, y)
    >>> model.predict(x[:2]).shape, len(model.members_), [trial["pcc"] > 0.8 for trial in model.trials_]
    ((2,), 2, [True, True])

    1. Up to ``trials`` of the written list :func:`listed` are fitted on 1 - ``validation_fraction`` of the rows (whole
       groups); none begins after ``seconds`` of CPU.
    2. ``members`` of them, one after the other and with repetition, are picked so that their mean has the least squared
       error on the validation part, each target in units of its deviation. The best one has two seeds there, so that
       picking it again counts for what it is worth.
    3. Each is fitted again on all rows, with a seed of its own.
    4. The prediction is half their mean, half that of ``TabularRegressor()``, the default for tables: trees and kriging
       know what attention over labels does not. ``default=False`` leaves it out.

    With fewer than 2 rows to validate, or rows of one group, there is nothing to pick by: the first ``members`` of the
    list are taken. ``X``, ``y`` and ``groups`` as for :class:`TabularRegressor`, of ``model="retrieval"`` and ``pool``.
    **The fitted ensemble carries its training rows**, once a member.

    ``epochs`` None: 12 from 17,000 rows on, more for fewer, see :func:`suited`. ``seconds`` makes the result depend on
    the speed of the machine: with ``seconds=None`` all trials run, and an int as ``random_state`` gives the same
    predictions. ``verbose``: a line a fit.

    After ``fit``: ``members_`` (fitted :class:`TabularRegressor`), ``default_`` (another, or None), ``trials_`` (a dict
    each: options, validation mse and pcc, CPU seconds), ``chosen_`` (places in ``trials_``), ``n_features_in_``,
    ``feature_names_in_``.
    """

    members_: list[TabularRegressor]
    default_: TabularRegressor | None
    trials_: list[dict[str, Any]]
    chosen_: list[int]

    def __init__(
        self,
        *,
        members: int = 4,
        trials: int = 10,
        seconds: float | None = 120.0,
        epochs: int | None = None,
        pool: str = "eca",
        default: bool = True,
        validation_fraction: float = 0.2,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.members = members
        self.trials = trials
        self.seconds = seconds
        self.epochs = epochs
        self.pool = pool
        self.default = default
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Try, pick, and fit again on all rows. ``y`` (n,) or (n, targets); ``groups`` (n,)."""
        self._check()
        seed = checks.seed(self.random_state)
        whole = TabularRegressor()
        dataset = checks.labelled(whole._samples(X, reset=True), y, None, groups, self)
        assert dataset.target is not None
        rows = X if isinstance(X := checks.framed(X), pd.DataFrame) else np.asarray(X)
        target = dataset.target[:, 0] if dataset.targets == checks.ONE else dataset.target
        epochs, batch = suited(len(dataset))
        options = listed(epochs if self.epochs is None else int(self.epochs), batch)[: self.trials]
        self.trials_, self.chosen_ = [], [number % len(options) for number in range(self.members)]
        count = len(dataset) if dataset.group is None else len(set(dataset.group))
        if round(self.validation_fraction * len(dataset)) >= 2 and count >= 2:
            parts = split(dataset, validation=float(self.validation_fraction), test=0.0, seed=seed)
            self._try(options, rows, target, dataset.group, parts.train, parts.validation, seed)
        everything = np.arange(len(dataset))
        self.members_ = []
        for place, number in enumerate(self.chosen_):
            model = self._fitted(options[number], rows, target, dataset.group, everything, seed + SEEDS * place)
            self.members_.append(model)
            self._say(f"member {place + 1} of {self.members}: trial {number + 1}, fitted on {len(dataset)} rows")
        self.default_ = None
        if self.default:
            self.default_ = self._fitted(None, rows, target, dataset.group, everything, seed)
            self._say(f"the default: fitted on {len(dataset)} rows")
        self.n_features_in_ = whole.n_features_in_
        if hasattr(whole, "feature_names_in_"):
            self.feature_names_in_ = whole.feature_names_in_
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    def _try(
        self, options: list[Options], rows: Any, target: Floats, group: Any, train: Index, validation: Index, seed: int
    ) -> None:
        held = target[validation]
        unit = np.where(target.std(0) > 0, target.std(0), 1.0)
        found: list[Floats] = []
        begun = time.process_time()
        for number, trial in enumerate(options):
            start = time.process_time()
            if found and self.seconds is not None and start - begun > self.seconds:
                break
            model = self._fitted(trial, rows, target, group, train, seed)
            found.append(model.predict(_take(rows, validation)) / unit)
            wrong = float(np.square(found[-1] - held / unit).mean())
            seconds = time.process_time() - start
            correlation = selection_mean(pearson(found[-1].ravel(), (held / unit).ravel()))
            self.trials_.append({"options": trial, "mse": wrong, "pcc": correlation, "seconds": seconds})
            scores = f"validation MSE {wrong:.4f} of the variance, PCC {correlation:.4f}"
            self._say(f"trial {number + 1} of {len(options)}: {scores}, {seconds:.0f} s")
        best = int(np.argmin([trial["mse"] for trial in self.trials_]))
        if self.members > 1:  # a second seed of the best: picking it again would seem to gain nothing
            model = self._fitted(options[best], rows, target, group, train, seed + SEEDS)
            found.append(model.predict(_take(rows, validation)) / unit)
        places = [*range(len(self.trials_)), best]
        self.chosen_ = [places[number] for number in pick(found, held / unit, self.members)]

    def _fitted(
        self, trial: Options | None, rows: Any, target: Floats, group: Any, index: Index, seed: int
    ) -> TabularRegressor:
        """One retrieval regressor on some rows, for all its epochs; the default where there is no trial."""
        options: Options = {}
        if trial is not None:
            options = COMMON | {"pool": self.pool, "validation_fraction": 0.0, "patience": trial["epochs"]} | trial
        model = TabularRegressor(**options, random_state=seed % 2**32)
        return model.fit(_take(rows, index), target[index], groups=None if group is None else group[index])

    def predict(self, X: Any) -> Floats:
        """Half the mean of the members, half the default, on the scale of ``y``: (n,) or (n, targets)."""
        check_is_fitted(self)
        found: Floats = np.mean([model.predict(X) for model in self.members_], 0)
        return found if self.default_ is None else (found + self.default_.predict(X)) / 2

    def save(self, folder: str | Path) -> None:
        """Write the fitted ensemble to a folder, one safetensors file a member, which :meth:`load` reads."""
        check_is_fitted(self)
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / INDEX).unlink(missing_ok=True)  # it comes last: a folder without it is no ensemble
        for number, model in enumerate(self.members_):
            model.save(folder / f"member-{number}.safetensors")
        if self.default_ is not None:
            self.default_.save(folder / DEFAULT)
        params = {name: checks.plain(value) for name, value in self.get_params(deep=False).items()}
        if isinstance(params["random_state"], np.random.RandomState):
            params["random_state"] = None
        content = {"params": params, "trials": self.trials_, "chosen": self.chosen_}
        write_atomically(folder / INDEX, json.dumps(content, indent=1))

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """The ensemble that :meth:`save` wrote; never runs code from its files, and refuses what does not fit."""
        path = Path(folder) / INDEX
        if not path.is_file():
            raise InputError(f"there is no {INDEX} in {folder}: give a folder that TabularEnsemble.save has written")
        try:
            content = json.loads(path.read_text("utf-8"))
            model = cls(**{"default": False} | content["params"])  # before 0.2 there was none in it
            model._check()
            model.trials_ = [dict(trial) for trial in content["trials"]]
            model.chosen_ = [int(number) for number in content["chosen"]]
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise InputError(f"{path} does not describe a TabularEnsemble as .save writes it: {error}") from error
        files = [path.with_name(f"member-{number}.safetensors") for number in range(model.members)]
        model.members_ = [TabularRegressor.load(file) for file in files]
        model.default_ = TabularRegressor.load(path.with_name(DEFAULT)) if model.default else None
        every = [*model.members_, *([] if model.default_ is None else [model.default_])]
        shapes = {(member.n_features_in_, member.preparation_.targets) for member in every}
        if len(shapes) > 1:
            raise InputError(f"the members in {folder} do not belong together: {sorted(shapes)}")
        model.n_features_in_ = model.members_[0].n_features_in_
        if hasattr(model.members_[0], "feature_names_in_"):
            model.feature_names_in_ = model.members_[0].feature_names_in_
        return model

    def _check(self) -> None:
        for name in ("members", "trials", "epochs"):
            value = checks.plain(getattr(self, name))
            if (type(value) is not int or value < 1) and (name, value) != ("epochs", None):
                raise InputError(f"{name} must be a whole number of at least 1, got {value!r}")
        if type(checks.plain(self.default)) is not bool:
            raise InputError(f"default must be True or False, got {self.default!r}")
        seconds, fraction = checks.plain(self.seconds), checks.plain(self.validation_fraction)
        if seconds is not None and not (_is_number(seconds) and seconds >= 0):
            raise InputError(f"seconds must be None or at least 0, got {seconds!r}")
        if not (_is_number(fraction) and 0 <= fraction < 1):
            raise InputError(f"validation_fraction must be in [0, 1), got {fraction!r}")

    def _say(self, line: str) -> None:
        if self.verbose:
            print(line, flush=True)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.non_deterministic = self.random_state is None
        return tags


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _take(rows: Any, index: Index) -> Any:
    return rows.iloc[index] if isinstance(rows, pd.DataFrame) else rows[index]
