"""``predict``: a run folder on new data."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from excora.application.results import columns, outside_note
from excora.application.run import Run
from excora.data.dataset import Dataset
from excora.data.reading import read
from excora.data.roles import Roles
from excora.errors import InputError
from excora.storage import plain, write_atomically
from excora.training.evaluation import Attention, answers, reach_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Predictions:
    """Predictions on the scale of the labels."""

    frame: pd.DataFrame  #: id, prediction (or prediction:NAME for several targets), lower, upper, outside
    attention: pd.DataFrame | None  #: id, element, weight, effective: a row an element; if it was asked for
    notes: tuple[str, ...]  #: unseen categories, ignored columns, inputs outside the training range

    def save(self, path: str | Path, attention: str | Path | None = None) -> None:
        """Write the frame, and where asked the attention, each as .csv or .parquet."""
        _save(self.frame, Path(path))
        if attention is not None:
            if self.attention is None:
                raise InputError("there is no attention to write: ask for it, predict(..., attention=True)")
            _save(self.attention, Path(attention))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON: the rows by column, and the notes."""
        content: dict[str, Any] = {"predictions": self.frame.to_dict("list"), "notes": list(self.notes)}
        if self.attention is not None:
            content["attention"] = self.attention.astype({"id": str}).to_dict("list")
        found: dict[str, Any] = plain(content)
        return found

    def __rich__(self) -> Any:
        """A summary for rich consoles."""
        from excora.application.console import summary_of

        return summary_of(self)


def predict(
    run: Run | str | Path,
    data: str | Path | Dataset,
    *,
    attention: bool = False,
    interval: float | None = None,
    labels: str | Path | None = None,
    id: str | None = None,
) -> Predictions:
    """Predict new data with a trained run; the folder is all it takes.

    ``data`` has the layout of the training data, with or without the targets; columns that do not fit are named in a
    :class:`DataError`. ``labels`` is a table that lists the bags of a folder to predict, all of them unless given;
    ``id`` names the samples if another column than in training does. Memory is bounded by the run's ``max_elements``;
    ``attention`` adds a row an element of the model's first pool, ``interval`` columns ``lower`` and ``upper`` with
    this share of all labels between them, for a model that can say ("kriging"). :func:`excora.fit` has an example.
    """
    run = run if isinstance(run, Run) else Run.load(run)
    dataset = data.without_target() if isinstance(data, Dataset) else _read(run, data, labels, id)
    if not len(dataset):
        raise InputError("there is nothing to predict: the data have no samples")
    features = run.network.look_up(run.preparation.features(dataset))
    names = run.network.element_names(run.preparation.element_names)
    reach = None if interval is None else reach_of(run.network, run.setup.model, interval)
    rows, looked, spread = [], [], []
    for answer in answers(run.network, features, np.arange(len(dataset)), run.setup):
        rows.append(answer.prediction)
        spread.append(answer.spread)
        if attention:
            if not answer.attention:
                raise InputError(f"the model {run.setup.model!r} has no pool, so there is no attention to write")
            looked.append(next(iter(answer.attention.values())))
    examined = run.preparation.examine(dataset)
    shown = {"prediction": np.stack(rows)}
    if reach is not None:
        shown |= {name: shown["prediction"] + sign * reach * np.stack(spread) for name, sign in _ENDS.items()}
    return Predictions(
        _frame(run, dataset, {name: run.preparation.unscale(x) for name, x in shown.items()}, examined.outside),
        _attention(dataset, looked, names) if attention else None,
        (*dataset.notes, *examined.notes, *outside_note(examined.outside)),
    )


def _read(run: Run, path: str | Path, labels: str | Path | None, id: str | None) -> Dataset:
    described = run.config.get("data")
    if not isinstance(described, dict):
        raise InputError(f"{run.path / 'config.json'}: 'data' must name the columns, got {described!r}")
    try:
        roles = vars(Roles.from_dict(described))
    except InputError as error:
        raise InputError(f"{run.path / 'config.json'}: {error}") from None
    return read(path, labelled=False, **(roles | {"labels": labels} | ({} if id is None else {"id": id})))


_ENDS = {"lower": -1.0, "upper": 1.0}


def _frame(run: Run, dataset: Dataset, shown: dict[str, Any], outside: Any) -> pd.DataFrame:
    import pandas as pd

    named = {}
    for name, values in shown.items():
        named |= dict(zip(columns(run.preparation.targets, name), values.T, strict=True))
    return pd.DataFrame({"id": dataset.ids, **named, "outside": outside})


def _attention(dataset: Dataset, looked: list[Attention], names: list[str] | None) -> pd.DataFrame:
    import pandas as pd

    sizes = [len(one.weight) for one in looked]
    numbers = np.concatenate([np.arange(size) for size in sizes])
    return pd.DataFrame(
        {
            "id": np.repeat(dataset.ids, sizes),
            "element": numbers if names is None else np.array(names, object)[numbers],
            "weight": np.concatenate([one.weight for one in looked]),
            "effective": np.concatenate([one.effective for one in looked]),
        }
    )


def _save(frame: pd.DataFrame, path: Path) -> None:
    try:
        if path.suffix == ".parquet":
            buffer = io.BytesIO()
            frame.to_parquet(buffer, index=False)
            write_atomically(path, buffer.getvalue())
        elif path.suffix == ".csv":
            write_atomically(path, frame.to_csv(index=False, lineterminator="\n"))
        else:
            raise InputError(f"{path}: predictions are written as .csv or .parquet, got {path.suffix or 'no ending'!r}")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
