"""The three parts of the MSE over epochs, as stacked areas."""

from __future__ import annotations

from excora.report.epochs import STANDARD, Curve, axes, counted, curve, last, line, table_rows
from excora.report.numerals import count, figure
from excora.report.plots import Plot, View
from excora.report.records import RunRecord
from excora.report.sections import Made, Missing, Section, section
from excora.report.tables import Column, Table
from excora.report.words import PARTS


@section("error-parts", "What the error is made of", place=330)
def error_parts(record: RunRecord) -> Made:
    """Order, spread and level."""
    found = _parts(record)
    if not all(found.values()):
        return Missing("the run was not watched while it was trained.")
    traces = []
    for name, color in zip(PARTS, ("@c1", "@c2", "@c3"), strict=True):
        area = {"stackgroup": "mse", "mode": "lines", "line": {"width": 0.5, "color": color}, "fillcolor": color}
        traces.append(line(PARTS[name][0], found[name], color) | area)
    columns = [Column("Epoch", count), *(Column(PARTS[name][0], figure) for name in PARTS)]
    data = Table("Parts of the mean squared error by epoch", columns, table_rows(list(found.values())))
    kept = 0 if record.results is None else counted(record.results.best_epoch)
    when = f"the kept epoch, {kept}" if kept in found["order"] else "the last epoch"
    ends = {PARTS[name][0].lower(): values.get(kept, last(values)) for name, values in found.items()}
    total = sum(ends.values())
    shares = ", ".join(f"{name} {100 * v / total:.0f} %" for name, v in ends.items()) if total > 0 else "none left"
    sentence = f"The training error over the epochs, split into three parts. In {when}: {shares}."
    view = View(traces, axes("Mean squared error", *found.values()))
    plot = Plot("parts", "Parts of the MSE", sentence, {"": view}, data, STANDARD)
    return Section(template="error-parts.html", plots=[plot], values={"parts": list(PARTS.values())})


def _parts(record: RunRecord) -> dict[str, Curve]:
    """MSE = sigma_y^2 (1 - rho^2) + (sigma_yhat - rho sigma_y)^2 + (mean yhat - mean y)^2, by epoch."""
    mse, order, level = (curve(record.monitor, name) for name in ("mse", "mse_affine", "mse_offset"))
    epochs = [epoch for epoch in mse if epoch in order and epoch in level]
    spread = {epoch: max(mse[epoch] - order[epoch] - level[epoch], 0.0) for epoch in epochs}
    return {"order": {e: order[e] for e in epochs}, "spread": spread, "level": {e: level[e] for e in epochs}}
