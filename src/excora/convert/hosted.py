"""What a converted layer of another library holds: gain and temperature, as its submodule ``extrapolation``."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from excora.attention import Attended, extrapolated_attention
from excora.errors import ConversionError, InputError
from excora.extrapolation import Extrapolation
from excora.functional import is_exporting
from excora.reduce import Penalty
from excora.visibility import HIDDEN_BIAS, Visibility, known_metric

#: residual, temperature, cap, scale, penalty_weight and, if it is not plain, metric, as extrapolate_ takes them.
Options = Mapping[str, Any]
#: What a call leaves on a module. It belongs to the call's graph, and can be neither copied nor pickled.
KEPT = ("last_penalty", "last_details")


class HostedExtrapolation(Extrapolation):
    """The extrapolation of one attention layer: called with q, k and v it attends, and keeps the penalty of the call.

    A module of its own that is *called*, so that hooks, and wrappers such as PEFT's ``modules_to_save``, reach it.

    >>> extrapolation = HostedExtrapolation(8, heads=4)
    >>> q, k, v = torch.randn(3, 2, 4, 5, 8)
    >>> extrapolation(q, k, v).output.shape, extrapolation.last_penalty.count
    (torch.Size([2, 4, 5, 8]), tensor(8.))
    """

    last_penalty: Penalty | None = None
    last_details: dict[str, Tensor] | None = None

    def __init__(self, dim: int, *, heads: int | None = None, metric: str = "plain", **options: Any) -> None:
        super().__init__(dim, heads=heads, **options)
        self.metric = known_metric(metric)

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        visible: Visibility | None = None,
        *,
        scaling: float | None = None,
        dropout: float = 0.0,
        need_weights: bool = False,
    ) -> Attended:
        """As :func:`excora.attention.extrapolated_attention`; without ``visible`` every query sees every key."""
        visible = Visibility(None, None, None, False) if visible is None else visible
        if self.metric == "elliptical":
            q = q * visible.key_metric(k, v).to(q.dtype)
        attended = extrapolated_attention(
            self, q, k, v, visible, scaling=scaling, dropout=dropout, need_weights=need_weights
        )
        self.keep(attended.penalty, attended.details)
        return attended

    def keep(self, penalty: Penalty | None, details: dict[str, Tensor]) -> None:
        """For :func:`excora.penalties` and for a look at gamma; an exported program has nowhere to keep them."""
        if not is_exporting():
            self.last_penalty, self.last_details = penalty, details

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in KEPT}


def give(module: nn.Module, extrapolation: nn.Module) -> None:
    """Add ``extrapolation`` to a layer: device and dtype of the layer, frozen if the layer is; old files still load."""
    if hasattr(module, "extrapolation"):
        raise ConversionError(f"{type(module).__name__} has something else in its attribute 'extrapolation'")
    weights = list(module.parameters())
    like = next((p for p in weights if p.is_floating_point()), None)
    trainable = not weights or any(p.requires_grad for p in weights)
    if like is not None:
        extrapolation = extrapolation.to(device=like.device, dtype=like.dtype)
    module.extrapolation = extrapolation.requires_grad_(trainable).train(module.training)
    module.register_load_state_dict_pre_hook(_start_where_missing)


def tell_if_inert(model: nn.Module, _inputs: Any) -> None:
    """A hook before a converted model's forward: warns once if it trains while its extrapolation is frozen at 1."""
    if torch.compiler.is_compiling() or not (model.training and torch.is_grad_enabled()):
        return
    given = [m.get_submodule("extrapolation") for m in model.modules() if "extrapolation" in m._modules]
    if any(map(_does_something, given)) or not any(p.requires_grad for p in model.parameters()):
        return
    for key in [key for key, hook in model._forward_pre_hooks.items() if hook is tell_if_inert]:
        del model._forward_pre_hooks[key]
    warnings.warn(
        "this model trains, but the extrapolation of its converted layers is frozen where it started and does "
        "nothing. With PEFT: LoraConfig(..., modules_to_save=conversion.modules_to_save); else "
        "requires_grad_(True) on conversion.parameters().",
        stacklevel=3,
    )


