"""What every pool does: layouts, masks, invariances, degenerate cases."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from excora import ECAPool, MeanPool, Ragged, SoftmaxPool
from excora.errors import InputError
from excora.pooling import parameter_groups
from pooling.samples import DIM, POOLS, batch


@settings(max_examples=15)
@given(st.sampled_from(list(POOLS)), st.lists(st.integers(0, 6), min_size=1, max_size=5), st.integers(0, 99))
def test_ragged_and_padded_give_equal_numbers(name, lengths, seed):
    torch.manual_seed(seed)
    pool = POOLS[name]().double()
    values = torch.randn(sum(lengths), DIM, dtype=torch.float64, requires_grad=True)
    ragged = Ragged(values, torch.tensor(lengths))
    padded, mask = ragged.pad()
    results = []
    for pooled, weights in ((p := pool(ragged), p.weights), (p := pool(padded, mask), p.weights[mask])):
        total = pooled.value.square().sum() + weights.square().sum() + pooled.penalty.sum
        results.append(
            (pooled.value, weights, *pooled.penalty, *torch.autograd.grad(total, [values, *pool.parameters()]))
        )
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)


def test_padding_and_permutation_change_nothing(pool):
    h, mask = batch()
    pooled = pool(h, mask)
    longer = torch.cat([h, torch.full((4, 3, DIM), torch.nan, dtype=h.dtype)], 1)
    longer_mask = torch.cat([mask, torch.zeros(4, 3, dtype=torch.bool)], 1)
    torch.testing.assert_close(pool(longer, longer_mask).value, pooled.value)
    order = torch.randperm(7)
    shuffled = pool(h[:, order], mask[:, order])
    torch.testing.assert_close(shuffled.value, pooled.value)
    torch.testing.assert_close(shuffled.weights, pooled.weights[:, order])


def test_nan_in_padding_leaks_into_no_gradient(pool):
    h, mask = batch()
    gradients = []
    for filler in (0.0, torch.nan):
        filled = torch.where(mask.unsqueeze(-1), h, filler).requires_grad_()
        pooled = pool(filled, mask)
        total = pooled.value.square().sum() + pooled.weights.square().sum()
        gradients.append(
            torch.autograd.grad(total, [filled, *pool.parameters()], allow_unused=True, materialize_grads=True)
        )
    for clean, dirty in zip(*gradients, strict=True):
        torch.testing.assert_close(dirty, clean)
        assert torch.isfinite(dirty).all()


def test_an_empty_bag_gives_zeros_and_weights_sum_to_one_elsewhere(pool):
    h, mask = batch()
    pooled = pool(h, mask)
    assert (pooled.value[0] == 0).all()
    torch.testing.assert_close(pooled.weights.sum(1), mask.any(1).double())
    assert pool(h[:, :0], mask[:, :0]).value.shape == (4, DIM)
    assert pool(h[:0], mask[:0]).value.shape == (0, DIM)


def test_weights_are_differentiable(pool):
    h, mask = batch()
    h.requires_grad_()
    weights = pool(h, mask).weights
    entropy = -(weights * weights.clamp_min(1e-12).log()).sum()
    if isinstance(pool, MeanPool):
        assert not weights.requires_grad
    else:
        (gradient,) = torch.autograd.grad(entropy, h)
        assert gradient.abs().sum() > 0


@pytest.mark.parametrize("kind", [SoftmaxPool, ECAPool])
@pytest.mark.parametrize("ragged", [False, True])
def test_dropout_renormalises_and_never_empties_a_bag(kind, ragged):
    pool = kind(DIM, dropout=0.5)
    h = torch.randn(50, 6, DIM)
    x = Ragged(h.flatten(0, 1), torch.full((50,), 6)) if ragged else h
    weights = pool(x).weights.view(50, 6)
    torch.testing.assert_close(weights.sum(1), torch.ones(50))
    assert (weights == 0).float().mean() > 0.4
    kept = pool.eval()(x).weights.view(50, 6)
    assert (kept > 0).all()


def test_dropout_is_deterministic_with_a_seed():
    pool, h = ECAPool(DIM, dropout=0.5), torch.randn(3, 8, DIM)
    values = []
    for _ in range(2):
        torch.manual_seed(3)
        values.append(pool(h).value)
    assert torch.equal(*values)


def test_state_dict_round_trip(pool):
    other = copy.deepcopy(pool)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    other.load_state_dict(pool.state_dict())
    h, mask = batch()
    assert torch.equal(other(h, mask).value, pool(h, mask).value)


def test_parameter_groups_keep_decay_off_gamma_and_temperature():
    model = nn.Sequential(nn.Linear(3, DIM), ECAPool(DIM))
    decayed, free = parameter_groups(model, 0.1)
    ours = {id(p) for p in model[1].extrapolation_parameters()}
    assert {id(p) for p in free["params"]} == ours
    assert (decayed["weight_decay"], free["weight_decay"]) == (0.1, 0.0)
    assert len(decayed["params"]) + len(free["params"]) == len(list(model.parameters()))
    assert len(parameter_groups(nn.Linear(2, 2), 0.1)) == 1


def nested():
    return torch.nested.nested_tensor([torch.zeros(2, DIM), torch.zeros(3, DIM)], layout=torch.jagged)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("train", [True, False])
def test_a_traced_pool_is_refused(train):
    """The compiled loops read shapes as numbers, which are tensors while torch.jit traces: it ended the process."""
    pool = ECAPool(DIM).requires_grad_(train)
    with pytest.raises(InputError, match=r"torch\.export"):
        torch.jit.trace(lambda h: pool(h).value, torch.zeros(2, 3, DIM))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ECAPool(DIM)(torch.zeros(2, 3, 4)), "width 5, got 4"),
        (lambda: MeanPool(DIM)(Ragged(torch.zeros(2, DIM), torch.tensor([2])), torch.ones(1, 2).bool()), "no mask"),
        (lambda: SoftmaxPool(DIM)(Ragged(torch.zeros(2), torch.tensor([2]))), r"\(total, 5\)"),
        (lambda: SoftmaxPool(DIM, scorer=nn.Linear(DIM, 2))(torch.zeros(2, 3, DIM)), "one logit per element"),
        (lambda: ECAPool(DIM)([torch.zeros(2, DIM)]), "plain tensor, got list; .*Ragged.collate"),
        (lambda: MeanPool(DIM)(torch.zeros(1, 2, DIM).numpy()), "plain tensor, got ndarray"),
        (lambda: SoftmaxPool(DIM)(torch.zeros(1, 2, DIM), [[True, False]]), "mask must be a plain tensor, got list"),
        (lambda: ECAPool(DIM)(nested()), r"got a nested tensor; .*Ragged.collate\(h.unbind\(\)\)"),
        (lambda: ECAPool(DIM, dropout=1.0), r"\[0, 1\)"),
        (lambda: ECAPool(DIM, scale="none"), "'sqrt_dim' or 'paper'"),
        (lambda: ECAPool(DIM, residual="half"), "'free', 'paper' or None"),
        (lambda: ECAPool(DIM, cap=0.5), "above 1"),
        (lambda: ECAPool(DIM, temperature="hot"), "'learned'"),
        (lambda: ECAPool(DIM, temperature=(-1.0, 1.0)), ">= 0"),
        (lambda: MeanPool(0), "positive"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()
