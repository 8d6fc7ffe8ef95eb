"""The inner loop of :mod:`excora.fused`: one block of bags, forward and backward, in tiles that stay in the cache.

Symbols: h_i element, mu mean, sigma dispersion, z logits, tau temperature, u = (z - max z) / tau, alpha = softmax(u),
a = sum_i alpha_i h_i. ``g_x`` is the gradient that arrives for x.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from excora.functional import element_count, masked_softmax
from excora.ragged import TILE, Block

#: tau = law(spread, *parameters), elementwise over bags; the spread is the dispersion over ``divisor``.
Law = Callable[..., Tensor]


class Plan(NamedTuple):
    """What carries no gradient: how to walk the batch, who may be attended, the law, the scorer's kind."""

    blocks: list[Block]
    bags: int
    keep: Tensor | None  # flat; False = dropped from the softmax (attention dropout), yet in the mean
    law: Law
    divisor: float
    fused_scorer: bool

    def split(self, rest: Sequence[Tensor]) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """The scorer's tensors and the law's parameters."""
        cut = 2 if self.fused_scorer else 1
        return tuple(rest[:cut]), tuple(rest[cut:])

    @staticmethod
    def pick(parameters: Sequence[Tensor], block: Block) -> tuple[Tensor, ...]:
        """The law's parameters for the bags of one block: scalars hold for all."""
        return tuple(parameter[block.bags] if parameter.dim() else parameter for parameter in parameters)

    def valid(self, block: Block) -> Tensor | None:
        """The elements of a block that the softmax may weigh."""
        return both(block.mask, None if self.keep is None else block.load(self.keep))


def both(mask: Tensor | None, keep: Tensor | None) -> Tensor | None:
    """The conjunction of two masks either of which may be absent."""
    return mask if keep is None else keep if mask is None else mask & keep


#: A temperature up to this counts as 0: the weights are uniform by definition, and nothing moves them.
COLD = 1e-30


def scaled_logits(logits: Tensor, tau: Tensor, valid: Tensor | None) -> Tensor:
    """u = (z - max z) / tau over the valid elements, finite for every tau >= 0; zero (uniform) where tau = 0."""
    if logits.shape[1] == 0:
        return logits
    tau = tau.unsqueeze(1)
    if valid is None:
        gap = logits - logits.amax(1, keepdim=True)
    else:
        top = logits.masked_fill(~valid, torch.finfo(logits.dtype).min).amax(1, keepdim=True)
        gap = (logits - top).masked_fill(~valid, 0.0)
    warm = tau > COLD
    # exp(-1e4) is 0 in every format: limiting the gap changes no weight and keeps gap / tau^2 finite in the gradient.
    return torch.where(warm, torch.maximum(gap, -1e4 * tau) / torch.where(warm, tau, 1.0), 0.0)


