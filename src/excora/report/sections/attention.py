"""Attention: how many elements count, gain and temperature, over the test samples of each pool."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np

from excora.report.histograms import digits, histogram
from excora.report.numerals import count, figure, plural
from excora.report.parts import Attention
from excora.report.plots import Plot
from excora.report.records import RunRecord
from excora.report.sections import Made, Missing, Section, section
from excora.report.words import SHARES


@section("attention", "Attention", place=600)
def attention(record: RunRecord) -> Made:
    """A section for each pool that has weighed something."""
    pools = {name: found for name, found in record.attention.items() if _weighed(found)}
    if not pools:
        return Missing("this model weighs no elements.")
    return [
        _pool(found, title=f"Attention: {name}" if len(pools) > 1 else "", end=f"-{number}" if number > 1 else "")
        for number, (name, found) in enumerate(pools.items(), 1)
    ]


def _weighed(found: Attention) -> bool:
    return bool(found.effective_elements or found.gamma or found.temperature)


def _pool(found: Attention, title: str, end: str) -> Section:
    """``end`` tells the plots of one pool from those of another."""
    plots = []
    if found.effective_elements:
        plots.append(_effective(found.effective_elements, found.elements, end))
    if found.gamma:
        sentence = (
            f"The gain, gamma, of each sample: {_middle(found.gamma)}. 1 is plain attention; above 1 the model "
            f"stretches it, below 1 it moves toward the plain average."
        )
        plots.append(histogram(f"gamma{end}", "Gain (gamma)", found.gamma, sentence, mark="gamma"))
    if found.temperature:
        sentence = (
            f"The temperature of each sample: {_middle(found.temperature)}. Higher spreads the attention over more "
            f"elements, lower focuses it on fewer."
        )
        plots.append(histogram(f"temperature{end}", "Temperature", found.temperature, sentence, mark="temperature"))
    lacks = [name for name in ("gamma", "temperature") if not getattr(found, name)]
    return Section(template="attention.html", title=title, lead=SHARES, plots=plots, values={"lacks": lacks})


def _effective(effective: Sequence[float], elements: Sequence[int], end: str) -> Plot:
    half = figure(statistics.median(effective), 3)
    sentence = (
        f"How many elements share the attention of a sample: in half of {len(effective):,} samples {half} or fewer"
    )
    sentence += f"; the middle sample has {count(statistics.median(elements))}." if elements else "."
    note = "Effective number of elements: 1 if all attention rests on one element, all of them if it is spread evenly."
    return histogram(f"effective{end}", "Effective number of elements", effective, sentence, note=note)


def _middle(values: Sequence[float]) -> str:
    low, middle, high = (figure(float(q), digits(values)) for q in np.quantile(values, [0.1, 0.5, 0.9]))
    if low == high:
        return f"{middle}, nearly the same for all of {plural(len(values), 'sample')}"
    return f"{middle} in the middle, and between {low} and {high} for 80 % of {plural(len(values), 'sample')}"
