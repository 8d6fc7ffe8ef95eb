"""What every pool keeps to: the registry says which there are, so that a new one is tested by existing."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from oracles.rows import randomised
from torch import Tensor, nn
from torch.autograd.functional import jacobian

from excora.accumulation import accumulate_backward
from excora.errors import InputError
from excora.losses import JointLoss
from excora.pooling import Pool, make_pool, pools
from excora.ragged import Ragged

DIM, BAGS, ELEMENTS = 5, 6, 7


@pytest.fixture(params=pools.names())
def name(request) -> str:
    return request.param


@pytest.fixture
def pool(name) -> Pool:
    """Away from its start, where gains of 1 and zero weights hide faults; in float64."""
    return trained(name)


def trained(name: str, seed: int = 0, std: float = 0.5) -> Pool:
    torch.manual_seed(seed)
    return randomised(make_pool(name, DIM).double(), std)


def bags(seed: int = 1) -> tuple[Tensor, Tensor]:
    """Padded bags; the first is empty, the second full, the third has one element."""
    generator = torch.Generator().manual_seed(seed)
    h = torch.randn(BAGS, ELEMENTS, DIM, generator=generator, dtype=torch.float64)
    mask = torch.rand(BAGS, ELEMENTS, generator=generator) > 0.4
    mask[0], mask[1], mask[2] = False, True, False
    mask[2, 3] = True
    return h, mask


def ragged(h: Tensor, mask: Tensor) -> Ragged:
    return Ragged(h[mask], mask.sum(1))


def gradients(pool: Pool, pooled, *more: Tensor) -> tuple[Tensor, ...]:
    """Of value, weights and penalty, for what learns in the pool and for ``more``."""
    leaves = [*more, *(p for p in pool.parameters() if p.requires_grad)]
    total = pooled.value.square().sum() + pooled.weights.square().sum() + pooled.penalty.sum
    return torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True) if leaves else ()


def test_shapes_and_the_mask_that_was_given(pool):
    h, mask = bags()
    for x, given, shape in ((h, None, mask.shape), (h, mask, mask.shape), (ragged(h, mask), None, (int(mask.sum()),))):
        pooled = pool(x, given)
        assert pooled.value.shape == (BAGS, DIM)
        assert pooled.weights.shape == pooled.effective.shape == shape
        assert [part.shape for part in pooled.penalty] == [(), ()]
        for key in {"gamma", "temperature", "dispersion"} & pooled.details.keys():
            assert pooled.details[key].shape == (BAGS,), key
        if isinstance(x, Ragged):
            assert torch.equal(pooled.real, x.lengths)
        else:
            assert pooled.real is given


def test_a_bag_does_not_depend_on_its_batch(pool):
    h, mask = bags()
    together = pool(h, mask)
    for k in range(BAGS):
        alone = pool(h[k : k + 1], mask[k : k + 1])
        torch.testing.assert_close(alone.value, together.value[k : k + 1])
        torch.testing.assert_close(alone.weights, together.weights[k : k + 1])


def test_an_empty_bag_gives_zeros_and_so_does_a_batch_without_bags_or_elements(pool):
    h, mask = bags()
    for pooled in (pool(h, mask), pool(ragged(h, mask))):
        assert (pooled.value[0] == 0).all()
        assert all(part.isfinite().all() for part in (pooled.value, pooled.weights, *pooled.penalty))
    assert (pool(h, mask).weights[~mask] == 0).all()
    assert (pool(h, mask).effective[~mask] == 0).all()
    assert (pool(h[:, :0], mask[:, :0]).value == torch.zeros(BAGS, DIM)).all()
    for nothing in (pool(h[:0], mask[:0]), pool(Ragged(h[0, :0], torch.zeros(0, dtype=torch.long)))):
        assert nothing.value.shape == (0, DIM)
        assert nothing.weights.shape[0] == nothing.effective.shape[0] == 0
        assert all(not grad.any() for grad in gradients(pool, nothing))
    assert (pool(Ragged(h[0, :0], torch.zeros(3, dtype=torch.long))).value == torch.zeros(3, DIM)).all()


def test_padded_masked_and_ragged_give_equal_numbers_and_gradients(pool):
    h, mask = bags()
    longer = torch.cat([h, torch.zeros(BAGS, 3, DIM, dtype=h.dtype)], 1)
    longer_mask = torch.cat([mask, torch.zeros(BAGS, 3, dtype=torch.bool)], 1)
    results = []
    for x, given in ((h, mask), (longer, longer_mask), (ragged(h, mask), None)):
        pooled = pool(x, given)
        flat = [part if given is None else part[given] for part in (pooled.weights, pooled.effective)]
        results.append((pooled.value, *flat, *pooled.penalty, *gradients(pool, pooled)))
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10)
    full = h[1:2]
    torch.testing.assert_close(pool(full).value, pool(full, mask[1:2]).value)


def test_weights_follow_a_permutation_and_the_value_does_not_see_it(name, pool):
    """Of a pool whose registry says that the order counts, the value does see it."""
    h, mask = bags()
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    before, after = pool(h, mask), pool(h[:, order], mask[:, order])
    if pools[name].ordered:
        assert not torch.allclose(after.value, before.value)
        return
    torch.testing.assert_close(after.value, before.value)
    torch.testing.assert_close(after.weights, before.weights[:, order])
    torch.testing.assert_close(after.effective, before.effective[:, order])


def test_the_value_is_the_sum_of_the_elements_by_their_effective_weights(pool):
    h, mask = bags()
    pooled = pool(h, mask)
    torch.testing.assert_close(torch.einsum("bn,bnd->bd", pooled.effective, h * mask.unsqueeze(-1)), pooled.value)
    flat = ragged(h, mask)
    pooled = pool(flat)
    total = torch.zeros(BAGS, DIM, dtype=h.dtype)
    total.index_add_(0, flat.bag_index(), pooled.effective.unsqueeze(1) * flat.values)
    torch.testing.assert_close(total, pooled.value)


def test_the_registry_is_true_about_the_convex_hull(name):
    """Convex: every effective weight at least 0, their sum 1. Otherwise some weights of the pool break that."""
    left = False
    for seed in range(24):
        pool = trained(name, seed, std=1.5)
        h, mask = bags(seed)
        effective = pool(h, mask).effective[1:].detach()
        inside = bool((effective >= -1e-9).all()) and torch.allclose(effective.sum(1), torch.ones(BAGS - 1).double())
        left = left or not inside
    assert left != pools[name].convex


def test_what_stands_in_padding_reaches_no_value_and_no_gradient(pool):
    h, mask = bags()
    found = []
    for filler in (0.0, torch.nan, torch.inf):
        filled = torch.where(mask.unsqueeze(-1), h, filler).requires_grad_()
        pooled = pool(filled, mask)
        found.append((pooled.value, pooled.weights, pooled.effective, *gradients(pool, pooled, filled)))
    for dirty in found[1:]:
        for a, b in zip(found[0], dirty, strict=True):
            assert b.isfinite().all()
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("layout", ["padded", "ragged"])
def test_a_gradient_reaches_every_parameter_that_asks_for_one(pool, layout):
    h, mask = bags()
    pooled = pool(h, mask) if layout == "padded" else pool(ragged(h, mask))
    wanted = {key for key, p in pool.named_parameters() if p.requires_grad}
    if wanted:
        (pooled.value.square().sum() + pooled.penalty.sum).backward()
    assert wanted == {key for key, p in pool.named_parameters() if p.grad is not None and p.grad.any()}


def test_gradients_are_those_of_finite_differences(pool):
    h, mask = bags()
    names = [key for key, p in pool.named_parameters() if p.requires_grad]
    values = [p.detach().clone().requires_grad_() for p in pool.parameters() if p.requires_grad]

    def run(x: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        pooled = torch.func.functional_call(pool, dict(zip(names, weights, strict=True)), (x, mask))
        return pooled.value, pooled.effective, pooled.penalty.sum

    assert torch.autograd.gradcheck(run, (h.requires_grad_(), *values), fast_mode=True)


def test_second_derivatives_are_those_of_finite_differences(pool):
    """Beside padding, an empty bag, one of a single element, and one whose elements are all alike."""
    h, mask = (x[:4, :4] for x in bags())
    mask[1:, 0] = True
    h[3] = h[3, :1]
    names = [key for key, p in pool.named_parameters() if p.requires_grad]
    values = [p.detach().clone().requires_grad_() for p in pool.parameters() if p.requires_grad]

    def run(x: Tensor, *weights: Tensor) -> Tensor:
        pooled = torch.func.functional_call(pool, dict(zip(names, weights, strict=True)), (x, mask))
        return pooled.value.square().sum() + (pooled.effective.sin() * pooled.effective).sum() + pooled.penalty.sum

    def slope(x: Tensor, *weights: Tensor) -> Tensor:
        """Of bags with derivatives of every order: equal elements move together."""
        return run(torch.cat([x[:3], x[3:, :1].expand(1, 4, DIM)]), *weights)

    leaves = (h.requires_grad_(), *values)
    assert torch.autograd.gradgradcheck(slope, leaves, fast_mode=True)
    plain = torch.autograd.grad(run(*leaves), leaves)
    graph = torch.autograd.grad(run(*leaves), leaves, create_graph=True)
    directions = [torch.randn_like(x) for x in leaves]
    for one, other in zip(plain, graph, strict=True):
        torch.testing.assert_close(one, other.detach(), rtol=1e-10, atol=1e-11)
    _, tangent = torch.func.jvp(run, tuple(x.detach() for x in leaves), tuple(directions))
    torch.testing.assert_close(tangent, sum((g * d).sum() for g, d in zip(plain, directions, strict=True)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_may_arrive_several_at_once(name, dtype):
    """As torch.autograd.functional.jacobian(vectorize=True) asks for them."""
    pool, (h, mask) = trained(name).to(dtype), bags()
    some = h[1:3].to(dtype)
    found = [jacobian(lambda x: pool(x, mask[1:3]).value, some, vectorize=many) for many in (False, True)]
    torch.testing.assert_close(*found, rtol=1e-3, atol=1e-4)


#: Pools whose value is of the third degree in the elements: it has to leave the range of float32.
CUBIC = ("linear", "weighted-linear")


@pytest.mark.parametrize("size", [1e-38, 1e-30, 1e-20, 1e-10, 1e4, 1e8, 1e12, 1e19, 1e30])
def test_elements_of_every_size_have_finite_weights_and_gradients(name, size):
    size = min(size, 1e8) if name in CUBIC else size
    pool = trained(name).float()
    h, mask = bags()
    h = h.float() * size
    h[1, :3], h[1, 3] = h[1, :1], 0.0
    for x, given in ((h.requires_grad_(), mask), (h[1:3], None), (h[:, :1], None), (ragged(h, mask), None)):
        pooled = pool(x, given)
        leaves = [h, *(p for p in pool.parameters() if p.requires_grad)]
        total = (pooled.value / max(size, 1.0)).sum() + pooled.weights.square().sum() + pooled.penalty.sum
        slopes = torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)
        assert all(part.isfinite().all() for part in (pooled.value, pooled.weights, pooled.effective, *slopes))


def test_a_state_dict_brings_a_pool_back(name, pool):
    buffer = io.BytesIO()
    torch.save(pool.state_dict(), buffer)
    buffer.seek(0)
    again = make_pool(name, DIM).double()
    again.load_state_dict(torch.load(buffer, weights_only=True))
    h, mask = bags()
    assert torch.equal(again(h, mask).value, pool(h, mask).value)


def test_start_and_call_depend_on_nothing_but_the_seed(name):
    first, second = trained(name), trained(name)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    h, mask = bags()
    values = []
    for pool in (first, first, second):
        torch.manual_seed(4)
        values.append(pool.train()(h, mask).value)
    assert torch.equal(values[0], values[1])
    assert torch.equal(values[0], values[2])
    state = torch.get_rng_state()
    first.eval()(h, mask)
    assert torch.equal(torch.get_rng_state(), state)


def test_micro_batches_give_the_gradient_of_the_batch(pool):
    h, mask = bags()
    target = torch.linspace(-1, 1, BAGS, dtype=h.dtype).unsqueeze(1)
    model, loss = nn.ModuleList([pool, nn.Linear(DIM, 1).double()]), JointLoss()

    def forward(part: slice) -> dict[str, object]:
        pooled = pool(h[part], mask[part])
        return {"prediction": model[1](pooled.value), "target": target[part], "penalty": pooled.penalty}

    found = []
    for parts in ([slice(0, BAGS)], [slice(0, 2), slice(2, BAGS)]):
        model.zero_grad()
        value = accumulate_backward(model, forward, loss, parts)
        found.append([value, *(p.grad.clone() for p in model.parameters() if p.grad is not None)])
    assert len(found[0]) > 2
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("layout", ["padded", "ragged"])
def test_half_precision_follows_the_full_one(pool, dtype, autocast, layout):
    h, mask = bags()
    h = h.to(dtype).double()
    exact = pool(h, mask)
    rough = copy.deepcopy(pool).to(torch.float32 if autocast else dtype)
    with torch.autocast("cpu", dtype, enabled=autocast):
        x = h.to(dtype)
        pooled = rough(x, mask) if layout == "padded" else rough(ragged(x, mask))
    assert pooled.value.dtype == dtype
    tolerance = 0.1 if dtype == torch.bfloat16 else 0.02
    torch.testing.assert_close(pooled.value.double(), exact.value, rtol=tolerance, atol=tolerance)
    assert all(grad.isfinite().all() for grad in gradients(rough, pooled))


def test_it_compiles_into_one_graph(name):
    pool = trained(name).float()
    h, mask = bags()
    found = []
    for run in (pool, torch.compile(pool, backend="aot_eager", fullgraph=True)):
        x = h.float().requires_grad_()
        pooled = run(x, mask)
        found.append((pooled.value, pooled.weights, pooled.effective, *gradients(pool, pooled, x)))
    torch._dynamo.reset()
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_what_is_no_batch_of_bags_of_its_width_is_refused(pool):
    h, mask = bags()
    for wrong, message in (
        ((h[..., :-1],), f"width {DIM}, got {DIM - 1}"),
        ((h[0],), r"shape \(bags, elements, dim\)"),
        ((h.long(),), "floating"),
        ((h, mask.long()), "mask must be boolean"),
        ((h, mask[:, 1:]), "mask must be boolean of shape"),
        ((ragged(h, mask), mask), "pass no mask"),
        ((Ragged(h[0, :, 0], torch.tensor([ELEMENTS])),), r"\(total, 5\)"),
    ):
        with pytest.raises(InputError, match=message):
            pool(*wrong)
