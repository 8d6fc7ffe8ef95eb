"""The losses of DLF: rebuilding and orthogonality of the parts, errors of the branches, a hinge between labels."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from excora.models.sentiment.parts import Sequence
from excora.reduce import Penalty

#: Margin of the hinge for a unit of difference between labels.
# DIFF: the published unit is that of the labels, -3 to 3; ours is their standard deviation.
MARGIN = 0.15
#: Anchors whose pairs are looked at together: memory is that many times the square of all anchors.
_ANCHORS = 32


def _rows(sequence: Sequence) -> Tensor:
    """The real steps, (steps of all samples, dim), in float32 or better."""
    values = sequence.values[sequence.mask]
    return values.to(torch.promote_types(values.dtype, torch.float32))


def rebuilt(found: Sequence, wanted: Sequence, weight: float) -> Penalty:
    """weight times the mean squared difference over the entries of real steps."""
    error = (_rows(found) - _rows(wanted)).square()
    return Penalty(weight * error.sum(), torch.full_like(error.sum(), error.numel()).detach())


def orthogonal(a: Sequence, b: Sequence, weight: float) -> Penalty:
    """weight times the mean of max(0, cos(a_t, b_t)) over real steps: torch's cosine loss of pairs that differ."""
    error = F.cosine_similarity(_rows(a), _rows(b), dim=1, eps=1e-12).clamp_min(0.0)
    return Penalty(weight * error.sum(), torch.full_like(error.sum(), error.numel()).detach())


def branch_errors(predictions: Tensor, target: Tensor, known: Tensor | None, weights: list[float]) -> Tensor:
    """sum_b w_b mean |yhat_b - y| over known labels; predictions (n, branches, targets), target (n, targets).

    >>> branch_errors(torch.tensor([[[1.0], [2.0]]]), torch.tensor([[0.0]]), None, [3.0, 1.0])
    tensor(5.)
    """
    real = torch.ones_like(target) if known is None else known.to(target.dtype)
    error = ((predictions - target.unsqueeze(1)).abs() * real.unsqueeze(1)).sum((0, 2)) / real.sum().clamp_min(1.0)
    return (error * error.new_tensor(weights)).sum()


def hinge(summaries: Tensor, target: Tensor, known: Tensor | None = None) -> Tensor:
    """Anchors are nearer to those of their own label than to others, by a margin that grows with the difference.

    For each anchor i the mean over pairs (j of the same label, k of another) of max(0, 0.15 |y_i - y_k| - cos(i, j) +
    cos(i, k)), then the mean over anchors that have such pairs; 0 if none has. Every modality of every sample whose
    labels are all known is an anchor: summaries (n, modalities, dim), target (n, targets).

    >>> vectors = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]).unsqueeze(1)
    >>> hinge(vectors, torch.tensor([[0.0], [0.0], [2.0]])), hinge(vectors, torch.tensor([[0.0], [2.0], [0.0]]))
    (tensor(0.), tensor(0.8000))
    """
    if known is not None:
        whole = known.all(1)
        summaries, target = summaries[whole], target[whole]
    modalities = summaries.shape[1]
    label = target.repeat_interleave(modalities, 0)
    unit = F.normalize(summaries.flatten(0, 1), dim=1, eps=1e-8)
    cosine = unit @ unit.T
    gap = (label.unsqueeze(1) - label.unsqueeze(0)).abs().mean(2)
    same = gap == 0
    other, itself = ~same, torch.eye(len(same), dtype=torch.bool, device=same.device)
    same = same & ~itself
    total, anchors = cosine.new_zeros(()), cosine.new_zeros(())
    for piece in torch.arange(len(cosine), device=cosine.device).split(_ANCHORS):
        far = torch.where(other[piece], MARGIN * gap[piece] + cosine[piece], -torch.inf)
        pairs = F.relu(far.unsqueeze(1) - cosine[piece].unsqueeze(2)).masked_fill(~same[piece].unsqueeze(2), 0.0)
        count = (same[piece].sum(1) * other[piece].sum(1)).to(cosine.dtype)
        total = total + (pairs.sum((1, 2)) / count.clamp_min(1.0)).sum()
        anchors = anchors + (count > 0).sum()
    return total / anchors.clamp_min(1.0)
