"""How a loop of numba's is called: its arguments in one record, which every thread reads without the lock of Python.

A call costs a few microseconds: no argument is looked at by numba, and torch's tensors are taken by their address.
"""

# mypy: ignore-errors

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic
from torch import Tensor

from excora.errors import InputError

#: Below this much work, in numbers read by a forward, waking another thread costs more than it saves.
WORTH_SHARING = 1 << 18

OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    # Sums may be reordered, to run in vectors; NaN and infinity keep their meaning.
    "fastmath": {"reassoc", "contract", "nsz", "arcp"},
}


def compile_loop(function: Callable[..., Any] | None = None, **other: Any) -> Callable[..., Any]:
    """Compiled at the first call, and kept in a cache on disk; ``other`` options in place of :data:`OPTIONS`."""
    if function is None:
        return functools.partial(compile_loop, **other)
    try:
        return numba.njit(cache=True, **OPTIONS | other)(function)
    except RuntimeError:  # nowhere to keep a cache
        return numba.njit(**OPTIONS | other)(function)


class Loop:
    """``body(record)`` as C may call it; ``fields`` are the record's, by kind.

    ``arrays`` are given as contiguous tensors, None for one that is not there, and become addresses.
    """

    def __init__(self, body: Callable[..., None], *, arrays: str, whole: str, real: str) -> None:
        self.body = body
        whole_names, real_names = ["given", "done", *arrays.split(), *whole.split()], real.split()
        kinds = ["i8"] * len(whole_names) + ["f8"] * len(real_names)
        self.record = np.dtype(list(zip([*whole_names, *real_names], kinds, strict=True)))
        self.layout = struct.Struct("q" * len(whole_names) + "d" * len(real_names))
        self.arrays, self.numbers = itemgetter(*arrays.split()), itemgetter(*whole.split(), *real_names)

    @functools.cached_property
    def compiled(self) -> Any:
        """Numba's object, which keeps the code alive."""
        signature = numba.types.void(numba.types.CPointer(numba.from_dtype(self.record)))
        try:
            return numba.cfunc(signature, cache=True, **OPTIONS)(self.body)
        except RuntimeError:  # nowhere to keep a cache
            return numba.cfunc(signature, **OPTIONS)(self.body)

    @functools.cached_property
    def start(self) -> Callable[[int], None]:
        """On this thread."""
        return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.compiled.address)

    def __call__(self, jobs: int, work: int, **given: Tensor | float | None) -> None:
        """Run so many ``jobs``, on the threads torch uses: whoever is free takes the next one.

        On torch's own threads, because they are awake: others would compete with them for the cores.
        """
        arrays = [0 if x is None else x.data_ptr() if x.is_cpu else _elsewhere(x) for x in self.arrays(given)]
        record = ctypes.create_string_buffer(self.layout.pack(0, 0, *arrays, *self.numbers(given)))
        address = ctypes.addressof(record)
        threads = 1 if work < WORTH_SHARING else min(torch.get_num_threads(), jobs)
        team = _team() if threads > 1 else None
        if team is None:
            self.start(address)
        else:
            team(self.compiled.address, address, threads, 0)


def _elsewhere(x: Tensor) -> int:
    """A tensor whose numbers are not here."""
    raise InputError(f"elements, mask and the parameters of a pool must be on one device, got cpu and {x.device}")


@functools.cache
def _team() -> Callable[..., None] | None:
    """``GOMP_parallel(body, data, threads, flags)`` of the library whose threads torch uses; None if it has another."""
    try:
        found = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so")).GOMP_parallel
    except (OSError, AttributeError):
        return None
    found.argtypes, found.restype = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint), None
    return found


def _counted(place, ordering):
    """Counts up a number of the record in one step for all threads; what it was before."""

    def generate(_context, builder, _signature, arguments):
        counters = builder.bitcast(arguments[0], ir.IntType(64).as_pointer())
        counter = builder.gep(counters, [ir.Constant(ir.IntType(32), place)])
        return builder.atomic_rmw("add", counter, ir.Constant(ir.IntType(64), 1), ordering)

    return generate


@intrinsic
def next_job(_context, record):
    """The job whose turn it is."""
    return numba.types.int64(record), _counted(0, "monotonic")


@intrinsic
def job_done(_context, record):
    """How many jobs were done before this one; who is told of all others sees what they have written."""
    return numba.types.int64(record), _counted(1, "acq_rel")


@intrinsic
def _pointer(_context, address):
    def generate(_target, builder, _signature, arguments):
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return numba.types.voidptr(address), generate


@compile_loop
def floats(address, shape):
    """The array of float32 at an address."""
    return numba.carray(_pointer(address), shape, np.float32)


@compile_loop
def flags(address, shape):
    """The array of booleans at an address."""
    return numba.carray(_pointer(address), shape, np.bool_)
