"""Pure tensor functions of one batch of bags: masked mean and softmax, dispersion, hull radius.

Shapes: ``h`` is (bags, elements, dim), ``mask`` is boolean (bags, elements) with True for a real element,
a *bag* is one row of the first axis. Every function is finite for every input whose real elements are finite:
an empty bag gives zeros, and what stands in padding (NaN included) reaches neither values nor gradients.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from excora.errors import InputError

#: Whether autocast knows a device, asked once: torch 2.8 does not trace the question.
AUTOCAST = {kind: torch.amp.is_autocast_available(kind) for kind in ("cpu", "cuda", "mps", "xpu", "meta")}


def check_bags(h: Tensor, mask: Tensor | None) -> None:
    """Raise unless ``h`` is floating (bags, elements, dim) and ``mask`` boolean (bags, elements)."""
    # Shapes are tensors then, which compiled loops would take for numbers.
    if torch.jit.is_tracing():  # type: ignore[attr-defined]
        raise InputError(
            "torch.jit.trace cannot record a pool: use torch.export.export, or torch.onnx.export(..., dynamo=True)"
        )
    for name, x in (("h", h), ("mask", mask)):
        if x is not None and (not isinstance(x, Tensor) or x.is_nested):
            came = "a nested tensor" if isinstance(x, Tensor) else type(x).__name__
            raise InputError(
                f"{name} must be a plain tensor, got {came}; bags of different lengths are Ragged.collate(list of "
                "tensors), a nested tensor is Ragged.collate(h.unbind())"
            )
    if h.dim() != 3 or not h.is_floating_point():
        raise InputError(
            f"h must be a floating tensor of shape (bags, elements, dim), got {h.dtype} of shape {tuple(h.shape)}; "
            "one bag needs h[None]"
        )
    if mask is not None and (mask.dtype != torch.bool or mask.shape != h.shape[:2]):
        raise InputError(
            f"mask must be boolean of shape {tuple(h.shape[:2])} with True for a real element, "
            f"got {mask.dtype} of shape {tuple(mask.shape)}"
        )


def at_least_float32(x: Tensor) -> Tensor:
    """Statistics never run in half precision: float16 and bfloat16 become float32, the rest stays."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """A block in which autocast does not lower matrix products to half precision."""
    return torch.autocast(device.type, enabled=False) if is_autocast(device) else nullcontext()


def is_autocast(device: torch.device) -> bool:
    """Whether autocast is on for this device; it knows nothing of some, such as "meta"."""
    known = AUTOCAST[device.type] if device.type in AUTOCAST else torch.amp.is_autocast_available(device.type)
    return known and torch.is_autocast_enabled(device.type)


def is_exporting() -> bool:
    """Whether torch.export traces this; torch's own question, compiled, says yes to torch.compile in 2.9 and older."""
    flag = getattr(torch.compiler, "_is_exporting_flag", None)  # not a public name: it may go
    return bool(torch.compiler.is_exporting() if flag is None else flag)


def blank_padding(h: Tensor, mask: Tensor | None) -> Tensor:
    """Zero in place of whatever stands in padding, so that NaN there reaches neither a value nor a gradient."""
    return h if mask is None else h.masked_fill(~mask.unsqueeze(-1), 0.0)


def element_count(like: Tensor, mask: Tensor | None, elements: int) -> Tensor:
    """Real elements of each bag, at least 1 (so that it can divide), in the dtype of ``like``: (bags, 1)."""
    if mask is None:
        return like.new_full((like.shape[0], 1), max(elements, 1))
    return mask.sum(1, keepdim=True).clamp_min(1).to(like.dtype)


