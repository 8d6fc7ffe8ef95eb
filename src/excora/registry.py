"""The doors: names to the things of one kind. A file registers what it brings; everything else reads the registry."""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
import pkgutil
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from excora.errors import InputError

T = TypeVar("T")


class Registry(Generic[T]):
    """Names to things of one kind, in the order in which they came.

    ``home``: a package whose modules register theirs when they are imported, which happens at the first question.
    Other distributions add theirs by an entry point of the group ``excora.KINDs`` (``excora.pools``, ``excora.models``,
    ``excora.sources``, ...) that names the module to import.

    >>> colours: Registry[str] = Registry("colour")
    >>> _ = colours.register("red", "#f00")
    >>> colours["red"], colours.names()
    ('#f00', ('red',))
    >>> colours["rde"]
    Traceback (most recent call last):
    ...
    excora.errors.InputError: there is no colour 'rde'; did you mean 'red'? There are: red
    """

    def __init__(self, kind: str, home: str | None = None) -> None:
        self.kind, self.home = kind, home
        self._things: dict[str, T] = {}
        self._loaded = home is None

    def register(self, name: str, thing: T) -> T:
        """Put ``thing`` behind ``name``, which must be free: two files that bring one name are a mistake."""
        if name in self._things and self._things[name] is not thing:
            raise InputError(f"there is a {self.kind} {name!r} already: give yours another name")
        self._things[name] = thing
        return thing

    def named(self, name: str) -> Callable[[T], T]:
        """The same as a decorator."""
        return lambda thing: self.register(name, thing)

    def names(self) -> tuple[str, ...]:
        """Of all there are."""
        self._load()
        return tuple(self._things)

    def __getitem__(self, name: str) -> T:
        self._load()
        if not isinstance(name, str) or name not in self._things:
            near = difflib.get_close_matches(str(name), self._things, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise InputError(
                f"there is no {self.kind} {name!r}; {hint}There are: {', '.join(self._things)}"
                if near
                else f"there is no {self.kind} {name!r}. There are: {', '.join(self._things)}; one of another package "
                "is there once that package is imported"
            )
        return self._things[name]

    def __contains__(self, name: object) -> bool:
        self._load()
        return isinstance(name, str) and name in self._things

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def _load(self) -> None:
        if self._loaded or self.home is None:
            return
        self._loaded = True  # before the imports: a module may ask while it registers
        home = importlib.import_module(self.home)
        for module in pkgutil.iter_modules(home.__path__, self.home + "."):
            importlib.import_module(module.name)
        for entry in importlib.metadata.entry_points(group=f"excora.{self.kind}s"):
            entry.load()
