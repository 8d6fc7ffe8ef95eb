"""One small JSON file for each finished (model, seed, fold), so that a comparison can be interrupted and resumed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from excora.comparison.scores import Array, Scores
from excora.data.splits import Split
from excora.errors import InputError
from excora.settings import Settings
from excora.storage import write_atomically


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """What one model did on one fold of one seed."""

    model: str
    seed: int
    fold: int
    fingerprint: str  #: of the fold's parts, features and targets: equal for all models that ran on the same
    scores: Scores  #: over the test part
    seconds: float
    details: dict[str, Any]  #: what validation chose: epochs, penalty, neighbours, trees
    prediction: Array  #: (test samples, targets), raw scale


def fingerprint(split: Split, matrix: Array, target: Array, weight: Array | None) -> str:
    """A hash of everything that a model is given on a fold; the feature matrix stands for the features of bags too."""
    found = hashlib.sha256()
    for part in (*split, matrix, target, np.empty(0) if weight is None else weight):
        found.update(f"{part.dtype.str}{part.shape}".encode())
        found.update(np.ascontiguousarray(part).tobytes())
    return found.hexdigest()


class Store:
    """The records of a comparison in ``folder/runs``; without a folder nothing is kept.

    A folder that holds runs already is refused unless ``resume`` is given.
    """

    def __init__(self, folder: Path | None, settings: Settings, *, resume: bool) -> None:
        self.folder = None if folder is None else folder / "runs"
        self.settings = _deciding(settings)
        if self.folder is None:
            if resume:
                raise InputError("resume goes on with the runs of an output folder: give output as well")
            return
        if not resume and any(self.folder.glob("*.json")):
            raise InputError(
                f"{folder} holds the runs of a comparison already: go on with them (--resume, resume=True), choose "
                f"another output folder, or remove this one"
            )
        try:  # now rather than after the first model
            self.folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=self.folder).close()
        except OSError as error:
            raise InputError(f"{folder}: the output folder cannot be written: {error.strerror}") from None

    def path(self, model: str, seed: int, fold: int) -> Path | None:
        """Where that run is kept."""
        return None if self.folder is None else self.folder / f"{model}-{seed}-{fold}.json"

    def load(self, model: str, seed: int, fold: int, fingerprint: str, samples: int, targets: int) -> Record | None:
        """The run if it is there. One on other data, folds or settings is an InputError, as is a broken file."""
        path = self.path(model, seed, fold)
        if path is None or not path.exists():
            return None
        try:
            content = json.loads(path.read_text("utf-8"))
            used, record = dict(content["settings"]), _record(content)
        except (ValueError, KeyError, TypeError, OSError, RecursionError) as error:
            raise InputError(f"{path} is not a run of a comparison: remove it, and it is computed again") from error
        differ = [f"{k} was {used.get(k)!r} and is {v!r}" for k, v in self.settings.items() if used.get(k) != v]
        if record.fingerprint != fingerprint:
            differ.append("the data, their roles or the number of folds are others")
        if differ:
            raise InputError(f"{path} belongs to another comparison: {'; '.join(differ)}. Choose another output folder")
        if record.prediction.shape != (samples, targets) or not np.isfinite(record.prediction).all():
            raise InputError(
                f"{path} must hold {samples} x {targets} finite predictions: remove it to compute it again"
            )
        return record

    def save(self, record: Record) -> None:
        """Keep the run, whole or not at all."""
        path = self.path(record.model, record.seed, record.fold)
        if path is None:
            return
        content = dataclasses.asdict(record) | finite(record.scores._asdict()) | {"settings": self.settings}
        del content["scores"]
        content["prediction"] = record.prediction.tolist()
        write_atomically(path, json.dumps(content, allow_nan=False))


def _record(content: dict[str, Any]) -> Record:
    pcc = content["pcc"]
    return Record(
        model=str(content["model"]),
        seed=int(content["seed"]),
        fold=int(content["fold"]),
        fingerprint=str(content["fingerprint"]),
        scores=Scores(math.nan if pcc is None else float(pcc), float(content["mse"]), float(content["mae"])),
        seconds=float(content["seconds"]),
        details=dict(content["details"]),
        prediction=np.array(content["prediction"], np.float64),
    )


def _deciding(settings: Settings) -> dict[str, Any]:
    """The settings that a run depends on. Pool and seed are in its name; the machine does not count."""
    fields = [field for field in dataclasses.fields(settings) if field.name not in ("pool", "seed")]
    kept = [f.name for f in fields if f.metadata["panel"] != "Machine" or f.name == "precision"]
    return {name: getattr(settings, name) for name in kept}


def finite(values: dict[str, float]) -> dict[str, float | None]:
    """As JSON holds numbers: NaN and infinity become None."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}
