"""``predict``: a run folder on new data."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from excora.application.results import columns, outside_note
from excora.application.run import Run
from excora.application.tuning import Tuned, is_tuned, predict_tuned
from excora.data import sources
from excora.data.dataset import Dataset
from excora.data.reading import Paths, listed, read, shown
from excora.data.roles import Roles
from excora.errors import InputError
from excora.storage import plain, write_atomically
from excora.training.evaluation import Attention, answers, reach_of, scores

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Predictions:
    """Predictions on the scale of the labels."""

    #: id, target where the data have it, prediction, lower and upper where asked (:NAME each, if several), outside
    frame: pd.DataFrame
    attention: pd.DataFrame | None  #: id, element, weight, effective: a row an element; if it was asked for
    notes: tuple[str, ...]  #: unseen categories, ignored columns, inputs outside the training range
    #: PCC with its interval, MSE and MAE of each target, over the labels that the data have; empty without any.
    scores: dict[str, dict[str, float]] = field(default_factory=dict)
    dataset: Dataset | None = field(default=None, repr=False)  #: what was predicted
    targets: tuple[str, ...] = ()

    def save(self, path: str | Path, attention: str | Path | None = None, *, overwrite: bool = False) -> None:
        """Write the frame, and where asked the attention, each as .csv or .parquet; a file that is there is kept.

        Predictions of slides are also written as .h5ad, with the prediction in a layer.
        """
        check_free(path, attention, overwrite=overwrite)
        if Path(path).suffix in (".csv", ".parquet") or self.dataset is None:
            _save(self.frame, Path(path))
        else:
            _save_as_source(self, Path(path))
        if attention is not None:
            if self.attention is None:
                raise InputError("there is no attention to write: ask for it, predict(..., attention=True)")
            _save(self.attention, Path(attention))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON: the rows by column, and the notes."""
        content: dict[str, Any] = {"predictions": self.frame.to_dict("list"), "notes": list(self.notes)}
        content |= {"scores": self.scores} if self.scores else {}
        if self.attention is not None:
            content["attention"] = self.attention.astype({"id": str}).to_dict("list")
        found: dict[str, Any] = plain(content)
        return found

    def __rich__(self) -> Any:
        """A summary for rich consoles."""
        from excora.application.console import summary_of

        return summary_of(self)


def predict(
    run: Run | Tuned | str | Path,
    data: Paths | Dataset,
    *,
    attention: bool = False,
    interval: float | None = None,
    labels: str | Path | None = None,
    features: str | Path | None = None,
    id: str | None = None,
    sep: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
) -> Predictions:
    """Predict new data with a trained run; the folder is all it takes.

    ``data`` has the layout of the training data, with or without the targets; columns that do not fit are named in a
    :class:`DataError`. ``labels`` is a table that lists the bags of a folder to predict, all of them unless given;
    ``id`` names the samples if another column than in training does; ``sep``, ``decimal`` and ``encoding`` say how text
    is written if it is otherwise than in training. Targets that are there are carried over and scored. Memory is
    bounded by the run's ``max_elements``; ``attention`` adds a row an element of the model's first pool, ``interval``
    columns ``lower`` and ``upper`` with this share of all labels between them, for a model that can say ("kriging").
    :func:`excora.fit` has an example.
    """
    given = {"id": id, "sep": sep, "decimal": decimal, "encoding": encoding}
    if isinstance(run, Tuned) or is_tuned(run):
        return _of_ensemble(run, data, given, attention=attention)
    run = run if isinstance(run, Run) else Run.load(run)
    dataset = data if isinstance(data, Dataset) else read_like(run, data, labels, given | {"features": features})
    if not len(dataset):
        raise InputError("there is nothing to predict: the data have no samples")
    read = run.network.look_up(run.preparation.features(dataset))
    names = run.network.element_names(run.preparation.element_names)
    reach = None if interval is None else reach_of(run.network, run.setup.model, interval)
    rows: list[Any] = []
    looked: list[Attention] = []
    spread: list[Any] = []
    for answer in answers(run.network, read, np.arange(len(dataset)), run.setup):
        rows.append(answer.prediction)
        spread.append(answer.spread)
        if attention:
            if not answer.attention:
                raise InputError(f"the model {run.setup.model!r} has no pool, so there is no attention to write")
            looked.append(next(iter(answer.attention.values())))
    examined = run.preparation.examine(dataset)
    unscale = run.preparation.unscale
    standard = np.stack(rows)
    prediction = unscale(standard)
    target = run.preparation.known_labels(dataset)
    shown = {} if target is None else {"target": target}
    shown |= {"prediction": prediction}
    if reach is not None:
        shown |= {name: unscale(standard + sign * reach * np.stack(spread)) for name, sign in _ENDS.items()}
    notes = (*dataset.notes, *examined.notes, *outside_note(examined.outside))
    return Predictions(
        _frame(run, dataset, shown, examined.outside),
        _attention(dataset, looked, names) if attention else None,
        notes if target is None else (*notes, *_seen(run, data)),
        {} if target is None else scores(prediction, target, run.preparation.targets, dataset.group),
        dataset,
        run.preparation.targets,
    )


