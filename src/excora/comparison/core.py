"""``compare``: every model on the same folds, seeds and features; resumable; with the conclusion in plain words."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import excora
from excora.comparison.analysis import OutOfFold, analyse, target_scale
from excora.comparison.entrants import Entrant, entrants, suited
from excora.comparison.progress import Finish, watch
from excora.comparison.records import Record, Store, deciding
from excora.comparison.result import MARGIN, Comparison
from excora.comparison.runs import Fold, run
from excora.data import sources
from excora.data.dataset import Dataset
from excora.data.doubts import doubts
from excora.data.preparation import Preparation
from excora.data.reading import Paths, listed, read, shown
from excora.data.roles import Roles
from excora.data.splits import Split
from excora.data.splits import folds as make_folds
from excora.errors import ExcoraError, InputError
from excora.models import models as registered
from excora.settings import Settings, Setup
from excora.storage import write_atomically, write_json


def compare(
    data: Paths | Dataset,
    *,
    target: str | Iterable[str] = (),
    output: str | Path | None = None,
    models: Sequence[str] | None = None,
    folds: int = 5,
    seeds: int = 3,
    margin: float = MARGIN,
    settings: Settings | None = None,
    progress: bool = True,
    resume: bool = False,
    **roles: Any,
) -> Comparison:
    """Models, pools and peers on the same folds and features, ``seeds`` times; which differences are more than noise.

    ``models``: any of ``MODEL``, ``MODEL:POOL``, ``POOL`` (within the model of ``settings``) and the peers, as
    ``excora models`` lists them; None: the pools of that model, ridge, nearest neighbours and LightGBM.

    ``data``: what :func:`excora.data.reading.read` takes, with ``target`` and its other ``roles`` (group, time, weight,
    bag, ...), or a Dataset, which has them. Each seed deals the folds anew and starts the networks anew. In a fold all
    models learn from the same training part and are tuned on the same validation part; the test part is predicted once.

    Scores are over all test samples of a seed together, mean over seeds, the best model first. Every pair of models has
    its difference, an interval, and a verdict; all pairs are judged at once (:mod:`excora.stats.family`). "no
    difference" means that the interval lies within ``margin`` of 0, "cannot tell" that it does not.

    ``output``: a folder for comparison.json, out_of_fold.csv and runs/, a file for each finished run;
    ``resume`` goes on with them, also with more seeds or models. Ctrl-C leaves them in order.

    >>> import pandas as pd, numpy as np
    >>> from excora.data.table import Table
    >>> x = np.random.default_rng(0).normal(size=(60, 2))
    >>> data = Dataset(np.arange(60).astype(str).astype(object), ("y",), x @ [[2.0], [1.0]], Table(pd.DataFrame(x)))
    >>> found = compare(data, models=["ridge", "neighbours"], seeds=2, progress=False)
    >>> found.best, found.headline.better_than
    ('ridge', ['neighbours'])

    A missing LightGBM is left out and noted, or an error if ``models`` asks for it by name.
    """
    dataset = _dataset(data, target, roles)
    source = sources[dataset.kind]
    dataset = source.targeted(dataset, None)  # every fold has the same
    settings = settings or Settings()
    _check(dataset, seeds, margin)
    who, notes = entrants(models, settings, dataset.kind)
    first = settings.named.get("seed", 0)
    numbers = [first + k for k in range(seeds)]
    parts = {
        seed: [source.apart(dataset, part) for part in make_folds(dataset, folds=folds, seed=seed)] for seed in numbers
    }
    plan = Plan.of(dataset, who, settings, len(parts[first][0].train))
    store = Store(None if output is None else Path(output), resume=resume)
    jobs = [(seed, fold, one.name) for seed in numbers for fold in range(folds) for one in who]
    with _stoppable(store, len(jobs), progress), watch(jobs, _console() if progress else None) as finish:
        records = list(_records(dataset, parts, plan, store, finish))
    pool = OutOfFold(dataset, who, parts)
    for record in records:
        pool.add(record)
    given = Roles.of(**({} if isinstance(data, Dataset) else {"target": target, **roles}))
    setup = _setup(data, dataset, given, plan, folds, numbers)
    found = analyse(
        dataset, pool, records, setup, _rerun(data, given, output, models, plan, setup, margin), margin=margin
    )
    found.notes.extend([*notes, *_doubts(dataset, parts[first][0])])
    if output is not None:
        write_atomically(Path(output) / "out_of_fold.csv", _predictions(dataset, pool))
        write_json(Path(output) / "comparison.json", found.to_dict())
    return found


def _doubts(dataset: Dataset, part: Split) -> tuple[str, ...]:
    """What would make the scores too good to be true, by the first fold."""
    prepared = Preparation.fit(dataset, part.train)
    return doubts(dataset, part, sources[dataset.kind].plain(dataset, prepared.content))


class Plan(NamedTuple):
    """Who runs how."""

    entrants: list[Entrant]
    setups: dict[str, Setup | None]  #: of each; None for a peer
    host: Setup  #: of the model that is asked for: its preparation makes the matrix of the peers, its recipe tunes them
    asked: Settings

    @classmethod
    def of(cls, dataset: Dataset, who: list[Entrant], settings: Settings, rows: int) -> Plan:
        """For so many training rows."""
        kind = dataset.kind
        setups = {one.name: None if one.settings is None else one.settings.settled(kind, rows) for one in who}
        model = settings.model_for(kind)
        host = suited(model, settings).settled(kind, rows)
        if host.machine.devices > 1 or host.machine.nodes > 1:
            found = host.machine
            raise InputError(f"compare trains on one device, got {found.devices} devices and {found.nodes} nodes")
        return cls(who, setups, host, settings)


def _records(
    dataset: Dataset, parts: dict[int, list[Split]], plan: Plan, store: Store, finish: Finish
) -> Iterator[Record]:
    """Every run, computed or loaded; all models of a fold before the next fold, so that time left is known early."""
    assert dataset.target is not None
    scale, recipe = target_scale(dataset.target), plan.host.recipe
    prepares = registered[plan.host.model].prepares(plan.host.options)
    for seed, splits in parts.items():
        for number, split in enumerate(splits):
            fold = Fold(dataset, split, seed, number, prepares)
            for one in plan.entrants:
                setup = plan.setups[one.name]
                decides = deciding(setup, recipe)
                shape = len(split.test), len(scale)
                record = store.load(one.name, seed, number, fold.fingerprint, shape, decides)
                known = record is not None
                if record is None:
                    record = run(one, setup, fold, recipe, scale)
                    store.save(record, decides)
                if record.fingerprint != fold.fingerprint:
                    raise ExcoraError(f"{one.name} ran on other folds or features than the others: this is a bug")
                finish((seed, number, one.name), None if known else record.seconds)
                yield record


def _dataset(data: Paths | Dataset, target: str | Iterable[str], roles: dict[str, Any]) -> Dataset:
    if not isinstance(data, Dataset):
        return read(data, target=target, **roles)
    asked = (target,) if isinstance(target, str) else tuple(target)
    if any(roles.values()) or (asked and asked != data.targets):
        raise InputError(f"a Dataset has its target ({', '.join(data.targets)}) and roles: give them where it is made")
    return data


def _check(dataset: Dataset, seeds: int, margin: float) -> None:
    if dataset.target is None:
        raise InputError("a comparison needs labelled data, and these have no target")
    if seeds < 1:
        raise InputError(f"seeds must be at least 1, got {seeds}")
    if not 0 < margin < 2:
        raise InputError(f"margin must be a difference in PCC above 0 and below 2, got {margin}")


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


def _setup(data: Any, dataset: Dataset, roles: Roles, plan: Plan, folds: int, seeds: list[int]) -> dict[str, Any]:
    given = {name: value for name, value in roles.to_dict().items() if name != "target" and value not in (None, [])}
    return {
        "excora": excora.__version__, "data": "in memory" if isinstance(data, Dataset) else shown(data),
        "target": list(dataset.targets), **given, "models": [one.name for one in plan.entrants], "folds": folds,
        "seeds": seeds, "settings": {"model": plan.host.model, **plan.asked.named},
    }  # fmt: skip


def _rerun(
    data: Any, roles: Roles, output: Any, models: Sequence[str] | None, plan: Plan, setup: dict[str, Any], margin: float
) -> str:
    """The command line; a data set in memory has none."""
    if isinstance(data, Dataset):
        return "excora.compare(dataset, ...) with the setup of comparison.json"
    words = [
        "excora",
        "compare",
        *map(str, listed(data)),
        *dataclasses.replace(roles, target=tuple(setup["target"])).words(),
    ]
    if models is not None:
        words += ["--models", ",".join(setup["models"])]
    words += ["--folds", str(setup["folds"]), "--seeds", str(len(setup["seeds"])), "--model", plan.host.model]
    words += [] if margin == MARGIN else ["--margin", str(margin)]
    for name, value in plan.asked.named.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join(words + ([] if output is None else ["--output", str(output)]))


def _predictions(dataset: Dataset, pool: OutOfFold) -> str:
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
