"""``tune``: the tuned ensemble for tables, from a file to a folder that ``predict`` reads.

It is a command and not a model behind the door: a model is one network with one preparation and one training, and the
ensemble has several of each, picked by a validation part that it deals out itself.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from excora.application.folder import claim, versions
from excora.application.lock import locked
from excora.application.results import columns
from excora.data.dataset import Dataset, Index
from excora.data.reading import Paths, read, shown
from excora.data.roles import Roles
from excora.data.splits import split
from excora.data.table import Table
from excora.errors import InputError
from excora.estimators import TabularEnsemble, TabularRegressor
from excora.estimators.ensemble import INDEX
from excora.report import write_report
from excora.storage import plain, read_json, write_atomically, write_json
from excora.training.evaluation import scores
from excora.training.progress import say


class Told(TabularEnsemble):
    """An ensemble that says how far it is on the error stream, and keeps every fit in a folder, to go on from.

    The output stream is for results. A fit is known by its options, rows and seed.
    """

    folder: Path

    def _say(self, line: str) -> None:
        if self.verbose:
            say(line)

    def _fitted(self, trial: Any, rows: Any, target: Any, group: Any, index: Index, seed: int) -> TabularRegressor:
        known = json.dumps([self.pool, trial, seed, hashlib.sha256(index.tobytes()).hexdigest()], sort_keys=True)
        path = self.folder / f"{hashlib.sha256(known.encode()).hexdigest()[:16]}.safetensors"
        if path.exists():
            self._say("read from the stopped run:")
            return TabularRegressor.load(path)
        model = super()._fitted(trial, rows, target, group, index, seed)
        self.folder.mkdir(exist_ok=True)
        model.save(path)
        return model


@dataclass(frozen=True)
class Tuned:
    """A folder of ``excora tune``: the fitted ensemble and what it is worth."""

    path: Path
    config: dict[str, Any]
    ensemble: TabularEnsemble
    results: dict[str, Any]  #: counts, test (of each target), trials, chosen, seconds, notes

    @classmethod
    def load(cls, path: str | Path) -> Tuned:
        """Read a folder; nothing in it is ever run, and whatever is missing, broken or foreign is an InputError."""
        folder = Path(path)
        config, results = (read_json(folder / name) for name in ("config.json", "results.json"))
        return cls(folder, config, TabularEnsemble.load(folder), results)

    def __rich__(self) -> Any:
        """The trials, the scores of the test part and the notes for rich consoles."""
        from rich.console import Group
        from rich.text import Text

        from excora.console import table

        found, times = self.results, self.results["chosen"]
        trials = [
            (str(k + 1), f"{trial['mse']:.4f}", f"{trial['pcc']:.3f}", f"{trial['seconds']:.0f}", str(times.count(k)))
            for k, trial in enumerate(found["trials"])
        ]
        parts = [table(trials, ("trial", "validation MSE", "validation PCC", "seconds", "picked"), right=range(1, 5))]
        rows = [(name, *(_figure(one[key]) for key in ("pcc", "low", "high", "mse", "mae")))
                for name, one in found["test"].items()]  # fmt: skip
        parts += [table(rows, ("target", "test PCC", "low", "high", "MSE", "MAE"), right=range(1, 6))] if rows else []
        return Group(
            *parts, *map(Text, found["notes"]), Text(f"to predict: excora predict {self.path} NEW.csv -o OUT.csv")
        )


def _figure(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4g}"


def tune(
    data: Paths | Dataset,
    *,
    output: str | Path,
    target: str | Iterable[str] = (),
    validation: float = 0.2,
    test: float = 0.2,
    members: int = 4,
    trials: int = 10,
    seconds: float | None = 120.0,
    epochs: int | None = None,
    default: bool = True,
    seed: int = 0,
    progress: bool = True,
    resume: bool = False,
    **roles: Any,
) -> Tuned:
    """Try settings of the ensemble on validation, fit the picked ones again, look at the test part once.

    ``data``, ``target`` and ``roles`` as for :func:`excora.fit`, for tables: rows without a label are left out. The
    other options are those of :class:`excora.TabularEnsemble`. Ctrl-C leaves an ``output`` that says "interrupted" and
    holds no ensemble, but every fit that had ended: ``resume`` goes on from there, with the same data and options, and
    counts ``seconds`` anew. A report is written beside the results.
    """
    folder, given = Path(output), Roles.of(target=target, **roles)
    with locked(folder):
        shares = {"validation": validation, "test": test}
        model = Told(
            members=members, trials=trials, seconds=seconds, epochs=epochs, default=default,
            validation_fraction=validation / (1 - test), random_state=seed, verbose=progress,
        )  # fmt: skip
        return _tune(data, folder, given, model, shares, resume=resume)


def _tune(
    data: Paths | Dataset, folder: Path, given: Roles, ensemble: Told, shares: dict[str, float], *, resume: bool
) -> Tuned:
    """:func:`tune` in a folder that nobody else writes to."""
    there = claim(folder, resume=resume)
    dataset = data if isinstance(data, Dataset) else read(data, **vars(given))
    frame, known, notes = _rows(dataset)
    parts = split(dataset.take(known), validation=0.0, test=shares["test"], seed=ensemble.random_state)
    learn, held = known[parts.train], known[parts.test]
    ensemble._check()
    ensemble.folder = folder / "fits"
    config = plain(_config(data, given, dataset, shares, ensemble))
    if there:
        before = read_json(folder / "config.json")
        if before.get("state") == "finished":
            return Tuned.load(folder)
        if any(before.get(name) != config[name] for name in ("data", "split", "settings")):
            raise InputError(f"{folder}: the run in it has other data or options; to go on, give the same ones")
    write_json(folder / "config.json", config)
    start = time.perf_counter()
    assert dataset.target is not None
    y = dataset.target[:, 0] if len(dataset.targets) == 1 else dataset.target
    try:
        ensemble.fit(frame.iloc[learn], y[learn], groups=None if dataset.group is None else dataset.group[learn])
    except KeyboardInterrupt:
        write_json(folder / "config.json", config | {"state": "interrupted"})
        raise
    results: dict[str, Any] = {
        "counts": {"train": len(learn), "test": len(held)}, "trials": ensemble.trials_, "chosen": ensemble.chosen_,
        "seconds": time.perf_counter() - start, "notes": notes, "validation": {}, "test": {}, "best_epoch": None,
        "epochs": 0, "stopped": "fitted",
    }  # fmt: skip
    if len(held):
        results["test"] = _test(ensemble, dataset, frame, held, folder)
    write_json(folder / "results.json", plain(results))
    ensemble.save(folder)  # its index comes last: before it the folder is no ensemble
    config |= {"state": "finished"}
    write_json(folder / "config.json", config)
    write_report(folder)
    shutil.rmtree(ensemble.folder, ignore_errors=True)
    return Tuned(folder, config, ensemble, plain(results))


def _rows(dataset: Dataset) -> tuple[pd.DataFrame, Index, list[str]]:
    """The features, the rows that have all their labels, and notes."""
    if not isinstance(dataset.content, Table) or dataset.target is None:
        raise InputError(f"tune reads labelled tables, one row a sample, got {dataset.kind}; use excora fit for others")
    for name in ("weight", "time"):
        if getattr(dataset, name) is not None:
            raise InputError(f"tune does not know --{name}: use excora fit, or leave it out")
    known = np.flatnonzero(~np.isnan(dataset.target).any(1))
    lost = len(dataset) - len(known)
    notes = [*dataset.notes, *([f"rows that lack one of the labels are left out: {lost}"] if lost else [])]
    return dataset.content.frame, known, notes


def _config(
    data: Any, roles: Roles, dataset: Dataset, shares: dict[str, float], model: TabularEnsemble
) -> dict[str, Any]:
    import excora

    named = roles.to_dict() | {"target": list(dataset.targets)}
    path = None if isinstance(data, Dataset) else shown(data)
    return {
        "excora": excora.__version__, "state": "training", "split": shares, "environment": versions(),
        "data": {"path": path, **named, "fingerprint": dataset.fingerprint()},
        "settings": {"model": "ensemble", **model.get_params()}, "rerun": _command(path, named, shares, model),
    }  # fmt: skip


def _command(path: str | None, roles: dict[str, Any], shares: dict[str, float], model: TabularEnsemble) -> str:
    """The command line that does it again."""
    words = ["excora", "tune", "DATA" if path is None else path]
    for name, value in roles.items():
        values = value if isinstance(value, list | tuple) else [] if value is None else [value]
        words += [word for one in values for word in (f"--{name}", str(one))]
    options = {name: getattr(model, name) for name in ("members", "trials", "seconds", "epochs")}
    for name, value in {**shares, **options, "seed": model.random_state}.items():
        words += [] if value is None else [f"--{name}", f"{value:g}"]
    words += [] if model.default else ["--no-default"]
    return shlex.join([*words, "--output", "NEW"])


def _predicted(ensemble: TabularEnsemble, frame: pd.DataFrame) -> Any:
    return ensemble.predict(frame).reshape(len(frame), -1)


def _test(
    ensemble: TabularEnsemble, dataset: Dataset, frame: pd.DataFrame, held: Index, folder: Path
) -> dict[str, dict[str, float]]:
    """The scores of the test part, whose predictions are written."""
    assert dataset.target is not None
    prediction, target = _predicted(ensemble, frame.iloc[held]), dataset.target[held]
    content: dict[str, Any] = {"id": dataset.ids[held], "part": "test"}
    content |= {} if dataset.group is None else {"group": dataset.group[held]}
    for word, values in (("target", target), ("prediction", prediction)):
        content |= dict(zip(columns(dataset.targets, word), values.T, strict=True))
    table = pd.DataFrame(content).to_csv(index=False, lineterminator="\n")
    write_atomically(folder / "predictions.csv", table)
    return scores(prediction, target, dataset.targets, None if dataset.group is None else dataset.group[held])


def is_tuned(run: Any) -> bool:
    """Whether a path is a folder of ``tune``."""
    return isinstance(run, Tuned) or (isinstance(run, str | Path) and (Path(run) / INDEX).is_file())


def predict_tuned(run: Tuned | str | Path, dataset: Dataset) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """A row a sample (id, prediction) and notes."""
    found = run if isinstance(run, Tuned) else Tuned.load(run)
    if not isinstance(dataset.content, Table):
        raise InputError(f"{found.path} was tuned on a table, got {dataset.kind}")
    names = [str(name) for name in found.ensemble.feature_names_in_]
    lacks = [name for name in names if name not in dataset.content.frame]
    if lacks:
        raise InputError(f"the data lack the columns {', '.join(map(repr, lacks))}, which the ensemble was tuned on")
    prediction = _predicted(found.ensemble, dataset.content.frame[names])
    targets = tuple(found.config["data"]["target"])
    named = dict(zip(columns(targets, "prediction"), prediction.T, strict=True))
    return pd.DataFrame({"id": dataset.ids, **named}), tuple(dataset.notes)
