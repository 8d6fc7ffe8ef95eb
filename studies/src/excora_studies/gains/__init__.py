"""Study ``gains``: where extrapolating attention gains on real data, each arm tuned with the same budget.

task ─► split by seed ─► arm in its host: rates and decays on validation ─► a fit a seed ─► test, once ─► table, pairs

A chunk is an arm of a task with its trials and all seeds. What is not computed yet is named by the page.
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

from excora.data.preparation import Preparation
from excora_studies.gains import arms, page
from excora_studies.gains.tasks import TASKS, Sample, Task
from excora_studies.runner import Chunk, Report, Results, Tick
from excora_studies.tabular.scores import pack, pack_codes

#: For the pages: what stands between the marks of that name.
BLOCKS = page.BLOCKS
#: The split of this seed, and the start of this seed, decide the trials; where the split is the official one it is
#: the same for all.
TUNING_SEED = 0
QUICK: dict[str, Any] = {"rows": 40, "tasks": ["MOSI tokens, frozen"], "arms": ["softmax", "eca"], "epochs": 1}


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:  # noqa: ARG001  (the protocol)
    """Everything that the numbers depend on."""
    quick = preset == "quick"
    chosen = [task for task in TASKS.values() if not quick or task.name in QUICK["tasks"]]
    return {
        "preset": preset,
        "seeds": list(range(seeds or (1 if quick else 5))),
        "tuning_seed": TUNING_SEED,
        "quick": QUICK if quick else None,
        "tasks": {task.name: _described(task, quick=quick) for task in chosen},
    }


def _described(task: Task, *, quick: bool) -> dict[str, Any]:
    names = [arm for arm in task.arms if not quick or arm in QUICK["arms"]]
    about = {"host": task.host, "encoder": task.encoder, "settings": task.settings, "rows": task.rows}
    return about | {"rates": list(task.rates), "decays": list(task.decays), "arms": names}


def key(task: str, what: str) -> str:
    """The name of a chunk."""
    return f"{task} | {what}"


def table_of(chunk: str) -> str:
    """The file of a chunk: its task."""
    return chunk.split(" | ", maxsplit=1)[0]


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:
    """For each task its test parts, then arm by arm."""
    found = []
    for name, about in configuration["tasks"].items():
        task = _task(name, configuration)
        rows = QUICK["rows"] if configuration["quick"] else task.rows
        sample_of = functools.lru_cache(1)(functools.partial(task.read, data, rows))
        test = functools.partial(_test_part, sample_of, configuration["seeds"])
        found.append(Chunk(key(name, "test part"), 1, test))
        for arm in about["arms"]:
            found.append(Chunk(key(name, arm), 1, functools.partial(_arm, sample_of, task, arm, configuration)))
    return found


def _task(name: str, configuration: dict[str, Any]) -> Task:
    task = TASKS[name]
    if not configuration["quick"]:
        return task
    return dataclasses.replace(task, settings=task.settings | {"epochs": QUICK["epochs"]}, rates=task.rates[:1])


def _target(sample: Sample) -> Any:
    """Labels of the test part on the scale of the training part, (n, targets)."""
    assert sample.dataset.target is not None
    scaled = Preparation.fit(sample.dataset, sample.split.train).scale(sample.dataset.target)
    return scaled[sample.split.test].astype("float64")


def _test_part(sample_of: Any, seeds: list[int], results: Results, tick: Tick) -> Any:  # noqa: ARG001
    parts = []
    for seed in seeds:
        sample = sample_of(seed)
        y = _target(sample)
        unit = pack_codes(sample.unit[sample.split.test])
        sizes = [len(part) for part in sample.split]
        parts.append({"target": pack(y.ravel()), "targets": y.shape[1], "unit": unit, "sizes": sizes})
    tick()
    return {"parts": parts}


def _arm(sample_of: Any, task: Task, arm: str, configuration: dict[str, Any], results: Results, tick: Tick) -> Any:  # noqa: ARG001
    found = arms.run(sample_of, task, arm, configuration["seeds"], configuration["tuning_seed"])
    runs = []
    for seed, fit in zip(configuration["seeds"], found["fits"], strict=True):
        scored = arms.scores(fit.prediction, _target(sample_of(seed)))
        runs.append(scored | fit.figures | {"prediction": pack(fit.prediction.ravel())})
    tick()
    return {"trials": found["trials"], "runs": runs}


def report(configuration: dict[str, Any], results: Results) -> Report:
    """What is there."""
    from excora_studies.gains.table import make

    return make(configuration, results)
