"""extrapolate_: find the layers, choose, convert all or nothing.

A converted module stays the same object: its class changes to a subclass of what it was, and parameters are added. So
hooks, shared references, the optimiser's state and the state-dict keys all stay, and undoing it is exact.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, NamedTuple

from torch import nn

from excora.convert import multihead, rtdl, timm, torchmil, transformers
from excora.convert.adapter import EXAMPLE, REGISTERED, Adapter
from excora.convert.conversion import Change, Conversion, put
from excora.convert.hosted import Options, tell_if_inert
from excora.convert.stacks import last_of_each_stack
from excora.errors import ConversionError, InputError
from excora.extrapolation import Residual, Scale, TemperatureForm
from excora.reduce import begin_afresh
from excora.visibility import known_metric

Selector = str | type[nn.Module] | Callable[[str, nn.Module], bool]

BUILT_IN = [module.ADAPTER for module in (multihead, torchmil, timm, rtdl, transformers)]
_ALREADY = "extrapolates already"
_UNKNOWN = "no adapter for this class"
_WRAPPERS = ("DistributedDataParallel", "FullyShardedDataParallel")
# By which a layer that nobody knows is noticed: it is named to the user, never converted.
_HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "nhead", "heads", "_n_heads")


def extrapolate_(
    model: nn.Module,
    *,
    layers: Literal["last", "all"] = "last",
    include: Selector | Iterable[Selector] | None = None,
    exclude: Selector | Iterable[Selector] | None = None,
    residual: Residual = "free",
    temperature: TemperatureForm = "learned",
    cap: float = 4.0,
    scale: Scale = "sqrt_dim",
    penalty_weight: float = 1e-3,
    metric: str = "plain",
) -> Conversion:
    """Convert attention layers and pools of ``model`` in place; the outputs are the same until training moves them.

    ``layers="last"``: of each stack the last one, which is what the head reads: the last block of an encoder; the last
    of encoder and of decoder; a pool instead of the encoder before it (:func:`excora.convert.stacks.last_of_each_stack`
    has the rule). ``"all"``: every layer that can be. ``include`` and ``exclude`` narrow the choice first: by glob on
    the qualified name (``"encoder.*"``), by type, or by a function of (name, module), one or several.

    Converted: nn.MultiheadAttention, wherever it is, and the attention of transformers, timm, torchmil and
    rtdl_revisiting_models (docs/convert.md has the table); more by :func:`register_adapter`. Exact types only: a
    subclass may compute something else. The rest are the options of :class:`ExtrapolativeAttention`; one of them,
    ``metric="elliptical"``, changes the outputs at once, as the metric weighs the channels of q.
    New parameters have the device and dtype of the layer, and train unless the whole layer is frozen. All or nothing:
    if anything fails, the model is as before; a model with nothing to convert raises :class:`ConversionError`.

    >>> model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, batch_first=True), 2)
    >>> conversion = extrapolate_(model)
    >>> print(conversion)  # doctest: +ELLIPSIS
    1 layer extrapolates now, with 28 new parameters:
      layers.1.self_attn: MultiheadAttention -> ExtrapolativeAttention
    left alone:
      layers.0.self_attn: MultiheadAttention: not the last of its stack (layers="all" takes it)...
    """
    if layers not in ("last", "all"):
        raise InputError(f"layers must be 'last' or 'all', got {layers!r}; include= chooses by name")
    options: Options = {"residual": residual, "temperature": temperature, "cap": cap, "scale": scale}
    options = {**options, "penalty_weight": penalty_weight}
    if metric != "plain":  # the one that adapters need not know
        options = {**options, "metric": known_metric(metric)}
    found, left = survey(model)
    chosen = _choose(found, left, _selectors(model, include), _selectors(model, exclude))
    if layers == "last":
        last = last_of_each_stack(model, {one.module for one in chosen})
        for one in chosen:
            if one.module not in last:
                left[one.name] = f'{type(one.module).__name__}: not the last of its stack (layers="all" takes it)'
        chosen = [one for one in chosen if one.module in last]
    if not chosen:
        raise ConversionError(_nothing(left))
    return _convert(model, chosen, Conversion(left, options))


def load(model: nn.Module, folder: str | Path) -> Conversion:
    """Convert ``model`` as the one was whose :meth:`Conversion.save` wrote ``folder``, and fill the new parameters.

    For a fresh model, such as ``from_pretrained`` gives: load its weights first, then this.
    """
    folder = Path(folder)
    record = json.loads((folder / "excora.json").read_text())
    if record.get("format") != "excora conversion" or record.get("version") != 1:
        raise ConversionError(f"{folder / 'excora.json'} is not the record of a conversion, version 1")
    options = record["options"]
    if isinstance(options["temperature"], list):
        options["temperature"] = tuple(options["temperature"])
    found, left = survey(model)
    chosen = [one for one in found if one.name in record["layers"]]
    if missing := sorted(set(record["layers"]) - {one.name for one in chosen}):
        seen = "".join(f"\n  {name or '(the model itself)'}: {why}" for name, why in left.items() if name in missing)
        raise ConversionError(
            f"{folder} is of a model with convertible layers {missing[:6]}, which this one does not have; it has "
            f"{[one.name for one in found][:6]}. Load onto the model as it was before any wrapper.{seen}"
        )
    conversion = _convert(model, chosen, Conversion(left, options))
    try:
        put(conversion, folder)
    except BaseException:
        conversion.undo()
        raise
    return conversion


class _Found(NamedTuple):
    name: str
    names: list[str]  # all of them, of a module that several names share
    module: nn.Module
    adapter: Adapter


def _convert(model: nn.Module, chosen: list[_Found], conversion: Conversion) -> Conversion:
    try:
        for one in chosen:
            conversion.changes.append(Change(one.name, one.module, one.adapter))
            conversion.changes[-1].apply(conversion.options)
        for adapter in {id(one.adapter): one.adapter for one in chosen}.values():
            if adapter.surround is not None:
                ours = [change.module for change in conversion.changes if change.adapter is adapter]
                conversion.take_back.append(adapter.surround(model, ours))
        conversion.take_back += [begin_afresh(model), model.register_forward_pre_hook(tell_if_inert).remove]
    except BaseException:
        conversion.undo()
        raise
    return conversion


def survey(model: nn.Module) -> tuple[list[_Found], dict[str, str]]:
    """The modules that can be converted, each once, and those that attend but cannot, with the reason."""
    names: dict[nn.Module, list[str]] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        if "extrapolation" not in name.split("."):
            names.setdefault(module, []).append(name)
    found, left, unknown = [], {}, {}
    for module, own in names.items():
        kind = type(module).__name__
        if kind in _WRAPPERS:
            raise ConversionError(
                f"{own[0] or 'the model'} is a {kind}, which would not train parameters added now: "
                "call extrapolate_ on the model before wrapping it"
            )
        adapter, verdict = _judge(module)
        if adapter is not None and verdict == "":
            found.append(_Found(own[0], own, module, adapter))
        elif verdict is not None and verdict != _UNKNOWN:
            left[own[0]] = f"{kind}: {verdict}"
        elif verdict == _UNKNOWN:
            unknown[own[0]] = f"{kind}: {verdict}"
    known = [name for one in found for name in one.names] + list(left)
    for name, why in unknown.items():  # not what holds or is held by a known one, nor what holds another unknown one
        others = known + [other for other in unknown if other != name and _within(other, name)]
        if not any(_within(other, name) or (other and _within(name, other)) for other in others):
            left[name] = why
    return found, left


def _within(inner: str, outer: str) -> bool:
    return outer in ("", inner) or inner.startswith(outer + ".")


def _judge(module: nn.Module) -> tuple[Adapter | None, str | None]:
    """The adapter and its verdict: "" to convert, None for what is no attention, else why it is left alone."""
    if "extrapolation" in module._modules:
        return None, _ALREADY
    for adapter in [*reversed(REGISTERED), *BUILT_IN]:
        if (verdict := adapter.judge(module)) is not None:
            return adapter, verdict
    named = any(word in type(module).__name__.lower() for word in ("attention", "attn"))
    heads = any(isinstance(vars(module).get(name), int) for name in _HEADS)
    return None, _UNKNOWN if named or heads else None


def _nothing(left: dict[str, str]) -> str:
    seen = "".join(f"\n  {name or '(the model itself)'}: {why}" for name, why in left.items())
    if left and all(why.endswith(_ALREADY) for why in left.values()):
        return f"nothing is left to convert: every attention layer of this model extrapolates already:{seen}"
    looked = "; ".join(adapter.looks_for for adapter in [*BUILT_IN, *REGISTERED])
    return (
        f"found nothing to convert. Looked for, as exact types: {looked}. "
        f"Attention-like modules seen: {seen or 'none'}\nAn attention layer of your own is one call away:{EXAMPLE}"
    )


def _choose(
    found: list[_Found], left: dict[str, str], include: list[Selector] | None, exclude: list[Selector] | None
) -> list[_Found]:
    """Those that the selectors leave; the others go to ``left``."""
    chosen = []
    for one in found:
        reason = ""
        if include is not None and not _selected(include, one):
            reason = "not in include"
        elif exclude is not None and _selected(exclude, one):
            reason = "in exclude"
        if reason:
            left[one.name] = f"{type(one.module).__name__}: {reason}"
        else:
            chosen.append(one)
    return chosen


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


def _selected(selectors: list[Selector], found: _Found) -> bool:
    for one in selectors:
        if isinstance(one, str):
            hit = any(fnmatchcase(name, one) for name in found.names)
        elif isinstance(one, type):
            hit = isinstance(found.module, one)
        else:
            hit = any(one(name, found.module) for name in found.names)
        if hit:
            return True
    return False