def masked_mean(h: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean over the real elements: mu_s = (1/n_s) sum_i h_si, (bags, dim); zero for an empty bag.

    >>> masked_mean(torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([[True, True, False]]))
    tensor([[2.]])
    """
    check_bags(h, mask)
    h = blank_padding(at_least_float32(h), mask)
    return h.sum(1) / element_count(h, mask, h.shape[1])


def masked_softmax(logits: Tensor, mask: Tensor | None = None) -> Tensor:
    """Softmax over the last axis among real elements: alpha_i = exp(z_i) / sum_j exp(z_j).

    A row without a real element gives zero weights, and no NaN forward or backward.

    >>> masked_softmax(torch.zeros(1, 3), torch.tensor([[True, True, False]]))
    tensor([[0.5000, 0.5000, 0.0000]])
    """
    logits = at_least_float32(logits)
    if logits.shape[-1] == 0:
        return logits
    if mask is None:
        return torch.softmax(logits, -1)
    # The lowest finite number, not -inf: a row of -inf would be NaN. The second fill empties such a row.
    lowest = torch.finfo(logits.dtype).min
    return torch.softmax(logits.masked_fill(~mask, lowest), -1).masked_fill(~mask, 0.0)


def safe_sqrt(x: Tensor) -> Tensor:
    """Square root whose gradient at 0 is 0 instead of infinite."""
    positive = x > 0
    return torch.where(positive, torch.where(positive, x, 1.0).sqrt(), 0.0)


def least_divisor(dtype: torch.dtype) -> float:
    """What may divide in a format: 1e-31 in float32. With the inverses of smaller numbers products would leave it."""
    return torch.finfo(dtype).tiny / torch.finfo(dtype).eps


def shortened(x: Tensor, power: int = 2, dim: int | tuple[int, ...] = -1) -> Tensor:
    """x, shortened so that 65536 entries to this power have a finite sum: each row, or all along ``dim`` alike.

    The largest entry is then 7e16 in float32, of a power of 4 it is 3e8; what is shorter stays as it is.

    >>> shortened(torch.tensor([[3.0, 4.0], [0.0, 1e30]])).square().sum(-1) < torch.inf
    tensor([True, True])
    """
    if x.numel() == 0:
        return x
    most = (torch.finfo(x.dtype).max / 65536.0) ** (1.0 / power)
    return x / (x.detach().abs().amax(dim, keepdim=True) / most).clamp_min(1.0)


def unit(x: Tensor) -> Tensor:
    """x / |x| along the last axis; 0 with a gradient of 0 for what is shorter than 1e-12, and has no direction.

    As ``F.normalize``, whose second derivative at zeros is NaN. What is too long to be squared is 0 too.

    >>> unit(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    given = at_least_float32(x)
    square = given.square().sum(-1, keepdim=True)
    lost = (square <= 1e-24) | square.isinf()
    return (given * square.masked_fill(lost, 1.0).rsqrt().masked_fill(lost, 0.0)).to(x.dtype)


def _deviations(h: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Squared distance of each element from its bag's mean, (||h_si - mu_s|| / size_s)^2, 0 in padding; and size_s.

    Two passes: centred once by the rounded mean, and once more by the mean of what is left. One pass in float32
    is off by a percent for a homogeneous bag far from zero. ``size``, (bags, 1), is of the order of the deviations, a
    constant to autograd: without it the squares of 1e20 or 1e-20 would leave float32.
    """
    check_bags(h, mask)
    h = blank_padding(at_least_float32(h), mask)
    count = element_count(h, mask, h.shape[1]).unsqueeze(-1)
    centred = blank_padding(h - h.sum(1, keepdim=True) / count, mask)
    centred = blank_padding(centred - centred.sum(1, keepdim=True) / count, mask)
    size = (centred.detach().abs().sum((1, 2)) / count[:, 0, 0]).unsqueeze(1)
    size = torch.where(size > 0, size, 1.0)
    return (centred / size.unsqueeze(2)).square().sum(-1), size


def dispersion(h: Tensor, mask: Tensor | None = None) -> Tensor:
    """Within-bag dispersion sigma_s = sqrt(mean_i ||h_si - mu_s||^2): (bags,); zero for an empty or constant bag.

    >>> dispersion(torch.tensor([[[-1.0], [1.0]]]))
    tensor([1.])
    """
    squares, size = _deviations(h, mask)
    return (size * safe_sqrt(squares.sum(1, keepdim=True) / element_count(squares, mask, h.shape[1]))).squeeze(1)


def hull_radius(h: Tensor, mask: Tensor | None = None) -> Tensor:
    """Hull radius R_s = max_i ||h_si - mu_s||: (bags,); zero for an empty or constant bag.

    >>> hull_radius(torch.tensor([[[0.0], [0.0], [3.0]]]))
    tensor([2.])
    """
    squares, size = _deviations(h, mask)
    if squares.shape[1] == 0:
        return squares.sum(1)
    return (size * safe_sqrt(squares.amax(1, keepdim=True))).squeeze(1)
