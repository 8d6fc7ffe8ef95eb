"""What a finished training is worth: the content of results.json, predictions.csv and attention.json."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from excora.application.modality_use import used_modalities
from excora.application.places import Placer, placer
from excora.application.tissue import tissue
from excora.data import sources
from excora.data.dataset import Dataset, Index
from excora.data.splits import Split
from excora.models import Network
from excora.settings import Setup
from excora.stats.intervals import Interval
from excora.storage import plain, write_atomically, write_json
from excora.training import Training
from excora.training.building import Built
from excora.training.evaluation import Answer, Attention, answers, group_scores, scores

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 12  #: samples of the test part whose attention the report shows
HEAVIEST = 12  #: elements of each
SAID = 400  #: letters of what was said in each, if it is a clip

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Evaluation:
    """Validation and test part, looked at once; of a run that was interrupted, validation alone."""

    results: dict[str, Any]
    frame: pd.DataFrame  #: the predictions
    attention: dict[str, Any]  #: of the last part that was looked at, by pool
    tissue: dict[str, Any] | None = None  #: under the spots of that part

    def write(self, folder: Path) -> None:
        """The three files, and tissue.json where samples are spots."""
        if self.tissue is not None:
            write_json(folder / "tissue.json", self.tissue)
        write_json(folder / "attention.json", {"pools": self.attention})
        write_atomically(folder / "predictions.csv", self.frame.to_csv(index=False, lineterminator="\n"))
        write_json(folder / "results.json", self.results)


def evaluate(
    training: Training, dataset: Dataset, split: Split, setup: Setup, built: Built,
    *, peers: Sequence[dict[str, Any]] = (),
) -> Evaluation:  # fmt: skip
    """Look at the validation part and, if training has ended, at the test part, once.

    ``peers``: what simple models reach there, for the verdict.
    """
    import pandas as pd

    results: dict[str, Any] = {
        "best_epoch": training.best_epoch,
        "epochs": training.epochs,
        "seconds": training.seconds,
        "stopped": training.stopped,
        "counts": {name: len(part) for name, part in split._asdict().items()},
    }
    ended = training.stopped != "interrupted"  # until then what the test part says would steer whether to go on
    looked = _PARTS if ended else _PARTS[:1]
    parts = {name: _look(name, getattr(split, name), training.network, dataset, setup, built) for name in looked}
    results |= {name: parts[name].scores if name in parts else {} for name in _PARTS}
    seen = {"interval": interval(results["validation"]), "test": interval(results["test"])}
    if further := {name: part.further for name, part in parts.items() if part.further}:
        results["further"] = further
    seen_last = getattr(split, looked[-1])
    if used := used_modalities(training.network, dataset, built, setup, seen_last):
        results["modalities"] = used
    for figures in results["validation"].values():  # it has chosen the epoch: an interval would promise too much
        del figures["low"], figures["high"]
    last = parts[looked[-1]]
    results["groups"] = {"test": last.groups if ended else []}
    results |= {"baselines": list(peers), "start": _start(training, built)}
    notes = [*dataset.notes, *built.preparation.notes, *training.network.carried(), *last.notes]
    notes += start_notes(training, built)
    if training.stopped == "diverged":
        notes.append(
            f"training diverged in epoch {training.epochs}: the best epoch before it is kept; lower the learning rate"
        )
    results |= {"held": training.held, "verdict": training.verdict(**seen, peers=peers).to_dict(), "notes": notes}
    full = [part.frame for part in parts.values() if len(part.frame)]
    under = tissue(dataset, seen_last)
    return Evaluation(plain(results), pd.concat(full, ignore_index=True), last.attention, under)


_PARTS = ("validation", "test")


def _start(training: Training, built: Built) -> dict[str, Any] | None:
    """What the network started from, why, and how that does on validation, targets standardised."""
    if built.start is None:
        return None
    figures = {} if training.start is None else {name: training.start[f"validation_{name}"] for name in ("pcc", "mse")}
    return built.start.to_dict() | {"validation": figures}


def start_notes(training: Training, built: Built) -> list[str]:
    """The same in words."""
    if built.start is None or not built.start.note:
        return []
    kept = (
        "no epoch did surely better on validation than the ridge that the network starts from (by 2 paired standard "
        "errors): the ridge is what predicts"
    )
    return [built.start.note, *([kept] if training.best_epoch < 0 else [])]


def interval(scores: dict[str, dict[str, float]]) -> Interval | None:
    """PCC and its bounds, means over the targets that have them: no narrower than the interval of the mean."""
    names = ("pcc", "low", "high")
    known = [one for one in scores.values() if all(np.isfinite(one.get(name, np.nan)) for name in names)]
    if not known:
        return None
    value, low, high = (float(np.mean([one[name] for one in known])) for name in names)
    return Interval(value, low, high, "mean over targets")


class Part(NamedTuple):
    """One part of the data under the trained network."""

    frame: pd.DataFrame
    scores: dict[str, dict[str, float]]
    groups: list[dict[str, Any]]
    attention: dict[str, Any]
    notes: list[str]
    further: dict[str, dict[str, float]]  #: by target, what its field is judged by


def _look(name: str, index: Index, network: Network, dataset: Dataset, setup: Setup, built: Built) -> Part:
    assert dataset.target is not None
    looked: dict[str, list[Looked]] = {}
    rows = []
    for answer in answers(network, built.features, index, setup):
        for pool, found in answer.attention.items():
            looked.setdefault(pool, []).append(Looked.at(answer, found))
        rows.append(answer.prediction)
    prediction = built.preparation.unscale(np.array(rows).reshape(-1, len(dataset.targets)))
    target, group = dataset.target[index], None if dataset.group is None else dataset.group[index]
    examined = built.preparation.examine(dataset, index)
    place = placer(network, dataset, setup, built.features)
    namers = {pool: _namer(network, dataset, built, pool) for pool in looked}
    each = zip(dataset.targets, prediction.T, target.T, strict=True)
    further = {known: sources[dataset.kind].scores(known, p, y) for known, p, y in each}
    return Part(
        _frame(dataset, index, name, prediction, examined.outside),
        scores(prediction, target, dataset.targets, group) if len(index) else {},
        group_scores(prediction, target, group) if group is not None and len(index) else [],
        {pool: _attention(found, prediction, dataset, namers[pool], (place, pool)) for pool, found in looked.items()},
        [f"{name} part: {note}" for note in (*examined.notes, *outside_note(examined.outside))],
        {known: found for known, found in further.items() if found and len(index)},
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


class Looked(NamedTuple):
    """What is kept of a sample's attention: figures, and the heaviest elements as (number, weight, effective)."""

    position: int
    elements: int
    effective_elements: float
    gamma: float | None
    temperature: float | None
    heaviest: list[tuple[int, float, float]]

    @classmethod
    def at(cls, answer: Answer, found: Attention) -> Looked:
        """Of one pool of an answer, whose weights can then be forgotten."""
        order = np.argsort(-np.abs(found.effective), kind="stable")[:HEAVIEST].tolist()
        heaviest = [(k, float(found.weight[k]), float(found.effective[k])) for k in order]
        figures = (len(found.weight), found.effective_elements, found.gamma, found.temperature)
        return cls(answer.position, *figures, heaviest)


