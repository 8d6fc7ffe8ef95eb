"""``fit``: from a file to a run folder; ``Run``: that folder, read again."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from excora.data.dataset import Dataset
from excora.data.preparation import Preparation
from excora.data.reading import read
from excora.data.roles import Roles
from excora.data.splits import split
from excora.errors import InputError
from excora.models.building import Samples, build_on
from excora.models.network import Network
from excora.settings import MODEL_OF, Settings
from excora.training.core import Training, is_main, train
from excora.training.folder import check_room, claim, read_json, read_weights, versions, write_json, write_weights
from excora.training.outcome import Material, evaluate

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Run:
    """A trained run: its folder, and what is needed to predict."""

    path: Path
    config: dict[str, Any]
    settings: Settings
    preparation: Preparation
    network: Network
    results: dict[str, Any]  #: the content of results.json; empty in the other processes of a distributed run
    writes: bool = True  #: False in those

    @classmethod
    def load(cls, path: str | Path) -> Run:
        """Read a run folder. Nothing in it is ever run; whatever is missing, broken or foreign is an InputError."""
        folder = Path(path)
        if not folder.is_dir():
            raise InputError(f"{folder}: there is no such folder; give a run folder of `excora fit`")
        config = read_json(folder / "config.json")
        settings = Settings.from_dict(config.get("settings", {}))
        preparation = Preparation.from_dict(read_json(folder / "preparation.json"))
        learned = config.get("network", {})
        network = read_weights(folder / "weights.safetensors", preparation.inputs, settings, learned)
        return cls(folder, config, settings, preparation, network, read_json(folder / "results.json"))

    @property
    def state(self) -> str:
        """ "finished" or "interrupted"; "training" while it runs, or if it was killed."""
        return str(self.config.get("state"))

    @property
    def predictions(self) -> pd.DataFrame:
        """Of the validation and the test part, as in predictions.csv."""
        from excora.data.tables import read_frame

        return read_frame(self.path / "predictions.csv")

    def __rich__(self) -> Any:
        """Result table, verdict and notes for rich consoles."""
        from excora.training.showing import table_of

        return table_of(self)


def fit(
    data: str | Path | Dataset,
    *,
    output: str | Path,
    target: str | Iterable[str] = (),
    settings: Settings | None = None,
    resume: bool = False,
    validation: float = 0.2,
    test: float = 0.2,
    progress: bool = True,
    **roles: Any,
) -> Run:
    """Train on a file (or a :class:`Dataset`), look at the test part once, and write the run folder ``output``.

    ``target`` and ``roles`` (group, time, weight, bag, labels, id, drop) say what the columns are, as for
    :func:`excora.data.reading.read`. ``resume`` goes on with the run in ``output``, whose data and settings must be
    the same (``epochs`` and ``patience`` may have grown), and starts one if there is none.

    Ctrl-C gives a run of what was reached, with ``run.state == "interrupted"``. On several devices every process
    returns; the one that writes and should print has ``run.writes``.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.csv").write_text("x,y\\n" + "".join(f"{k % 7},{k % 7 + k % 2}\\n" for k in range(60)))
    >>> run = fit(folder / "a.csv", target="y", output=folder / "run", settings=Settings(dim=8, epochs=2))
    >>> run.state, run.results["counts"], sorted(run.results["test"]["y"])
    ('finished', {'train': 36, 'validation': 12, 'test': 12}, ['high', 'low', 'mae', 'mse', 'pcc'])
    >>> from excora.training import predict
    >>> predict(folder / "run", folder / "a.csv").frame.columns.tolist()
    ['id', 'prediction', 'outside']
    """
    folder, given, writes = Path(output), Roles.of(target=target, **roles), is_main()
    there = claim(folder, resume=resume) if writes else False
    dataset = data if isinstance(data, Dataset) else read(data, **dataclasses.asdict(given))
    network, material = _material(dataset, validation, test, Settings() if settings is None else settings)
    settings = material.settings
    path = None if isinstance(data, Dataset) else data
    config = _config(path, given, material, {"validation": validation, "test": test}, folder)
    config["network"] = network.learned
    if there:
        before = read_json(folder / "config.json")
        _check_same(folder, before, config)
        if before.get("state") == "finished" and before.get("settings") == config["settings"]:
            return Run.load(folder)
    if writes:
        samples = len(material.split.validation) + len(material.split.test)
        check_room(folder, network, samples=samples, averaged=settings.average > 0)
        write_json(folder / "preparation.json", material.preparation.to_dict())
        write_json(folder / "config.json", config)
    try:
        training = train(
            network, material.features, material.target, material.split, settings,
            weight=None if dataset.weight is None else dataset.weight.astype(np.float32),
            folder=folder, resume=resume, progress=progress,
        )  # fmt: skip
    except KeyboardInterrupt:
        if writes:
            write_json(folder / "config.json", config | {"state": "interrupted"})
        raise
    if not writes:
        return Run(folder, config, settings, material.preparation, training.network, {}, writes=False)
    return _finish(folder, config, training, material)


def _material(dataset: Dataset, validation: float, test: float, settings: Settings) -> tuple[Network, Material]:
    if dataset.target is None:
        raise InputError("fit needs labelled samples: name the target, or give a Dataset with one")
    parts = split(dataset, validation=validation, test=test, seed=settings.seed)
    settings = settings.settled(MODEL_OF[dataset.kind], len(parts.train))
    preparation = Preparation.fit(dataset, parts.train, scaling=settings.scaling)
    features, target = preparation.features(dataset), preparation.scale(dataset.target)
    samples = Samples(features, target, parts.train, dataset.group, dataset.time, dataset.weight)
    network, features = build_on(preparation.inputs, samples, settings)
    return network, Material(dataset, features, target, preparation, parts, settings)


def _finish(folder: Path, config: dict[str, Any], training: Training, material: Material) -> Run:
    """Weights, figures and report; the state is written last."""
    from excora.report import write_report

    write_weights(folder / "weights.safetensors", training.network)
    results = evaluate(folder, training, material)
    config = config | {"state": "interrupted" if training.stopped == "interrupted" else "finished"}
    write_json(folder / "config.json", config)
    write_report(folder)
    return Run(folder, config, material.settings, material.preparation, training.network, results)


def _config(
    path: str | Path | None, roles: Roles, material: Material, shares: dict[str, float], folder: Path
) -> dict[str, Any]:
    """The content of config.json of a run that starts."""
    import excora

    dataset, settings = material.dataset, material.settings

    named = {
        name: str(value) if isinstance(value, Path) else value for name, value in dataclasses.asdict(roles).items()
    }
    named["target"] = list(dataset.targets)
    content = {
        "excora": excora.__version__,
        "rerun": _command(path, named, shares, material, folder),
        "data": {"path": None if path is None else str(path), **named, "fingerprint": fingerprint(dataset)},
        "split": shares,
        "settings": settings.to_dict(),
        "inputs": dataclasses.asdict(material.preparation.inputs),
        "state": "training",
        "environment": versions(),
    }
    found: dict[str, Any] = json.loads(json.dumps(content))  # as it will come back from the file
    return found


def _command(path: Any, roles: dict[str, Any], shares: dict[str, float], material: Material, folder: Path) -> str:
    """The command line that does this again."""
    words, settings = ["excora", "fit", "DATA" if path is None else str(path)], material.settings
    usual = Settings().settled(settings.model, len(material.split.train))
    chosen = {name: value for name, value in settings.to_dict().items() if value != getattr(usual, name)}
    chosen = {"model": settings.model} | chosen
    chosen |= {name: value for name, value in shares.items() if value != 0.2}
    for name, value in (roles | chosen).items():
        for item in value if isinstance(value, list | tuple) else [value]:
            if item is not None:
                words += [f"--{name.replace('_', '-')}", str(item)]
    return shlex.join([*words, "--output", str(folder)])


def fingerprint(dataset: Dataset) -> str:
    """A hash of samples, labels and table cells, or sizes of bags: other data do not pass for the same."""
    found = hashlib.sha256("\0".join(map(str, dataset.ids)).encode())
    for values in (dataset.target, dataset.weight, dataset.time):
        found.update(b"-" if values is None else np.ascontiguousarray(values).tobytes())
    found.update(b"-" if dataset.group is None else "\0".join(map(str, dataset.group)).encode())
    if dataset.frame is not None:
        import pandas as pd

        found.update("\0".join(map(str, dataset.frame.columns)).encode())
        found.update(pd.util.hash_pandas_object(dataset.frame, index=False).to_numpy().tobytes())
    if dataset.bags is not None:
        found.update(np.array([dataset.bags.width, *dataset.bags.lengths]).tobytes())
    return found.hexdigest()


def _check_same(folder: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse to resume what is another run, and say in what it differs."""
    differ = []
    fields = {field.name: field for field in dataclasses.fields(Settings)}
    old, new = (Settings.from_dict(config.get("settings", {})).to_dict() for config in (before, now))
    for name, field in fields.items():
        grew = name in ("epochs", "patience") and new[name] >= old[name]
        free = field.metadata["panel"] == "Machine" and name != "precision"
        if old[name] != new[name] and not grew and not free:
            differ.append(f"{name} was {old[name]!r} and is {new[name]!r}")
    for section in ("data", "split", "inputs"):
        was = before.get(section)
        was = was if isinstance(was, dict) else {}
        for name, value in now[section].items():
            if name not in ("path", "labels") and was.get(name) != value:
                what = (
                    "the data have changed"
                    if name == "fingerprint"
                    else f"{name} was {was.get(name)!r} and is {value!r}"
                )
                differ.append(what)
    if differ:
        raise InputError(
            f"{folder}: the run there cannot be resumed, it is another one: {'; '.join(differ)}. Only epochs and "
            "patience may grow; give another folder for a new run"
        )
