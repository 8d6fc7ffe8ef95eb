"""What `excora tune` has tried, and what it picked."""

from __future__ import annotations

from excora.report.numerals import correlation, count, figure, plural
from excora.report.parts import Trial
from excora.report.records import RunRecord
from excora.report.sections import Made, Section, section
from excora.report.tables import Cell, Column, Table


@section("trials", "Settings that were tried", place=150)
def trials(record: RunRecord) -> Made:
    """A row a trial, with how often it is a member; nothing for a run that tried nothing."""
    if record.results is None or not record.results.trials:
        return None
    found, chosen = record.results.trials, record.results.chosen
    rows: list[list[Cell]] = [
        [float(k + 1), one.pcc, one.mse, float(chosen.count(k)), _differences(one, found), one.seconds]
        for k, one in enumerate(found)
    ]
    columns = [
        Column("Trial", count), Column("Validation PCC", correlation), Column("Validation MSE", figure),
        Column("Members", count), Column("Settings that differ"), Column("Seconds", lambda value: figure(value, 3)),
    ]  # fmt: skip
    lead = (
        f"{plural(len(found), 'setting')} tried on the validation part, of which {plural(len(chosen), 'member')} were "
        "picked, one after the other, so that their mean has the least squared error there. The MSE is in units of the "
        "target's variance. Each member was then fitted again on all rows but the test part."
    )
    return Section(lead=lead, tables=[Table("Trials", columns, rows, sortable=True)])


def _differences(one: Trial, every: list[Trial]) -> str:
    """The options that not all trials share, in words."""
    names = dict.fromkeys(name for trial in every for name in trial.options)
    differ = [name for name in names if len({repr(trial.options.get(name)) for trial in every}) > 1]
    return ", ".join(f"{name} {one.options[name]}" for name in differ if name in one.options)
