"""extrapolate_: give the attention layers and pools of an existing model extrapolation, in place.

A converted module stays the same object: its class changes to a subclass of what it was, and parameters are added. So
hooks, shared references, the optimiser's state and the state-dict keys all stay, and undoing it is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from torch import nn

from excora.attention import ExtrapolativeAttention
from excora.errors import ConversionError
from excora.foreign import extrapolative_attention_pool
from excora.functional import Residual, Scale, Temperature

Selector = str | type[nn.Module] | Callable[[str, nn.Module], bool]

_TORCHMIL_POOL = "torchmil.nn.attention.attention_pool.AttentionPool"
_REFUSED = {
    "torchmil.nn.attention.sm_attention_pool.SmAttentionPool": "its logits depend on an adjacency matrix",
    "torchmil.nn.attention.prob_smooth_attention_pool.ProbSmoothAttentionPool": "its weights are sampled",
}
_ALREADY = "extrapolates already"
_WRAPPERS = ("DistributedDataParallel", "FullyShardedDataParallel")


def extrapolate_(
    model: nn.Module,
    *,
    include: Selector | Iterable[Selector] | None = None,
    exclude: Selector | Iterable[Selector] | None = None,
    residual: Residual = "free",
    temperature: Temperature = "learned",
    cap: float = 4.0,
    scale: Scale = "sqrt_dim",
    penalty_weight: float = 1e-3,
) -> Conversion:
    """Convert the attention layers and pools of ``model`` in place; the outputs are the same until training moves them.

    Converted: nn.MultiheadAttention, wherever it is (nn.TransformerEncoder and Decoder included), with
    :class:`ExtrapolativeAttention`, and torchmil's AttentionPool with :class:`ECAPool`. Exact types only: a subclass
    may compute something else. ``include`` and ``exclude`` select by glob on the qualified name (``"encoder.*"``), by
    type, or by a function of (name, module), one or several. The rest are the options of ExtrapolativeAttention.
    New parameters have the device and dtype of the layer, and train unless the whole layer is frozen. All or nothing:
    if anything fails, the model is as before; a model with nothing to convert raises :class:`ConversionError`.

    >>> model = nn.TransformerEncoderLayer(16, 4, batch_first=True)
    >>> conversion = extrapolate_(model)
    >>> print(conversion)  # doctest: +ELLIPSIS
    1 layer extrapolates now, with 28 new parameters:
      self_attn: MultiheadAttention -> ExtrapolativeAttention...
    """
    options: dict[str, Any] = {"cap": cap, "scale": scale, "penalty_weight": penalty_weight}
    options |= {"residual": residual, "temperature": temperature}
    chosen, left = _plan(model, _selectors(model, include), _selectors(model, exclude))
    if not chosen:
        raise ConversionError(_nothing(left))
    conversion = Conversion(left=left)
    try:
        for name, module in chosen:
            conversion.changes.append(_Change(name, module))
            conversion.changes[-1].apply(options)
    except BaseException:
        conversion.undo()
        raise
    return conversion


@dataclass
class Conversion:
    """What :func:`extrapolate_` did: print it; :meth:`parameters` for the optimiser; :meth:`undo` to take it back.

    ``converted`` and ``left`` map names to a description and to the reason.
    """

    left: dict[str, str]
    changes: list[_Change] = field(default_factory=list, repr=False)

    @property
    def converted(self) -> dict[str, str]:
        """Name of each converted layer, and from which class to which."""
        return {c.name: f"{c.old_class.__name__} -> {type(c.module).__name__}" for c in self.changes}

    def parameters(self) -> list[nn.Parameter]:
        """The new parameters, which an optimiser made before the conversion does not know."""
        return [parameter for change in self.changes for parameter in change.new_parameters()]

    def undo(self) -> None:
        """Take the conversion back: class and attributes as before, the weights as training left them."""
        for change in self.changes:
            change.revert()
        self.changes = []

    def __str__(self) -> str:
        new = self.parameters()
        count, layers = sum(p.numel() for p in new), len(self.changes)
        lines = [
            f"{layers} layer{'s extrapolate' if layers != 1 else ' extrapolates'} now, with {count} new parameters:"
        ]
        lines += [f"  {name or '(the model itself)'}: {what}" for name, what in self.converted.items()]
        lines += ["left alone:"] if self.left else []
        lines += [f"  {name or '(the model itself)'}: {why}" for name, why in self.left.items()]
        lines += ["An optimiser made before this does not know the new parameters; add them, without weight decay:"]
        lines += ['  optimizer.add_param_group({"params": conversion.parameters(), "weight_decay": 0.0})']
        if not all(p.requires_grad for p in new):
            lines += ["New parameters of frozen layers are frozen too: p.requires_grad_(True) on each trains them."]
        return "\n".join(lines)


class _Change:
    """One module's conversion, and what takes it back."""

    def __init__(self, name: str, module: nn.Module) -> None:
        self.name, self.module, self.old_class = name, module, type(module)
        self.values = dict(vars(module))
        self.before = self._names()
        self.added: dict[str, list[str]] = {}

    def _names(self) -> dict[str, list[str]]:
        return {kind: list(getattr(self.module, kind)) for kind in ("__dict__", "_parameters", "_modules")}

    def apply(self, options: dict[str, Any]) -> None:
        try:
            if self.old_class is nn.MultiheadAttention:
                self.module.__class__ = ExtrapolativeAttention
            else:
                self.module.__class__ = extrapolative_attention_pool()
            self.module._install(**options)  # type: ignore[operator]  # both classes have it
        finally:
            self.added = {k: [n for n in names if n not in self.before[k]] for k, names in self._names().items()}
            self.values = {name: x for name, x in self.values.items() if vars(self.module)[name] is not x}

    def new_parameters(self) -> list[nn.Parameter]:
        own = [p for name in self.added["_parameters"] if (p := self.module._parameters[name]) is not None]
        inner = [p for name in self.added["_modules"] for p in self.module.get_submodule(name).parameters()]
        return own + inner

    def revert(self) -> None:
        self.module.__class__ = self.old_class
        for kind, names in self.added.items():
            for name in names:
                getattr(self.module, kind).pop(name)
        for name in ("last_penalty", "last_details"):
            vars(self.module).pop(name, None)
        vars(self.module).update(self.values)


