"""Tables: how a cell reads and what it sorts by."""

from __future__ import annotations

import pytest

from excora.report.numerals import correlation
from excora.report.tables import LONGEST, Column, Shown, Table, between


def test_a_cell_reads_as_its_column_says_and_sorts_by_its_number():
    columns = [Column("Name"), Column("PCC", correlation), Column("MSE"), Column("Interval")]
    table = Table("x", columns, [["a", 0.12345, 1234.5678, between(-0.1, 0.25)], ["b", None, 2, between(None, 1.0)]])
    assert list(table.ready()) == [
        [("a", None), ("0.123", "0.12345"), ("1,235", "1234.5678"), ("−0.100 to 0.250", "-0.1")],
        [("b", None), ("–", ""), ("2.000", "2.0"), ("–", "")],
    ]


def test_words_of_their_own_keep_the_number_they_sort_by():
    assert list(Table("x", [Column("PCC", correlation)], [[Shown(0.5, "about a half")]]).ready()) == [
        [("about a half", "0.5")]
    ]


@pytest.mark.parametrize(("rows", "cut"), [(LONGEST, False), (LONGEST + 1, True)])
def test_a_long_table_is_cut_and_says_so(rows, cut):
    table = Table("x", [Column("n")], [[k] for k in range(rows)])
    assert table.cut == cut
    assert len(list(table.ready())) == LONGEST


def test_a_row_of_another_length_is_an_error():
    with pytest.raises(ValueError, match="zip"):
        list(Table("x", [Column("a"), Column("b")], [["one"]]).ready())
