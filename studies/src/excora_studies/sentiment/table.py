"""The table of the study: the eight figures of every arm, differences with their intervals, figures to look at."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

from excora.stats.paired import Predicted, draw, errors, pairwise
from excora.stats.sentiment import NAMES, sentiment_scores
from excora_studies.figures import Figure, Line, Panel
from excora_studies.runner import Report, Results
from excora_studies.tabular.scores import unpack, unpack_codes

Runs = list[dict[str, Any]]


def make(configuration: dict[str, Any], results: Results) -> Report:
    """From the chunks that are there."""
    rows, pairs, missing = [], [], []
    for part, about in configuration["parts"].items():
        there = {arm: runs_of(part, arm, one, configuration, results) for arm, one in about["arms"].items()}
        label = unpack(results[f"{part} | test part"]["target"]) if f"{part} | test part" in results else None
        for arm, runs in there.items():
            if runs and label is not None:
                rows.append(_row(part, arm, about["arms"][arm], runs, label, configuration["protocol"]))
            else:
                missing.append(f"{part}: {arm}")
        pairs += _pairs(part, about["arms"], there, results)
    notes = [f"{pair['part']}: {words(pair)}" for pair in pairs]
    if configuration["protocol"] != "validation":
        notes.insert(
            0, "best test epoch: the test part has chosen the epoch, as published protocols do; no fair estimate"
        )
    notes += [f"not computed yet: {one}" for one in missing]
    columns = ("part", "arm", *NAMES, "seeds", "epoch", "chosen by")
    return Report(rows, {"pairs": pairs, "missing": missing}, _figures(configuration, results, rows), notes, columns)


def runs_of(part: str, arm: str, about: dict[str, Any], configuration: dict[str, Any], results: Results) -> Runs:
    """The runs of an arm, seed by seed: the first is the trial that was picked; none until all trials are there."""
    from excora_studies.sentiment import chosen, run_key, trial_key

    number = chosen(about, part, arm, results)
    if number is None:
        return []
    first, *others = configuration["seeds"]
    keys = [trial_key(part, arm, number, first), *(run_key(part, arm, seed) for seed in others)]
    return [results[key] for key in keys if key in results]


def _row(part: str, arm: str, about: dict[str, Any], runs: Runs, label: Any, protocol: str) -> dict[str, Any]:
    row: dict[str, Any] = {"part": part, "arm": arm, "seeds": len(runs)}
    for name in NAMES:
        values = [run[name] for run in runs]
        row |= {name: statistics.fmean(values), f"{name} sd": statistics.stdev(values) if len(values) > 1 else None}
    together = sentiment_scores(np.mean([unpack(run["prediction"]) for run in runs], 0), label)
    row |= {
        "together PCC": together.pcc if len(runs) > 1 else None,
        "together MAE": together.mae if len(runs) > 1 else None,
    }
    for name in ("epoch", "validation", "seconds", "gamma"):
        values = [run[name] for run in runs if run.get(name) is not None]
        row[name] = statistics.fmean(values) if values else None
    trial = about["trials"][runs[0]["trial"]]
    row["tuned"] = ", ".join(f"{name} {value:g}" for name, value in trial.items())
    row |= {"edges": sum(bool(run.get("edge")) for run in runs), "published": about["published"]}
    return row | {"chosen by": "validation" if protocol == "validation" else "test (best test epoch)"}


def _pairs(part: str, arms: dict[str, Any], there: dict[str, Runs], results: Results) -> list[dict[str, Any]]:
    """Every arm against its reference, over the seeds that both have; whole videos are resampled."""
    found = []
    for arm, about in arms.items():
        other = about["reference"]
        count = min(len(there[arm]), len(there.get(other, [])))
        if not count:
            continue
        test = results[f"{part} | test part"]
        target, unit = unpack(test["target"]), unpack_codes(test["unit"])
        seeds = [
            Predicted(np.stack([unpack(run["prediction"]) for run in both])[..., None], target[:, None], unit,
                      np.zeros(len(target), np.intp))
            for both in zip(there[arm][:count], there[other][:count], strict=True)
        ]  # fmt: skip
        bounds = {name.upper(): pairwise(*errors(one, [(0, 1)]))[0]._asdict() for name, one in draw(seeds).items()}
        mae = [a["MAE"] - b["MAE"] for a, b in zip(there[arm], there[other], strict=False)]
        found.append(
            {"part": part, "first": arm, "second": other, "seeds": count, **bounds, "MAE": statistics.fmean(mae)}
        )
    return found


def words(pair: dict[str, Any]) -> str:
    """A difference with its interval."""
    one = pair["PCC"]
    return (
        f"{pair['first']} − {pair['second']}: PCC {one['difference']:+.4f} [{one['low']:+.4f}, {one['high']:+.4f}], "
        f"MAE {pair['MAE']:+.3f}, {pair['seeds']} seeds"
    )


def _figures(configuration: dict[str, Any], results: Results, rows: list[dict[str, Any]]) -> dict[str, Figure]:
    """PCC by arm and part; validation PCC and MSE over epochs; predicted against true."""
    if not rows:
        return {}
    panels = []
    for part in dict.fromkeys(row["part"] for row in rows):
        own = [row for row in rows if row["part"] == part]
        low, high = ([row["PCC"] + sign * (row["PCC sd"] or 0.0) for row in own] for sign in (-1, 1))
        ticks = {float(k): row["arm"].replace("streams, ", "") for k, row in enumerate(own)}
        line = Line(
            label="PCC", x=list(range(len(own))), y=[row["PCC"] for row in own], low=low, high=high, joined=False
        )
        panels.append(Panel(title=part, x="", y="test PCC", lines=[line], ticks=ticks))
    found = {"scores": Figure(title="MOSI: test PCC by arm", panels=panels, columns=1, size=(12.0, 3.2))}
    curves = _curves(configuration, results)
    if curves:
        found["epochs"] = Figure(title="Validation over epochs, first seed", panels=curves, columns=2, size=(11.0, 3.4))
    return found


def _curves(configuration: dict[str, Any], results: Results) -> list[Panel]:
    panels = []
    for part, about in configuration["parts"].items():
        kept = {}
        for arm, one in about["arms"].items():
            runs = runs_of(part, arm, one, configuration, results)
            if runs and runs[0].get("curves") and (arm.startswith(("streams", "tuned", "ALMT"))):
                kept[arm] = runs[0]["curves"]
        for name, word in (("pcc", "validation PCC"), ("mse", "validation MSE")) if kept else ():
            lines = [
                Line(label=arm, x=list(range(1, len(c[name]) + 1)), y=c[name]) for arm, c in list(kept.items())[:8]
            ]
            panels.append(Panel(title=f"{part}: {word}", x="epoch", y=word, lines=lines))
    return panels
