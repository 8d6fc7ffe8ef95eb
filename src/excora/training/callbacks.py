"""What Lightning's Trainer is given: the journal of a run, its checkpoints, patience and progress bar."""

from __future__ import annotations

import csv
import io
import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint, ProgressBar
from lightning.pytorch.plugins.io import CheckpointIO
from torch import Tensor

from excora.errors import ExcoraError, InputError
from excora.settings import Recipe
from excora.storage import write_atomically
from excora.training.progress import Lines
from excora.training.run_monitor import RunMonitor

COLUMNS = ("epoch", "train_loss", "validation_pcc", "validation_mse", "validation_criterion", "learning_rate")
#: Seconds between checkpoints, at least: a short epoch is sooner trained again than written.
CHECKPOINT_SECONDS = 1.0
Row = dict[str, float]
VALIDATED = "validation_criterion"  #: in the rows of a run with a validation part, and what its patience watches


class Best(NamedTuple):
    """The epoch with the lowest criterion so far (the last one, without validation), and the network's weights then.

    Epoch -1 is the network before training, where that was scored.
    """

    epoch: int
    state: dict[str, Tensor]


class Journal(Callback):
    """A row for each epoch, and the best weights; part of every checkpoint, so both always belong together."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.best: Best | None = None
        self.start: Row | None = None  #: the validation figures before training, of a network that starts from a ridge
        self.seconds = 0.0
        self._since = 0.0

    def begin(self, row: Row, state: dict[str, Tensor]) -> None:
        """Score and weights of the network before training."""
        self.start = row
        self.best = Best(-1, {name: value.detach().cpu().clone() for name, value in state.items()})

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """Start the clock."""
        self._since = time.monotonic()

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Enter the epoch, and end a run that has diverged."""
        now = time.monotonic()
        self.seconds += now - self._since
        self._since = now
        epoch = len(self.rows)
        self.rows.append({"epoch": epoch, **pl_module.figures()})
        if self.best_epoch == epoch:
            state = pl_module.weights()
            self.best = Best(epoch, {name: value.detach().cpu().clone() for name, value in state.items()})
        trainer.should_stop = trainer.should_stop or self._diverged

    @property
    def best_epoch(self) -> int | None:
        """The first epoch with the lowest criterion, without validation the last one; None if none is finite.

        -1 where none is better than the start.
        """
        trained = self._best_trained
        if self.start is not None and (trained is None or self.start[VALIDATED] <= trained[VALIDATED]):
            return -1
        return None if trained is None else int(trained["epoch"])

    @property
    def _best_trained(self) -> Row | None:
        known = [row for row in self.rows if math.isfinite(_judged(row))]
        if not known:
            return None
        return min(known, key=_judged) if VALIDATED in known[-1] else known[-1]

    @property
    def _diverged(self) -> bool:
        return bool(self.rows) and not math.isfinite(_judged(self.rows[-1]))

    def stopped(self, recipe: Recipe) -> str | None:
        """Why no further epoch is due: "diverged", "patience", "epochs"; None if one is."""
        if self._diverged:
            return "diverged"
        # Patience is with the epochs, whatever they started from: a network may lose before it gains.
        best = self._best_trained
        if best is not None and len(self.rows) - 1 - int(best["epoch"]) >= recipe.patience:
            return "patience"
        return "epochs" if len(self.rows) >= recipe.epochs else None

    def to_csv(self) -> str:
        """The rows as metrics.csv; what was not measured is an empty cell."""
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return text.getvalue()

    def state_dict(self) -> dict[str, Any]:
        """Plain values and tensors."""
        best = None if self.best is None else {"epoch": self.best.epoch, "state": self.best.state}
        rows = [dict(row) for row in self.rows]
        return {"rows": rows, "best": best, "seconds": self.seconds, "start": self.start}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what :meth:`state_dict` gave."""
        self.rows = [dict(row) for row in state_dict["rows"]]
        best = state_dict["best"]
        self.best = None if best is None else Best(best["epoch"], best["state"])
        self.seconds, self.start = state_dict["seconds"], state_dict.get("start")


def _judged(row: Row) -> float:
    """What must be finite in a row."""
    return row.get(VALIDATED, row["train_loss"])


class RunCheckpoint(ModelCheckpoint):
    """``checkpoints/last.ckpt`` of a run folder at the end of an epoch, with metrics.csv and monitor.json beside it."""

    def __init__(self, folder: Path, journal: Journal, monitor: RunMonitor, *, seconds: float | None = None) -> None:
        super().__init__(
            dirpath=folder / "checkpoints", filename="last", save_on_train_epoch_end=True, enable_version_counter=False
        )
        self.folder, self.journal, self.monitor_of_run = folder, journal, monitor
        self.seconds = CHECKPOINT_SECONDS if seconds is None else seconds
        self._written = -math.inf

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Write, if it is time or the last epoch."""
        last = trainer.should_stop or trainer.current_epoch + 1 >= trainer.max_epochs
        due = trainer.strategy.broadcast(last or time.monotonic() - self._written >= self.seconds)
        if not due:
            return
        super().on_train_epoch_end(trainer, pl_module)
        if trainer.is_global_zero:
            write_records(self.folder, self.journal, self.monitor_of_run)
        self._written = time.monotonic()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Nothing: the last epoch has been written."""

    def state_dict(self) -> dict[str, Any]:
        """Nothing: a run folder may move, and it has one checkpoint."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Nothing."""


