"""Lightning's Trainer as this package wants it: made for a machine, run from a checkpoint or the start, quietly."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import torch
from lightning.fabric.plugins.environments.slurm import SLURMEnvironment
from lightning.fabric.utilities.warnings import PossibleUserWarning
from lightning.pytorch import Trainer
from lightning.pytorch.strategies.launchers import _MultiProcessingLauncher

from excora.errors import ExcoraError, InputError, MissingExtraError
from excora.settings import Machine
from excora.training.callbacks import Bar, Journal, WholeFiles, callbacks, read_checkpoint
from excora.training.module import AVERAGE, Regression


def make_trainer(module: Regression, journal: Journal, machine: Machine, folder: Path | None, *, progress: bool) -> Any:
    """Lightning's Trainer for this machine; what it refuses is an InputError."""
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


def starts_processes(trainer: Any) -> bool:
    """Whether training happens in processes of its own, whose memory is gone afterwards."""
    return isinstance(trainer.strategy.launcher, _MultiProcessingLauncher)


def run(trainer: Any, module: Regression, journal: Journal, folder: Path | None, *, resume: bool) -> bool:
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
    if starts_processes(trainer) and last is not None and last.exists():
        _recall(last, module, journal)
    return interrupted


def _recall(path: Path, module: Regression, journal: Journal) -> None:
    """Journal and monitor as a checkpoint has them; one that belongs to another model is refused."""
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
def quiet() -> Iterator[None]:
    """Without Lightning's remarks on hardware, workers and its own features."""
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
