"""``train``: a network on prepared features, by Lightning's Trainer; what fit, the estimators and compare share."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import tempfile
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from excora.data.dataset import Features
from excora.diagnosis.verdicts import Verdict, with_validation
from excora.errors import ExcoraError, InputError, MissingExtraError
from excora.models import Network
from excora.models.parts.start import LinearStart
from excora.settings import Machine, Recipe
from excora.training.batches import Rows

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
    stopped: str  #: "patience", "epochs", "diverged" or "interrupted"
    seconds: float
    start: dict[str, float] | None = None  #: the validation figures of the ridge that the network started from

    @property
    def epochs(self) -> int:
        """How many were finished."""
        return len(self.rows)

    def verdict(self) -> Verdict:
        """The monitor's, who sees the training part, in view of validation."""
        return with_validation(self.monitor.verdict(), self.stopped, self.epochs, self.best_epoch)


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

    Ctrl-C: with a folder the result says "interrupted" and has the best epoch so far, without one (or before the first
    epoch has ended) it is a KeyboardInterrupt. A criterion (without validation: a loss) that is no longer finite ends
    training as "diverged"; in the first epoch it is an :class:`ExcoraError`. ``network`` is changed in place; torch's
    random state is not.

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
    try:
        from excora.training.callbacks import Journal, write_records
        from excora.training.evaluation import start_score
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name), "app") from error
    heavy = None if weight is None else np.ascontiguousarray(weight, np.float32)
    rows = Rows(features, np.ascontiguousarray(target, np.float32), heavy)
    journal = Journal()
    if getattr(network.linear_start, "fresh", False) and len(split.validation):
        journal.begin(start_score(network, rows, split.validation, recipe, machine), network.state_dict())
    module = _regression(network, rows, split, recipe, machine)
    with _quiet(), torch.random.fork_rng(range(torch.cuda.device_count())), contextlib.ExitStack() as stack:
        where = None if folder is None else Path(folder)
        trainer = _trainer(module, journal, machine, where, progress=progress)
        if where is None and _starts_processes(trainer):  # what happened there comes back by file
            where = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            trainer = _trainer(module, journal, machine, where, progress=progress)
        interrupted = _run(trainer, module, journal, where, resume=resume)
    del module.monitor.records[len(journal.rows) :]  # an interrupt may come between the two
    if folder is not None and journal.rows and is_main():
        write_records(Path(folder), journal, module.monitor)
    if interrupted and (folder is None or journal.best is None or not journal.rows):
        raise KeyboardInterrupt
    return _result(network, module, journal, interrupted=interrupted)


def _regression(network: Network, rows: Rows, split: Split, recipe: Recipe, machine: Machine) -> Regression:
    from excora.training.module import Regression

    # Lightning warns of modules in eval mode, and a network that is trained again is in it.
    return Regression(network.train(), rows, split.train, split.validation, recipe, workers=machine.workers)


def _result(network: Network, module: Regression, journal: Journal, *, interrupted: bool) -> Training:
    """The network with its best weights."""
    if journal.best is None:
        raise ExcoraError(
            f"training diverged in its first epoch (loss {journal.rows[-1]['train_loss']:.3g}): lower the learning "
            f"rate, now {module.recipe.learning_rate:g}, and look for extreme values in the data"
        )
    network.load_state_dict(journal.best.state)
    if isinstance(network.linear_start, LinearStart):
        network.linear_start.fresh = False
    stopped = "interrupted" if interrupted else journal.stopped(module.recipe) or "epochs"
    figures = (journal.rows, module.monitor, stopped, journal.seconds, journal.start)
    return Training(network.cpu().eval(), journal.best.epoch, *figures)


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


