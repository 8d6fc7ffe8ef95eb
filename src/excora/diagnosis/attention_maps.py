"""What a model attends to while it is called: the weights of every attention layer, with their gain.

torch's fused attention keeps its weights to itself, so they are computed once more from the queries and keys that it is
given. A layer that extrapolates, m + gamma (a - m), has effective weights gamma alpha_ij + (1 - gamma) / n, which sum
to 1 and may be negative.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from excora.extrapolation import Extrapolation
from excora.models.parts.readout import ReadOut


class _Call:
    """One call of attention: weights (bags, heads, queries, keys), which keys are seen, and the values."""

    def __init__(self, weights: Tensor, seen: Tensor, values: Tensor | None) -> None:
        self.weights, self.seen, self.values = weights, seen, values

    def stretch(self, gamma: Tensor) -> None:
        """To effective weights; gamma broadcasts over (bags, heads, queries)."""
        even = self.seen / self.seen.sum(-1, keepdim=True).clamp_min(1)
        g = gamma.to(self.weights.dtype).unsqueeze(-1)
        self.weights = g * self.weights + (1 - g) * even


class _Recorder(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[_Call] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.scaled_dot_product_attention:
            self.calls.append(_attended(*args, **(kwargs or {})))
        return func(*args, **(kwargs or {}))


def _attended(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,  # noqa: ARG001
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> _Call:
    """The weights of torch's scaled_dot_product_attention."""
    if enable_gqa:
        k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    logits = q.float() @ k.float().mT * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    seen = torch.ones_like(logits, dtype=torch.bool)
    seen = seen.tril() if is_causal else seen
    if attn_mask is not None:
        seen = seen & (attn_mask if attn_mask.dtype == torch.bool else attn_mask > -1e4)
        logits = logits if attn_mask.dtype == torch.bool else logits + attn_mask
    return _Call(logits.masked_fill(~seen, -torch.inf).softmax(-1).nan_to_num(0.0), seen.float(), v.float())


def attention_maps(model: nn.Module, call: Callable[[], Any]) -> list[Tensor]:
    """Effective weights (bags, heads, queries, keys) of each attention layer of ``model`` in ``call``, in order.

    The read-out of the FT-Transformer, where one token asks, is shown as if every token asked. Layers that do not go
    through ``scaled_dot_product_attention`` or Excora's own are not seen: convert a plain model first
    (:func:`excora.extrapolate_`), which leaves its outputs as they are.

    >>> from excora import ExtrapolativeAttention
    >>> layer, x = ExtrapolativeAttention(8, 2, batch_first=True), torch.randn(3, 5, 8)
    >>> [map.shape for map in attention_maps(layer, lambda: layer(x, x, x, need_weights=False))]
    [torch.Size([3, 2, 5, 5])]
    """
    recorder, begun, handles = _Recorder(), [0], []

    def before(_module: nn.Module, _args: Any) -> None:
        begun.append(len(recorder.calls))

    def after(module: nn.Module, _args: Any, output: Any) -> None:
        _with_gain(module, output, recorder.calls, begun.pop())

    for module in model.modules():
        if isinstance(getattr(module, "extrapolation", None), Extrapolation):
            handles += [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
        if isinstance(module, ReadOut):
            handles.append(module.register_forward_pre_hook(_all_ask))
    try:
        with torch.no_grad(), recorder:
            call()
    finally:
        for handle in handles:
            handle.remove()
    return [one.weights for one in recorder.calls]


def _all_ask(module: nn.Module, args: Any) -> None:
    """The attention of a read-out with every token as a query: what it would have been as a block."""
    read: Any = module
    read.attention(F.linear(read.norm(args[0]), *read.attention.projection()))


def _with_gain(module: Any, output: Any, calls: list[_Call], begun: int) -> None:
    """Effective weights of the one call that a layer with a gain has made, or of the weights that it returned."""
    weights = output[1] if isinstance(output, tuple) and len(output) > 1 else None
    if len(calls) == begun and isinstance(weights, Tensor):
        weights = weights.float() if weights.dim() == 4 else weights.float().unsqueeze(1)
        calls.append(_Call(weights, (weights > 0).float(), None))
    if len(calls) == begun:
        return
    kept = getattr(module, "last_details", None) or getattr(module.extrapolation, "last_details", None)
    last = calls[-1]
    if kept is not None:
        gamma = kept["gamma"].float()
        last.stretch(gamma.mean(1, keepdim=True) if last.weights.shape[1] == 1 else gamma)
    elif last.values is not None:  # of a block of ours: one gain a sample, of the mean value of all heads
        mean = last.values.transpose(1, 2).flatten(2).mean(1)
        last.stretch(module.extrapolation.gamma(mean).float().view(-1, 1, 1))
