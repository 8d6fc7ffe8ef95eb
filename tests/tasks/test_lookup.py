"""The lookup task, and that attention between rows solves it while a model of single rows cannot.

Trained further, it reaches more than 0.97: the study "datapoints".
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from excora.errors import InputError
from excora.models.parts.datapoints import TableReader
from excora.tasks.lookup import LookupTask

TASK = LookupTask(features=2, rows=4)


def correlation(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(torch.corrcoef(torch.stack([a.flatten(), b.flatten()]))[0, 1])


def trained(seen: torch.Tensor | None, steps: int) -> TableReader:
    torch.manual_seed(0)
    reader = TableReader(TASK.features)
    optimizer = torch.optim.Adam(reader.parameters(), lr=4e-3)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 4e-3 * min(1.0, (step + 1) / 30, 2 * (steps - step) / steps)
        tables, y = TASK.tables(16, seed=step)
        loss = (reader(tables, seen)[:, : TASK.rows] - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(reader.parameters(), 1.0)
        optimizer.step()
    return reader.eval()


def test_attention_between_rows_finds_the_copy_and_follows_it():
    reader = trained(None, 240).requires_grad_(False)
    tables, y = TASK.tables(200, seed=10**6)
    assert correlation(reader(tables)[:, : TASK.rows], y) > 0.8
    changed, new = TASK.intervened(tables, seed=7)
    found = reader(changed)[:, : TASK.rows]
    assert correlation(found, new) > 0.8
    assert abs(correlation(found, y)) < 0.1


def test_a_model_of_single_rows_has_no_correlation():
    alone = torch.eye(2 * TASK.rows, dtype=torch.bool).unsqueeze(0)
    tables, y = TASK.tables(400, seed=10**6)
    assert abs(correlation(trained(alone, 30).requires_grad_(False)(tables, alone)[:, : TASK.rows], y)) < 0.07


def test_copies_hold_the_labels_and_only_they_change():
    tables, y = TASK.tables(3, seed=1)
    changed, new = TASK.intervened(tables, seed=2)
    for table, labels in ((tables, y), (changed, new)):
        same = (table[:, :4, None, :2] == table[:, None, 4:, :2]).all(-1)
        assert (same.sum(2) == 1).all()
        torch.testing.assert_close((same * table[:, None, 4:, 2]).sum(2), labels)
        assert not table[:, :4, 2:].any()
    assert torch.equal(tables[..., :2], changed[..., :2])


def test_what_is_no_table_is_refused():
    with pytest.raises(InputError, match="rows at least 2"):
        LookupTask(rows=1)
