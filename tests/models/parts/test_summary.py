"""What a head may see beside the attended value, against numpy; in every layout, and for a monitor."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from excora import ECAPool, MeanPool, SoftmaxPool
from excora.errors import InputError
from excora.models.parts.summary import PARTS, Summary, moments, parts_of
from excora.ragged import Ragged


def bags():
    generator = torch.Generator().manual_seed(0)
    h = 5.0 + torch.randn(4, 6, 3, generator=generator, dtype=torch.float64)
    mask = torch.rand(4, 6, generator=generator) > 0.4
    mask[0] = False
    return h, mask


@pytest.mark.parametrize("layout", ["padded", "masked", "ragged"])
def test_each_part_is_that_of_numpy(layout):
    h, mask = bags()
    mask = torch.ones_like(mask) if layout == "padded" else mask
    given = (Ragged(h[mask], mask.sum(1)),) if layout == "ragged" else (h, None if layout == "padded" else mask)
    pool = Summary(MeanPool(3), list(PARTS), usual=2.5)
    value = pool(*given).value
    assert value.shape == (4, pool.width) == (4, 14)
    for s in range(4):
        real = h[s][mask[s]].numpy()
        n, mean = len(real), real.sum(0) / max(len(real), 1)
        spread = real.std(0) if n else np.zeros(3)
        wanted = [*mean, *mean, *spread, *(mean * n / 2.5), math.log((1 + n) / 3.5), n / 2.5]
        np.testing.assert_allclose(value[s], wanted, atol=1e-12)


def test_the_rest_is_the_pools_own_and_padding_reaches_nothing():
    torch.manual_seed(0)
    h, mask = bags()
    inner = ECAPool(3).double()
    summary = Summary(inner, ["spread"], usual=1.0)
    pooled, own = summary(h, mask), inner(h, mask)
    torch.testing.assert_close(pooled.value[:, :3], own.value)
    torch.testing.assert_close(pooled.effective, own.effective)
    dirty = h.masked_fill(~mask.unsqueeze(-1), torch.nan).requires_grad_()
    summary(dirty, mask).value.sum().backward()
    torch.testing.assert_close(summary(dirty, mask).value, pooled.value)
    assert dirty.grad.isfinite().all()


def test_a_bag_of_equal_elements_has_no_spread_and_a_finite_gradient():
    h = torch.full((1, 4, 2), 3.0, requires_grad=True)
    found = moments(h)
    found.spread.sum().backward()
    assert not found.spread.any()
    assert h.grad.isfinite().all()


@pytest.mark.parametrize("ragged", [False, True])
def test_elements_for_a_monitor_make_the_value_of_a_pool_without_a_gain(ragged):
    torch.manual_seed(0)
    h = torch.randn(2, 3, 4)
    pool = Summary(SoftmaxPool(4, heads=2, values="shared"), ["mean", "size"], usual=3.0)
    x = Ragged(h.flatten(0, 1), torch.tensor([3, 3])) if ragged else h
    made = pool.elements(x)
    made = made.values.view(2, 3, -1) if ragged else made
    assert made.shape == (2, 3, pool.width)
    shared = pool(x).value[:, 8:]
    torch.testing.assert_close(made[:, :, 8:], shared.unsqueeze(1).expand(-1, 3, -1))
    torch.testing.assert_close(made[..., :8], torch.cat([h, h], -1))


def test_words_are_read_and_others_refused():
    assert parts_of("attended") == []
    assert parts_of("mean+attended+number") == ["mean", "number"]
    for wrong in ("mean", "", "attended+", "attended+median", "attended+mean+mean"):
        with pytest.raises(InputError, match="moments must be attended, and any of mean, spread, sum, size, number"):
            parts_of(wrong)
