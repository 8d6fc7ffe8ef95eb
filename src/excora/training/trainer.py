"""``train``: a network on prepared features, by Lightning's Trainer; what fit, the estimators and compare share."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from excora.data.dataset import Features
from excora.diagnosis.verdicts import Verdict, verdict
from excora.errors import ExcoraError, InputError, MissingExtraError
from excora.models import Network
from excora.models.parts.start import LinearStart
from excora.settings import Machine, Recipe
from excora.stats.correlation import pearson, selection_mean
from excora.stats.intervals import Interval
from excora.stats.scores import squared_error
from excora.training.batches import Rows
from excora.training.evaluation import watched
from excora.training.run_monitor import RunMonitor

if TYPE_CHECKING:
    from excora.data.splits import Split
    from excora.monitor import PlateauMonitor
    from excora.training.callbacks import Journal
    from excora.training.module import Regression


@dataclass(frozen=True)
class Training:
    """What training gave: the network with the weights of its best epoch, in eval mode, and how it went."""

    network: Network
    best_epoch: int  #: from 0; -1: the ridge that the network started from, which no epoch has improved on
    rows: list[dict[str, float]]  #: one an epoch: the columns of metrics.csv
    monitor: PlateauMonitor
    stopped: str  #: "patience", "epochs", "diverged", "interrupted" or "fitted"
    seconds: float
    start: dict[str, float] | None = None  #: the validation figures of the ridge that the network started from
    held: dict[str, Any] | None = None  #: the monitor's record of the validation part under these weights

    @property
    def epochs(self) -> int:
        """How many were finished."""
        return len(self.rows)

    def verdict(
        self,
        *,
        interval: Interval | None = None,
        test: Interval | None = None,
        peers: Iterable[Mapping[str, Any]] = (),
    ) -> Verdict:
        """On the kept epoch, as validation sees it; the arguments are those of :func:`excora.diagnosis.verdict`."""
        known: dict[str, Any] = {"held": self.held, "interval": interval, "test": test, "peers": peers}
        if self.stopped == "fitted":  # as a whole, not in epochs: there is no course to judge
            return verdict([], **known)
        return verdict(self.monitor.records, validation=validated(self.rows), kept=self.best_epoch, **known)


def validated(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The validation curve of the rows of metrics.csv, as a verdict reads it.

    >>> validated([{"epoch": 0, "validation_pcc": 0.5, "validation_mse": 1.0}, {"epoch": 1, "train_loss": 1.0}])
    [{'pcc': 0.5, 'mse': 1.0}]
    """
    names = ("pcc", "mse")
    return [{name: row[f"validation_{name}"] for name in names} for row in rows if "validation_pcc" in row]


