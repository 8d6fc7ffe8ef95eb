"""The registry of sections: a package may bring its own."""

from __future__ import annotations

import sys

import pytest

from excora.errors import InputError
from excora.report import RunRecord, page_of_run, write_page
from excora.report.sections import SECTIONS, Made, Missing, Section, section
from excora.report.tables import Column, Table
from report.samples import HOSTILE, IMAGE, Page, write_run

TEMPLATE = """{% import "macros.html" as show %}
<p class="tissue" title="{{ lead }}">{{ lead }} {{ slide }}</p>{{ show.table(tables[0]) }}"""


@pytest.fixture
def registry(monkeypatch):
    """What a test registers is gone after it."""
    len(SECTIONS)
    monkeypatch.setattr(SECTIONS, "_things", dict(SECTIONS._things))
    return SECTIONS


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package from outside, with a template."""
    home = tmp_path / "slides_of_others"
    home.mkdir()
    (home / "__init__.py").touch()
    (home / "tissue.html").write_text(TEMPLATE)
    monkeypatch.syspath_prepend(tmp_path)
    yield home.name
    sys.modules.pop(home.name, None)


def page_of(record, tmp_path):
    return Page(write_page(tmp_path / "page.html", page_of_run(record)))


def test_a_section_from_outside_has_its_place_and_its_template(registry, package, tmp_path):
    @section("maps", "Tissue <maps>", place=650)
    def tissue(record: RunRecord) -> Made:
        table = Table(HOSTILE, [Column(HOSTILE)], [[HOSTILE]])
        return Section(template=f"{package}:tissue.html", lead=IMAGE, tables=[table], values={"slide": HOSTILE})

    @section("absent", "Absent", place=660)
    def absent(record: RunRecord) -> Made:
        return Missing(f"there is no {HOSTILE}, see `<b>`")

    @section("silent", "Silent", place=670)
    def silent(record: RunRecord) -> Made:
        return None

    write_run(tmp_path, samples=60)
    page = page_of(RunRecord.load(tmp_path), tmp_path)
    names = list(page.sections)
    assert names[names.index("maps") - 1 : names.index("maps") + 2] == ["collapse", "maps", "elements"]
    assert page.sections["maps"].count(HOSTILE) == 4
    assert IMAGE in page.sections["maps"]
    assert "Tissue <maps>" in page.sections["maps"]
    assert f"Absent: there is no {HOSTILE}, see <b>" in page.sections["left-out"]
    assert not {"absent", "silent"} & {*names}
    assert len(page.scripts) == 4
    assert "img" not in [tag for tag, _ in page.elements]


def test_a_name_is_taken_once(registry):
    with pytest.raises(InputError, match="there is a section 'curves' already"):
        section("curves", "Mine", place=1)(lambda _: None)
