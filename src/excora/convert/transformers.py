"""transformers (5.x): every model whose attention goes through the library's attention interface.

A function is registered there under two names, one over torch's fused attention ("sdpa") and one over the models' own
("eager"), *each with the mask function that belongs to it*: without one transformers would pass no mask at all, and
causal masking would silently vanish. The function reads gain and temperature from the layer it is called for, and hands
a layer without any to what that layer used before. Nothing here imports transformers until one of its layers is met.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from excora.attention import extrapolated_attention
from excora.convert.adapter import Adapter
from excora.convert.hosted import HostedExtrapolation, Options, give, read_mask, with_bias
from excora.errors import ConversionError
from excora.extrapolation import Extrapolation

#: Ours, by what the model uses.
NAMES = {"sdpa": "excora", "eager": "excora_eager"}
_PLAIN = {ours: theirs for theirs, ours in NAMES.items()}
_INTERFACE = "ALL_ATTENTION_FUNCTIONS"
_WIDTHS = ("v_head_dim", "head_dim", "attention_head_size", "key_value_proj_dim", "head_size")
_HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head")
_UNSUPPORTED = {
    "softcap": "its logits are capped",
    "s_aux": "its softmax has an extra sink",
    # Such layers write the choice into the mask for "eager" and "sdpa" only, and hand it to all others as indices.
    "indices": "its queries see chosen keys alone",
    "block_indices": "its queries see chosen blocks of keys alone",
}
#: Layers that conversions of now have taken: their configs must go on naming our functions.
_CONVERTED: weakref.WeakSet[Any] = weakref.WeakSet()


class _Extrapolation(HostedExtrapolation):
    """It registers our functions where it is unpickled: in a process that has converted nothing, too."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        _register()


def _judge(module: nn.Module) -> str | None:
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    if code is None or _INTERFACE not in code.co_names:
        theirs = type(module).__module__.startswith("transformers.models.")
        attends = theirs and any(isinstance(vars(module).get(name), int) for name in _HEADS)
        attends = attends and any(isinstance(child, nn.Linear) for child in module.children())
        return "it does not use transformers' attention interface, but computes its softmax itself" if attends else None
    words = {word for constant in code.co_consts if isinstance(constant, tuple) for word in constant}
    for word, reason in _UNSUPPORTED.items():
        if word in words:
            return f"{reason} ({word}), which this attention does not do"
    used = getattr(getattr(module, "config", None), "_attn_implementation", None)
    if used not in (*NAMES, *NAMES.values()):
        return f'its attention implementation is {used!r}: model.set_attn_implementation("sdpa") first'
    if any(p.is_meta for p in module.parameters()):
        return (
            "its weights are not there yet (inside from_pretrained, which would leave ours unset): load, then convert"
        )
    return "" if None not in _size(module) else f"none of {_WIDTHS} and {_HEADS} says how wide its heads are"


def _size(module: Any) -> tuple[int | None, int | None]:
    """Width of a head's values, and the number of heads, of the queries where keys are grouped."""
    places = (module, module.config)
    width, heads = (
        next((x for p in places for name in names if isinstance(x := getattr(p, name, None), int)), None)
        for names in (_WIDTHS, _HEADS)
    )
    return width, heads


def _install(module: Any, options: Options) -> None:
    width, heads = _size(module)
    give(module, _Extrapolation(width or 0, heads=heads, **options))
    module.register_forward_pre_hook(_check_route)


def _check_route(module: Any, _inputs: Any) -> None:
    """A version of transformers that does not take the name, or set_attn_implementation later, would go round us."""
    if (used := module.config._attn_implementation) not in NAMES.values():
        raise ConversionError(
            f"the attention implementation of a converted {type(module).__name__} is {used!r}, so that it would not "
            f"extrapolate: model.set_attn_implementation({NAMES['sdpa']!r}), or conversion.undo()"
        )


def _surround(model: nn.Module, layers: list[Any]) -> Callable[[], None]:
    _register()
    configs = {id(layer.config): layer.config for layer in layers}.values()
    _CONVERTED.update(layers)

    def take_back() -> None:
        _CONVERTED.difference_update(layers)
        others = {*_CONVERTED, *model.modules()} - {
            *layers
        }  # an unpickled model has some that were converted elsewhere
        needed = {id(getattr(layer, "config", None)) for layer in others if "extrapolation" in layer._modules}
        for config in configs:  # of several models, if they were built from one; the last conversion puts it back
            if id(config) not in needed:
                config._attn_implementation_internal = before[id(config)]

    before = {id(config): _PLAIN.get(used := config._attn_implementation, used) for config in configs}
    for config in configs:  # as set_attn_implementation does, but for these stacks only
        config._attn_implementation_internal = NAMES.get(used := config._attn_implementation, used)
    try:
        for layer in layers:
            _check_route(layer, ())
    except ConversionError:
        take_back()
        raise
    return take_back


def _register() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask, sdpa_mask

    AttentionInterface.register(NAMES["sdpa"], _over_sdpa)
    AttentionMaskInterface.register(NAMES["sdpa"], sdpa_mask)
    AttentionInterface.register(NAMES["eager"], _over_eager)
    AttentionMaskInterface.register(NAMES["eager"], eager_mask)


def _over_sdpa(module: nn.Module, *inputs: Any, **named: Any) -> tuple[Tensor, Tensor | None]:
    if "extrapolation" in module._modules or _weights_wanted(named):
        return _attend(module, *inputs, **named)
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    return sdpa_attention_forward(module, *inputs, **named)


def _over_eager(module: nn.Module, *inputs: Any, **named: Any) -> tuple[Tensor, Tensor | None]:
    if "extrapolation" in module._modules:
        return _attend(module, *inputs, **named)
    return inspect.unwrap(type(module).forward).__globals__["eager_attention_forward"](module, *inputs, **named)


def _weights_wanted(named: dict[str, Any]) -> bool:
    """output_attentions=True: as an argument, or in the collector by which models without that argument know it."""
    from transformers.utils.output_capturing import _active_collector

    collected = _active_collector.get() or ()
    return bool(named.get("output_attentions")) or "attentions" in collected or "cross_attentions" in collected


def _attend(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **named: Any
) -> tuple[Tensor, Tensor | None]:
    """(bags, heads, n, width) each to (bags, n, heads, width), and the weights, if somebody asked for them."""
    if (groups := query.shape[1] // key.shape[1]) > 1:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    queries, keys = query.shape[2], key.shape[2]
    # As in transformers: without a mask the layer's own word counts, and a single query is a step of generation.
    causal = getattr(module, "is_causal", True) if named.get("is_causal") is None else named["is_causal"]
    visible = read_mask(attention_mask, keys, causal=queries > 1 and attention_mask is None and causal)
    if named.get("position_bias") is not None:
        visible = with_bias(visible, named["position_bias"], queries, keys)
    options: dict[str, Any] = {name: named[name] for name in ("scaling", "dropout") if name in named}
    options["need_weights"] = _weights_wanted(named)
    if "extrapolation" in module._modules:
        attended = module.extrapolation(query, key, value, visible, **options)
    else:
        plain = Extrapolation(value.shape[-1], heads=query.shape[1], residual=None, temperature=None)
        attended = extrapolated_attention(plain, query, key, value, visible, **options)
    return attended.output.transpose(1, 2).contiguous(), attended.weights


ADAPTER = Adapter("models of transformers that use its attention interface", _judge, _install, _surround)
