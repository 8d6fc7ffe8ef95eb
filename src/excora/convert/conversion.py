"""Conversion: what extrapolate_ did, how to train it, keep it in a file, and take it back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from excora.convert.adapter import Adapter
from excora.convert.hosted import KEPT, Options, present_name
from excora.errors import ConversionError, MissingExtraError

#: Registries of a module that a conversion may add to; the rest of its __dict__ is compared by identity.
_REGISTRIES = (
    "_parameters",
    "_modules",
    "_forward_pre_hooks",
    "_forward_hooks",
    "_load_state_dict_pre_hooks",
    "_state_dict_hooks",
)


@dataclass
class Conversion:
    """What :func:`extrapolate_` did: print it; :meth:`parameters` for the optimiser; :meth:`undo` to take it back.

    ``converted`` and ``left`` map names to a description and to the reason; ``options`` are those of the call.
    """

    left: dict[str, str]
    options: Options = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list, repr=False)
    take_back: list[Callable[[], None]] = field(default_factory=list, repr=False)

    @property
    def converted(self) -> dict[str, str]:
        """Name of each converted layer, and from which class to which."""
        return {change.name: change.description() for change in self.changes}

    @property
    def modules_to_save(self) -> list[str]:
        """What PEFT is to train and save with its adapter: ``LoraConfig(modules_to_save=...)``."""
        return sorted({name for change in self.changes for name in change.added["_modules"]})

    def parameters(self) -> list[nn.Parameter]:
        """The new parameters, which an optimiser made before the conversion does not know."""
        return list(self.named_parameters().values())

    def named_parameters(self) -> dict[str, nn.Parameter]:
        """The new parameters by their name in the model."""
        return {name: p for change in self.changes for name, p in change.new_parameters().items()}

    def undo(self) -> None:
        """Take the conversion back: class, attributes and hooks as before, the weights as training left them."""
        for step in reversed(self.take_back):
            step()
        for change in self.changes:
            change.revert()
        self.changes, self.take_back = [], []

    def save(self, folder: str | Path) -> None:
        """Write what was added to ``folder``: excora.json and excora.safetensors, nothing that can run code.

        A library's own ``save_pretrained`` does not know the conversion, and its loading may drop or re-initialise the
        new parameters without a word. :func:`excora.convert.load` converts a model again and puts them back. The files
        are read again and compared before this returns.
        """
        save_file, load_file = _safetensors()
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {name: p.detach().cpu().contiguous() for name, p in self.named_parameters().items()}
        record = {"format": "excora conversion", "version": 1, "options": dict(self.options)}
        record["layers"] = {change.name: change.old_class.__name__ for change in self.changes}
        save_file(tensors, folder / "excora.safetensors")
        (folder / "excora.json").write_text(json.dumps(record, indent=2) + "\n")
        compare(load_file(folder / "excora.safetensors"), tensors, f"{folder}, read again,")

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


class Change:
    """One module's conversion, and what takes it back."""

    def __init__(self, name: str, module: nn.Module, adapter: Adapter) -> None:
        self.name, self.module, self.adapter, self.old_class = name, module, adapter, type(module)
        self.values = dict(vars(module))
        self.before = self._names()
        self.added: dict[str, list[Any]] = {kind: [] for kind in self.before}

    def _names(self) -> dict[str, list[Any]]:
        return {kind: list(getattr(self.module, kind)) for kind in ("__dict__", *_REGISTRIES)}

    def apply(self, options: Options) -> None:
        """Let the adapter do it, and note what it added and replaced."""
        try:
            self.adapter.install(self.module, options)
        finally:
            self.added = {k: [n for n in names if n not in self.before[k]] for k, names in self._names().items()}
            self.values = {name: x for name, x in self.values.items() if vars(self.module).get(name) is not x}

    def description(self) -> str:
        """From which class to which."""
        now = type(self.module)
        to = now.__name__ if now is not self.old_class else "the same, through its library's attention interface"
        return f"{self.old_class.__name__} -> {to}"

    def new_parameters(self) -> dict[str, nn.Parameter]:
        """By their names in the model."""
        prefix = self.name + "." if self.name else ""
        own = {name: self.module._parameters[name] for name in self.added["_parameters"]}
        inner = {
            f"{child}.{name}": p
            for child in self.added["_modules"]
            for name, p in _live(self.module.get_submodule(child)).named_parameters()
        }
        return {prefix + name: p for name, p in (own | inner).items() if p is not None}

    def revert(self) -> None:
        """As it was."""
        self.module.__class__ = self.old_class
        for kind, names in self.added.items():
            for name in names:
                getattr(self.module, kind).pop(name, None)
        for name in KEPT:
            vars(self.module).pop(name, None)
        vars(self.module).update(self.values)


def _live(module: nn.Module) -> nn.Module:
    """The module itself, or inside PEFT's wrapper the one that is called: the active adapter's copy, or the original.

    By what is there, as PEFT need not be: ``modules_to_save`` holds the copies by the names of their adapters.
    """
    copies, original = module._modules.get("modules_to_save"), module._modules.get("original_module")
    if copies is None or original is None:
        return module
    active: Any = [] if module.disable_adapters else module.active_adapters
    return next((copies.get_submodule(name) for name in active if name in copies._modules), original)


def put(conversion: Conversion, folder: Path) -> None:
    """Fill the new parameters from the files of ``folder``."""
    _, load_file = _safetensors()
    saved = {present_name(name): x for name, x in load_file(folder / "excora.safetensors").items()}
    ours = conversion.named_parameters()
    compare(saved, ours, str(folder), values=False)
    with torch.no_grad():
        for name, parameter in ours.items():
            parameter.copy_(saved[name])
    compare({name: x.to(ours[name].dtype) for name, x in saved.items()}, ours, str(folder))


def compare(found: Mapping[str, Tensor], expected: Mapping[str, Tensor], where: str, *, values: bool = True) -> None:
    """Raise unless names, shapes and, with ``values``, numbers agree."""
    odd = sorted(set(found) ^ set(expected))
    odd += [name for name in set(found) & set(expected) if found[name].shape != expected[name].shape]
    if values and not odd:
        odd = [name for name in expected if not torch.equal(found[name].cpu(), expected[name].detach().cpu())]
    if odd:
        raise ConversionError(f"{where} does not hold the parameters of this conversion; these differ: {odd[:6]}")


def _safetensors() -> tuple[Any, Any]:
    try:
        from safetensors.torch import load_file, save_file
    except ImportError as error:
        raise MissingExtraError("safetensors", "app") from error
    return save_file, load_file
