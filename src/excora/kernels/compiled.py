"""Attention over a box of bags, compiled by numba: bag by bag, which is in the cache when it is read again.

Optional (``pip install 'excora[fast]'``), for float32 on a CPU: :func:`forward` and :func:`backward` are those of
:mod:`excora.kernels.closed_form`, which has the formulas. Nothing is copied, and padding is never read. Bags are shared
out among torch's own threads where it is built on GNU OpenMP, as on Linux; elsewhere one does all. Results do not
depend on it. Compiled at the first call (some ten seconds) and kept in a cache on disk.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from excora.extrapolation import (
    Gain,
    Law,
    given_temperature,
    learned_temperature,
    linear_temperature,
)
from excora.kernels import loops, loops_backward
from excora.kernels.closed_form import Gradients, Result
from excora.kernels.formulas import Attended, Box

#: Below this much work, in numbers read by a forward, waking other threads costs more than they save.
WORTH_SHARING = 1 << 22
READS_PADDING = False
_NOTHING, _NO_MASK = np.zeros((1, 1), dtype=np.float32), np.ones((1, 1), dtype=np.bool_)


_LAWS: dict[Law | None, int] = {
    None: loops.CONSTANT,
    given_temperature: loops.LINEAR,
    linear_temperature: loops.LINEAR,
    learned_temperature: loops.POWER,
}


def knows(law: Law | None) -> bool:
    """Whether this law is compiled."""
    return law in _LAWS


def forward(box: Box) -> Result:
    """As :func:`excora.kernels.closed_form.forward`."""
    h, linear = box.h, box.weight is not None
    bags, elements, dim = h.shape
    shapes = [(bags, dim), (bags, dim), (bags, elements), (bags, elements), (bags,), (bags,), (bags, dim), (bags, dim)]
    # Made by numpy: for a small batch a dozen round trips through torch would cost as much as the work.
    out = [np.empty(shape, dtype=np.float32) for shape in shapes]  # as in Attended, then shift and offset
    scorer: tuple[Any, ...] = (False, _NOTHING[0], np.float32(1.0), np.float32(0.0))
    if linear:
        scorer = (True, *_arrays(box.scores[0]), np.float32(box.scale), np.float32(box.scores[1].item()))
    else:
        out[3] = _arrays(box.scores[0])[0]
    _run(loops.forward, bags, h.numel(), *_arrays(h), *_mask(box.real), *_mask(box.keep), *scorer, *_law(box), *out)
    *found, shift, offset = map(torch.from_numpy, out)
    return Result(Attended(*found), shift, offset)


def backward(box: Box, result: Result, grads: Sequence[Tensor | None], out: Tensor | None) -> Gradients:
    """As :func:`excora.kernels.closed_form.backward`."""
    h, linear = box.h, box.weight is not None
    g_a, g_mu, g_alpha, g_z, g_tau, g_sigma = (None if g is None else _arrays(g)[0] for g in grads)
    nothing = np.zeros((1, h.shape[2]), dtype=np.float32)
    given = [nothing if g_a is None else g_a, *(_NOTHING if g is None else g for g in (g_mu, g_alpha, g_z))]
    given += [_NOTHING[0] if g is None else g for g in (g_tau, g_sigma)]
    d_z, d_weight = h.new_empty(h.shape[:2]), h.new_empty(len(h), h.shape[2])
    d_base, d_slope = h.new_zeros(len(h)), h.new_zeros(len(h))
    scorer = (linear, _arrays(box.scores[0] * box.scale)[0] if linear else nothing[0])
    law, _, slope, _ = _law(box)
    saved = _arrays(*result.found[2:], result.shift, result.offset)
    target = (out is not None, _NOTHING[None] if out is None else out.numpy())
    _run(
        loops_backward.backward, len(h), 4 * h.numel(),
        *_arrays(h), *_mask(box.real), *scorer, law, slope, box.divisor, *saved,
        *given, g_a is not None, g_mu is not None, g_alpha is not None, g_z is not None,
        *_arrays(d_z, d_weight, d_base, d_slope), *target,
    )  # fmt: skip
    pairs = zip(box.parameters, (d_base, d_slope), strict=False)
    parameters = tuple((d if x.numel() > 1 else d.sum()).to(x.dtype).view_as(x) for x, d in pairs)
    return Gradients(d_z, d_weight.sum(0) * box.scale if linear else None, parameters)


def gain(module: Gain, mean: Tensor) -> Tensor:
    """gamma without a graph, on this thread alone."""
    gamma = np.empty(len(mean), dtype=np.float32)
    hidden, out = module.hidden, module.out
    arrays = _arrays(mean, hidden.weight, hidden.bias, out.weight[0])
    loops.gain(*arrays, out.bias.item(), module.form == "free", float(module.cap), gamma)
    return torch.from_numpy(gamma)


def _law(box: Box) -> tuple[int, Any, Any, float]:
    """Which law, its base and slope as arrays of one number or one a bag, and the divisor of sigma."""
    base, slope = (x.detach().float().reshape(-1).contiguous().numpy() for x in (*box.parameters, *_ABSENT)[:2])
    return _LAWS[box.law], base, slope, box.divisor


_ABSENT = (torch.zeros(1), torch.zeros(1))


def _arrays(*tensors: Tensor) -> list[Any]:
    """As numpy sees them, row by row: one layout, one compilation."""
    return [tensor.detach().contiguous().numpy() for tensor in tensors]


def _mask(mask: Tensor | None) -> tuple[Any, bool]:
    return (_NO_MASK, False) if mask is None else (mask.contiguous().numpy(), True)


@functools.cache
def _team() -> Callable[..., None] | None:
    """``GOMP_parallel(body, data, threads, flags)`` of the library whose threads torch uses; None if it has another."""
    try:
        found = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so")).GOMP_parallel
    except (OSError, AttributeError):
        return None
    found.argtypes, found.restype = (_BODY, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint), None
    return found


_BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def _run(kernel: Callable[..., None], bags: int, work: int, *arguments: Any) -> None:
    """All bags, on the threads torch uses: whoever is free takes the next one.

    On torch's own threads, because they are awake: others would compete with them for the cores.
    """
    place, threads = np.zeros(1, dtype=np.int64), min(torch.get_num_threads(), bags)
    team = _team() if threads > 1 and work >= WORTH_SHARING else None
    if team is None:
        kernel(place, *arguments)
        return
    raised = []

    def share(_: Any) -> None:
        try:
            kernel(place, *arguments)
        except BaseException as error:  # as Ctrl-C: nothing may leave by way of C
            raised.append(error)

    team(_BODY(share), None, threads, 0)
    if raised:
        raise raised[0]
