"""``compare``: every model on the same folds, seeds and features; resumable; with the conclusion in plain words."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import excora
from excora.comparison.analysis import Pool, analyse, target_scale
from excora.comparison.progress import Finish, watch
from excora.comparison.records import Record, Store
from excora.comparison.result import Comparison
from excora.comparison.runs import LABELS, MODELS, prepare, run
from excora.data.dataset import Dataset
from excora.data.reading import read
from excora.data.splits import Split
from excora.data.splits import folds as make_folds
from excora.errors import ExcoraError, InputError, MissingExtraError
from excora.peers.lightgbm import import_lightgbm
from excora.settings import MODEL_OF, POOLS, Settings
from excora.storage import write_atomically


def compare(
    data: str | Path | Dataset,
    *,
    target: str | Iterable[str] = (),
    output: str | Path | None = None,
    models: Sequence[str] = MODELS,
    folds: int = 5,
    seeds: int = 3,
    settings: Settings | None = None,
    progress: bool = True,
    resume: bool = False,
    **roles: Any,
) -> Comparison:
    """Pools and peers on the same folds and features, ``seeds`` times; which differences are more than noise.

    ``data``: what :func:`excora.data.reading.read` takes, with ``target`` and its other ``roles`` (group, time, weight,
    bag, ...), or a Dataset, which has them. Each seed deals the folds anew and starts the networks anew. In a fold all
    models learn from the same training part and are tuned on the same validation part; the test part is predicted once.

    Rows are means over runs. Differences are of scores over all samples of a seed, mean over seeds, with paired
    bootstrap intervals (:mod:`excora.stats.paired`): plain 95 % for each pair, and for the claim about the best
    model intervals that hold for all pairs at once.

    ``output``: a folder for comparison.json, out_of_fold.csv, report.html and runs/, a file for each finished run;
    ``resume`` goes on with them, also with more seeds or models. Ctrl-C leaves them in order.

    >>> import pandas as pd, numpy as np
    >>> x = np.random.default_rng(0).normal(size=(60, 2))
    >>> data = Dataset(np.arange(60).astype(str).astype(object), ("y",), x @ [[2.0], [1.0]], pd.DataFrame(x))
    >>> found = compare(data, models=["ridge", "neighbours"], seeds=2, progress=False)
    >>> found.best, found.headline.better_than
    ('ridge', ['neighbours'])

    A missing LightGBM is left out and noted, or an error if ``models`` asks for it by name.
    """
    dataset = _dataset(data, target, roles)
    settings = (settings or Settings()).settled(MODEL_OF[dataset.kind])
    names, notes = _names(models, settings.model)
    _check(dataset, seeds, settings)
    numbers = [settings.seed + k for k in range(seeds)]
    parts = {seed: make_folds(dataset, folds=folds, seed=seed) for seed in numbers}
    settings = settings.settled(settings.model, len(parts[settings.seed][0].train))
    store = Store(None if output is None else Path(output), settings, resume=resume)
    jobs = [(seed, fold, model) for seed in numbers for fold in range(folds) for model in names]
    with _stoppable(store, len(jobs), progress), watch(jobs, _console() if progress else None) as finish:
        records = list(_records(dataset, parts, names, settings, store, finish))
    pool = Pool(dataset, names, parts)
    for record in records:
        pool.add(record)
    setup = _setup(data, dataset, roles, names, folds, numbers, settings)
    found = analyse(dataset, pool, records, setup, _rerun(data, dataset, output, setup))
    found.notes.extend(notes)
    if output is not None:
        _write(Path(output), found, dataset, pool)
    return found


def _records(
    dataset: Dataset, parts: dict[int, list[Split]], names: list[str], settings: Settings, store: Store, finish: Finish
) -> Iterator[Record]:
    """Every run, computed or loaded; all models of a fold before the next fold, so that time left is known early."""
    assert dataset.target is not None
    scale = target_scale(dataset.target)
    for seed, splits in parts.items():
        for fold, split in enumerate(splits):
            material = prepare(dataset, split, seed, fold, settings.scaling)
            shape = len(split.test), len(scale)
            for model in names:
                record = store.load(model, seed, fold, material.fingerprint, *shape)
                known = record is not None
                if record is None:
                    record = run(model, material, settings, scale)
                    store.save(record)
                if record.fingerprint != material.fingerprint:
                    raise ExcoraError(f"{model} ran on other folds or features than the others: this is a bug")
                finish((seed, fold, model), None if known else record.seconds)
                yield record


def _dataset(data: str | Path | Dataset, target: str | Iterable[str], roles: dict[str, Any]) -> Dataset:
    if not isinstance(data, Dataset):
        return read(data, target=target, **roles)
    asked = (target,) if isinstance(target, str) else tuple(target)
    if any(roles.values()) or (asked and asked != data.targets):
        raise InputError(f"a Dataset has its target ({', '.join(data.targets)}) and roles: give them where it is made")
    return data


def _names(models: Sequence[str], host: str) -> tuple[list[str], list[str]]:
    """Which models to run, with pools in the network ``host``, and notes on those that are left out."""
    names = list(dict.fromkeys(models))
    unknown = [name for name in names if name not in LABELS]
    if unknown or not names:
        raise InputError(f"models must be some of {', '.join(MODELS)}, got {', '.join(map(repr, unknown)) or 'none'}")
    notes = [f"pools are compared within the model {host}"] if host != "pool" and {*names} & {*POOLS} else []
    if host == "ft-transformer" and tuple(models) == MODELS:
        names = [name for name in names if name not in ("mean", "gated")]
        notes.append("mean and gated are left out: the FT-Transformer attends with softmax, eca-paper or eca")
    if "lightgbm" in names:
        try:
            import_lightgbm()
        except MissingExtraError as error:
            if tuple(models) != MODELS:
                raise
            names.remove("lightgbm")
            notes.append(f"LightGBM is left out: {error}")
    return names, notes


def _check(dataset: Dataset, seeds: int, settings: Settings) -> None:
    if dataset.target is None:
        raise InputError("a comparison needs labelled data, and these have no target")
    if seeds < 1:
        raise InputError(f"seeds must be at least 1, got {seeds}")
    if settings.devices > 1 or settings.nodes > 1:
        raise InputError(f"compare trains on one device, got {settings.devices} devices and {settings.nodes} nodes")


def _console() -> Any:
    """Progress goes to the error stream: the output stream is for results."""
    from rich.console import Console

    return Console(stderr=True)


@contextlib.contextmanager
def _stoppable(store: Store, total: int, progress: bool) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        if progress:
            kept = "no output folder was given, so nothing is kept"
            if store.folder is not None:
                done = len(list(store.folder.glob("*.json")))
                kept = (
                    f"{done} of {total} runs are in {store.folder}; the same call with resume=True (--resume) goes on"
                )
            _console().print(f"stopped: {kept}", highlight=False, markup=False, soft_wrap=True)
        raise


def _setup(
    data: Any,
    dataset: Dataset,
    roles: dict[str, Any],
    names: list[str],
    folds: int,
    seeds: list[int],
    settings: Settings,
) -> dict[str, Any]:
    given = {name: str(v) if isinstance(v, Path) else v for name, v in roles.items() if v not in (None, (), [])}
    return {
        "excora": excora.__version__, "data": "in memory" if isinstance(data, Dataset) else str(data),
        "target": list(dataset.targets), **given, "models": names, "folds": folds, "seeds": seeds,
        "settings": settings.to_dict(),
    }  # fmt: skip


def _rerun(data: Any, dataset: Dataset, output: Any, setup: dict[str, Any]) -> str:
    """The command line; a data set in memory has none."""
    if isinstance(data, Dataset):
        return "excora.comparison.compare(dataset, ...) with the setup of comparison.json"
    words = ["excora", "compare", str(data)]
    for name in dataset.targets:
        words += ["--target", name]
    for name in ("group", "time", "weight", "bag", "labels", "id", "drop"):
        given = setup.get(name, [])
        for value in [given] if isinstance(given, str) else given:
            words += [f"--{name}", value]
    if tuple(setup["models"]) != MODELS:
        for name in setup["models"]:
            words += ["--only", name]
    words += ["--folds", str(setup["folds"]), "--seeds", str(len(setup["seeds"]))]
    usual = Settings(model=setup["settings"]["model"]).to_dict()  # what depends on rows is open there: it is named
    for name, value in setup["settings"].items():
        if name == "model" or (value != usual[name] and name != "pool"):
            words += [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join(words + ([] if output is None else ["--output", str(output)]))


def _write(folder: Path, found: Comparison, dataset: Dataset, pool: Pool) -> None:
    from excora.report import write_report

    write_atomically(folder / "out_of_fold.csv", _predictions(dataset, pool))
    write_atomically(folder / "comparison.json", json.dumps(found.to_dict(), indent=1, allow_nan=False))
    write_report(folder)


def _predictions(dataset: Dataset, pool: Pool) -> str:
    """A row for each seed and sample: targets, then a column a model (and target, if there are several)."""
    assert dataset.target is not None
    several = len(dataset.targets) > 1

    def named(name: str) -> list[str]:
        return [f"{name}:{target}" for target in dataset.targets] if several else [name]

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    group = [] if dataset.group is None else ["group"]
    writer.writerow(["id", *group, "seed", *named("target"), *(c for model in pool.models for c in named(model))])
    for place, seed in enumerate(pool.seeds):
        for sample in pool.index:
            labels = [dataset.ids[sample], *([] if dataset.group is None else [dataset.group[sample]]), seed]
            numbers = [dataset.target[sample].tolist(), pool.prediction[place, :, sample].ravel().tolist()]
            writer.writerow([*labels, *numbers[0], *numbers[1]])
    return text.getvalue()
