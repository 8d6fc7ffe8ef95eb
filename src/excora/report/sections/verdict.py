"""The verdict in one sentence, the advice, and the evidence folded; of a comparison alone its sentence."""

from __future__ import annotations

import re

from excora.report.numerals import figure
from excora.report.records import ComparisonRecord, Record
from excora.report.sections import BOTH, Made, Section, section
from excora.report.tables import Column, Table
from excora.report.words import VERDICTS


@section("verdict", "Verdict", place=0, reads=BOTH)
def verdict(record: Record) -> Made:
    """The top of the page."""
    if isinstance(record, ComparisonRecord):
        return _banner("open", "Result of the comparison", record.sentence)
    found = None if record.results is None else record.results.verdict
    if found is None:
        if record.comparison is not None:
            return verdict(record.comparison)
        return _banner("open", "No verdict yet", "This run has no verdict: it has not ended, or was not watched.")
    look, plain = VERDICTS.get(found.name, ("open", found.sentence))
    columns = [Column("Evidence"), Column("Value", figure), Column("Rule"), Column("Met")]
    rows = [
        [name.replace("_", " "), item.value, item.rule, "yes" if item.met else "no"]
        for name, item in found.evidence.items()
    ]
    evidence = Table("Evidence for the verdict", columns, rows)
    title, shown = f"Verdict: {found.name}", {"found": found, "evidence": evidence if rows else None}
    return _banner(look, title, f"{plain} {found.sentence}" if plain != found.sentence else plain, **shown)


def _banner(look: str, title: str, sentence: str, **rest: object) -> Section:
    first, *more = re.split(r"(?<=\.) (?=\D)", sentence, maxsplit=1)
    values = {"sentence": first, "more": more, "found": None, "evidence": None, **rest}
    return Section(template="verdict.html", look=f"verdict {look}", title=title, values=values)
