"""ECAPool against SoftmaxPool, and the textbook formula against ECAPool: forward + backward, with the gradient of h."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.timing import Row, peak_extra_memory, row
from excora import ECAPool, SoftmaxPool
from excora.pooling import Pool

LARGE = [(16, 2000, 512), (4, 20000, 512)]
SMALL = [(128, 82, 256), (32, 500, 128)]


def trained(dim: int) -> ECAPool:
    """All components on and away from their start, where a shortcut could hide."""
    pool = ECAPool(dim)
    with torch.no_grad():
        for parameter in pool.extrapolation_parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return pool


def textbook(pool: ECAPool, h: Tensor) -> Tensor:
    """The same formulas as they are written, every residual materialised."""
    mean = h.mean(1, keepdim=True)
    sigma = (h - mean).square().sum(-1).mean(1).sqrt()
    law, parameters = pool.temperature.law(h)
    tau = law(sigma / pool.divisor, *parameters)
    weights = torch.softmax(pool.scorer(h).squeeze(-1) / tau.unsqueeze(1), 1)
    gamma = pool.gain(mean.squeeze(1))
    return mean.squeeze(1) + gamma.unsqueeze(1) * (weights.unsqueeze(-1) * (h - mean)).sum(1)


def step(call: Callable[[Tensor], Tensor], pool: Pool, h: Tensor, grad: Tensor) -> Callable[[], None]:
    """One forward and backward."""

    def run() -> None:
        h.grad = None
        pool.zero_grad(set_to_none=True)
        call(h).backward(grad)

    return run


def run() -> list[Row]:
    """Every size of the issue: without a mask, with one, the textbook formula, and peak memory."""
    torch.manual_seed(0)
    rows = []
    for shape in LARGE + SMALL:
        h, grad = torch.randn(shape, requires_grad=True), torch.randn(shape[0], shape[2])
        mask = torch.arange(shape[1]) < torch.randint(shape[1] // 2, shape[1] + 1, (shape[0], 1))
        ours, plain = trained(shape[2]), SoftmaxPool(shape[2])
        large, rounds = shape in LARGE, 7 if shape in LARGE else 41

        def calls(pool: Pool, mask: Tensor | None, h: Tensor = h, grad: Tensor = grad) -> Callable[[], None]:
            return step(lambda x: pool(x, mask).value, pool, h, grad)

        target = 1.2 if large else 2.0
        rows.append(row(f"ECAPool / SoftmaxPool {shape}", target, calls(ours, None), calls(plain, None), rounds=rounds))
        if large:
            slow = step(lambda x, pool=ours: textbook(pool, x), ours, h, grad)
            rows.append(row(f"textbook / ECAPool {shape}", 4.0, slow, calls(ours, None), rounds=3, at_least=True))
        else:
            rows.append(
                row(f"ECAPool / SoftmaxPool {shape}, mask", 2.0, calls(ours, mask), calls(plain, mask), rounds=rounds)
            )
    return rows + [memory(shape) for shape in LARGE]


def memory(shape: tuple[int, int, int]) -> Row:
    """Peak memory above the inputs, forward + backward, each pool in a process of its own; in MB, not milliseconds."""
    ours, other = (
        peak_extra_memory(
            f"""
            import torch
            from excora import {name}
            pool, h = {name}({shape[2]}), torch.randn({shape}, requires_grad=True)
            warm = torch.randn(2, 3, {shape[2]}, requires_grad=True)
            pool(warm).value.sum().backward()
            def main():
                pool(h).value.sum().backward()
            """
        )
        for name in ("ECAPool", "SoftmaxPool")
    )
    return Row(
        name=f"peak extra MB, ECAPool / SoftmaxPool {shape}",
        target=1.1,
        at_least=False,
        ratio=ours / other,
        ours=ours,
        other=other,
    )
