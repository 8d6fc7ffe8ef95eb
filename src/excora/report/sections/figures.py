"""The key figures, as cards."""

from __future__ import annotations

import math
import statistics
from typing import NamedTuple

from excora.report.numerals import correlation, count, duration, figure, plural
from excora.report.parts import Results, Score
from excora.report.records import ComparisonRecord, Record
from excora.report.sections import BOTH, Made, Missing, Section, section
from excora.report.words import TERMS


class Card(NamedTuple):
    """A key figure."""

    name: str
    value: str
    more: str


@section("figures", "Key figures", place=100, reads=BOTH)
def figures(record: Record) -> Made:
    """Scores, samples and time; of a comparison alone, its best models."""
    found = record if isinstance(record, ComparisonRecord) else record.results or record.comparison
    cards = _winners(found) if isinstance(found, ComparisonRecord) else _scores(found)
    if not cards:
        return Missing("the run has not ended yet.")
    return Section(template="figures.html", values={"cards": cards, "terms": TERMS})


def _scores(results: Results | None) -> list[Card]:
    if results is None or not results.scores:
        return []
    scores, part = list(results.scores.values()), results.part
    known = [score.pcc for score in scores if score.pcc is not None]
    figures = {
        "PCC": (correlation(_mean([s.pcc for s in scores])), _about_pcc(scores, known)),
        "MSE": (figure(_mean([s.mse for s in scores])), "mean squared error"),
        "MAE": (figure(_mean([s.mae for s in scores])), "mean absolute error"),
    }
    over = "" if len(scores) == 1 else f"mean over {plural(len(scores), 'target')}"
    cards = [Card(f"{part.capitalize()} {name}", value, over or more) for name, (value, more) in figures.items()]
    if over and known:
        cards[0] = cards[0]._replace(more=f"{over}; {correlation(min(known))} to {correlation(max(known))}")
    cards += [
        Card(f"{part.capitalize()} PCC of {name}", correlation(pcc), "a simple model on the same split")
        for name, pcc in results.simple.items()
    ]
    train, validation, mine = (count(results.counts.get(name)) for name in ("train", "validation", part))
    cards.append(Card("Samples", mine, f"in the {part} part; {train} to train, {validation} to validate"))
    if results.seconds is not None:
        how = "fitted as a whole" if results.stopped == "fitted" else plural(results.epochs, "epoch")
        cards.append(Card("Training", duration(results.seconds), how))
    return cards


def _mean(values: list[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return statistics.fmean(defined) if defined else None


def _about_pcc(scores: list[Score], known: list[float]) -> str:
    low, high = scores[0].low, scores[0].high
    if low is None or high is None:
        return "" if known else "undefined: constant values"
    return f"95 % interval {correlation(low)} to {correlation(high)}"


def _winners(found: ComparisonRecord) -> list[Card]:
    rows = found.rows
    if not rows:
        return []
    best = max(rows, key=lambda row: -2.0 if row.pcc is None else row.pcc)
    least = min(rows, key=lambda row: math.inf if row.mse is None else row.mse)
    return [
        Card("Highest PCC", correlation(best.pcc), f"{best.label}, all samples"),
        Card("Lowest MSE", figure(least.mse), f"{least.label}, all samples"),
        Card("Models", count(len(rows)), f"{plural(len(best.runs), 'run')} each"),
        Card("Training", duration(sum(run.seconds for row in rows for run in row.runs)), "all runs together"),
    ]
