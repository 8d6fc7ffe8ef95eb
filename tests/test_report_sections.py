"""Sections: a package may bring its own, and the ones we have draw what can be read."""

from __future__ import annotations

import math
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples_report import HOSTILE, IMAGE, Page, write_run

from excora.errors import InputError
from excora.report import RunRecord, page_of_run, write_page, write_report
from excora.report.histograms import bin_edges, histogram
from excora.report.sections import SECTIONS, Made, Missing, Section, section
from excora.report.sections.elements import elements
from excora.report.tables import Column, Table
from excora.report.words import NEGATIVE, SHARES, SIGNED

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
    @section("tissue", "Tissue <maps>", place=650)
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
    assert names[names.index("tissue") - 1 : names.index("tissue") + 2] == ["attention", "tissue", "elements"]
    assert page.sections["tissue"].count(HOSTILE) == 4
    assert IMAGE in page.sections["tissue"]
    assert "Tissue <maps>" in page.sections["tissue"]
    assert f"Absent: there is no {HOSTILE}, see <b>" in page.sections["left-out"]
    assert not {"absent", "silent"} & {*names}
    assert len(page.scripts) == 4
    assert "img" not in [tag for tag, _ in page.elements]


def test_a_name_is_taken_once(registry):
    with pytest.raises(InputError, match="there is a section 'curves' already"):
        section("curves", "Mine", place=1)(lambda _: None)


def test_one_group_needs_no_range(tmp_path):
    page = Page(write_report(write_run(tmp_path, groups=("one",), samples=60)))
    assert "1 group in the test part." in page.sections["groups"]
    assert "run from" not in page.sections["groups"]
    assert "All of one group." in page.sections["predictions"]


@pytest.mark.parametrize(
    ("gamma", "share", "words"), [(1.2, -0.1, NEGATIVE), (None, -0.1, SIGNED), (None, 0.1, SHARES)]
)
def test_shares_below_0_are_explained(gamma, share, words):
    top = [{"label": "a", "weight": 0.1, "effective": share}]
    bag = {"id": "x", "elements": 3, "top": top, "prediction": 1.0, "target": None, "gamma": gamma}
    pool = {"gamma": [], "temperature": [], "effective_elements": [], "elements": [], "bags": [bag]}
    (made,) = elements(RunRecord.of(attention={"pool": pool}))
    assert made.lead == words


@given(
    st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=50) | st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=50)
)
def test_bins_hold_every_value(values):
    edges = bin_edges(values)
    assert all(a < b for a, b in pairwise(edges))
    assert np.histogram(values, edges)[0].sum() == len(values)
    assert len(edges) <= 100


@given(st.floats(-1e3, 1e3), st.floats(1e-9, 10))
def test_the_ticks_of_values_that_lie_close_together_differ(middle, spread):
    values = np.linspace(middle - spread, middle + spread, 40).tolist()
    plot = histogram("x", "X", values, "")
    axis = plot.views[""].layout["xaxis"]
    ticks = axis["ticktext"]
    assert len(set(ticks)) == len(ticks)
    assert all(math.isfinite(float(tick)) for tick in ticks)
    assert len({row[0] for row in plot.table.rows}) == len(plot.table.rows)


@pytest.mark.parametrize("epochs", [1, 3, 12])
def test_a_short_run_has_no_ticks_between_epochs(epochs):
    rows = [{"epoch": k, "validation_pcc": 0.1 * k, "validation_mse": 1.0} for k in range(epochs)]
    record = RunRecord.of(metrics=rows)
    axis = SECTIONS["curves"].make(record).plots[0].views[""].layout["xaxis"]
    assert axis["range"] == [0.5, epochs + 0.5]
    assert axis.get("dtick") == (1 if epochs < 9 else None)
