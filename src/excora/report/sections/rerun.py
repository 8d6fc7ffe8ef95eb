"""How to run it again: the command line, versions, seeds and settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from excora.report.numerals import plain
from excora.report.parts import Config
from excora.report.records import ComparisonRecord, Record
from excora.report.sections import BOTH, Made, Missing, Section, section
from excora.report.tables import Column, Table


class Command(NamedTuple):
    """A command line, and what it was run with."""

    title: str
    words: list[str]  #: a line breaks between them, not at hyphens
    facts: Table
    settings: list[Table]


@section("rerun", "How to run it again", place=1000, reads=BOTH)
def rerun(record: Record) -> Made:
    """Of the run, the comparison, or both."""
    config, comparison = (None, record) if isinstance(record, ComparisonRecord) else (record.config, record.comparison)
    commands = [] if config is None else [_run(config)]
    commands += [] if comparison is None else [_comparison(comparison)]
    if not commands:
        return Missing("this folder does not say how the run was made.")
    return Section(template="rerun.html", values={"commands": commands})


def _run(config: Config) -> Command:
    facts = {"Excora": config.excora, "Seed": config.setting("seed"), "Data": config.data.get("path")}
    lists = {name: values for name, values in config.settings.items() if isinstance(values, dict)}
    alone = {name: value for name, value in config.settings.items() if name not in lists}
    settings = _lists({"settings": alone, **lists, "data": config.data, "split": config.split})
    line = config.rerun.split(" ")
    return Command("The run", line, _facts("Versions, seed and data", facts | config.environment), settings)


def _comparison(found: ComparisonRecord) -> Command:
    runs = [run for row in found.rows for run in row.runs]
    facts = {"Seeds": sorted({run.seed for run in runs}), "Folds": len({run.fold for run in runs})}
    line = found.rerun.split(" ")
    return Command("The comparison", line, _facts("Seeds and folds", facts), _lists({"setup": found.setup}))


def _lists(named: Mapping[str, Mapping[str, Any]]) -> list[Table]:
    return [_facts(name.capitalize(), values) for name, values in named.items() if values]


def _facts(caption: str, facts: Mapping[str, Any]) -> Table:
    rows = [[str(name), plain(value)] for name, value in facts.items()]
    return Table(caption, [Column("Name"), Column("Value")], rows)
