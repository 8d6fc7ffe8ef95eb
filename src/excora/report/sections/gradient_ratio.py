"""The gradient ratio under its bound, on a log axis."""

from __future__ import annotations

import math
from collections.abc import Sequence

from excora.report.epochs import axes, curve, first, last, line, table_rows
from excora.report.numerals import count, figure
from excora.report.plots import Plot, View
from excora.report.records import RunRecord
from excora.report.sections import Made, Missing, Section, section
from excora.report.tables import Column, Table


@section("gradient-ratio", "What drives the training", place=360)
def gradient_ratio(record: RunRecord) -> Made:
    """The pull of the correlation relative to that of the error."""
    ratio, bound = (
        {epoch: value for epoch, value in curve(record.monitor, name).items() if value > 0}  # what a log axis can show
        for name in ("gradient_ratio", "gradient_ratio_bound")
    )
    if not ratio:
        return Missing("the pull of correlation and error on the attention was not measured in this run.")
    traces = [line("Ratio", ratio, "@c1")]
    if bound:
        dashed = {"line": {"color": "@c2", "width": 2, "dash": "dash"}, "mode": "lines"}
        traces.append(line("Upper bound", bound, "@c2") | dashed)
    layout = axes("Pull of PCC / pull of MSE", ratio, bound)
    ticks = _ticks([*ratio.values(), *bound.values()])
    layout["yaxis"] |= {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}
    columns = [Column("Epoch", count), Column("Ratio", figure), Column("Upper bound", figure)]
    data = Table("Gradient ratio by epoch", columns, table_rows([ratio, bound]))
    sentence = (
        "How hard the correlation pulls at the model, relative to the squared error: "
        f"{figure(first(ratio), 3)} in the first epoch, {figure(last(ratio), 3)} in the last."
    )
    note = (
        "The axis counts in factors: equal steps up are equal factors. Below 1 the squared error has the upper hand; "
        "far below 1 the correlation is hardly trained any more. The dashed line is the most that theory allows then."
    )
    return Section(plots=[Plot("gradients", "Gradient ratio", sentence, {"": View(traces, layout)}, data, note)])


def _ticks(values: Sequence[float]) -> list[float]:
    """1, 2 and 5 times powers of ten for a log axis; powers of ten alone where the values span decades."""
    powers = range(math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))) + 1)
    factors = (1, 2, 5) if len(powers) <= 4 else (1,)
    return [factor * 10.0**power for power in powers[:: -(-len(powers) // 8)] for factor in factors]
