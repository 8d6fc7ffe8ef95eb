"""The table of the study: scores of every arm with what stands beside them, and paired differences by task."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

from excora.stats.family import judge
from excora.stats.paired import Predicted, draw
from excora_studies.figures import Figure, Line, Panel
from excora_studies.gains.tasks import TASKS
from excora_studies.runner import Report, Results
from excora_studies.tabular.scores import unpack, unpack_codes

#: Further pairs, where both are there: the default form against every softmax.
MORE = (("eca", "softmax, 4 heads"), ("eca", "softmax, moments"))
#: From this share of the ceiling on it is said to bind.
BINDS = 0.95
_BESIDE = ("outside", "ceiling", "used", "gamma", "epoch", "seconds")


def make(configuration: dict[str, Any], results: Results) -> Report:
    """From the parts that are there."""
    rows, pairs, missing = [], [], {}
    for task, about in configuration["tasks"].items():
        there = [arm for arm in about["arms"] if f"{task} | {arm}" in results]
        rows += [_row(task, arm, about, results) for arm in there]
        pairs += _pairs(task, there, results)
        if absent := [part for part in ("test part", *about["arms"]) if f"{task} | {part}" not in results]:
            missing[task] = absent
    notes = [f"{pair['task']}: {words(pair)}" for pair in pairs]
    notes += [f"not computed yet: {task}: {', '.join(absent)}" for task, absent in missing.items()]
    sizes = {task: results[f"{task} | test part"]["parts"][0]["sizes"] for task in configuration["tasks"]
             if f"{task} | test part" in results}  # fmt: skip
    summary = {"pairs": pairs, "missing": missing, "sizes": sizes}
    columns = ("task", "arm", "PCC", "MSE", "rate", "decay", *_BESIDE)
    return Report(rows, summary, _figures(rows, pairs), notes, columns)


def _mean(runs: list[dict[str, Any]], name: str) -> float | None:
    values = [run[name] for run in runs if run.get(name) is not None]
    return statistics.fmean(values) if values else None


def _row(task: str, arm: str, about: dict[str, Any], results: Results) -> dict[str, Any]:
    found = results[f"{task} | {arm}"]
    runs, trials = found["runs"], found["trials"]
    row: dict[str, Any] = {"task": task, "arm": arm, "host": about["host"], "encoder": about["encoder"]}
    for score in ("PCC", "MSE"):
        values = [run[score] for run in runs]
        row |= {score: statistics.fmean(values), f"{score} sd": statistics.stdev(values) if len(values) > 1 else None}
    row |= {name: trials[0][name] if trials else None for name in ("rate", "decay")}
    row |= {name: _mean(runs, name) for name in (*_BESIDE, "validation")}
    row["binds"] = None if row["used"] is None else row["used"] >= BINDS
    return row | {"edges": sum(bool(run.get("edge")) for run in runs), "trials": len(trials)}


def _pairs(task: str, there: list[str], results: Results) -> list[dict[str, Any]]:
    """Every arm against the reference of the task, as one family: the intervals pay for the number of arms."""
    reference = TASKS[task].reference
    wanted = [(arm, reference) for arm in there if arm != reference and reference in there]
    wanted += [pair for pair in MORE if {*pair} <= {*there}]
    if not wanted or f"{task} | test part" not in results:
        return []
    tests = results[f"{task} | test part"]["parts"]
    seeds = []
    for number, test in enumerate(tests):
        shape = (-1, test["targets"])
        packed = [results[f"{task} | {arm}"]["runs"][number]["prediction"] for arm in there]
        prediction = np.stack([unpack(text).reshape(shape) for text in packed])
        target, unit = unpack(test["target"]).reshape(shape), unpack_codes(test["unit"])
        seeds.append(Predicted(prediction, target, unit, np.zeros(len(unit), np.intp)))
    drawn = draw(seeds)
    places = [(there.index(first), there.index(second)) for first, second in wanted]
    found = {score.upper(): judge(drawn[score], places, correlation=score == "pcc") for score in ("pcc", "mse")}
    return [
        {"task": task, "first": first, "second": second}
        | {f"{score} {what}": value for score, one in found.items() for what, value in one[k]._asdict().items()}
        for k, (first, second) in enumerate(wanted)
    ]


def words(pair: dict[str, Any]) -> str:
    """A difference in a line."""
    return (
        f"{pair['first']} - {pair['second']}: PCC {pair['PCC difference']:+.4f} "
        f"[{pair['PCC low']:+.4f}, {pair['PCC high']:+.4f}]"
    )


def _figures(rows: list[dict[str, Any]], pairs: list[dict[str, Any]]) -> dict[str, Figure]:
    """PCC against the reference, a panel a task."""
    panels = []
    for task in dict.fromkeys(row["task"] for row in rows):
        own = [pair for pair in pairs if pair["task"] == task and pair["second"] == TASKS[task].reference]
        if not own:
            continue
        y, low, high = ([pair[f"PCC {what}"] for pair in own] for what in ("difference", "low", "high"))
        ticks = {float(k): pair["first"] for k, pair in enumerate(own)}
        line = Line(label="difference, 95 %", x=list(range(len(own))), y=y, low=low, high=high, joined=False)
        title = f"{task}: arm - {own[0]['second']}"
        panels.append(Panel(title=title, x="", y="PCC", lines=[line], ticks=ticks, level=0.0))
    if not panels:
        return {}
    return {"gains": Figure(title="What each arm gains in PCC", panels=panels, columns=2, size=(6.2, 3.6))}
