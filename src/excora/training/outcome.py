"""What a finished training is worth: predictions.csv, results.json and attention.json of the run folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from excora.data.dataset import Dataset, Features, Index
from excora.data.preparation import Preparation
from excora.data.splits import Split
from excora.models.building import carried
from excora.models.network import Network
from excora.models.retrieval import RetrievalFeatures
from excora.settings import Settings
from excora.storage import plain, write_atomically
from excora.training.core import Training
from excora.training.evaluation import Answer, Floats, answers, group_scores, scores
from excora.training.folder import write_json

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 12  #: samples of the test part whose attention the report shows
HEAVIEST = 12  #: elements of each


def element_names(network: Network, preparation: Preparation) -> list[str] | None:
    """Names of what is weighed in a row of a table; None for bags, whose elements have numbers."""
    if preparation.elements is not None:
        return None
    numbers = [label for column in preparation.columns for label in column.labels]
    words = [column.name for column in preparation.columns if column.kind == "category"]
    return network.element_names(numbers + words)


class Material(NamedTuple):
    """What a run is made from."""

    dataset: Dataset
    features: Features
    target: NDArray[np.float32]  #: standardised
    preparation: Preparation
    split: Split
    settings: Settings


def evaluate(folder: Path, training: Training, material: Material) -> dict[str, Any]:
    """Look at validation and test part once, write the three files, and return the content of results.json."""
    results: dict[str, Any] = {
        "best_epoch": training.best_epoch,
        "epochs": training.epochs,
        "seconds": training.seconds,
        "stopped": training.stopped,
        "counts": {name: len(part) for name, part in material.split._asdict().items()},
    }
    parts = {name: _look(name, training.network, material) for name in ("validation", "test")}
    results |= {name: part.scores for name, part in parts.items()}
    for figures in results["validation"].values():  # it has chosen the epoch: an interval would promise too much
        del figures["low"], figures["high"]
    results["groups"] = {"test": parts["test"].groups}
    notes = [*material.dataset.notes, *material.preparation.notes, *carried(training.network), *parts["test"].notes]
    if training.stopped == "diverged":
        notes.append(
            f"training diverged in epoch {training.epochs}: the best epoch before it is kept; lower the learning rate"
        )
    results |= {"verdict": training.verdict().to_dict(), "notes": notes}
    write_json(folder / "attention.json", parts["test"].attention)
    _write_frames(folder / "predictions.csv", [part.frame for part in parts.values()])
    write_json(folder / "results.json", results)
    return plain(results)


class Part(NamedTuple):
    """One part of the data under the trained network."""

    frame: pd.DataFrame
    scores: dict[str, dict[str, float]]
    groups: list[dict[str, Any]]
    attention: dict[str, Any]
    notes: list[str]


def _look(name: str, network: Network, material: Material) -> Part:
    dataset, features, preparation = material.dataset, material.features, material.preparation
    index: Index = getattr(material.split, name)
    assert dataset.target is not None
    looked, rows = [], []
    for answer in answers(network, features, index, material.settings):
        looked.append(Looked.at(answer))
        rows.append(answer.prediction)
    prediction = preparation.unscale(np.array(rows).reshape(-1, len(dataset.targets)))
    target, group = dataset.target[index], None if dataset.group is None else dataset.group[index]
    examined = preparation.examine(dataset, index)
    notes = [f"{name} part: {note}" for note in (*examined.notes, *outside_note(examined.outside))]
    return Part(
        _frame(dataset, index, name, prediction, examined.outside),
        scores(prediction, target, dataset.targets, group) if len(index) else {},
        group_scores(prediction, target, group) if group is not None and len(index) else [],
        _attention(looked, prediction, dataset, _namer(network, material)),
        notes,
    )


def outside_note(outside: Any) -> list[str]:
    """How many samples are far from what training has seen, if any."""
    count = int((outside > 0).sum())
    return [f"samples with inputs far outside the training range: {count}, see the column 'outside'"] if count else []


def columns(targets: tuple[str, ...], word: str) -> list[str]:
    """``word`` for one target, ``word:NAME`` for several."""
    return [word] if len(targets) == 1 else [f"{word}:{name}" for name in targets]


def _frame(dataset: Dataset, index: Any, part: str, prediction: Floats, outside: Any) -> pd.DataFrame:
    import pandas as pd

    assert dataset.target is not None
    content: dict[str, Any] = {"id": dataset.ids[index], "part": part}
    if dataset.group is not None:
        content["group"] = dataset.group[index]
    content |= dict(zip(columns(dataset.targets, "target"), dataset.target[index].T, strict=True))
    content |= dict(zip(columns(dataset.targets, "prediction"), prediction.T, strict=True))
    return pd.DataFrame({**content, "outside": outside}, index=range(len(index)))


def _write_frames(path: Path, frames: list[pd.DataFrame]) -> None:
    import pandas as pd

    full = [frame for frame in frames if len(frame)]
    write_atomically(path, pd.concat(full).to_csv(index=False, lineterminator="\n"))


class Looked(NamedTuple):
    """What is kept of a sample's attention: figures, and the heaviest elements as (number, weight, effective)."""

    position: int
    elements: int
    effective_elements: float
    gamma: float | None
    temperature: float | None
    heaviest: list[tuple[int, float, float]]

    @classmethod
    def at(cls, answer: Answer) -> Looked:
        """Of one answer, whose weights can then be forgotten."""
        found = answer.attention
        order = np.argsort(-np.abs(found.effective), kind="stable")[:HEAVIEST].tolist()
        heaviest = [(k, float(found.weight[k]), float(found.effective[k])) for k in order]
        figures = (len(found.weight), found.effective_elements, found.gamma, found.temperature)
        return cls(answer.position, *figures, heaviest)


