"""extrapolate_ on the real torchmil: pools, attention, CLAM, DTFD-MIL."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torchmil.nn.attention import AttentionPool, MultiheadCrossAttention, MultiheadSelfAttention

from checks.zoo import REAL, bags, case
from convert.contract import Watch, check_all_layers, check_contract, check_table, convertible, shake
from excora.convert import Conversion, extrapolate_

BAGS, LENGTH, DIM = 3, 5, 8
HIDDEN = torch.arange(LENGTH) >= torch.tensor([[5], [3], [4]])


def test_the_table_in_the_docs() -> None:
    check_table("torchmil")


@pytest.mark.parametrize("name", convertible("torchmil"))
def test_a_converted_model_keeps_the_contract(name: str) -> None:
    check_contract("torchmil", name)


@pytest.mark.parametrize("name", convertible("torchmil"))
def test_all_layers(name: str) -> None:
    check_all_layers("torchmil", name)


@pytest.fixture(params=[("tanh", False), ("relu", True), ("gelu", True)])
def pool(request: pytest.FixtureRequest) -> Iterator[tuple[AttentionPool, AttentionPool, Conversion]]:
    old = AttentionPool(DIM, 4, *request.param)
    new = copy.deepcopy(old)
    return old, new, extrapolate_(new)


@pytest.mark.parametrize("mask", [None, ~HIDDEN, (~HIDDEN).float()])
def test_a_torchmil_pool_is_itself_at_the_start(pool: Any, mask: Tensor | None) -> None:
    old, new, conversion = pool
    assert isinstance(new, AttentionPool)
    x = torch.randn(BAGS, LENGTH, DIM, requires_grad=True)
    theirs, ours = old(x, mask, return_att=True), new(x, mask, return_att=True)
    real = torch.ones_like(HIDDEN) if mask is None else mask.bool()
    torch.testing.assert_close(ours[0], theirs[0])
    torch.testing.assert_close(ours[1][real], theirs[1][real])
    torch.testing.assert_close(new(x, mask), ours[0])
    grads = [torch.autograd.grad(z.square().sum() + f[real].sum(), x)[0] for z, f in (theirs, ours)]
    torch.testing.assert_close(*grads)
    with torch.no_grad():
        new.extrapolation.extrapolation.gain.out.bias.fill_(1.0)
    assert ((new(x, mask) - ours[0]).abs().amax(-1) > 1e-3).all()
    conversion.undo()
    assert type(new) is AttentionPool
    assert torch.equal(new(x, mask), theirs[0])


def test_a_torchmil_pool_survives_padding_with_nan_and_an_empty_bag(pool: Any) -> None:
    _, new, _ = pool
    mask = (~HIDDEN).clone()
    mask[2] = False
    x = torch.randn(BAGS, LENGTH, DIM).masked_fill(~mask[..., None], math.nan)
    value = new(x, mask)
    assert value[2].abs().max() == 0
    grads = torch.autograd.grad(value.sum(), list(new.parameters()), allow_unused=True)
    assert all(g is None or g.isfinite().all() for g in grads)


@pytest.mark.parametrize("masked", [False, True])
def test_self_attention_is_itself_at_the_start_and_follows_the_oracle(masked: bool) -> None:
    old = MultiheadSelfAttention(16, att_dim=8, n_heads=2)
    new = copy.deepcopy(old)
    conversion = extrapolate_(new)
    mask = REAL if masked else None
    torch.testing.assert_close(new(bags(), mask), old(bags(), mask))
    seen = (REAL if masked else torch.ones_like(REAL))[:, None].expand(-1, 7, -1)
    shake(conversion)
    watch = Watch(new.extrapolation)
    output = new(bags(), mask)
    watch.compare(seen)
    again, weights = new(bags(), mask, return_att=True)
    torch.testing.assert_close(again, output)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    assert (weights[~seen[:, None].expand_as(weights)] == 0).all()


def test_cross_attention_is_itself_at_the_start_and_follows_the_oracle() -> None:
    old = MultiheadCrossAttention(16, att_dim=8, n_heads=2)
    new = copy.deepcopy(old)
    conversion = extrapolate_(new)
    torch.testing.assert_close(new(bags()[:, :3], bags()), old(bags()[:, :3], bags()))
    shake(conversion)
    watch = Watch(new.extrapolation)
    new(bags()[:, :3], bags(), REAL)
    watch.compare(REAL[:, None].expand(-1, 3, -1))


def test_clam_still_finds_its_instances() -> None:
    model, _ = case("torchmil", "CLAM_SB")
    target = torch.tensor([0.0, 1.0])
    torch.manual_seed(1)
    before = model.compute_loss(target, bags(), None)[1]
    extrapolate_(model)
    after = model.compute_loss(target, bags(), None)[1]
    torch.testing.assert_close(after, before)
