"""``fit``: from a file to a run folder with its report."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from excora.application.folder import check_room, claim, versions
from excora.application.lock import locked
from excora.application.results import Evaluation, evaluate
from excora.application.run import Run
from excora.application.simple import simple_models
from excora.data import sources
from excora.data.dataset import Dataset
from excora.data.doubts import doubts
from excora.data.reading import Paths, listed, read, shown
from excora.data.roles import Roles
from excora.data.splits import Split, split
from excora.errors import InputError
from excora.models.files import write_weights
from excora.peers.baselines import Baselines
from excora.report import RunRecord, page_of_run, write_page
from excora.settings import Settings, Setup
from excora.storage import read_json, write_json
from excora.training import Training, is_main, train
from excora.training.building import Built, build
from excora.training.choosing import choose, summary, with_model
from excora.training.progress import patiently, say

#: Said of a run that had ended and went on with more epochs.
AGAIN = "the test part had been looked at before this run went on: choose between the two by validation alone"


class Job(NamedTuple):
    """What a run is made from."""

    dataset: Dataset
    split: Split
    setup: Setup
    built: Built
    tried: Sequence[dict[str, Any]] = ()  #: what competed for "best", if anything did

    @property
    def doubts(self) -> tuple[str, ...]:
        """What would make the scores of this run too good to be true."""
        plain = sources[self.dataset.kind].plain(self.dataset, self.built.preparation.content)
        return doubts(self.dataset, self.split, plain)


def fit(
    data: Paths | Dataset,
    *,
    output: str | Path,
    target: str | Iterable[str] = (),
    settings: Settings | None = None,
    resume: bool = False,
    validation: float = 0.2,
    test: float = 0.2,
    progress: bool = True,
    baselines: bool = True,
    **roles: Any,
) -> Run:
    """Train on a file (or a :class:`Dataset`), look at the test part once, and write the run folder ``output``.

    ``target`` and ``roles`` (group, time, weight, bag, labels, id, drop) say what the columns are, as for
    :func:`excora.data.reading.read`. A label may be missing: a row with one of two targets trains on that one.
    ``resume`` goes on with the run in ``output``, whose data and settings must be the same (``epochs`` and ``patience``
    may have grown), and starts one if there is none. ``baselines``: simple models on the same split beside it.

    Ctrl-C gives a run of what was reached, with ``run.state == "interrupted"`` and scores of validation alone: the test
    part is for the run that has ended. A folder that another process is writing to is an :class:`InputError` that names
    it. On several devices every process returns; the one that writes and should print has ``run.writes``.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.csv").write_text("x,y\\n" + "".join(f"{k % 7},{k % 7 + k % 2}\\n" for k in range(60)))
    >>> run = fit(folder / "a.csv", target="y", output=folder / "run", settings=Settings(dim=8, epochs=2))
    >>> run.state, run.results["counts"], sorted(run.results["test"]["y"])
    ('finished', {'train': 36, 'validation': 12, 'test': 12}, ['high', 'low', 'mae', 'mse', 'pcc'])
    >>> run.results["baselines"][0]["name"], sorted(run.results["baselines"][0]["test"])
    ('ridge', ['mse', 'pcc'])
    >>> from excora import predict
    >>> predict(folder / "run", folder / "a.csv").frame.columns.tolist()
    ['id', 'target', 'prediction', 'outside']
    """
    given, writes = Roles.of(target=target, **roles), is_main()
    with locked(Path(output)) if writes else contextlib.nullcontext():
        shares = {"validation": validation, "test": test}
        return _fit(
            data, Path(output), given, settings, shares,
            resume=resume, progress=progress, baselines=baselines, writes=writes,
        )  # fmt: skip


def _fit(
    data: Paths | Dataset, folder: Path, given: Roles, settings: Settings | None, shares: dict[str, float], *,
    resume: bool, progress: bool, baselines: bool, writes: bool,
) -> Run:  # fmt: skip
    """:func:`fit` in a folder that nobody else writes to."""
    there = claim(folder, resume=resume) if writes else False
    tell = say if progress and writes else _silent
    tell("preparing the data" if isinstance(data, Dataset) else f"reading {shown(data)}")
    dataset = data if isinstance(data, Dataset) else read(data, **vars(given))
    tell(f"{len(dataset):,} {sources[dataset.kind].sample}s read")
    known = read_json(folder / "config.json") if there else {}
    asked, tried = _again(Settings() if settings is None else settings, known)
    job = _job(dataset, **shares, settings=asked, tried=tried, tell=tell)
    for line in job.doubts if progress and writes else ():
        tell(line)
    path = None if isinstance(data, Dataset) else data
    chosen, dataset = not dataset.targets, job.dataset  # whether the source has chosen the targets
    config = _config(path, given, job, shares, folder, chosen=chosen)
    if not baselines:
        config["rerun"] += " --no-baselines"
    if there:
        _check_same(folder, known, config)
        if known.get("state") == "finished" and known.get("settings") == config["settings"]:
            return Run.load(folder)
        if looked := int(known.get("state") == "finished") + int(known.get("looked", 0)):
            config |= {"looked": looked}
    if writes:
        samples = len(job.split.validation) + len(job.split.test)
        check_room(folder, job.built.network, samples=samples, averaged=job.setup.recipe.average > 0)
        write_json(folder / "preparation.json", job.built.preparation.to_dict())
        write_json(folder / "config.json", config)
    try:
        simple = simple_models(*job[:4], progress=progress) if baselines and writes else None
        training = train(
            job.built.network, job.built.features, job.built.target, job.split, job.setup.recipe, job.setup.machine,
            weight=None if dataset.weight is None else dataset.weight.astype(np.float32),
            folder=folder, resume=resume, progress=progress,
        )  # fmt: skip
    except KeyboardInterrupt:
        if writes:
            write_json(folder / "config.json", config | {"state": "interrupted"})
        raise
    if not writes:
        return Run(folder, config, job.setup, job.built.preparation, training.network, {}, writes=False)
    return _finish(folder, config, training, job, simple)


def _silent(line: str) -> None:
    """Where nobody wants to know."""


def _again(settings: Settings, before: dict[str, Any]) -> tuple[Settings, list[dict[str, Any]]]:
    """Of a run that goes on: what was the best then is not looked for again."""
    tried = before.get("candidates", [])
    try:
        summary(tried, "")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"the candidates in config.json are damaged: {type(error).__name__} {error}") from None
    given = before.get("settings")
    model = given.get("model") if isinstance(given, dict) else None
    return with_model(settings, model) if settings.model == "best" and isinstance(model, str) else settings, tried


def _job(
    dataset: Dataset, validation: float, test: float, settings: Settings, tried: Sequence[dict[str, Any]], *,
    tell: Callable[[str], None],
) -> Job:  # fmt: skip
    source = sources[dataset.kind]
    parts = split(dataset, validation=validation, test=test, seed=settings.named.get("seed", 0))
    parts = source.apart(dataset, parts)
    dataset = source.targeted(dataset, parts.train)
    if dataset.target is None:
        raise InputError("fit needs labelled samples: name the target, or give a Dataset with one")
    if settings.model == "best":
        settings, tried = choose(dataset, parts, settings, tell=tell)
    setup = settings.settled(dataset.kind, len(parts.train))
    counts = [f"{len(part):,} to {word}" for word, part in zip(("train", "validate", "test"), parts, strict=True)]
    tell(f"model {setup.model}, samples: {', '.join(counts)}")
    with patiently(f"preparing {setup.model}", tell):
        built = build(dataset, parts.train, setup, validation=parts.validation)
    return Job(dataset, parts, setup, built, tried)


def _finish(folder: Path, config: dict[str, Any], training: Training, job: Job, simple: Baselines | None) -> Run:
    """Weights, figures and report; the state is written last."""
    write_weights(folder / "weights.safetensors", training.network)
    # What simple models reach is evidence for the verdict; their test part, too, waits for the end of the run.
    parts = {"validation": job.split.validation} | (
        {} if training.stopped == "interrupted" else {"test": job.split.test}
    )
    peers = [] if simple is None else simple.records(parts)
    found = evaluate(training, job.dataset, job.split, job.setup, job.built, peers=peers)
    found.results["notes"].extend([] if simple is None else simple.notes)
    found.results["notes"].extend(summary(job.tried, job.setup.model))
    found.results.update({"candidates": list(job.tried)} if job.tried else {})
    found.results["notes"].extend(job.doubts)
    if config.get("looked"):
        found.results["notes"].append(AGAIN)
    found.write(folder)
    config = config | {"state": "interrupted" if training.stopped == "interrupted" else "finished"}
    write_json(folder / "config.json", config)
    write_page(folder / "report.html", page_of_run(_record(config, training, found)))
    return Run(folder, config, job.setup, job.built.preparation, training.network, found.results)


def _record(config: dict[str, Any], training: Training, found: Evaluation) -> RunRecord:
    return RunRecord.of(
        config=config,
        results=found.results,
        metrics=training.rows,
        monitor=training.monitor.records,
        predictions={str(name): column.to_numpy() for name, column in found.frame.items()},
        attention=found.attention,
        tissue=found.tissue,
    )


def _config(
    path: Paths | None, roles: Roles, job: Job, shares: dict[str, float], folder: Path, *, chosen: bool
) -> dict[str, Any]:
    """The content of config.json of a run that starts."""
    import excora

    named = dataclasses.replace(roles, target=job.dataset.targets)
    content = {
        "excora": excora.__version__,
        "rerun": _command(path, roles if chosen else named, shares, job, folder),
        "data": {
            "path": None if path is None else shown(path), **named.to_dict(), "fingerprint": job.dataset.fingerprint(),
        },
        "split": shares,
        "settings": job.setup.to_dict(),
        "network": job.built.network.learned,
        "state": "training",
        "environment": versions(),
    } | ({"candidates": list(job.tried)} if job.tried else {})  # fmt: skip
    found: dict[str, Any] = json.loads(json.dumps(content))  # as it will come back from the file
    return found


def _command(path: Any, roles: Roles, shares: dict[str, float], job: Job, folder: Path) -> str:
    """The command line that does this again."""
    words = ["excora", "fit", *(["DATA"] if path is None else map(str, listed(path))), *roles.words()]
    usual = Settings(job.setup.model).settled(job.dataset.kind, len(job.split.train)).flat()
    chosen = {name: value for name, value in job.setup.flat().items() if value != usual[name] or name == "model"}
    chosen |= {name: value for name, value in shares.items() if value != 0.2}
    for name, value in chosen.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join([*words, "--output", str(folder)])


def _check_same(folder: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse to resume what is another run, and say in what it differs."""
    old, new = (Setup.from_dict(config.get("settings", {})) for config in (before, now))
    was, differ = old.flat(), []
    for name, value in new.flat().items():
        grew = name in ("epochs", "patience") and value >= was[name]
        free = hasattr(new.machine, name) and name != "precision"
        other = name in was and was[name] != value  # another model has other options, and its name says enough
        if other and not grew and not free:
            differ.append(f"{name} was {was[name]!r} and is {value!r}")
    for section in ("data", "split"):
        there = before.get(section)
        there = there if isinstance(there, dict) else {}
        for name, value in now[section].items():
            if name not in ("path", "labels") and there.get(name) != value:
                what = f"{name} was {there.get(name)!r} and is {value!r}"
                differ.append("the data have changed" if name == "fingerprint" else what)
    if differ:
        raise InputError(
            f"{folder}: the run there cannot be resumed, it is another one: {'; '.join(differ)}. Only epochs and "
            "patience may grow; give another folder for a new run"
        )