def _does_something(extrapolation: nn.Module) -> bool:
    """Whether it trains or has moved. The hidden layer of a pool's gain starts anywhere, and says nothing."""
    own = [p for name, p in extrapolation.named_parameters() if ".hidden." not in f".{name}"]
    return not own or any(p.requires_grad or p.is_meta or bool(p.any()) for p in own)


def _start_where_missing(module: nn.Module, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """A file from before the conversion: gamma and tau begin at 1 again, and nothing counts as missing."""
    new = {f"{prefix}extrapolation.{name}": p for name, p in module.extrapolation.named_parameters()}  # type: ignore[union-attr]
    for name in [name for name in state_dict if present_name(name) != name and present_name(name) in new]:
        state_dict[present_name(name)] = state_dict.pop(name)
    known = [name for name in state_dict if name.startswith(prefix)]
    bare = len(list(module.parameters())) == len(new)  # a layer without weights, of which an old file says nothing
    if any(name in new for name in known) or not (known or bare):
        return
    # Of a model on "meta" the file's tensors become the model's own, by assign=True: ours stand where they do.
    device = state_dict[known[0]].device if known else next(iter(new.values())).device
    for name, p in new.items():
        state_dict[name] = torch.zeros_like(p, device=device)
        if ".hidden." in name:  # of a pool's gain: it has no start of its own, and on "meta" takes that of nn.Linear
            bound = new[name.rpartition(".")[0] + ".weight"].shape[1] ** -0.5
            state_dict[name] = state_dict[name].uniform_(-bound, bound) if p.is_meta else p.detach().clone().to(device)


def present_name(name: str) -> str:
    """Of a new parameter by its name in a file: 0.2.0 wrote those of a torchmil pool one level further down.

    >>> present_name("pool.extrapolation.extrapolation.gain.out.bias")
    'pool.extrapolation.gain.out.bias'
    """
    return name.replace("extrapolation.extrapolation.", "extrapolation.")


def read_mask(mask: Tensor | None, keys: int, *, causal: bool = False, hidden: float = HIDDEN_BIAS) -> Visibility:
    """The mask of torch's fused attention: boolean, True for a visible key, or float, added to the logits.

    It broadcasts to (bags, heads, queries, keys). One that is equal for all queries is read as padding, of which the
    statistics are one a bag. A bias of ``hidden`` or less hides its key. No value of the mask is looked at from Python.

    >>> read_mask(torch.tensor([True, False]).view(1, 1, 1, 2).expand(1, 1, 3, 2), 2).keys
    tensor([[[[ True, False]]]])
    """
    if mask is None:
        return Visibility(None, None, None, causal)
    if causal:
        raise InputError("give a mask or is_causal=True, not both, as for torch's scaled_dot_product_attention")
    mask = mask[(None,) * (4 - mask.dim())]
    mask = mask.expand(*mask.shape[:-1], keys)
    if mask.stride(-2) == 0:
        mask = mask[..., :1, :]
    seen, bias = (mask, None) if mask.dtype == torch.bool else (mask > hidden, mask)
    if mask.shape[-2] == 1 and mask.shape[1] == 1:
        return Visibility(seen, None, bias, False)
    return Visibility(None, seen, bias, False)


def with_bias(visible: Visibility, bias: Tensor, queries: int, keys: int) -> Visibility:
    """The same with ``bias`` (…, queries, keys) on the logits: of positions, it hides nothing."""
    total = bias if visible.bias is None else visible.bias + bias
    seen = visible.dense(queries, keys, bias.device)
    if seen is None:
        seen = torch.ones(1, 1, 1, keys, dtype=torch.bool, device=bias.device)
    if visible.causal:
        return Visibility(None, seen[(None,) * (4 - seen.dim())], total, False)
    return Visibility(seen if visible.pairs is None else None, visible.pairs, total, False)
