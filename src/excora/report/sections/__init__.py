"""The sections of a page: a file each computes what it shows, and a template sets it.

A section of another package registers itself in the same way, from a module that an entry point of the group
``excora.sections`` names; its template may import ours::

    @section("cells", "Cell maps", place=650)
    def cells(record: RunRecord) -> Made:
        return Section(template="excora_slides.report:cells.html", values={"maps": ...})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from excora.registry import Registry
from excora.report.plots import Plot
from excora.report.records import ComparisonRecord, RunRecord
from excora.report.tables import Table


@dataclass(frozen=True, kw_only=True)
class Section:
    """What a template sets: it is given ``lead``, ``plots``, ``tables`` and each of ``values`` by name.

    ``template``: a file of templates/, or "PACKAGE:FILE" for one in another package.
    """

    lead: str = ""
    plots: Sequence[Plot] = ()
    tables: Sequence[Table] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    template: str = "plain.html"
    title: str = ""  #: if it is another than the registered one
    look: str = ""  #: a class of page.css


class Missing(NamedTuple):
    """Why a section is left out; what is between backticks is set as code."""

    reason: str


#: None: there is nothing to show, nor to say about it.
Made = Section | list[Section] | Missing | None
Make = Callable[[Any], Made]


class Maker(NamedTuple):
    """A registered section."""

    name: str
    title: str  #: its heading, also in the contents
    place: float  #: from top to bottom
    reads: tuple[type, ...]
    make: Make


SECTIONS: Registry[Maker] = Registry("section", home=__name__)
RUN, BOTH = (RunRecord,), (RunRecord, ComparisonRecord)


def section(name: str, title: str, *, place: float, reads: tuple[type, ...] = RUN) -> Callable[[Make], Make]:
    """Register what makes a section of the records that it ``reads``; the first on a page stands above the contents."""

    def put(make: Make) -> Make:
        SECTIONS.register(name, Maker(name, title, place, reads, make))
        return make

    return put
