"""What the tests of this folder share."""

from __future__ import annotations

import torch

from excora.extrapolation import learned_temperature
from excora.kernels.attend import attend

DOUBLE = torch.float64


def problem(shape=(4, 5, 3), seed=0, masked=True):
    generator = torch.Generator().manual_seed(seed)
    h = torch.randn(shape, generator=generator, dtype=DOUBLE)
    mask = torch.rand(shape[:2], generator=generator) > 0.4 if masked else None
    if masked and shape[0] > 1:
        mask[0] = False
    weight = torch.randn(shape[2], generator=generator, dtype=DOUBLE)
    numbers = [torch.tensor(x, dtype=DOUBLE) for x in (0.3, 0.7, 0.5)]  # bias, base, slope
    return h, mask, [t.requires_grad_() for t in (h, weight, *numbers)]


def run(mask, keep=None, law=learned_temperature, logits=False):
    def call(h, weight, bias, base, slope):
        scores = (h @ weight + bias,) if logits else (weight, bias)
        out = attend(h, scores, law, (base, slope), mask=mask, keep=keep, divisor=1.7, scale=0.6)
        if mask is not None:
            out = out._replace(logits=out.logits * mask)  # logits in padding mean nothing and carry no gradient
        return tuple(out)

    return call


def single(tensors):
    return [t.detach().float().requires_grad_() for t in tensors]
