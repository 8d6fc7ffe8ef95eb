"""Distances between the elements of a bag, which can be differentiated as often as one likes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from excora.functional import full_precision, safe_sqrt
from excora.kernels.function import are_batched, needs_plain


def distances(x: Tensor) -> Tensor:
    """|x_i - x_j| of (..., n, channels): (..., n, n), with a gradient of 0 where elements meet.

    By differences, so that equal elements are at distance 0 however far from zero they stand; nothing larger than
    n x n is formed. First derivatives are exact in the same way, those that are differentiated again are of
    :func:`products`.

    >>> distances(torch.tensor([[0.0, 0.0], [3.0, 4.0], [3.0, 4.0]]))
    tensor([[0., 5., 5.],
            [5., 0., 0.],
            [5., 0., 0.]])
    """
    return products(x) if needs_plain(x) else Distances.apply(x)


def differences(x: Tensor) -> Tensor:
    """The distances; torch knows their first derivative alone."""
    return torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")


def products(x: Tensor) -> Tensor:
    """The distances, with the derivatives of the root of |y_i|^2 + |y_j|^2 - 2 y_i.y_j, y = x - mean."""
    y = x - x.detach().mean(-2, keepdim=True)  # a constant, which keeps the digits of elements far from zero
    square = y.square().sum(-1)
    gram = square.unsqueeze(-1) + square.unsqueeze(-2) - 2.0 * (y @ y.mT)
    return safe_sqrt(differences(x.detach()).square() + (gram - gram.detach()))


class Distances(torch.autograd.Function):
    """x to its distances: torch's own gradient, or that of :func:`products` where it will be differentiated again."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """By differences."""
        found = differences(x)
        ctx.save_for_backward(x, found)
        return found

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        """sum_j (g_ij + g_ji) (x_i - x_j) / |x_i - x_j|."""
        x, found = ctx.saved_tensors
        if torch.is_grad_enabled() or are_batched(grads):
            with full_precision(x.device), torch.enable_grad():
                return torch.autograd.grad(products(x), x, grads, create_graph=True)[0]
        both = (grads[0] + grads[0].mT).contiguous()  # distances are symmetric: one pass for rows and columns
        return torch.ops.aten._cdist_backward(both, x, x, 2.0, found)
