"""The record of an epoch against the oracle, whatever the batches."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from oracles import diagnosis as oracle
from torch import nn

from excora import ECAPool, MeanPool, Ragged, SoftmaxPool
from excora.monitor import PlateauMonitor
from excora.monitor import epoch as epoch_module
from excora.monitor.epoch import FIELDS
from excora.monitor.hull import hull_columns
from excora.theory import achievable_ceiling, prediction_range
from monitor.samples import bags_of, close


@pytest.mark.parametrize("make", [lambda: SoftmaxPool(5), lambda: ECAPool(5), lambda: MeanPool(5)])
@pytest.mark.parametrize("split", [24, 5, 1])
def test_record_is_that_of_the_whole_epoch(make, split) -> None:
    h, mask = bags_of()
    pool, head = make().double(), nn.Linear(5, 1).double()
    pooled = pool(h, mask)
    x = head(pooled.value).squeeze(1)
    y = x.detach() + 0.3 * torch.randn(24, dtype=torch.float64) + 0.2
    monitor = PlateauMonitor()
    for rows in torch.arange(24).split(split):
        part = pool(h[rows], mask[rows])
        monitor.update(x[rows], y[rows], pooled=part, h=h[rows], mask=mask[rows], head=head)
    record = monitor.end_epoch()
    bags = [h[s][mask[s]].numpy() for s in range(24)]
    weights = [pooled.weights[s][mask[s]].detach().numpy() for s in range(24)]
    w, c = head.weight[0].detach().numpy(), float(head.bias.detach())
    wanted = oracle.record(x.detach().numpy(), y.numpy(), bags, weights, w, c)
    wanted["attention_spread"] = None if isinstance(pool, MeanPool) else wanted["attention_spread"]
    assert wanted["hull_ceiling"] is not None
    assert {name for name, value in wanted.items() if not close(record[name], value)} == set()
    low, high = prediction_range(h.nan_to_num(0.0), head.weight[0], mask=mask)
    assert close(record["achievable_ceiling"], float(achievable_ceiling(low, high, y).value))
    assert close(record["achievable_used"], record["pcc"] / record["achievable_ceiling"])
    assert record.keys() == FIELDS.keys()
    assert (record["gamma_50"] is not None) == isinstance(pool, ECAPool)


def test_ragged_padded_and_float32_agree() -> None:
    h, mask = bags_of()
    pool, head = ECAPool(5).double(), nn.Linear(5, 1).double()
    y = torch.randn(24, dtype=torch.float64)
    records = []
    for batch, padding in ((h, mask), (Ragged.from_padded(h, mask), None)):
        monitor = PlateauMonitor()
        pooled = pool(batch, padding)
        monitor.update(head(pooled.value), y[:, None], pooled=pooled, h=batch, mask=padding, head=head)
        records.append(monitor.end_epoch())
    assert all(close(records[1][name], value) for name, value in records[0].items() if value is not None)
    single, linear = pool.float(), head.float()
    pooled = single(h.float(), mask)
    monitor = PlateauMonitor()
    monitor.update(linear(pooled.value), y.float()[:, None], pooled=pooled, h=h.float(), mask=mask, head=linear)
    record = monitor.end_epoch()
    assert all(close(record[name], value, 1e-3) for name, value in records[0].items() if value is not None)


def test_several_targets_and_label_masks_are_means_over_targets() -> None:
    h, mask = bags_of(60)
    pool, head = ECAPool(5).double(), nn.Linear(5, 3).double()
    pooled = pool(h, mask)
    x = head(pooled.value).detach()
    y = x + torch.randn(60, 3, dtype=torch.float64)
    known = torch.rand(60, 3) < 0.8
    many = PlateauMonitor()
    many.update(x, y.masked_fill(~known, torch.nan), pooled=pooled, h=h, mask=mask, head=head, label_mask=known)
    record = many.end_epoch()
    single = []
    for t in range(3):
        monitor = PlateauMonitor()
        own = {"head": head.weight[t], "label_mask": known[:, t]}
        monitor.update(x[:, t], y[:, t], pooled=pooled, h=h, mask=mask, **own)
        single.append(monitor.end_epoch())
    for name in ("pcc", "mse", "mse_offset", "achievable_ceiling", "sigma_ratio", "gradient_ratio"):
        assert close(record[name], float(np.mean([r[name] for r in single]))), name


def test_large_batches_measure_every_bag_in_turn(monkeypatch) -> None:
    monkeypatch.setattr(epoch_module, "BUDGET", 4 * 7 * 5)
    h, mask = bags_of(10)
    pool, head = SoftmaxPool(5).double(), nn.Linear(5, 1).double()
    epoch, rows = epoch_module.Epoch(), []
    for _ in range(6 * epoch_module.EVERY):
        bags = epoch.look(pool(h, mask), h, mask, head)
        rows.append(None if bags.geometry is None else (bags.rows.start, bags.rows.stop))
        epoch.add(torch.randn(10), torch.randn(10), None, bags)
    assert rows[:: epoch_module.EVERY] == [(0, 4), (4, 8), (8, 10)] * 2
    assert rows.count(None) == 6 * (epoch_module.EVERY - 1)
    assert epoch.record(0)["bags"] == 60 * epoch_module.EVERY
    ragged = Ragged.from_padded(h, mask)
    parts = [epoch_module.measure_bags(pool(ragged), ragged, None, head, turn=4 * t) for t in range(10)]
    padded = hull_columns(h, mask, {}, None, None)
    for part in parts:
        torch.testing.assert_close(part.geometry["radius"], padded["radius"][part.rows])