def train(
    network: Network,
    features: Features,
    target: NDArray[np.float32],
    split: Split,
    recipe: Recipe,
    machine: Machine | None = None,
    *,
    weight: NDArray[np.float32] | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
) -> Training:
    """Train ``network`` on ``split.train``, keep the epoch that is best on ``split.validation``; ``test`` is not read.

    ``target`` (n, targets) is standardised, NaN where unknown, ``weight`` (n,). With a ``folder`` the run can be
    resumed (``checkpoints/last.ckpt``; metrics.csv and monitor.json beside it): a resumed run ends with the weights of
    an uninterrupted one to the last bit, as batches and random numbers depend on (seed, epoch, step) alone.

    With an empty ``split.validation`` it runs ``recipe.epochs`` epochs and keeps the last: to train on all samples
    once the number of epochs is known. With ``recipe.average`` the weights that are scored and kept are averages.
    ``progress`` is a bar on a terminal, elsewhere lines on standard error.

    Ctrl-C: with a folder the result says "interrupted" and has the best epoch so far, without one (or before the first
    epoch has ended) it is a KeyboardInterrupt. A criterion (without validation: a loss) that is no longer finite ends
    training as "diverged"; in the first epoch it is an :class:`ExcoraError`. ``network`` is changed in place; torch's
    random state is not.

    A network without parameters to train is scored on the validation part, and that is all: it has been fitted.

    >>> from excora.data.splits import Split
    >>> from excora.data.table import TableFeatures, TableSpec
    >>> from excora.models import Samples, models
    >>> x = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    >>> features = TableFeatures(x, np.zeros((40, 2), bool), np.zeros((40, 0), np.int64))
    >>> parts = Split(np.arange(30), np.arange(30, 40), np.arange(0))
    >>> model = models["pool"]
    >>> samples = Samples(features, x[:, :1], parts.train)
    >>> network, features = model.build(TableSpec(targets=1, numeric=2), samples, model.Options(dim=8), seed=0)
    >>> training = train(network, features, x[:, :1], parts, Recipe(epochs=2), Machine(accelerator="cpu"))
    >>> training.epochs, training.stopped, sorted(training.rows[0])[-2:]
    (2, 'epochs', ['validation_mse', 'validation_pcc'])
    """
    _check(features, target, weight, split)
    machine = machine or Machine()
    if not any(parameter.requires_grad for parameter in network.parameters()):
        return _scored(network, features, target, split, weight, folder)
    try:
        from excora.training.callbacks import Journal, write_records
        from excora.training.engine import make_trainer, quiet, run, starts_processes
        from excora.training.evaluation import start_score
        from excora.training.progress import say
        from excora.training.timing import foresee
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name), "app") from error
    heavy = None if weight is None else np.ascontiguousarray(weight, np.float32)
    rows = Rows(features, np.ascontiguousarray(target, np.float32), heavy)
    journal = Journal()
    if getattr(network.linear_start, "fresh", False) and len(split.validation):
        journal.begin(start_score(network, rows, split.validation, recipe, machine), network.state_dict())
    expected = foresee(network, rows, split.train, split.validation, recipe, machine) if progress and is_main() else ""
    if expected:
        say(expected)
    module = _regression(network, rows, split, recipe, machine)
    with quiet(), torch.random.fork_rng(range(torch.cuda.device_count())), contextlib.ExitStack() as stack:
        where = None if folder is None else Path(folder)
        trainer = make_trainer(module, journal, machine, where, progress=progress)
        if where is None and starts_processes(trainer):  # what happened there comes back by file
            where = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            trainer = make_trainer(module, journal, machine, where, progress=progress)
        interrupted = run(trainer, module, journal, where, resume=resume)
    del module.monitor.records[len(journal.rows) :]  # an interrupt may come between the two
    if folder is not None and journal.rows and is_main():
        write_records(Path(folder), journal, module.monitor)
    if interrupted and (folder is None or journal.best is None or not journal.rows):
        raise KeyboardInterrupt
    return _result(network, module, journal, machine, interrupted=interrupted)


def _scored(
    network: Network,
    features: Features,
    target: NDArray[np.float32],
    split: Split,
    weight: NDArray[np.float32] | None,
    folder: str | Path | None,
) -> Training:
    """One row, of what the network says of the validation part."""
    begun, row, held, said = time.monotonic(), {"epoch": 0.0}, None, list[NDArray[np.float32]]()
    rows = Rows(features, np.ascontiguousarray(target, np.float32), weight)
    if len(split.validation):
        held = watched(
            network, features, rows.labels, split.validation, max_elements=Recipe().max_elements,
            see=lambda output: said.append(output.prediction.float().cpu().numpy()),
        )  # fmt: skip
        heavy = None if weight is None else weight[split.validation].astype(np.float64)
        judged = (np.concatenate(said).astype(np.float64), rows.labels(split.validation), heavy)
        row |= {"validation_pcc": float(selection_mean(pearson(*judged))), "validation_mse": squared_error(*judged)}
    monitor = RunMonitor(network)
    if folder is not None:
        _write([row], monitor, Path(folder))
    seconds = network.seconds + time.monotonic() - begun
    return Training(network.cpu().eval(), 0, [row], monitor, "fitted", seconds, held=held)