class _Tiles:
    """One block's elements in tiles of at most :data:`TILE` numbers: whole bags, or spans of one long bag.

    Padding is finite here (see :func:`excora.fused.attend`) and meets only coefficients that are zero for it.
    """

    def __init__(self, block: Block, flat: Tensor) -> None:
        self.box = block.load(flat)
        self.dtype = torch.promote_types(flat.dtype, torch.float32)
        bags, elements, dim = self.box.shape
        tile = TILE if flat.device.type == "cpu" else max(flat.numel(), 1)  # elsewhere one launch beats many tiles
        self.step = min(max(tile // max(elements * dim, 1), 1), max(bags, 1))
        self.reach = elements if self.step > 1 else min(max(tile // max(dim, 1), 1), elements)
        shift = self.box[:, :1] if elements else self.box.new_zeros(bags, 1, dim)
        if block.mask is not None and elements:
            shift = self.box[torch.arange(bags, device=flat.device), block.mask.int().argmax(1)].unsqueeze(1)
            shift = shift.masked_fill(~block.mask.any(1)[:, None, None], 0.0)
        #: h_first, (bags, 1, dim): a real element, near enough to the others to subtract without loss; 0 if none.
        self.shift = shift.to(self.dtype)
        self.scratch = self.box.new_empty((self.step * self.reach * dim,), dtype=self.dtype)
        #: 1 for a real element, (bags, elements), and their number, at least 1, (bags, 1).
        self.real = None if block.mask is None else block.mask.to(self.dtype)
        self.count = element_count(self.shift, block.mask, elements)

    def cut(self, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
        """Tile by tile, the box and ``tensors``, each (bags, elements or 1, ...)."""
        if self.box.shape[1] == 0:
            return
        groups = zip(*(tensor.split(self.step) for tensor in (self.box, *tensors)), strict=True)
        if self.reach == self.box.shape[1]:
            yield from groups
            return
        for group in groups:  # one bag, in spans
            for start in range(0, self.box.shape[1], self.reach):
                span = slice(start, start + self.reach)
                yield tuple(tensor if tensor.shape[1] == 1 else tensor[:, span] for tensor in group)

    def shifted(self, piece: Tensor, shift: Tensor) -> Tensor:
        """h_i - h_first of a tile, in the scratch buffer: exact for a homogeneous bag far from zero."""
        return torch.sub(piece, shift, out=self.scratch[: piece.numel()].view(piece.shape))

    def weigh(self, weights: Tensor) -> Tensor:
        """sum_i weights_i h_i of each bag, (bags, dim)."""
        if self.box.dtype == self.dtype:
            return torch.bmm(weights.unsqueeze(1), self.box).squeeze(1)
        total = weights.sum(1)[:, None, None] * self.shift
        for piece, shift, part, sums in self.cut(self.shift, weights.unsqueeze(2), total):
            sums.baddbmm_(part.transpose(1, 2), self.shifted(piece, shift))
        return total.squeeze(1)

    def project(self, vector: Tensor) -> Tensor:
        """h_i . vector, one vector for all or one per bag: (bags, elements)."""
        bags, elements, dim = self.box.shape
        vector = vector.expand(bags, dim).unsqueeze(1)
        if self.box.dtype == self.dtype:
            return torch.bmm(vector, self.box.transpose(1, 2)).squeeze(1)
        out = (vector * self.shift).sum(2).repeat(1, elements).unsqueeze(2)
        for piece, shift, one, part in self.cut(self.shift, vector, out):
            part.baddbmm_(self.shifted(piece, shift), one.transpose(1, 2))
        return out.squeeze(2)


def _spread(tiles: _Tiles) -> tuple[Tensor, Tensor]:
    """mu - h_first, (bags, 1, dim), and ||h_i - mu||, (bags, elements), zero in padding."""
    offset = torch.zeros_like(tiles.shift)
    distance = offset.new_empty(tiles.box.shape[:2])
    real = torch.ones_like(distance) if tiles.real is None else tiles.real
    share = (real / tiles.count).unsqueeze(2)  # sum_i share_i h_i is the mean
    whole = tiles.reach == tiles.box.shape[1]
    for piece, shift, part, mean, far in tiles.cut(tiles.shift, share, offset, distance):
        centred = tiles.shifted(piece, shift)
        mean.baddbmm_(part.transpose(1, 2), centred)
        if whole:  # else the mean is not complete yet
            torch.linalg.vector_norm(centred.sub_(mean), dim=-1, out=far)
    if not whole:
        for piece, shift, mean, far in tiles.cut(tiles.shift, offset, distance):
            torch.linalg.vector_norm(tiles.shifted(piece, shift).sub_(mean), dim=-1, out=far)
    return offset, distance if tiles.real is None else distance.mul_(tiles.real)


def forward_block(
    plan: Plan, block: Block, flat: Tensor, scores: Sequence[Tensor], parameters: Sequence[Tensor], out: Any
) -> Tensor:
    """Fill the block's part of ``out`` (an ``Attended`` of flat tensors); returns mu - h_first, (bags, dim)."""
    tiles = _Tiles(block, flat)
    logits = tiles.project(scores[0]) + scores[1] if plan.fused_scorer else block.load(scores[0])
    offset, distance = _spread(tiles)
    sigma = torch.linalg.vector_norm(distance, dim=1) / tiles.count.squeeze(1).sqrt()
    tau = plan.law(sigma / plan.divisor, *plan.pick(parameters, block)).to(tiles.dtype)
    valid = plan.valid(block)
    weights = masked_softmax(scaled_logits(logits, tau, valid), valid)
    out.attended[block.bags] = tiles.weigh(weights)
    out.mean[block.bags] = (tiles.shift + offset).squeeze(1)
    out.temperature[block.bags] = tau
    out.dispersion[block.bags] = sigma
    out.radius[block.bags] = distance.amax(1) if block.shape[1] else 0.0
    block.store(out.weights, weights)
    block.store(out.logits, logits)
    return offset.squeeze(1)


def backward_block(
    plan: Plan,
    block: Block,
    flat: Tensor,
    scores: Sequence[Tensor],
    saved: Sequence[Tensor],
    offset: Tensor,
    slope: Tensor,
    grads: Sequence[Tensor],
    out: tuple[Tensor | None, Tensor, Tensor, Tensor | None],
) -> None:
    """The closed form of the gradient for one block; ``slope`` is d tau / d sigma.

    g_alpha += h.g_a;  g_u = alpha (g_alpha - sum alpha g_alpha);  g_z += g_u / tau;  g_tau -= sum g_u u / tau;
    g_sigma += g_tau slope;  g_h = alpha g_a + g_z w + g_mu / n + g_sigma (h - mu) / (n sigma).
    """
    g_attended, g_mean, g_weights, g_logits, g_tau, g_sigma = (
        block.load(g) if place in (2, 3) else g[block.bags] for place, g in enumerate(grads[:6])
    )
    weights, logits = (block.load(tensor) for tensor in saved[:2])
    tau, sigma = (tensor[block.bags] for tensor in saved[2:])
    grad_flat, grad_logits, grad_tau, grad_weight = out
    tiles = _Tiles(block, flat)
    if block.mask is not None:  # padding, and rows that an index block only borrows, carry nothing
        weights, logits, g_weights, g_logits = (
            t.masked_fill(~block.mask, 0.0) for t in (weights, logits, g_weights, g_logits)
        )
    g_alpha = tiles.project(g_attended) + g_weights
    g_u = weights * (g_alpha - (weights * g_alpha).sum(1, keepdim=True))
    inverse = torch.where(tau > COLD, 1.0 / tau, 0.0)
    g_tau = g_tau - (g_u * scaled_logits(logits, tau, plan.valid(block))).sum(1) * inverse
    g_z = g_logits + g_u * inverse.unsqueeze(1)
    grad_tau[block.bags] = g_tau
    block.store(grad_logits, g_z)
    if grad_weight is not None:
        grad_weight += tiles.weigh(g_z).sum(0)
    if grad_flat is not None:
        flowing = (g_sigma + g_tau * slope[block.bags]) * torch.where(sigma > 0, 1.0 / sigma, 0.0)
        pulls = [(weights, g_attended), *([(g_z, scores[0].to(tiles.dtype))] if plan.fused_scorer else [])]
        _store_gradient(block, tiles, grad_flat, pulls, g_mean, flowing, offset[block.bags])


def _store_gradient(
    block: Block,
    tiles: _Tiles,
    grad_flat: Tensor,
    pulls: list[tuple[Tensor, Tensor]],
    g_mean: Tensor,
    flowing: Tensor,
    offset: Tensor,
) -> None:
    """Write g_h = sum of coefficient x vector over ``pulls`` + g_mu / n + flowing (h - mu) / n; zero in padding."""
    rate = flowing.unsqueeze(1) / tiles.count  # (bags, 1)
    real = torch.ones_like(pulls[0][0]) if tiles.real is None else tiles.real
    left = torch.stack([*(coefficient for coefficient, _ in pulls), real], -1)
    constant = g_mean / tiles.count - rate * offset
    right = torch.stack([*(vector.expand(offset.shape) for _, vector in pulls), constant], 1).unsqueeze(1)
    rate = (rate if tiles.real is None else rate * tiles.real).unsqueeze(-1)
    direct = isinstance(block.rows, slice) and grad_flat.dtype == tiles.dtype
    target = block.load(grad_flat) if direct else torch.empty_like(tiles.box, dtype=tiles.dtype)
    for piece, shift, coefficients, speed, vectors, out in tiles.cut(tiles.shift, left, rate, right, target):
        torch.bmm(coefficients, vectors.squeeze(1), out=out)
        out.addcmul_(tiles.shifted(piece, shift), speed)
    if not direct:
        block.store(grad_flat, target)
