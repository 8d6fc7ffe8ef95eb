"""Figures over epochs: curves, their axes, and the rows under a plot."""

from __future__ import annotations

import pytest

from excora.report.epochs import ROWS, axes, counted, curve, first, last, line, table_rows


def test_epochs_are_counted_from_1_and_undefined_ones_left_out():
    rows = [{"epoch": 0, "pcc": 0.1}, {"epoch": 1, "pcc": None}, {"epoch": 2, "pcc": 0.3}, {"epoch": 3}]
    found = curve(rows, "pcc")
    assert found == {1: 0.1, 3: 0.3}
    assert (first(found), last(found)) == (0.1, 0.3)
    assert (counted(None), counted(4.0)) == (0, 5)


def test_first_and_last_go_by_the_epoch_not_by_the_order():
    values = {5: 0.5, 2: 0.2, 9: 0.9}
    assert (first(values), last(values)) == (0.2, 0.9)


@pytest.mark.parametrize(("epochs", "mode"), [(24, "lines+markers"), (25, "lines")])
def test_a_line_has_markers_where_there_is_room(epochs, mode):
    drawn = line("PCC", {k: k / 7 for k in range(1, epochs + 1)}, "@c1")
    assert drawn["mode"] == mode
    assert drawn["y"][:2] == [0.142857, 0.285714]


def test_axes_leave_room_around_all_curves_of_a_short_run():
    assert axes("PCC", {3: 0.1, 7: 0.2}, {2: 0.1})["xaxis"]["range"] == [1.5, 7.5]
    assert "range" not in axes("PCC", {1: 0.1, 26: 0.2})["xaxis"]


def test_a_long_run_is_thinned_out_but_keeps_the_best_and_the_last():
    epochs = {k: float(k) for k in range(1, 501)}
    rows = table_rows([epochs, {7: 0.5}], best=123)
    numbers = [row[0] for row in rows]
    assert len(rows) <= ROWS + 2
    assert numbers == sorted(numbers)
    assert {1, 123, 500} <= set(numbers)
    assert rows[-1] == [500, 500.0, None]
    assert len(table_rows([dict.fromkeys(range(1, ROWS + 1), 0.0)])) == ROWS
