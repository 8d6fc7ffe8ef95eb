"""The table of the study: the eight figures of every arm, differences with their intervals, how long a fit took."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

from excora.stats.paired import Predicted, draw, errors, pairwise
from excora.stats.sentiment import NAMES, sentiment_scores
from excora_studies.runner import Report, Results
from excora_studies.sentiment import drawing
from excora_studies.tabular.scores import unpack, unpack_codes

Runs = list[dict[str, Any]]
#: Rows whose words or frames are shown.
SHOWN = (
    ("frozen text", "streams, linear: ECA"),
    ("tuned text", "tuned MiniLM: ECA"),
    ("planted", "streams, linear: softmax"),
    ("planted", "streams, linear: ECA"),
)
#: The part whose runs, one vote each, are one row more, and its name.
TOGETHER = ("tuned text", "every run above together")


def make(configuration: dict[str, Any], results: Results) -> Report:
    """From the chunks that are there."""
    rows, pairs, missing, every = [], [], [], {}
    for part, about in configuration["parts"].items():
        there = every[part] = {
            arm: runs_of(part, arm, one, configuration, results) for arm, one in about["arms"].items()
        }
        label = unpack(results[f"{part} | test part"]["target"]) if f"{part} | test part" in results else None
        for arm, runs in there.items():
            if runs and label is not None:
                rows.append(_row(part, arm, about["arms"][arm], runs, label, configuration["chooses"]))
            else:
                missing.append(f"{part}: {arm}")
        if part == TOGETHER[0] and label is not None and any(there.values()):
            rows.append(_all_of(part, [run for runs in there.values() for run in runs], label, rows[-1]))
        pairs += _pairs(part, about["arms"], there, results)
    notes = [f"{pair['part']}: {words(pair)}" for pair in pairs]
    if configuration["chooses"] != "validation":
        notes.insert(
            0, "best test epoch: the test part has chosen the epoch, as published protocols do; no fair estimate"
        )
    notes += [f"not computed yet: {one}" for one in missing]
    columns = ("part", "arm", *NAMES, "seeds", "epoch", "chosen by")
    looked = _attention(configuration, results)
    summary = {"pairs": pairs, "missing": missing, "attention": looked, "seconds": _seconds(configuration, results)}
    return Report(rows, summary, drawing.figures(results, rows, every, looked), notes, columns)


def runs_of(part: str, arm: str, about: dict[str, Any], configuration: dict[str, Any], results: Results) -> Runs:
    """The runs of an arm, seed by seed: the first is the trial that was picked; none until all trials are there."""
    from excora_studies.sentiment import chosen, run_key, trial_key

    number = chosen(about, part, arm, results)
    if number is None:
        return []
    first, *others = configuration["seeds"]
    keys = [trial_key(part, arm, number, first), *(run_key(part, arm, seed) for seed in others)]
    return [results[key] for key in keys if key in results]


def _row(part: str, arm: str, about: dict[str, Any], runs: Runs, label: Any, chooses: str) -> dict[str, Any]:
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
    return row | {"chosen by": "validation" if chooses == "validation" else "test (best test epoch)"}


def _all_of(part: str, runs: Runs, label: Any, like: dict[str, Any]) -> dict[str, Any]:
    """The mean prediction of all runs of a part: nothing is chosen, so that the test part cannot choose."""
    found = sentiment_scores(np.mean([unpack(run["prediction"]) for run in runs], 0), label).named()
    row = dict.fromkeys(like) | {"part": part, "arm": TOGETHER[1], "seeds": len(runs)} | found
    return row | {"tuned": "", "edges": 0, "published": "", "chosen by": like["chosen by"]}


def _seconds(configuration: dict[str, Any], results: Results) -> dict[str, dict[str, float]]:
    """The longest fit of each arm, trials included, in CPU seconds of one thread, by part."""
    found: dict[str, dict[str, float]] = {}
    for key, result in results.items():
        part, arm, *_ = key.split(" | ")
        if "seconds" in result and arm in configuration["parts"].get(part, {"arms": {}})["arms"]:
            arms = found.setdefault(part, {})
            arms[arm] = max(arms.get(arm, 0.0), result["seconds"])
    return found


def _attention(configuration: dict[str, Any], results: Results) -> dict[str, dict[str, Any]]:
    """What some rows look at, by part and arm; with the first seed."""
    found: dict[str, dict[str, Any]] = {}
    for part, arm in SHOWN:
        about = configuration["parts"].get(part, {"arms": {}})["arms"].get(arm)
        runs = [] if about is None else runs_of(part, arm, about, configuration, results)
        if runs and runs[0].get("attention"):
            found.setdefault(part, {})[arm] = runs[0]["attention"]
    return found


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
