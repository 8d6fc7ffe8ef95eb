"""A look inside: pools by pooling_gain, layers by transport, and nothing is left behind."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from excora.diagnosis.inside import look_inside
from excora.diagnosis.pooling_gain import pooling_gain
from excora.diagnosis.transport import transport
from excora.pooling import MeanPool, SoftmaxPool
from excora.ragged import Ragged
from excora.tasks.pooled_mixture import PooledMixtureTask

DIM = 12


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(DIM, DIM), nn.Dropout(0.5), nn.Tanh())
        self.pool, self.head = SoftmaxPool(DIM), nn.Linear(DIM, 1)

    def forward(self, h, mask=None):
        return self.head(self.pool(self.body(h), mask=mask).value)


@pytest.fixture(scope="module")
def bags():
    return PooledMixtureTask(dim=DIM).sample(200, seed=0)[0]


def test_pools_and_layers_are_judged_over_all_batches_and_no_hook_stays(bags):
    torch.manual_seed(0)
    model = Model().eval()
    found = look_inside(model, lambda: [model(part) for part in bags.split(70)], samples=200, layers=True)
    with torch.no_grad():
        h = model.body(bags)
        flat = [bags.reshape(-1, DIM).double(), model.body[0](bags).reshape(-1, DIM).double()]
    worth = pooling_gain(model.pool, h)
    (row,) = found.pools
    assert row["pool"] == "pool"
    assert row["gain"] == pytest.approx(worth.gain)
    assert row["alignment"] == pytest.approx(worth.recovery.alignment)
    assert row["best_gain"] >= max(row["gain"], row["even_gain"]) - 1e-9
    layers = {one["layer"]: one for one in found.layers}
    assert list(layers) == ["body.0", "body.2", "body"]  # dropout moves nothing, the head changes the width
    rows = torch.linspace(0, 1599, 400).long()
    wanted = transport([one[rows].numpy() for one in flat])
    assert layers["body.0"]["optimality"] == pytest.approx(wanted.optimality)
    assert layers["body.0"]["matching"] == wanted.matching
    assert not any(module._forward_hooks for module in model.modules())


def test_layers_are_looked_at_on_request_alone(bags):
    model = Model().eval()
    assert look_inside(model, lambda: model(bags), samples=200).layers == []


def test_ragged_samples_are_cut_after_the_last_place_that_enough_reach(bags):
    pool = MeanPool(DIM)
    lengths = torch.cat([torch.full((180,), 5), torch.full((20,), 8)])
    mask = torch.arange(8) < lengths.unsqueeze(1)
    ragged = look_inside(pool, lambda: pool(Ragged(bags[mask], lengths)), samples=200)
    cut = look_inside(pool, lambda: pool(bags[:, :5]), samples=200)
    assert ragged.pools[0]["places"] == 5
    assert ragged.pools[0]["gain"] == pytest.approx(cut.pools[0]["gain"])


def test_what_cannot_be_judged_has_a_reason():
    pool, h = MeanPool(DIM), torch.randn(3, 4, DIM)
    (row,) = look_inside(pool, lambda: pool(h), samples=3).pools
    assert "at least 8 sequences" in row["reason"]