def _of_ensemble(run: Any, data: Paths | Dataset, given: dict[str, str | None], *, attention: bool) -> Predictions:
    """A folder of ``tune`` on new data."""
    if attention:
        raise InputError("an ensemble has no attention to write: its members differ; predict with a run of excora fit")
    tuned = run if isinstance(run, Tuned) else Tuned.load(run)
    dataset = (data if isinstance(data, Dataset) else read_like(tuned, data, None, given)).without_target()
    if not len(dataset):
        raise InputError("there is nothing to predict: the data have no samples")
    frame, notes = predict_tuned(tuned, dataset)
    return Predictions(frame, None, notes)


def check_free(*paths: str | Path | None, overwrite: bool) -> None:
    """Refuse to write over a file, unless told to."""
    there = [path for path in paths if path is not None and Path(path).exists()]
    if there and not overwrite:
        raise InputError(f"{there[0]}: this file is there already; give another name, or say overwrite=")


def _seen(run: Run, data: Paths | Dataset) -> tuple[str, ...]:
    """That scores are no test, if it is the file of the training."""
    trained = run.config.get("data", {}).get("path")
    if isinstance(data, Dataset) or not isinstance(trained, str) or not _same(trained, data):
        return ()
    return ("the run was trained on this file: its scores here are no test, those of the run folder are",)


def _same(trained: str, data: Paths) -> bool:
    """Whether these are the files of the training."""
    found = listed(data)
    return Path(trained).absolute() == found[0].absolute() if len(found) == 1 else trained == shown(data)


def read_like(
    run: Run | Tuned,
    path: Paths,
    labels: str | Path | None = None,
    given: Mapping[str, Any] = MappingProxyType({}),
) -> Dataset:
    """Data in the layout of the run's training data, targets or not; ``given`` are roles that differ."""
    described = run.config.get("data")
    if not isinstance(described, dict):
        raise InputError(f"{run.path / 'config.json'}: 'data' must name the columns, got {described!r}")
    try:
        roles = vars(Roles.from_dict(described))
    except InputError as error:
        raise InputError(f"{run.path / 'config.json'}: {error}") from None
    named = {name: value for name, value in given.items() if value is not None}
    return read(path, labelled=False, **(roles | {"labels": labels, "features": None} | named))


_ENDS = {"lower": -1.0, "upper": 1.0}


def _frame(run: Run, dataset: Dataset, shown: dict[str, Any], outside: Any) -> pd.DataFrame:
    import pandas as pd

    named: dict[str, Any] = {}
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


def _save_as_source(found: Predictions, path: Path) -> None:
    """In the format of the samples' own source."""
    assert found.dataset is not None
    layers = {
        name: found.frame[columns(found.targets, name)].to_numpy(np.float64)
        for name in ("prediction", "target", *_ENDS)
        if columns(found.targets, name)[0] in found.frame
    }
    extra = {"outside": found.frame["outside"].to_numpy()}
    try:
        sources[found.dataset.kind].write(path, found.dataset, found.targets, layers | extra)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


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