def _trainer(module: Regression, journal: Journal, machine: Machine, folder: Path | None, *, progress: bool) -> Any:
    """Lightning's Trainer for this machine; what it refuses is an InputError."""
    from lightning.fabric.plugins.environments.slurm import SLURMEnvironment
    from lightning.pytorch import Trainer

    from excora.training.callbacks import Bar, WholeFiles, callbacks

    validated = len(module.validation_index) > 0
    hooks = callbacks(journal, module.monitor, module.recipe, folder, validated=validated, progress=progress)
    plugins: list[Any] = [WholeFiles()]
    if SLURMEnvironment.detect():
        # Its requeueing writes a checkpoint in mid-epoch, which does not resume exactly: sbatch --requeue, --resume.
        plugins.append(SLURMEnvironment(auto_requeue=False))
    accelerator = machine.accelerator
    if accelerator == "auto":  # not Apple's: the statistics are in float64, which it lacks
        accelerator = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return Trainer(
            accelerator=accelerator,
            devices=machine.devices,
            num_nodes=machine.nodes,
            strategy=machine.strategy,
            precision=cast(Any, machine.precision),
            max_epochs=module.recipe.epochs,
            callbacks=hooks,
            logger=_logger(machine, folder),
            default_root_dir=folder,
            plugins=plugins,
            use_distributed_sampler=False,
            num_sanity_val_steps=0,
            limit_val_batches=None if validated else 0,
            enable_checkpointing=folder is not None,
            enable_progress_bar=any(isinstance(hook, Bar) for hook in hooks),
            enable_model_summary=False,
        )
    except (ValueError, RuntimeError, TypeError, ImportError) as error:  # MisconfigurationException among them
        if isinstance(error, ExcoraError):
            raise
        raise InputError(
            f"accelerator {machine.accelerator!r}, devices {machine.devices}, nodes {machine.nodes}, strategy "
            f"{machine.strategy!r} and precision {machine.precision!r} do not go together here: {error}"
        ) from error


def _logger(machine: Machine, folder: Path | None) -> Any:
    """metrics.csv is written by the journal, which a resumed run continues; TensorBoard's files are Lightning's."""
    if machine.logger == "csv" or folder is None:
        return False
    from lightning.pytorch.loggers import TensorBoardLogger

    try:
        return TensorBoardLogger(folder, name="tensorboard", version="")
    except ModuleNotFoundError as error:
        raise MissingExtraError("tensorboardX", "tensorboard") from error


def _starts_processes(trainer: Any) -> bool:
    """Whether training happens in processes of its own, whose memory is gone afterwards."""
    from lightning.pytorch.strategies.launchers import _MultiProcessingLauncher

    return isinstance(trainer.strategy.launcher, _MultiProcessingLauncher)


def _run(trainer: Any, module: Regression, journal: Journal, folder: Path | None, *, resume: bool) -> bool:
    """Fit, from the last checkpoint if there is one to resume; True if it was interrupted. Fills the journal."""
    last = None if folder is None else folder / "checkpoints" / "last.ckpt"
    start = None
    if resume and last is not None and last.exists():
        _recall(last, module, journal)
        if journal.stopped(module.recipe) is not None:
            return False
        start = last
    handler = signal.getsignal(signal.SIGINT)
    interrupted = False
    try:
        trainer.fit(module, ckpt_path=start, weights_only=True)
    except (SystemExit, KeyboardInterrupt) as stop:
        # Lightning turns Ctrl-C into sys.exit, with SIGINT ignored from then on.
        if not (trainer.interrupted and isinstance(stop.__context__ or stop, KeyboardInterrupt)):
            raise
        interrupted = True
    finally:
        module.monitor.teardown(trainer, module, "fit")  # which Lightning leaves out after an interrupt
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)
    if _starts_processes(trainer) and last is not None and last.exists():
        _recall(last, module, journal)
    return interrupted


def _recall(path: Path, module: Regression, journal: Journal) -> None:
    """Journal and monitor as a checkpoint has them; one that belongs to another model is refused."""
    from excora.training.callbacks import read_checkpoint
    from excora.training.module import AVERAGE

    content = read_checkpoint(path)
    try:
        shapes = {name: value.shape for name, value in {**content["state_dict"], **content.get(AVERAGE, {})}.items()}
        states = content["callbacks"]
        journal.load_state_dict(states[journal.state_key])
        module.monitor.load_state_dict(states[module.monitor.state_key])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InputError(f"{path}: this is no checkpoint of Excora; delete it to train from the start") from error
    mine = {name: value.shape for name, value in module.contents().items()}
    scorer = "network.pool.scorer.weight"
    if len(shapes.get(scorer, ())) == 2 and len(mine.get(scorer, ())) == 1:
        raise InputError(
            f"{path}: this run was begun by Excora 0.1, whose linear scorer had another scale: it cannot go on as it "
            "would have. It predicts what it did; to train on, finish it with 0.1 or fit again into another folder"
        )
    if shapes != mine:
        differ = sorted(name for name in {*shapes, *mine} if shapes.get(name) != mine.get(name))
        raise InputError(f"{path}: this checkpoint is of another model, it differs in {', '.join(differ[:5])}")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without Lightning's remarks on hardware, workers and its own features."""
    from lightning.fabric.utilities.warnings import PossibleUserWarning

    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric", "lightning")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PossibleUserWarning)
            warnings.filterwarnings("ignore", ".*Checkpoint directory .* exists and is not empty")
            warnings.filterwarnings("ignore", ".*LeafSpec.* is deprecated", FutureWarning)  # Lightning's call of torch
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
