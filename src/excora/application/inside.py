"""``inside``: what a trained run does with data, from within; kept in its folder, for its report."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np

from excora.application.predicting import read_like
from excora.application.run import Run
from excora.data.dataset import Dataset, Index
from excora.diagnosis.inside import Inside, look_inside
from excora.errors import InputError
from excora.report import write_report
from excora.storage import plain, write_json
from excora.training.evaluation import outputs

#: Samples whose attention between elements is looked at.
FEW = 16


def inside(
    run: Run | str | Path,
    data: str | Path | Dataset,
    *,
    transport: bool = False,
    samples: int = 2000,
    write: bool = True,
) -> Inside:
    """The worth of a run's pooling weights on ``data``, and how many directions its elements and its attention have;
    with ``transport`` how far its layers are from optimal maps.

    ``data`` is read as in training; at most ``samples`` of its samples are used, evenly spread over the file. The rows
    go into inside.json of the run folder, and its report shows them, unless ``write=False``.
    """
    run = run if isinstance(run, Run) else Run.load(run)
    dataset = data if isinstance(data, Dataset) else read_like(run, data)
    if len(dataset) < 8:
        raise InputError(f"at least 8 samples are needed to look inside a run, the data have {len(dataset)}")
    chosen = np.unique(np.linspace(0, len(dataset) - 1, min(samples, len(dataset))).astype(np.intp))
    features = run.network.look_up(run.preparation.features(dataset))
    limit = run.setup.recipe.max_elements

    def call(some: Index = chosen) -> None:
        for _ in outputs(run.network, features, some, max_elements=limit, watched=True):
            pass

    few = functools.partial(call, chosen[:: -(-len(chosen) // FEW)])
    found = look_inside(run.network, call, samples=len(chosen), layers=transport, few=few)
    if write:
        content: dict[str, Any] = plain(found._asdict())
        write_json(run.path / "inside.json", content)
        write_report(run.path)
    return found
