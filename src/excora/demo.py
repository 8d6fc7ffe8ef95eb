"""The demonstration: fit, compare and report on embedded data, where extrapolation helps and where it does not.

The bags are those of the study ``synthetic`` at sigma~ = 0.24. In the first setting the label asks for three times the
deviation that the bag shows; in the second for half of it, which plain attention can give, and labels are noisy.
"""

from __future__ import annotations

import io
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from excora.application import Run, compare, fit
from excora.comparison import Comparison
from excora.errors import InputError
from excora.settings import Settings
from excora.storage import write_atomically
from excora.tasks.plateau import PlateauTask
from excora.threads import one_thread

LEVEL, MARKER = 0.24, 0.55 / 0.6  # sigma~, nu / eta
BAGS = 1000
MODELS = ("softmax", "eca")
MARK = "made by excora demo\n"


class Setting(NamedTuple):
    """A task and what it is there to show."""

    title: str
    task: PlateauTask


def _task(stretch: float) -> PlateauTask:
    """The label asks for ``stretch`` times the deviation eta that the bag shows."""
    task = PlateauTask(eta=1.0, nu=MARKER).with_dispersion(LEVEL)
    return replace(task, kappa=stretch * task.eta)


SETTINGS = {
    "beyond": Setting("the label reaches beyond the bag", _task(3.0)),
    "within": Setting("the label stays within the bag", replace(_task(0.5), label_std=0.3)),
}


class Shown(NamedTuple):
    """What the demonstration gives: a comparison a setting, and the run on the first."""

    comparisons: dict[str, Comparison]
    run: Run


def run(
    output: str | Path = "runs/demo",
    *,
    seeds: int = 3,
    epochs: int = 24,
    bags: int = BAGS,
    console: Console | None = None,
) -> Shown:
    """Fit and compare on both settings, print the tables, and write a report for each into ``output``.

    The folder holds the bags too (ragged .npz), so that every command shown can be repeated. An earlier demonstration
    in it is replaced; a folder that holds anything else is an :class:`InputError`.
    """
    folder = Path(output)
    _claim(folder)
    # The elements need no encoder: what differs is the pool alone.
    # A quick, decaying step, so that softmax comes near its ceiling: an under-trained one would flatter us.
    rates: dict[str, Any] = {"learning_rate": 0.3, "schedule": "cosine", "batch_size": 40}
    settings = Settings(layers=0, epochs=epochs, patience=epochs, start="none", **rates)
    console = Console(quiet=True) if console is None else console
    say = console.print
    found: dict[str, Comparison] = {}
    with one_thread():
        for name, setting in SETTINGS.items():
            file = folder / f"{name}.npz"
            write_atomically(file, _bags(setting.task, bags))
            say(f"\n[bold]{setting.title}[/bold] ({bags} bags of {setting.task.elements}, {seeds} seeds)")
            if not found:
                trained = fit(file, output=folder / name, settings=settings, progress=False)
            found[name] = compare(
                file, output=folder / name, models=MODELS, folds=2, seeds=seeds, settings=settings, resume=True,
                progress=not console.quiet,
            )  # fmt: skip
            say(found[name], soft_wrap=not console.is_terminal)
            ceiling = setting.task.best_softmax_pcc
            say(f"The best PCC that softmax attention can reach here with any weights: {ceiling:.3f}.", soft_wrap=True)
    say(f"\n[bold]excora diagnose {trained.path}[/bold]:", trained.results["verdict"]["sentence"], soft_wrap=True)
    reports = " and ".join(str(folder / name / "report.html") for name in SETTINGS)
    say(f"\nto open in a browser: {reports}", soft_wrap=True)
    return Shown(found, trained)


def _claim(folder: Path) -> None:
    mark = folder / "README.txt"
    if mark.is_file() and mark.read_text("utf-8") == MARK:
        shutil.rmtree(folder)
    elif folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty and no earlier demonstration: give another folder with --output")
    write_atomically(mark, MARK)


def _bags(task: PlateauTask, bags: int) -> bytes:
    """The task's bags as a ragged .npz."""
    h, y = task.sample(bags, seed=0)
    stream = io.BytesIO()
    lengths = np.full(bags, task.elements)
    np.savez(stream, values=h.flatten(0, 1).numpy(), lengths=lengths, target=y.numpy())
    return stream.getvalue()
