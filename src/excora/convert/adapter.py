"""Adapters: which layers can be given extrapolation, why others cannot, and how it is done.

An :class:`Adapter` serves one kind of layer. The built-in ones stand in one file a library, none of which imports its
library before it meets one of its layers; :func:`register_adapter` adds your own, which is asked first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from excora.convert.hosted import KEPT, HostedExtrapolation, Options, give, read_mask
from excora.errors import ConversionError, InputError
from excora.visibility import HIDDEN_BIAS

EXAMPLE = """
  from excora import register_adapter
  register_adapter(
      MyAttention,                                           # a class that calls F.scaled_dot_product_attention
      size=lambda layer: (layer.head_dim, layer.num_heads),  # the width of a head's values, the number of heads
  )                                                          # then extrapolate_(model); see docs/convert.md"""


@dataclass(frozen=True)
class Adapter:
    """One kind of layer.

    - ``looks_for``: a few words for the message that nothing was found.
    - ``judge(module)``: None if the module is none of its business, "" to take it, else why it is left alone.
    - ``install(module, options)``: give the module extrapolation. Class, attributes, parameters, submodules and
      hooks of the module go back to what they were on ``undo``; the adapter need not do that itself.
    - ``surround(model, modules)``: after all layers, what the model around them needs; returns what takes it back.
    """

    looks_for: str
    judge: Callable[[nn.Module], str | None]
    install: Callable[[nn.Module, Options], None]
    surround: Callable[[nn.Module, list[nn.Module]], Callable[[], None]] | None = None


class Converted:
    """Mixed in before the class of a converted layer, so that ``isinstance``, copying and pickling still work."""

    def __reduce__(self) -> Any:
        mixin, base = type(self).__bases__
        return _revive, (mixin, base), {name: value for name, value in vars(self).items() if name not in KEPT}


_CLASSES: dict[tuple[type, type], type] = {}


def converted_class(mixin: type, base: type) -> type:
    """The subclass of ``base`` with the methods of ``mixin``, always the same: Mine becomes ExtrapolativeMine."""
    if (mixin, base) not in _CLASSES:
        named = {"__doc__": base.__doc__, "__module__": base.__module__}
        _CLASSES[mixin, base] = type(f"Extrapolative{base.__name__}", (mixin, base), named)
    return _CLASSES[mixin, base]


def _revive(mixin: type, base: type) -> Any:
    made: Any = converted_class(mixin, base)
    return made.__new__(made)


class Rerouted(Converted):
    """The layer's own forward, in which the extrapolation answers the one call of scaled_dot_product_attention."""

    extrapolation: HostedExtrapolation
    hides = HIDDEN_BIAS

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """As the layer's own."""
        route = _Route(self._attend)
        with route:
            output = super().forward(*inputs, **named)  # type: ignore[misc]  # of the layer's class
        if len(route.calls) != 1:
            raise ConversionError(
                f"{type(self).__name__} was to call torch's scaled_dot_product_attention once and called it "
                f"{len(route.calls)} times, so that its attention did not extrapolate: give register_adapter a mixin "
                "whose forward calls self.extrapolation(q, k, v)"
            )
        return output

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        if query.dim() != 4:
            raise InputError(f"q, k and v must be (bags, heads, length, width), got q of shape {tuple(query.shape)}")
        if enable_gqa:
            key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], 1) for x in (key, value))
        visible = read_mask(attn_mask, key.shape[2], causal=is_causal, hidden=self.hides)
        return self.extrapolation(query, key, value, visible, scaling=scale, dropout=dropout_p).output


class _Route(TorchFunctionMode):
    """Hands torch's fused attention to ``answer``; torch switches the mode off while it answers."""

    def __init__(self, answer: Callable[..., Tensor]) -> None:
        super().__init__()
        self.answer = answer
        self.calls: list[bool] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.scaled_dot_product_attention:
            self.calls.append(True)
            return self.answer(*args, **(kwargs or {}))
        if func is Tensor.unflatten:  # Python code, which torch.compile (2.13) cannot trace in a mode; this one it can
            func = torch.unflatten
        return func(*args, **(kwargs or {}))


Size = Callable[[Any], tuple[int, int]]


def path_of(kind: type) -> str:
    """Module and name of a class, by which a library that may be missing is recognised."""
    return f"{kind.__module__}.{kind.__qualname__}"


def judge_class(module: nn.Module, path: str) -> str | None:
    """For an adapter that changes the class: exact types only."""
    if path_of(type(module)) != path:
        subclass = any(path_of(base) == path for base in type(module).__mro__)
        return "a subclass, which may compute something else" if subclass else None
    if "forward" in vars(module):
        return "its forward was replaced on the instance, which a new class would not reach"
    if any(nn.parameter.is_lazy(p) for p in module.parameters()):
        return "its width is not known yet: run one batch first"
    return ""


def swap(module: nn.Module, mixin: type, dim: int, heads: int, options: Options) -> None:
    """Give ``module`` an extrapolation and the methods of ``mixin``."""
    give(module, HostedExtrapolation(dim, heads=heads, **options))
    module.__class__ = converted_class(mixin, type(module))


#: What users registered, the latest last.
REGISTERED: list[Adapter] = []


def register_adapter(
    cls: type[nn.Module] | str | Callable[[nn.Module], bool],
    *,
    size: Size,
    mixin: type = Rerouted,
    declines: Callable[[Any], str] | None = None,
) -> Callable[[], None]:
    """Teach :func:`extrapolate_` a layer it does not know; returns a function that takes it back.

    - ``cls``: the class, exactly; or its path, ``"package.module.Class"``, so that nothing is imported for it; or a
      function that says of a module whether it is meant.
    - ``size(layer)``: the width of a head's values and the number of heads.
    - ``mixin``: mixed in before the layer's class. Without one the layer's forward must call torch's
      ``F.scaled_dot_product_attention`` once. With one, a subclass of ``excora.convert.Converted``, its forward calls
      ``self.extrapolation(q, k, v)``, all (bags, heads, length, width), and goes on with ``.output``.
    - ``declines(layer)``: why this layer cannot be converted, or "".

    >>> class Mine(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.qkv, self.heads = nn.Linear(8, 24), 2
    ...
    ...     def forward(self, x):
    ...         q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, 4)).permute(2, 0, 3, 1, 4)
    ...         return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
    >>> take_back = register_adapter(Mine, size=lambda layer: (4, layer.heads))
    >>> from excora import extrapolate_
    >>> extrapolate_(nn.Sequential(Mine(), Mine())).converted
    {'1': 'Mine -> ExtrapolativeMine'}
    >>> take_back()
    """
    if not callable(size) or not (callable(cls) or isinstance(cls, str)):
        raise InputError(
            "register_adapter takes a class, its path or a function of a module, and size=, a function of the layer "
            f"that returns (width of a head's values, heads); got {cls!r} and size={size!r}"
        )
    if not (isinstance(mixin, type) and issubclass(mixin, Converted)):
        raise InputError(f"mixin must be a subclass of excora.convert.Converted, got {mixin!r}")
    path = cls if isinstance(cls, str) else path_of(cls) if isinstance(cls, type) else ""

    def judge(module: nn.Module) -> str | None:
        if path:
            verdict = judge_class(module, path)
        else:
            verdict = judge_class(module, path_of(type(module))) if cls(module) else None  # type: ignore[operator]
        return declines(module) if verdict == "" and declines is not None else verdict

    adapter = Adapter(path or "registered layers", judge, lambda module, o: swap(module, mixin, *size(module), o))
    REGISTERED.append(adapter)
    return lambda: REGISTERED.remove(adapter) if adapter in REGISTERED else None
