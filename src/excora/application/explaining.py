"""``explain``: which columns, elements, words or patches predictions of a run hang on; checked by leaving them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from excora.application.left_out import case_of
from excora.application.predicting import check_free, read_like
from excora.application.run import Run
from excora.application.tuning import is_tuned
from excora.data.dataset import Dataset
from excora.data.reading import Paths, shown
from excora.diagnosis.explaining import SENSITIVITY, Explained
from excora.diagnosis.explaining import explain as explain_one
from excora.errors import InputError
from excora.report import ExplanationRecord, page_of_explanation, write_page
from excora.storage import plain


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
    samples: Sequence[str] = (),
    most_rows: int = 5,
    tolerance: float = 0.25,
    sensitivity: float = SENSITIVITY,
    most: int = 2,
    labels: str | Path | None = None,
    features: str | Path | None = None,
    id: str | None = None,
    sep: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
) -> Explanations:
    """What the predictions of some samples hang on: those of the ids ``samples``, or the first ``most_rows``.

    ``tolerance``: how far a prediction must move for a set to count, in standard deviations of the training labels.
    Left out means: a number, a word or a patch at its training mean, a category drawn as often as training had it, an
    element of a bag not there; see :mod:`excora.application.left_out`. ``most``: the size of the largest set that is
    tried. ``sensitivity``: a knob of the graph, no sample size. The rest says how the data are written, as in
    :func:`excora.predict`.
    """
    if not isinstance(run, Run) and is_tuned(run):
        raise InputError(f"{run}: an ensemble of `excora tune` is not explained; explain a run of `excora fit`")
    run = run if isinstance(run, Run) else Run.load(run)
    written = {"features": features, "id": id, "sep": sep, "decimal": decimal, "encoding": encoding}
    dataset = data if isinstance(data, Dataset) else read_like(run, data, labels, written)
    names = run.preparation.targets
    if target is not None and target not in names:
        raise InputError(f"target must be one of {_some(names)}, got {target!r}")
    if most_rows < 1 or not tolerance > 0:
        raise InputError(f"rows must be at least 1 and tolerance positive, got {most_rows} and {tolerance}")
    place = 0 if target is None else names.index(target)
    prepared, far = run.preparation.features(dataset), tolerance * run.preparation.std[place]
    run.network.eval()
    rows = {}
    for number in _chosen(dataset, samples, most_rows):
        case = case_of(run, prepared, number, place)
        rows[str(dataset.ids[number])] = explain_one(*case, tolerance=far, sensitivity=sensitivity, most=most)
    source = "the data" if isinstance(data, Dataset) else Path(shown(data)).name
    return Explanations(run.setup.model, names[place], source, sensitivity, rows)


def _chosen(dataset: Dataset, samples: Sequence[str], most: int) -> list[int]:
    """Places of the samples of these ids, or of the first ones."""
    if not len(dataset):
        raise InputError("there is nothing to explain: the data have no samples")
    if not samples:
        return list(range(min(most, len(dataset))))
    where = {str(name): k for k, name in enumerate(dataset.ids)}
    unknown = [name for name in samples if name not in where]
    if unknown:
        raise InputError(f"there is no sample {unknown[0]!r}; there are {_some([*where])}")
    return [where[name] for name in samples]


def _some(names: Sequence[str]) -> str:
    """The first of many."""
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