#: From the places of a sample and of one of its elements to a name for the latter.
Namer = Callable[[int, int], str]


def _namer(network: Network, material: Material) -> Namer:
    """Columns by name, training rows by their id, elements of bags by number."""
    features, train, ids = material.features, material.split.train, material.dataset.ids
    if isinstance(features, RetrievalFeatures):
        if material.dataset.weight is not None:
            train = train[material.dataset.weight[train] > 0]
        return lambda sample, k: f"row {ids[train[int(features.neighbours[sample, k])]]}"
    names = element_names(network, material.preparation)
    return lambda sample, k: str(k) if names is None else names[k]  # noqa: ARG005


def _attention(looked: list[Looked], prediction: Floats, dataset: Dataset, name: Namer) -> dict[str, Any]:
    """Figures of every sample, and the heaviest elements of some, spread over the range of the predictions."""
    order = np.argsort(prediction[:, 0], kind="stable")
    places = np.unique(np.linspace(0, max(len(order) - 1, 0), SHOWN).round().astype(int))
    return {
        "gamma": [one.gamma for one in looked if one.gamma is not None],
        "temperature": [one.temperature for one in looked if one.temperature is not None],
        "effective_elements": [one.effective_elements for one in looked],
        "elements": [one.elements for one in looked],
        "bags": [_bag(looked[k], prediction[k], dataset, name) for k in order[places[: len(order)]]],
    }


def _bag(looked: Looked, prediction: Floats, dataset: Dataset, name: Namer) -> dict[str, Any]:
    assert dataset.target is not None
    target = dataset.target[looked.position]
    one = len(target) == 1
    return {
        "id": str(dataset.ids[looked.position]),
        "prediction": float(prediction[0]) if one else prediction.tolist(),
        "target": float(target[0]) if one else target.tolist(),
        "gamma": looked.gamma,
        "temperature": looked.temperature,
        "elements": looked.elements,
        "top": [
            {"label": name(looked.position, k), "weight": weight, "effective": effective}
            for k, weight, effective in looked.heaviest
        ],
    }
