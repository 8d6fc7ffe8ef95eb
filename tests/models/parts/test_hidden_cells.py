"""Hidden cells: which are drawn, what stands in their place, and the loss by hand."""

from __future__ import annotations

import pytest
import torch
from oracles.rows import CATEGORIES, randomised, table

from excora.data.table import TableSpec
from excora.errors import InputError
from excora.models.parts.hidden_cells import WEIGHT, HiddenCells

SPEC = TableSpec(targets=1, numeric=3, categories=CATEGORIES)


def test_the_loss_is_the_sum_over_hidden_cells():
    x = table(6, 3, CATEGORIES)
    x["missing"][0, 0] = True
    cells = randomised(HiddenCells(SPEC, 4, 0.5), 0.5).double().requires_grad_(False)
    columns = 3 + len(CATEGORIES)
    last = torch.randn(6, columns, 4, dtype=torch.float64)
    hide = torch.rand(6, columns) < 0.5
    hide[0, 0] = False
    total = 0.0
    for row, column in hide.nonzero().tolist():
        if column < 3:
            total += float((last[row, column] @ cells.number[column] - x["numeric"][row, column]) ** 2)
        else:
            start = sum(CATEGORIES[: column - 3])
            scores = cells.code(last[row, column])[start : start + CATEGORIES[column - 3]]
            total -= float(scores.log_softmax(0)[x["codes"][row, column - 3]])
    found = cells.loss(last, x, hide)
    assert float(found.sum) == pytest.approx(WEIGHT * total)
    assert float(found.count) == hide.sum()


def test_missing_numbers_are_not_hidden_and_others_as_often_as_asked():
    x = table(4000, 3, CATEGORIES)
    x["missing"][:, 1] = True
    hide = HiddenCells(SPEC, 4, 0.3).draw(x)
    assert not hide[:, 1].any()
    assert hide[:, [0, 2, 3]].float().mean() == pytest.approx(0.3, abs=0.03)


def test_what_is_hidden_cannot_be_seen():
    cells = HiddenCells(SPEC, 4, 0.3)
    t, hide = torch.randn(5, len(cells.token), 4), torch.zeros(5, len(cells.token), dtype=torch.bool)
    hide[2, 1] = True
    found = cells.cover(t, hide)
    assert torch.equal(found[2, 1], cells.token[1])
    assert torch.equal(found[~hide], t[~hide])


def test_a_share_of_none_or_all_is_refused():
    for share in (0.0, 1.0):
        with pytest.raises(InputError, match="between 0 and 1"):
            HiddenCells(SPEC, 4, share)
