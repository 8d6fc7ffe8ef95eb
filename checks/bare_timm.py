"""timm without torchvision, whose operators do not load next to a CPU build of torch: for the checks and tests only.

timm needs torchvision for its transforms and one class of layer; the models run without it. While timm is imported,
names of torchvision stand for nothing; afterwards it is as absent as before.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from typing import Any, ClassVar


class _Nothing(type):
    """A class whose every attribute is its name."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class _Module(types.ModuleType):
    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing(name, (), {})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:  # noqa: ARG002
        ours = name.partition(".")[0] == "torchvision"
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if ours else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def import_timm() -> Any:
    """timm, with torchvision if it works, else without."""
    try:
        return importlib.import_module("timm")
    except (ImportError, RuntimeError):
        pass
    if importlib.util.find_spec("timm") is None:
        raise ImportError("timm is not installed: pip install --no-deps timm, or make test")
    forget("timm", "torchvision")
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        return importlib.import_module("timm")
    finally:
        sys.meta_path.remove(finder)
        forget("torchvision")


def forget(*packages: str) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
        del sys.modules[name]