def _plan(
    model: nn.Module, include: list[Selector] | None, exclude: list[Selector] | None
) -> tuple[list[tuple[str, nn.Module]], dict[str, str]]:
    """The modules to convert, each once, and the attention-like ones left alone, with the reason."""
    names: dict[nn.Module, list[str]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        names.setdefault(module, []).append(name)
    chosen, left = [], {}
    for module, own in names.items():
        if type(module).__name__ in _WRAPPERS:
            raise ConversionError(
                f"{own[0] or 'the model'} is a {type(module).__name__}, which would not train parameters added now: "
                "call extrapolate_ on the model before wrapping it"
            )
        reason = _reason_against(module)
        if reason == "" and include is not None and not _selected(include, own, module):
            reason = "not in include"
        if reason == "" and exclude is not None and _selected(exclude, own, module):
            reason = "in exclude"
        if reason == "":
            chosen.append((own[0], module))
        elif reason is not None:
            left[own[0]] = f"{type(module).__name__}: {reason}"
    return chosen, left


def _reason_against(module: nn.Module) -> str | None:
    """None: not an attention; "": to be converted; else why it is left alone."""
    kind = type(module)
    path = f"{kind.__module__}.{kind.__qualname__}"
    bases = [f"{base.__module__}.{base.__qualname__}" for base in kind.__mro__]
    if isinstance(module, ExtrapolativeAttention) or path == "excora.foreign.ExtrapolativeAttentionPool":
        return _ALREADY
    if kind is nn.MultiheadAttention or path == _TORCHMIL_POOL:
        if "forward" in vars(module):
            return "its forward was replaced on the instance, which a new class would not reach"
        return "" if not _is_lazy(module) else "its width is not known yet: run one batch first"
    if path in _REFUSED:
        return _REFUSED[path]
    if isinstance(module, nn.MultiheadAttention) or _TORCHMIL_POOL in bases:
        return "a subclass, which may compute something else"
    return "no rule for this class" if "attention" in kind.__name__.lower() else None


def _is_lazy(module: nn.Module) -> bool:
    return any(nn.parameter.is_lazy(parameter) for parameter in module.parameters())


def _nothing(left: dict[str, str]) -> str:
    seen = "".join(f"\n  {name or '(the model itself)'}: {why}" for name, why in left.items())
    if left and all(why.endswith(_ALREADY) for why in left.values()):
        return f"nothing is left to convert: every attention layer of this model extrapolates already:{seen}"
    return (
        "found nothing to convert. Looked for nn.MultiheadAttention (inside nn.TransformerEncoder and Decoder too) and "
        f"torchmil's AttentionPool, as exact types; attention-like modules seen: {seen or 'none'}"
    )


def _selectors(model: nn.Module, given: Selector | Iterable[Selector] | None) -> list[Selector] | None:
    """As a list; a glob that fits no module is a typing error, and silence would convert the wrong layers."""
    if given is None:
        return None
    many = [given] if isinstance(given, str | type) or callable(given) else list(given)
    names = [name for name, _ in model.named_modules(remove_duplicate=False)]
    for one in many:
        if isinstance(one, str) and not any(fnmatchcase(name, one) for name in names):
            raise ConversionError(
                f"the pattern {one!r} fits none of the {len(names)} module names, such as {names[:8]}"
            )
    return many


def _selected(selectors: list[Selector], names: list[str], module: nn.Module) -> bool:
    for one in selectors:
        if isinstance(one, str):
            hit = any(fnmatchcase(name, one) for name in names)
        else:
            hit = isinstance(module, one) if isinstance(one, type) else any(one(name, module) for name in names)
        if hit:
            return True
    return False
