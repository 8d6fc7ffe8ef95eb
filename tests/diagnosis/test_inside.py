"""A look inside: pools by pooling_gain, layers by transport, and nothing is left behind."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from excora.attention import ExtrapolativeAttention
from excora.diagnosis.collapse import mean_cosine
from excora.diagnosis.decay import element_decay
from excora.diagnosis.inside import look_inside
from excora.diagnosis.pooling_gain import pooling_gain
from excora.diagnosis.transport import transport
from excora.models.parts.readout import ReadOut
from excora.pooling import MeanPool, SoftmaxPool
from excora.primal import PrimalAttention
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


class Looking(nn.Module):
    """Elements look at each other, by attention and by primal attention, before they are pooled."""

    def __init__(self):
        super().__init__()
        self.look = ExtrapolativeAttention(DIM, 2, batch_first=True)
        self.primal, self.pool = PrimalAttention(DIM, heads=2, rank=3), MeanPool(DIM)

    def forward(self, h):
        h = h + self.look(h, h, h, need_weights=False)[0]
        return self.pool(h + self.primal(h)).value


def test_how_singular_values_fall_of_elements_and_of_attention(bags):
    torch.manual_seed(0)
    model = Looking().eval()
    found = look_inside(model, lambda: model(bags), samples=200, few=lambda: model(bags[:4]))
    elements, attention, primal = found.spectra
    assert [row["of"] for row in found.spectra] == ["pool", "attention 1", "primal"]
    assert [row["kind"] for row in found.spectra] == ["elements", "attention", "primal attention"]
    with torch.no_grad():
        h = bags + model.look(bags, bags, bags, need_weights=False)[0]
        h = h + model.primal(h)
    wanted = element_decay([(h, None)])
    assert elements["directions"] == pytest.approx(wanted.directions)
    assert elements["shares"] == pytest.approx(wanted.shares)
    assert elements["mean_cosine"] == pytest.approx(float(mean_cosine(h).mean()), abs=1e-5)
    assert attention["most"] == bags.shape[1]
    assert primal["most"] == 3
    assert all(row["reading"] for row in found.spectra)


def test_a_planted_low_rank_of_the_elements_is_read_off():
    torch.manual_seed(0)
    pool, flat = MeanPool(DIM), torch.randn(40, 20, 2) @ torch.randn(2, DIM)
    (row,) = look_inside(pool, lambda: pool(flat), samples=40).spectra
    assert row["directions"] <= 2
    assert "low rank" in row["reading"]
    (one,) = look_inside(pool, lambda: pool(torch.randn(40, 1, DIM).expand(40, 20, DIM)), samples=40).spectra
    assert one["directions"] == 1
    assert one["mean_cosine"] == pytest.approx(1.0)
    assert "no weights can tell them apart" in one["reading"]


def test_a_read_out_that_is_no_pool_has_elements_too():
    torch.manual_seed(0)
    read = ReadOut(DIM, 2)
    h = torch.randn(20, 1, DIM).expand(20, 6, DIM) + 0.01 * torch.randn(20, 6, DIM)
    elements, attention = look_inside(read, lambda: read(h), samples=20, few=lambda: read(h[:2])).spectra
    assert (elements["of"], elements["kind"], elements["directions"]) == ("pool", "elements", 1.0)
    assert (attention["kind"], attention["most"]) == ("attention", 6.0)
