"""``explain``: which columns, or elements of a bag, the predictions of a run hang on; checked by leaving them out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from excora.application.predicting import check_free, read_like
from excora.application.run import Run
from excora.data.dataset import Dataset, Features
from excora.data.reading import Paths, shown
from excora.data.table import TableFeatures, TableSpec
from excora.diagnosis.attention_maps import attention_maps
from excora.diagnosis.explaining import Explained, beside_pool
from excora.diagnosis.explaining import explain as explain_one
from excora.errors import InputError
from excora.models import Network
from excora.ragged import Ragged
from excora.report import ExplanationRecord, page_of_explanation, write_page
from excora.storage import plain

#: How often a category that is left out is drawn anew; the predictions are averaged.
DRAWS = 16
#: Elements of a bag that may be left out: the heaviest.
HEAVIEST = 40

Predict = Callable[[NDArray[np.bool_]], float]


@dataclass(frozen=True)
class Explanations:
    """Of some samples of a file."""

    model: str
    target: str
    data: str
    sensitivity: float
    rows: dict[str, Explained]  #: by id

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        found = {
            id: {
                "prediction": one.prediction,
                "sentence": one.sentence,
                "changes": dict(zip(one.names, one.changes.tolist(), strict=True)),
                "sets": [{"elements": one.named(e), "change": e.change} for e in one.sets],
                "edges": None if one.graph is None else sorted(map(list, one.graph.edges)),
            }
            for id, one in self.rows.items()
        }
        content: dict[str, Any] = plain({"model": self.model, "target": self.target, "rows": found})
        return content

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the page; a file that is there is kept."""
        check_free(path, overwrite=overwrite)
        return write_page(path, page_of_explanation(ExplanationRecord(**vars(self))))


@torch.no_grad()
def explain(
    run: Run | str | Path,
    data: Paths | Dataset,
    *,
    target: str | None = None,
    most_rows: int = 5,
    tolerance: float = 0.25,
    sensitivity: float = 768.0,
    most: int = 2,
) -> Explanations:
    """What the predictions of the first ``most_rows`` samples hang on.

    ``tolerance``: how far a prediction must move for a set to count, in standard deviations of the training labels.
    Left out means: a number at its training mean, a category drawn from those of training, an element of a bag not
    there. ``most``: the size of the largest set that is tried. ``sensitivity``: a knob of the graph, no sample size.
    """
    run = run if isinstance(run, Run) else Run.load(run)
    dataset = data if isinstance(data, Dataset) else read_like(run, data)
    names = run.preparation.targets
    if target is not None and target not in names:
        raise InputError(f"target must be one of {', '.join(names)}, got {target!r}")
    if most_rows < 1 or not tolerance > 0:
        raise InputError(f"rows must be at least 1 and tolerance positive, got {most_rows} and {tolerance}")
    if not len(dataset):
        raise InputError("there is nothing to explain: the data have no samples")
    place = 0 if target is None else names.index(target)
    features, network = run.preparation.features(dataset), run.network.eval()
    ends = run.preparation.unscale(np.stack([np.zeros(len(names)), np.ones(len(names))]))[:, place]
    rows, far = {}, tolerance * float(abs(ends[1] - ends[0]))
    for number in range(min(most_rows, len(dataset))):
        of = _of_row if run.preparation.kind == "table" else _of_bag
        predict, elements, attention = of(network, features, number, run, place)
        found = explain_one(predict, elements, attention, tolerance=far, sensitivity=sensitivity, most=most)
        rows[str(dataset.ids[number])] = found
    source = "the data" if isinstance(data, Dataset) else Path(shown(data)).name
    return Explanations(run.setup.model, names[place], source, sensitivity, rows)


def _unscaled(run: Run, standard: torch.Tensor, place: int) -> float:
    return float(run.preparation.unscale(standard.double().numpy())[:, place].mean())


def _of_row(network: Network, features: Features, number: int, run: Run, place: int) -> tuple[Predict, list[str], Any]:
    """A row of a table: its prediction without some of its columns, their names, and the attention between them."""
    spec: Any = run.preparation.spec
    row: Any = features.read(np.array([number]))
    names = run.preparation.element_names or []
    drawn = _drawn(spec)

    def predict(there: NDArray[np.bool_]) -> float:
        known = there[: spec.numeric]
        gone = ~there[spec.numeric :]
        times = DRAWS if gone.any() else 1
        numeric = np.where(known, row["numeric"].numpy(), 0.0).astype(np.float32).repeat(times, 0)
        missing = (row["missing"].numpy() & known).repeat(times, 0)
        codes = np.where(gone, drawn[:times], row["codes"].numpy()).astype(np.int64)
        rows = network.look_up(TableFeatures(numeric, missing, codes))
        return _unscaled(run, network(rows.read(np.arange(times))).prediction, place)

    inputs = network.look_up(features).read(np.array([number]))
    return predict, list(names), _attention(network, inputs, len(names))


def _drawn(spec: TableSpec) -> NDArray[np.int64]:
    """Codes of training, (draws, categories), evenly; the same for every row."""
    rng = np.random.default_rng(0)
    columns = [rng.permutation(np.arange(DRAWS) % max(size - 1, 1)) + 1 for size in spec.categories]
    return np.stack(columns, 1) if columns else np.zeros((DRAWS, 0), np.int64)


def _attention(network: Network, inputs: Any, elements: int) -> Any:
    """(elements + 1, elements + 1) of the deepest layer between the elements; None if there is none."""
    found: list[Any] = []
    maps = attention_maps(network, lambda: found.append(network(inputs)))
    last = next((one[0].mean(0).double().numpy() for one in reversed(maps) if one.shape[0] == 1), None)
    if last is not None and last.shape == (elements + 1, elements + 1):
        return last
    pooled = next(iter(found[0].pooled.values()), None)
    if pooled is None or pooled.effective.numel() != elements:
        return None
    between = last if last is not None and last.shape == (elements, elements) else None
    return beside_pool(between, pooled.effective.flatten().double().numpy())


def _of_bag(network: Network, features: Features, number: int, run: Run, place: int) -> tuple[Predict, list[str], Any]:
    """A bag: its prediction without some of its heaviest elements."""
    inputs: Any = network.look_up(features).read(np.array([number]))
    pooled = next(iter(network(inputs).pooled.values()), None)
    if pooled is None:
        raise InputError(f"the model {run.setup.model!r} has no pool: there are no elements to leave out")
    weight = pooled.effective.flatten().double().numpy()
    heavy = np.sort(np.argsort(-np.abs(weight), kind="stable")[:HEAVIEST])

    def predict(there: NDArray[np.bool_]) -> float:
        keep = torch.ones(len(weight), dtype=torch.bool)
        keep[torch.from_numpy(heavy[~there])] = False
        left = {name: _some(part, keep) for name, part in inputs.items()}
        return _unscaled(run, network(left).prediction, place)

    return predict, [f"element {i}" for i in heavy], beside_pool(None, weight[heavy])


def _some(part: Any, keep: torch.Tensor) -> Any:
    """A bag without some of its elements: one alone is a tensor (1, elements, ...), or ragged."""
    if isinstance(part, Ragged):
        return Ragged(part.values[keep], keep.sum().view(1))
    return part[:, keep] if part.dim() > 1 and part.shape[1] == len(keep) else part
