"""Pickles without pickle's powers: numpy arrays and plain containers come out, and nothing in the file is ever called.

A pickle is a program that calls what it names. Here every name stands for a record of ours: ``numpy.ndarray`` for the
wish for an array, ``numpy.dtype`` for a few letters. The numbers are put together afterwards, from bytes whose length
is checked. Any other name is an :class:`InputError` that says which one was asked for.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from excora.errors import InputError

#: Kinds of numpy's types that hold values and not pointers: booleans, whole numbers, floats, bytes, text.
PLAIN = "biufSU"


class _Named:
    """What a name of the file stands for; it can be called where that is all, and cannot be given a state."""

    __slots__ = ("_make", "name")

    def __init__(self, name: str, make: Callable[..., Any] | None) -> None:
        self.name, self._make = name, make

    def __call__(self, *arguments: Any) -> Any:
        if self._make is None or (self._make is bytes and arguments):  # bytes(10**12) would take memory
            raise pickle.UnpicklingError(f"{self.name} is not called by an array")
        return self._make(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError(f"{self.name} has no state")


class _Type:
    """The wish for a dtype: its letters, and in its state the order of bytes."""

    __slots__ = ("letters", "order")

    def __init__(self, letters: Any, *_: Any) -> None:
        self.letters: Any = letters.decode("ascii") if isinstance(letters, bytes) else letters
        self.order: Any = "<"

    def __setstate__(self, state: Any) -> None:
        self.order = {"<": "<", ">": ">", "|": "|", "=": "<"}[state[1]]

    def found(self) -> np.dtype[Any]:
        if not isinstance(self.letters, str) or "," in self.letters or len(self.letters) > 12:
            raise pickle.UnpicklingError(f"{self.letters!r} is no plain type")
        dtype = np.dtype(self.letters)
        if dtype.kind not in PLAIN + "O":
            raise pickle.UnpicklingError(f"arrays of {dtype} are not read")
        return dtype if dtype.kind == "O" or self.order == "|" else dtype.newbyteorder(self.order)


class _Wish:
    """The wish for an array: (version, shape, dtype, Fortran order, bytes or a list of objects)."""

    __slots__ = ("state",)

    def __init__(self, *_: Any) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def found(self) -> NDArray[Any]:
        _, shape, kind, fortran, data = self.state
        return _array(data, kind, shape, "F" if fortran else "C")


def _array(data: Any, kind: Any, shape: Any, order: Any) -> NDArray[Any]:
    """Of bytes of just that many numbers, or of a list of plain objects."""
    dtype = kind.found()
    shape = tuple(int(n) for n in shape)
    size = math.prod(shape)
    if min(shape, default=0) < 0 or order not in ("C", "F"):
        raise pickle.UnpicklingError(f"an array of shape {shape} in the order {order!r}")
    if dtype.kind == "O":
        if not isinstance(data, list) or len(data) != size:
            raise pickle.UnpicklingError("an array of objects is a list of as many")
        if not all(item is None or isinstance(item, str | bytes | int | float) for item in data):
            raise pickle.UnpicklingError("an array of objects that are neither text nor numbers")
        found = np.empty(size, object)
        found[:] = data
        return found.reshape(shape, order=order)
    data = data.encode("latin1") if isinstance(data, str) else data  # as Python 2 wrote them
    if not isinstance(data, bytes | bytearray) or len(data) != size * dtype.itemsize:
        raise pickle.UnpicklingError(f"{size} numbers of {dtype} announced, and another amount of bytes there")
    return np.frombuffer(bytes(data) if size else b"", dtype, size).reshape(shape, order=order)


def _scalar(kind: Any, data: Any = b"") -> Any:
    return _array(data, kind, (1,), "C")[0].item()


class _Buffer:
    """The wish for an array in the words of protocol 5."""

    __slots__ = ("wanted",)

    def __init__(self, data: Any, kind: Any, shape: Any, order: Any, *_: Any) -> None:
        self.wanted = (data, kind, shape, order)

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("an array of protocol 5 has no state")

    def found(self) -> NDArray[Any]:
        return _array(*self.wanted)


def _text(data: Any, encoding: Any = "latin1") -> bytes:
    """``_codecs.encode``, by which Python 3 writes bytes in old protocols."""
    if not isinstance(data, str) or encoding != "latin1":
        raise pickle.UnpicklingError("text is only encoded as latin1")
    return data.encode("latin1")


#: Names that arrays and plain containers are written with, and what they stand for here.
NAMES: dict[tuple[str, str], Callable[..., Any] | None] = {
    ("numpy", "ndarray"): None,
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): _text,
    ("collections", "OrderedDict"): dict,
    **{(home, "bytes"): bytes for home in ("builtins", "__builtin__")},  # without anything in them
    **{(home, "set"): set for home in ("builtins", "__builtin__")},
    **{(home, "frozenset"): frozenset for home in ("builtins", "__builtin__")},
    **{
        (f"numpy.{core}.{module}", name): make
        for core in ("core", "_core")
        for module, name, make in (
            ("multiarray", "_reconstruct", _Wish), ("multiarray", "scalar", _scalar),
            ("numeric", "_frombuffer", _Buffer),
        )
    },
}  # fmt: skip


class _Unpickler(pickle.Unpickler):
    """Knows :data:`NAMES` and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in NAMES:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, and only arrays and plain containers are read")
        return _Named(f"{module}.{name}", NAMES[module, name])

    def persistent_load(self, _: Any) -> Any:
        raise pickle.UnpicklingError("it asks for an object outside the file")


def read_pickle(path: Path) -> Any:
    """What a pickle holds: dictionaries, lists, tuples, sets, text, bytes, numbers, None and numpy arrays of these.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.pkl"
    >>> _ = path.write_bytes(pickle.dumps({"x": np.arange(3), "s": ["a"]}))
    >>> read_pickle(path)
    {'x': array([0, 1, 2]), 's': ['a']}
    >>> _ = path.write_bytes(pickle.dumps(print))
    >>> read_pickle(path)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    excora.errors.InputError: ...a.pkl: this pickle is not read: it asks for builtins.print, and only ...

    Whatever else is in a file, or a file that is cut off, is an InputError; nothing in it has run.
    """
    try:
        with path.open("rb") as file:
            return _plain(_Unpickler(file, encoding="latin1").load(), 0, {})
    except OSError:
        raise
    except Exception as error:  # a foreign file fails in as many ways as there are files
        what = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"{path}: this pickle is not read: {what}") from None


#: Containers within containers; MMSA's layout has two.
DEEPEST = 50


def _plain(value: Any, depth: int, seen: dict[int, Any]) -> Any:
    """Wishes as arrays, names as an error; what stands in two places is made once, however often they multiply."""
    if value is None or isinstance(value, bool | int | float | str | bytes | bytearray):
        return value
    if id(value) in seen:
        return seen[id(value)]
    if depth > DEEPEST:
        raise pickle.UnpicklingError(f"containers are nested more than {DEEPEST} deep")
    if isinstance(value, _Wish | _Buffer):
        found: Any = value.found()
    elif type(value) is dict:
        found = {_plain(key, depth + 1, seen): _plain(item, depth + 1, seen) for key, item in value.items()}
    elif type(value) in (list, tuple, set, frozenset):
        found = type(value)(_plain(item, depth + 1, seen) for item in value)
    else:
        raise pickle.UnpicklingError(f"a {type(value).__name__.strip('_').lower()} is no value")
    seen[id(value)] = found
    return found
