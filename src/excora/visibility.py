"""What a query may see: masks in torch's conventions become one description, and statistics run over it.

Used by :mod:`excora.attention`. Shapes: values are (bags, heads, keys, dim); a mask broadcasts to
(bags, heads, queries, keys), with True for a visible key (torch's masks say True for a hidden one).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from excora.errors import InputError
from excora.functional import at_least_float32, full_precision, safe_sqrt
from excora.pooling.elliptical import metric

# A float mask at or below this hides its key, as -inf does: beside a visible key its weight is 0 in float32 either
# way, and people write such masks as -1e4, -1e9 or the lowest number of the dtype.
HIDDEN_BIAS = -1e4


class Visibility(NamedTuple):
    """Which keys a query may see; None means no restriction.

    ``keys`` (bags, 1, 1, keys) comes from padding; ``pairs`` (1 or bags, 1 or heads, queries, keys) from attn_mask
    and padding together; ``bias`` is what float masks add to the logits; with ``causal`` query i sees the keys up
    to i (and ``pairs`` is None).
    """

    keys: Tensor | None
    pairs: Tensor | None
    bias: Tensor | None
    causal: bool

    def dense(self, queries: int, keys: int, device: torch.device) -> Tensor | None:
        """Everything in one boolean mask that broadcasts to (bags, heads, queries, keys); None if all is visible."""
        if not self.causal:
            return self.keys if self.pairs is None else self.pairs
        past = torch.ones(queries, keys, dtype=torch.bool, device=device).tril()
        return past if self.keys is None else past & self.keys

    def extended(self, extra: int, queries: int, keys: int, device: torch.device) -> Visibility:
        """The same once ``extra`` keys that every query may see follow the others (a causal mask is written out)."""
        pairs = self.dense(queries, keys, device) if self.causal else self.pairs
        pairs = pairs[None, None] if pairs is not None and pairs.dim() == 2 else pairs
        seen = [None if x is None else F.pad(x, (0, extra), value=True) for x in (self.keys, pairs)]
        return Visibility(seen[0], seen[1], None if self.bias is None else F.pad(self.bias, (0, extra)), False)

    def without_padded_nan(self, axis: int, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """Zeros for NaN and infinity in padded rows of key and value: 0 * NaN would reach the gradients of weights.

        Finite padding stays: in self-attention a padded row is a query too, and its output that of
        nn.MultiheadAttention. ``axis`` is that of the bags.
        """
        if self.keys is None:
            return [query, key, value]
        hidden = ~self.keys[:, 0, 0, :, None]
        hidden = hidden if axis == 0 else hidden.transpose(0, 1)
        clean = each(lambda x: x.masked_fill(hidden & ~x.isfinite(), 0.0), key, value)
        return [clean[0] if query is key else query, *clean]

    def with_added_keys(
        self, k: Tensor, v: Tensor, queries: int, added: tuple[Tensor, Tensor] | None, *, zero: bool
    ) -> tuple[Tensor, Tensor, Visibility]:
        """The keys and values of ``add_bias_kv`` and ``add_zero_attn`` after the others; every query may see them."""
        bags, heads, keys, dim = k.shape
        size, extra = (bags, heads, 1, dim), 0
        if added is not None:
            ours = [b.view(1, *size[1:]).expand(size).to(k.dtype) for b in added]
            k, v, extra = torch.cat([k, ours[0]], 2), torch.cat([v, ours[1]], 2), extra + 1
        if zero:
            k, v, extra = torch.cat([k, k.new_zeros(size)], 2), torch.cat([v, v.new_zeros(size)], 2), extra + 1
        return k, v, self.extended(extra, queries, keys, k.device) if extra else self

    def key_metric(self, k: Tensor, v: Tensor) -> Tensor:
        """m (bags, heads, 1, dim) in (0, 1]: how much each channel of the keys moves the values, the largest 1.

        :func:`excora.pooling.elliptical.metric` under even attention to the visible keys, m_c = |cov(k_c, v)|_1 over
        its largest: one pass, whatever the number of queries. No gradient flows through it. Elliptical Attention
        (Nielsen et al., NeurIPS 2024). DIFF: the paper takes the difference of the values of two layers; one layer has
        none.

        >>> k = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]).view(1, 1, 4, 2)
        >>> Visibility(None, None, None, False).key_metric(k, k[..., :1]).round(decimals=3)
        tensor([[[[1., 0.]]]])
        """
        if self.causal or self.pairs is not None or self.bias is not None:
            raise InputError(
                "metric='elliptical' has one metric a bag, so all queries must see the same keys: give no attn_mask "
                "and no is_causal, only a boolean key_padding_mask, or take metric='plain'"
            )
        with torch.no_grad(), full_precision(k.device):
            keys, values = at_least_float32(k), at_least_float32(v)
            seen = keys.new_ones(*keys.shape[:3]) if self.keys is None else self.keys[:, :, 0].expand(keys.shape[:3])
            even = seen.to(keys.dtype) / seen.sum(-1, keepdim=True).clamp_min(1)
            return metric(even, keys, values).unsqueeze(2)


def known_metric(metric: str) -> str:
    """The name, if there is such a metric of queries and keys; else an :class:`InputError`."""
    if metric not in ("plain", "elliptical"):
        raise InputError(f"metric must be 'plain' or 'elliptical', got {metric!r}")
    return metric


def read_masks(
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    shape: tuple[int, int, int, int],
    *,
    causal: bool = False,
) -> Visibility:
    """The masks of nn.MultiheadAttention as a :class:`Visibility`; ``shape`` is (bags, heads, queries, keys).

    ``key_padding_mask`` is (bags, keys), ``attn_mask`` (queries, keys) or (bags * heads, queries, keys), boolean (True
    hides) or float (added to the logits; -1e4 or less hides).

    >>> read_masks(torch.tensor([[False, True]]), None, (1, 1, 3, 2)).keys
    tensor([[[[ True, False]]]])
    """
    bags, heads, queries, keys = shape
    if attn_mask is not None:
        batched = attn_mask.dim() == 3
        attn_mask = _checked("attn_mask", attn_mask, (bags * heads, queries, keys) if batched else (queries, keys))
        attn_mask = attn_mask.reshape((bags, heads, queries, keys) if batched else (1, 1, queries, keys))
    if key_padding_mask is not None:
        key_padding_mask = _checked("key_padding_mask", key_padding_mask, (bags, keys))[:, None, None]
    seen, bias = _split(attn_mask)
    padding, padding_bias = _split(key_padding_mask)
    pairs = seen if seen is None or padding is None else seen & padding
    biases = [b for b in (bias, padding_bias) if b is not None]
    return Visibility(padding, pairs, sum(biases[1:], biases[0]) if biases else None, causal)


def _checked(name: str, mask: Tensor, shape: tuple[int, ...]) -> Tensor:
    if mask.shape != shape or not (mask.dtype == torch.bool or mask.is_floating_point()):
        raise InputError(
            f"{name} must be boolean (True hides) or float (added to the logits), of shape {tuple(shape)}, "
            f"got {mask.dtype} of shape {tuple(mask.shape)}"
        )
    return mask


def _split(mask: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """(visible, bias) of one mask."""
    if mask is None:
        return None, None
    return (~mask, None) if mask.dtype == torch.bool else (mask > HIDDEN_BIAS, mask)


def check_inputs(
    inputs: tuple[Tensor, Tensor, Tensor], dims: tuple[int, int, int], batch_first: bool, *, masked: bool
) -> None:
    """Raise unless query, key and value fit together, and a nested tensor is one that nn.MultiheadAttention takes."""
    query, key, value = inputs
    if any(x.is_nested for x in inputs):
        if masked or not (query is key and key is value and batch_first and query.layout == torch.strided):
            raise InputError(
                "a nested tensor must be query, key and value at once, of layout torch.strided, in a layer with "
                "batch_first and without a mask; pass padded tensors and key_padding_mask instead"
            )
        return
    axis = 0 if batch_first else 1
    fits = query.dim() in (2, 3) and all(x.dim() == query.dim() for x in inputs)
    fits = fits and all(x.shape[-1] == dim for x, dim in zip(inputs, dims, strict=True))
    fits = fits and key.shape[:-1] == value.shape[:-1] and key.shape[(1 - axis) * (key.dim() - 2)] > 0
    if not fits or (query.dim() == 3 and query.shape[axis] != key.shape[axis]):
        layout = "(bags, length, dim)" if batch_first else "(length, bags, dim)"
        raise InputError(
            f"query, key and value must be {layout}, or (length, dim) each, of dims {dims}, with one number of "
            f"bags and as many values as keys, at least one; got {[tuple(x.shape) for x in inputs]}"
        )


def through_padded(
    x: Tensor, run: Callable[[Tensor, Tensor], tuple[Tensor, Tensor | None]]
) -> tuple[Tensor, Tensor | None]:
    """``run(zero-padded, which rows are padding)`` for a nested x, with its first result nested like x.

    In eval without gradients an nn.TransformerEncoder hands a padded batch to its layers as a nested tensor.
    """
    lengths = [len(row) for row in x.unbind()]
    padded = torch.nested.to_padded_tensor(x, 0.0)
    position = torch.arange(padded.shape[1], device=x.device)
    output, weights = run(padded, position >= torch.tensor(lengths, device=x.device)[:, None])
    rows = [row[:length] for row, length in zip(output, lengths, strict=True)]
    return torch.nested.as_nested_tensor(rows), weights


def each(function: Callable[[Tensor], Tensor], *inputs: Tensor) -> list[Tensor]:
    """``function`` of each input, once for one that stands in several places, so that self-attention is still seen."""
    results = {id(x): function(x) for x in inputs}
    return [results[id(x)] for x in inputs]


class ValueStatistics(NamedTuple):
    """Of the values that are visible: ``mean`` (bags, heads, 1 or queries, dim), ``dispersion`` (bags, heads, 1 or
    queries) and ``seen``, boolean, whether there is any (it broadcasts to the dispersion).
    """

    mean: Tensor
    dispersion: Tensor
    seen: Tensor


def value_statistics(v: Tensor, visible: Visibility, queries: int) -> ValueStatistics:
    """Mean m and dispersion sqrt(mean_j ||v_j - m||^2) of the values each query may see; zero if it sees nothing.

    One pass over v - a, where the anchor a is the key that most queries see: under a causal mask the first, which all
    see, so that no hidden value touches the result. With a among n visible keys the relative error of the variance
    is about n float epsilons, however far from zero the values lie. A variance below the resolution of the
    subtraction counts as 0: its square root would have a gradient made of rounding errors. So does one that cannot be
    had: from deviations of about 1e19 on, squares leave float32 (1e154 in float64). The mean is right there too.

    >>> v = torch.tensor([-1.0, 1.0, 9.0]).view(1, 1, 3, 1)
    >>> value_statistics(v, Visibility(None, None, None, causal=True), 3).dispersion.flatten()[:2]
    tensor([0., 1.])
    """
    v = at_least_float32(v)
    anchor = _anchor(v, visible).detach()  # mean and variance do not depend on it, so it needs no gradient
    d = v - anchor
    if visible.keys is not None:
        d = d.masked_fill(~visible.keys.transpose(2, 3), 0.0)
    total, square, count = _visible_sums(d, visible, queries)
    n = count.clamp_min(1).to(v.dtype)
    offset, second = total / n, square / n
    variance = second - offset.square().sum(-1, keepdim=True)
    variance = torch.where(variance > 32 * torch.finfo(v.dtype).eps * second, variance, 0.0)
    seen = count > 0
    mean = (anchor + offset).masked_fill(~seen, 0.0)
    return ValueStatistics(mean, safe_sqrt(variance).squeeze(-1), seen.squeeze(-1))


def _anchor(v: Tensor, visible: Visibility) -> Tensor:
    if visible.pairs is not None:
        index = visible.pairs.sum(-2, keepdim=True).argmax(-1, keepdim=True)
    elif visible.keys is not None:
        index = visible.keys.to(torch.uint8).argmax(-1, keepdim=True)
    else:
        return v[:, :, :1]
    return v.gather(2, index.expand(v.shape[0], v.shape[1], 1, v.shape[3]))


def _visible_sums(d: Tensor, visible: Visibility, queries: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sums of d and of ||d||^2 over the visible keys, and how many there are."""
    square = d.square().sum(-1, keepdim=True)
    if visible.pairs is not None:
        with full_precision(d.device):
            sums = visible.pairs.to(d.dtype) @ torch.cat([d, square], -1)
        return sums[..., :-1], sums[..., -1:], visible.pairs.sum(-1, keepdim=True)
    keys = d.new_ones(1, 1, d.shape[2], 1) if visible.keys is None else visible.keys.transpose(2, 3).to(d.dtype)
    if not visible.causal:
        return d.sum(2, keepdim=True), square.sum(2, keepdim=True), keys.sum(2, keepdim=True)
    running = [x.cumsum(2) for x in (d, square, keys)]
    if queries != d.shape[2]:  # later queries see every key
        last = torch.arange(queries, device=d.device).clamp_max(d.shape[2] - 1)
        running = [x.index_select(2, last) for x in running]
    return running[0], running[1], running[2]