def _write(rows: list[dict[str, float]], monitor: RunMonitor, folder: Path) -> None:
    """As after a training in epochs; a fit without a folder does not wait for Lightning to be imported."""
    from excora.training.callbacks import Journal, write_records

    journal = Journal()
    journal.rows.extend(rows)
    if is_main():
        write_records(folder, journal, monitor)


def _regression(network: Network, rows: Rows, split: Split, recipe: Recipe, machine: Machine) -> Regression:
    from excora.training.module import Regression

    # Lightning warns of modules in eval mode, and a network that is trained again is in it.
    return Regression(network.train(), rows, split.train, split.validation, recipe, workers=machine.workers)


def _result(network: Network, module: Regression, journal: Journal, machine: Machine, *, interrupted: bool) -> Training:
    """The network with its best weights."""
    if journal.best is None:
        raise ExcoraError(
            f"training diverged in its first epoch (loss {journal.rows[-1]['train_loss']:.3g}): lower the learning "
            f"rate, now {module.recipe.learning_rate:g}, and look for extreme values in the data"
        )
    network.load_state_dict(journal.best.state)
    best = journal.best.epoch
    if isinstance(network.linear_start, LinearStart):
        network.linear_start.fresh = False
        best = _kept(network, network.linear_start, module, journal, machine)
    stopped = "interrupted" if interrupted else journal.stopped(module.recipe) or "epochs"
    figures = (journal.rows, module.monitor, stopped, journal.seconds, journal.start)
    limit, where = module.recipe.max_elements, machine.accelerator
    part = (module.rows.features, module.rows.labels, module.validation_index)
    held = watched(network, *part, max_elements=limit, accelerator=where) if len(module.validation_index) else None
    return Training(network.cpu().eval(), best, *figures, held)


def _kept(network: Network, start: LinearStart, module: Regression, journal: Journal, machine: Machine) -> int:
    """The best epoch; -1, with the network's part set to 0, where ``start="auto"`` and that adds nothing for sure."""
    from excora.training.evaluation import adds_surely

    assert journal.best is not None
    index, whole = module.validation_index, bool((start.weight != 0).any(0).all())
    asked = module.recipe.start == "auto" and journal.start is not None and whole and journal.best.epoch >= 0
    if not asked or adds_surely(network, module.rows, index, module.recipe, machine):
        return journal.best.epoch
    network.begin_at_zero(module.rows.features.read(index[:2]))
    return -1


def is_main() -> bool:
    """Whether this process is the one that writes and prints: rank zero of a run on several devices.

    >>> is_main()
    True
    """
    try:
        from lightning.fabric.utilities.rank_zero import rank_zero_only
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name), "app") from error
    # Before there is a Trainer, Lightning does not know of nodes that were started by hand.
    node = 0 if "RANK" in os.environ else int(os.environ.get("NODE_RANK", "0"))
    return getattr(rank_zero_only, "rank", 0) == 0 and node == 0


def _check(features: Features, target: NDArray[np.float32], weight: NDArray[np.float32] | None, split: Split) -> None:
    n = len(features.sizes)
    if target.ndim != 2 or len(target) != n or np.isinf(target).any():
        raise InputError(f"target must be numbers of shape ({n}, targets), NaN where unknown, got {target.shape}")
    if weight is not None and (weight.shape != (n,) or not (np.isfinite(weight) & (weight >= 0)).all()):
        raise InputError(f"weight must be {n} finite numbers of at least 0, got shape {weight.shape}")
    parts = {"train": split.train} | ({"validation": split.validation} if len(split.validation) else {})
    for name, part in parts.items():
        if len(part) < 2 or part.min() < 0 or part.max() >= n:
            raise InputError(f"the {name} part must hold at least 2 of the {n} samples, got {len(part)}")
        if np.isnan(target[part]).all():
            raise InputError(f"the {name} part must hold a known label, got none")
        if weight is not None and not weight[part].any():
            raise InputError(f"the {name} part must hold some weight, got weights of 0 only")
    if len(np.intersect1d(split.train, split.validation)):
        raise InputError("train and validation parts must not share samples: nothing would stop overfitting")
