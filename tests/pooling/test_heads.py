"""Several heads: what each does, what they give together, in every layout."""

from __future__ import annotations

import copy

import pytest
import torch
from oracles.rows import randomised
from torch import nn

from excora import ECAPool, GatedPool, PlateauMonitor, SoftmaxPool
from excora.errors import InputError
from excora.pooling import GatedScorer, make_pool, parameter_groups
from excora.pooling.plain import LinearScorer
from excora.ragged import Ragged

DIM, HEADS = 6, 3
KINDS = {
    "softmax": lambda **o: SoftmaxPool(DIM, **o),
    "gated": lambda **o: GatedPool(DIM, hidden=4, **o),
    "eca": lambda **o: ECAPool(DIM, **o),
    "paper": lambda **o: ECAPool.paper(DIM, **o),
}


def bags(seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    h = torch.randn(5, 7, DIM, generator=generator, dtype=torch.float64)
    mask = torch.rand(5, 7, generator=generator) > 0.3
    mask[0] = False
    return h, mask


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


def test_shared_heads_are_pools_side_by_side(kind):
    torch.manual_seed(0)
    pool = randomised(kind(heads=HEADS, values="shared").double())
    h, mask = bags()
    pooled, each = pool(h, mask), [head(h, mask) for head in pool.heads]
    assert pool.width == HEADS * DIM
    torch.testing.assert_close(pooled.value, torch.cat([one.value for one in each], 1))
    torch.testing.assert_close(pooled.weights, sum(one.weights for one in each) / HEADS)
    torch.testing.assert_close(pooled.effective, sum(one.effective for one in each) / HEADS)
    torch.testing.assert_close(pooled.penalty.sum, sum(one.penalty.sum for one in each) / HEADS)
    assert torch.equal(pooled.penalty.count, each[0].penalty.count)
    for name in {"gamma", "temperature", "dispersion"} & pooled.details.keys():
        torch.testing.assert_close(pooled.details[name], sum(one.details[name] for one in each) / HEADS)
    assert pool.elements(h).shape == (*h.shape[:2], pool.width)


def test_split_heads_score_all_channels_and_pool_their_own(kind):
    torch.manual_seed(0)
    pool = randomised(kind(heads=HEADS).double())
    h, mask = bags()
    pooled = pool(h, mask)
    assert pool.width == DIM == pooled.value.shape[1]
    assert pool.elements(h) is h
    for k, head in enumerate(pool.heads):
        own = h[..., 2 * k : 2 * k + 2]
        given = Given(head.scorer, h.masked_fill(~mask.unsqueeze(-1), 0.0))
        alone = copy.copy(head)
        alone._modules = {**head._modules, "scorer": given}
        torch.testing.assert_close(pooled.value[:, 2 * k : 2 * k + 2], alone(own, mask).value)
        by_weight = torch.einsum("bn,bnd->bd", pooled.details["heads"][k], own * mask.unsqueeze(-1))
        torch.testing.assert_close(pooled.value[:, 2 * k : 2 * k + 2], by_weight)


class Given(nn.Module):
    """The logits of other elements."""

    def __init__(self, scorer, h):
        super().__init__()
        self.logits = scorer(h)

    def forward(self, _):
        return self.logits


@pytest.mark.parametrize("values", ["split", "shared"])
def test_padded_and_ragged_give_equal_numbers_and_gradients(kind, values):
    torch.manual_seed(0)
    pool = randomised(kind(heads=HEADS, values=values).double())
    h, mask = bags()
    found = []
    for pooled in (pool(h, mask), pool(Ragged(h[mask], mask.sum(1)))):
        weights = pooled.weights[mask] if pooled.weights.dim() == 2 else pooled.weights
        leaves = list(pool.parameters())
        total = pooled.value.square().sum() + pooled.penalty.sum
        grads = torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)
        found.append((pooled.value, weights, *grads))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)
    assert (pool(h, mask).value[0] == 0).all()
    torch.testing.assert_close(pool(h.masked_fill(~mask.unsqueeze(-1), torch.nan), mask).value, pool(h, mask).value)


def test_one_head_is_what_it_was(kind):
    torch.manual_seed(3)
    pool = kind()
    torch.manual_seed(3)
    same = kind(heads=1, values="shared")
    assert pool.state_dict().keys() == same.state_dict().keys()
    assert pool.heads is None
    h = bags()[0].float()
    assert torch.equal(pool(h).value, same(h).value)


def test_each_head_has_a_scorer_of_its_own():
    pool = SoftmaxPool(DIM, heads=2, scorer=lambda: GatedScorer(DIM, 3))
    assert pool.heads[0].scorer is not pool.heads[1].scorer
    assert len(list(make_pool("softmax", DIM, heads=2).parameters())) == 4
    assert [p.requires_grad for p in make_pool("softmax", DIM, heads=2).parameters()] == [True, False] * 2
    with pytest.raises(InputError, match="give a function that makes one"):
        SoftmaxPool(DIM, heads=2, scorer=LinearScorer(DIM))


def test_gains_of_heads_do_not_decay():
    pool = ECAPool(DIM, heads=2)
    decayed, free = (group["params"] for group in parameter_groups(pool, 0.1))
    assert len(decayed) == 4  # two scorers
    assert len(decayed) + len(free) == len(list(pool.parameters()))


def test_heads_that_do_not_fit_are_refused():
    for heads, values in ((0, "shared"), (4, "split")):
        with pytest.raises(InputError, match=f"heads must be at least 1 and divide the width {DIM}"):
            SoftmaxPool(DIM, heads=heads, values=values)
    with pytest.raises(InputError, match="'split' or 'shared', got 'both'"):
        SoftmaxPool(DIM, values="both")


def test_a_monitor_that_looks_for_the_pool_finds_one():
    class Host(nn.Module):
        def __init__(self):
            super().__init__()
            self.pool, self.head = SoftmaxPool(DIM, heads=2, values="shared"), nn.Linear(2 * DIM, 1)

    class Trainer:
        sanity_checking = False

    host, monitor, h = Host(), PlateauMonitor(), bags()[0].float()
    monitor.setup(Trainer(), host, "fit")
    monitor._take({"prediction": host.head(host.pool(h).value), "target": torch.randn(5, 1)})
    assert monitor.end_epoch()["dispersion"] is not None
    monitor.teardown(None, host, "fit")
