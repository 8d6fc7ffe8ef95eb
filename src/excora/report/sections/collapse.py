"""Collapse: the mean cosine of the elements that the pool is given, over training."""

from __future__ import annotations

from excora.report.epochs import axes, curve, first, last, line, table_rows
from excora.report.numerals import count, figure
from excora.report.plots import Plot, View
from excora.report.records import RunRecord
from excora.report.sections import Made, Missing, Section, section
from excora.report.tables import Column, Table

#: From here on the elements of a bag are called alike.
ALIKE = 0.95


@section("collapse", "Are the elements told apart?", place=620)
def collapse(record: RunRecord) -> Made:
    """The mean cosine by epoch, and in words what it says."""
    cosine = curve(record.monitor, "mean_cosine")
    if not cosine:
        return Missing("how alike the elements of a sample are was not measured in this run.")
    columns = [Column("Epoch", count), Column("Mean cosine", figure)]
    data = Table("Mean cosine by epoch", columns, table_rows([cosine]))
    sentence = (
        f"How much two elements of a sample point the same way where the pool weighs them: {figure(first(cosine), 3)} "
        f"in the first epoch, {figure(last(cosine), 3)} in the last. {_said(first(cosine), last(cosine))}"
    )
    note = "Mean cosine of two elements of a sample: 1 if all point one way, 0 if they have nothing in common."
    view = View([line("Mean cosine", cosine, "@c1")], axes("Mean cosine", cosine))
    return Section(plots=[Plot("mean-cosine", "Mean cosine", sentence, {"": view}, data, note)])


def _said(start: float, end: float) -> str:
    if end >= ALIKE > start:
        return "They collapsed in training: no weights can tell them apart any more."
    if end >= ALIKE:
        return "They were alike from the start: weights change little, whatever they are."
    return "They have not collapsed."
