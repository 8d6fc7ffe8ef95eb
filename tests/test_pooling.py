"""pooling: every pool against the oracle, its switches, its invariances, and its behaviour in degenerate cases."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.pooling import eca_bag
from torch import nn

from excora import ECAPool, GatedPool, MeanPool, Ragged, SoftmaxPool
from excora.errors import InputError
from excora.pooling import GatedScorer, parameter_groups

DIM = 5
POOLS = {
    "mean": lambda: MeanPool(DIM),
    "softmax": lambda: SoftmaxPool(DIM),
    "gated": lambda: GatedPool(DIM, hidden=4),
    "eca": lambda: moved(ECAPool(DIM)),
    "eca gated": lambda: moved(ECAPool(DIM, scorer=GatedScorer(DIM, 4))),
    "eca paper": lambda: ECAPool.paper(DIM),
}


def moved(pool: ECAPool) -> ECAPool:
    """The pool with gamma and temperature away from their start."""
    with torch.no_grad():
        for parameter in pool.extrapolation_parameters():
            parameter.add_(torch.randn_like(parameter) * 0.5)
    return pool


def batch(seed: int = 0, bags: int = 4, elements: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    h = torch.randn(bags, elements, DIM, generator=generator, dtype=torch.float64)
    mask = torch.rand(bags, elements, generator=generator) > 0.4
    mask[0] = False
    return h, mask


@pytest.fixture(params=POOLS)
def pool(request):
    return POOLS[request.param]().double()


def state(module):
    return {name: p.detach().double().numpy() for name, p in module.named_parameters()}


@pytest.mark.parametrize("seed", range(5))
def test_eca_pool_equals_the_oracle_away_from_the_start(seed):
    torch.manual_seed(seed)
    h, mask = batch(seed)
    for pool, paper in (
        (moved(ECAPool(DIM)).double(), False),
        (ECAPool.paper(DIM, t_min=0.3, beta=0.9).double(), True),
    ):
        pooled, p = pool(h, mask), state(pool)
        for s in range(len(h)):
            real = h[s][mask[s]].numpy()
            bag = eca_bag(real, np.zeros(len(real)), 1.0, 1.0)
            log_base, slope = (
                (0.0, 0.0) if paper else (p[f"extrapolation.temperature.{x}"][0] for x in ("log_base", "slope"))
            )
            learned = math.exp(log_base) * (1 + bag.dispersion / math.sqrt(DIM)) ** slope
            tau = 0.3 + 0.9 * bag.dispersion if paper else learned
            hidden = p["extrapolation.gain.hidden.weight"] @ bag.mean + p["extrapolation.gain.hidden.bias"]
            hidden = np.maximum(hidden, 0) if paper else np.tanh(hidden)
            raw = float(p["extrapolation.gain.out.weight"][0] @ hidden + p["extrapolation.gain.out.bias"][0])
            gamma = min(1 + math.log1p(math.exp(raw)), 2.0) if paper else 4.0 / (1 + 3.0 * math.exp(-raw))
            weight = p["scorer.weight"][0] if paper else p["scorer.weight"] / math.sqrt(DIM)
            expected = eca_bag(real, real @ weight + p["scorer.bias"][0], gamma, tau)
            np.testing.assert_allclose(pooled.value[s].detach(), expected.value, atol=1e-11)
            np.testing.assert_allclose(pooled.weights[s][mask[s]].detach(), expected.weights, atol=1e-12)
            np.testing.assert_allclose(pooled.details["gamma"][s].item(), gamma, rtol=1e-12)
            np.testing.assert_allclose(pooled.details["temperature"][s].item(), tau, rtol=1e-12)
            np.testing.assert_allclose(pooled.details["dispersion"][s].item(), bag.dispersion, rtol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_softmax_and_gated_pools_equal_the_oracle(seed):
    """z = h.w / sqrt(dim) + b, and z = w.(tanh(U h) * sigmoid(V h)) + b."""
    torch.manual_seed(seed)
    h, mask = batch(seed)
    for pool in (SoftmaxPool(DIM).double(), GatedPool(DIM, hidden=5).double()):
        with torch.no_grad():
            for parameter in pool.parameters():
                parameter.copy_(torch.randn_like(parameter) * 2)
        pooled, p = pool(h, mask), state(pool)
        for s in range(len(h)):
            real = h[s][mask[s]].numpy()
            if isinstance(pool, GatedPool):
                content = np.tanh(real @ p["scorer.content.weight"].T + p["scorer.content.bias"])
                gate = 1 / (1 + np.exp(-(real @ p["scorer.gate.weight"].T + p["scorer.gate.bias"])))
                logits = (content * gate) @ p["scorer.out.weight"][0] + p["scorer.out.bias"][0]
            else:
                logits = real @ p["scorer.weight"] / math.sqrt(DIM) + p["scorer.bias"][0]
            expected = eca_bag(real, logits, 1.0, 1.0)
            np.testing.assert_allclose(pooled.value[s].detach(), expected.value, atol=1e-11)
            np.testing.assert_allclose(pooled.details["logits"][s][mask[s]].detach(), logits, atol=1e-11)


@pytest.mark.parametrize("scorer", [None, GatedScorer(DIM, 3)])
def test_a_fresh_eca_pool_is_the_softmax_pool(scorer):
    plain, ours = SoftmaxPool(DIM, scorer=scorer), ECAPool(DIM, scorer=copy.deepcopy(scorer))
    ours.scorer.load_state_dict(plain.scorer.state_dict())
    h, mask = batch()
    a, b = plain(h.float(), mask), ours(h.float(), mask)
    torch.testing.assert_close(b.value, a.value, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(b.weights, a.weights, rtol=1e-6, atol=1e-6)
    assert (b.details["gamma"] == 1).all()
    assert (b.details["temperature"] == 1).all()
    assert b.penalty.sum == 0


def test_the_paper_form_starts_where_the_paper_says():
    pool = ECAPool.paper(DIM)
    nn.init.zeros_(pool.extrapolation.gain.out.weight)
    nn.init.zeros_(pool.extrapolation.gain.out.bias)
    gamma = pool(torch.randn(3, 4, DIM)).details["gamma"]
    torch.testing.assert_close(gamma, torch.full((3,), 1.0 + math.log(2.0)))


@pytest.mark.parametrize(
    ("switches", "gamma_moves", "tau_moves"),
    [
        ({"residual": None}, False, True),
        ({"temperature": None}, True, False),
        ({"residual": None, "temperature": None}, False, False),
        ({"residual": "paper", "temperature": (0.5, 1.0)}, True, True),
    ],
)
def test_every_component_is_a_switch(switches, gamma_moves, tau_moves):
    details = moved(ECAPool(DIM, **switches))(torch.randn(6, 4, DIM)).details
    assert bool((details["gamma"] != 1).any()) == gamma_moves
    assert bool((details["temperature"] != 1).any()) == tau_moves


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


def test_the_penalty_is_the_papers_regulariser_over_real_bags():
    pool = moved(ECAPool(DIM, penalty_weight=0.25))
    h, mask = batch()
    pooled = pool(h.float(), mask)
    gamma = pooled.details["gamma"][mask.any(1)]
    torch.testing.assert_close(pooled.penalty.sum / pooled.penalty.count, 0.25 * (gamma - 1).square().mean())


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


@pytest.mark.parametrize("register", ["register_forward_hook", "register_forward_pre_hook"])
@pytest.mark.parametrize("ragged", [False, True])
def test_hooks_on_a_linear_scorer_are_called(register, ragged):
    pool, calls = ECAPool(DIM), []
    getattr(pool.scorer, register)(lambda *_: calls.append(1))
    h = torch.randn(2, 3, DIM)
    plain = ECAPool(DIM)
    plain.load_state_dict(pool.state_dict())
    x = Ragged(h.flatten(0, 1), torch.tensor([3, 3])) if ragged else h
    torch.testing.assert_close(pool(x).value, plain(x).value)
    assert calls == [1]


def test_parameter_groups_keep_decay_off_gamma_and_temperature():
    model = nn.Sequential(nn.Linear(3, DIM), ECAPool(DIM))
    decayed, free = parameter_groups(model, 0.1)
    ours = {id(p) for p in model[1].extrapolation_parameters()}
    assert {id(p) for p in free["params"]} == ours
    assert (decayed["weight_decay"], free["weight_decay"]) == (0.1, 0.0)
    assert len(decayed["params"]) + len(free["params"]) == len(list(model.parameters()))
    assert len(parameter_groups(nn.Linear(2, 2), 0.1)) == 1


def test_a_pool_of_half_precision_weights_runs():
    pool = ECAPool(DIM).bfloat16()
    pooled = pool(torch.randn(3, 4, DIM, dtype=torch.bfloat16))
    pooled.value.sum().backward()
    assert pooled.value.dtype == torch.bfloat16
    assert pooled.details["dispersion"].dtype == torch.float32
    assert all(torch.isfinite(p.grad).all() for p in pool.parameters())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ECAPool(DIM)(torch.zeros(2, 3, 4)), "width 5, got 4"),
        (lambda: MeanPool(DIM)(Ragged(torch.zeros(2, DIM), torch.tensor([2])), torch.ones(1, 2).bool()), "no mask"),
        (lambda: SoftmaxPool(DIM)(Ragged(torch.zeros(2), torch.tensor([2]))), r"\(total, 5\)"),
        (lambda: SoftmaxPool(DIM, scorer=nn.Linear(DIM, 2))(torch.zeros(2, 3, DIM)), "one logit per element"),
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