def write_records(folder: Path, journal: Journal, monitor: RunMonitor) -> None:
    """metrics.csv and monitor.json."""
    write_atomically(folder / "metrics.csv", journal.to_csv())
    monitor.to_json(folder / "monitor.json")


class Patience(EarlyStopping):
    """Lightning's early stopping, which on resuming keeps the patience asked for now."""

    def __init__(self, patience: int) -> None:
        super().__init__(VALIDATED, patience=patience, mode="min", check_on_train_epoch_end=True)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """The count so far."""
        super().load_state_dict({**state_dict, "patience": self.patience})


class WholeFiles(CheckpointIO):
    """Checkpoints that are written whole or not at all, and read without ever running code."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:  # noqa: ARG002
        """A temporary file beside it, then one rename."""
        buffer = io.BytesIO()
        torch.save(checkpoint, buffer)
        try:
            write_atomically(Path(path), buffer.getvalue())
        except OSError as error:
            raise ExcoraError(
                f"{path}: the checkpoint ({buffer.tell() / 1e6:.1f} MB) could not be written: {error.strerror}. The "
                "one before it is whole: make room and resume the run (--resume, resume=True)"
            ) from error

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> Any:  # noqa: ARG002
        """Tensors and plain values only."""
        return read_checkpoint(Path(path))

    def remove_checkpoint(self, path: Any) -> None:
        """Delete it, if it is there."""
        Path(path).unlink(missing_ok=True)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """The content of a checkpoint; whatever is wrong with the file is an InputError."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a foreign file fails in as many ways as there are files
        raise InputError(
            f"{path}: this is no checkpoint of Excora ({type(error).__name__}); delete it to train from the start"
        ) from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: a checkpoint is a dictionary, got {type(content).__name__}")
    return content


class Bar(ProgressBar):
    """One line: epoch, validation PCC, the time left if no patience ends it sooner."""

    def __init__(self, epochs: int) -> None:
        super().__init__()
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self.epochs = epochs
        self.console = Console(stderr=True)
        columns = (
            TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"), BarColumn(),
            TextColumn("validation PCC {task.fields[pcc]}"), TimeElapsedColumn(), TextColumn("left at most"),
            TimeRemainingColumn(elapsed_when_finished=False),
        )  # fmt: skip
        self.progress = Progress(*columns, console=self.console, transient=True, refresh_per_second=4)
        self.task = self.progress.add_task("", total=None, epoch=1, epochs=epochs, pcc="…")

    @property
    def wanted(self) -> bool:
        """Whether anybody would see it."""
        return self.console.is_terminal or self.console.is_jupyter

    def disable(self) -> None:
        """Lightning's word for ranks that show nothing."""
        self.progress.disable = True

    def enable(self) -> None:
        """And for the one that does."""
        self.progress.disable = False

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """Show it."""
        done = trainer.current_epoch * trainer.num_training_batches
        self.progress.update(self.task, total=self.epochs * trainer.num_training_batches, completed=done)
        self.progress.start()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:  # noqa: ARG002
        """A step further."""
        self.progress.advance(self.task)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """An epoch further."""
        pcc = trainer.callback_metrics.get("validation_pcc")
        epoch = min(trainer.current_epoch + 2, self.epochs)
        self.progress.update(self.task, epoch=epoch, pcc="none" if pcc is None else f"{float(pcc):.3f}")

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """Gone."""
        self.progress.stop()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:  # noqa: ARG002
        """Gone."""
        self.progress.stop()


def callbacks(
    journal: Journal, monitor: RunMonitor, recipe: Recipe, folder: Path | None, *, validated: bool, progress: bool
) -> list[Any]:
    """All of them, in the order in which an epoch ends: monitor and journal first, the checkpoint last."""
    found: list[Any] = [monitor, journal]
    if validated:
        found.append(Patience(recipe.patience))
    if progress:
        bar = Bar(recipe.epochs)
        found.append(bar if bar.wanted else Lines(recipe.epochs))
    if folder is not None:
        found.append(RunCheckpoint(folder, journal, monitor))
    return found