#: From the places of a sample and of one of its elements to a name for the latter.
Namer = Callable[[int, int], str]


def _namer(network: Network, dataset: Dataset, built: Built, pool: str) -> Namer:
    """Elements that are samples themselves by their id, others by the name the network has for them, or by number.

    Features may name the elements of each sample, such as the words of a text, for a pool that is called after them;
    what a network puts before them, to be learned, is its own.
    """
    sample_of = getattr(built.features, "element_sample", None)
    name_of = getattr(built.features, "element_name", None)
    if name_of is not None:
        first = network.leading
        return lambda sample, k: f"own token {k}" if k < first else name_of(pool, sample, k - first)
    names = network.element_names(built.preparation.element_names)

    def name(sample: int, k: int) -> str:
        other = None if sample_of is None else sample_of(sample, k)
        if other is not None:
            return f"row {dataset.ids[other]}"
        return str(k) if names is None else names[k]

    return name


def _attention(
    looked: list[Looked], prediction: Floats, dataset: Dataset, name: Namer, place: tuple[Placer, str]
) -> dict[str, Any]:
    """Figures of every sample, and the heaviest elements of some, spread over the range of the predictions."""
    order = np.argsort(prediction[:, 0], kind="stable")
    places = np.unique(np.linspace(0, max(len(order) - 1, 0), SHOWN).round().astype(int))
    return {
        "gamma": [one.gamma for one in looked if one.gamma is not None],
        "temperature": [one.temperature for one in looked if one.temperature is not None],
        "effective_elements": [one.effective_elements for one in looked],
        "elements": [one.elements for one in looked],
        "bags": [
            _bag(looked[k], prediction[k], dataset, name) | _picture(*place, looked[k], number)
            for number, k in enumerate(order[places[: len(order)]])
        ],
    }


def _picture(place: Placer, pool: str, looked: Looked, number: int) -> dict[str, Any]:
    """Of every other of these samples, where its elements have a place."""
    found = None if number % 2 else place(looked.position, pool)
    return {} if found is None else {"places": found}


def _bag(looked: Looked, prediction: Floats, dataset: Dataset, name: Namer) -> dict[str, Any]:
    assert dataset.target is not None
    target = dataset.target[looked.position]
    one, words = len(target) == 1, getattr(dataset.content, "words", None)
    return {
        "id": str(dataset.ids[looked.position]),
        "prediction": float(prediction[0]) if one else prediction.tolist(),
        "target": float(target[0]) if one else target.tolist(),
        "gamma": looked.gamma,
        "temperature": looked.temperature,
        "elements": looked.elements,
        **({} if words is None else {"said": str(words[looked.position])[:SAID]}),
        "top": [
            {"label": name(looked.position, k), "weight": weight, "effective": effective}
            for k, weight, effective in looked.heaviest
        ],
    }
