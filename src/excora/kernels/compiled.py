"""The four passes of :mod:`excora.kernels.passes` compiled by numba: each reads ``h`` once, and nothing is copied.

Optional (``pip install 'excora[fast]'``), for float32 on a CPU. A bag is cut into pieces of rows; pieces are shared out
among as many threads as torch uses, and their sums are added in a fixed order: results do not depend on the threads.
Padding is never read. Compiled at the first call and kept in a cache on disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from excora.functional import element_count

#: Numbers in one piece of a bag: 256 KB, which stays in the cache of a core.
PIECE = 1 << 16
#: Below this many numbers a second thread costs more than it saves.
WORTH_SHARING = 1 << 19

_ZERO = np.float32(0.0)
_NONE = np.ones((1, 1), dtype=np.bool_)


def _compile(function: Callable[..., None]) -> Callable[..., None]:
    # Sums may be reordered, so that they run in vectors; NaN and infinity keep their meaning.
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz", "arcp"}}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # nowhere to keep a cache
        return numba.njit(**options)(function)


@_compile
def _survey(first, last, rows, h, weight, real, masked, shift, logits, sums, squares):  # type: ignore[no-untyped-def]
    _, elements, dim = h.shape
    for piece in range(first, last):
        bag, part = piece // sums.shape[1], piece % sums.shape[1]
        origin, total, square = shift[bag], sums[bag, part], 0.0
        total[:] = _ZERO
        for i in range(part * rows, min(part * rows + rows, elements)):
            if masked and not real[bag, i]:
                if weight.size:
                    logits[bag, i] = _ZERO
                continue
            x = h[bag, i]
            if weight.size:
                z = _ZERO
                for j in range(dim):
                    z += x[j] * weight[j]
                logits[bag, i] = z
            row = _ZERO
            for j in range(dim):
                v = x[j] - origin[j]
                total[j] += v
                row += v * v
            square += row
        squares[bag, part] = square


@_compile
def _weigh(first, last, rows, h, shift, coefficients, sums):  # type: ignore[no-untyped-def]
    _, elements, dim = h.shape
    for piece in range(first, last):
        bag, part = piece // sums.shape[1], piece % sums.shape[1]
        origin, total = shift[bag], sums[bag, part]
        total[:] = _ZERO
        for i in range(part * rows, min(part * rows + rows, elements)):
            c = coefficients[bag, i]
            if c != _ZERO:
                x = h[bag, i]
                for j in range(dim):
                    total[j] += c * (x[j] - origin[j])


@_compile
def _project(first, last, rows, h, shift, vector, real, masked, out):  # type: ignore[no-untyped-def]
    _, elements, dim = h.shape
    pieces = (elements + rows - 1) // rows
    for piece in range(first, last):
        bag, part = piece // pieces, piece % pieces
        origin, v = shift[bag], vector[bag]
        for i in range(part * rows, min(part * rows + rows, elements)):
            found = _ZERO
            if not masked or real[bag, i]:
                x = h[bag, i]
                for j in range(dim):
                    found += (x[j] - origin[j]) * v[j]
            out[bag, i] = found


@_compile
def _gradient(  # type: ignore[no-untyped-def]
    first, last, rows, h, shift, rate, alpha, pull, slope, weight, constant, real, masked, out
):
    _, elements, dim = h.shape
    pieces = (elements + rows - 1) // rows
    for piece in range(first, last):
        bag, part = piece // pieces, piece % pieces
        origin, p, c = shift[bag], pull[bag], constant[bag]
        for i in range(part * rows, min(part * rows + rows, elements)):
            target = out[bag, i]
            if masked and not real[bag, i]:
                target[:] = _ZERO
                continue
            x, r, a, s = h[bag, i], rate[bag, i], alpha[bag, i], slope[bag, i]
            for j in range(dim):
                target[j] = r * (x[j] - origin[j]) + a * p[j] + s * weight[j] + c[j]


def survey(h: Tensor, weight: Tensor | None, real: Tensor | None, shift: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """As :func:`excora.kernels.passes.survey`."""
    rows, pieces = _cut(h)
    logits = h.new_empty(h.shape[:2] if weight is not None else (0, 0))
    sums = h.new_empty(len(h), pieces, h.shape[2])
    squares = h.new_empty(len(h), pieces, dtype=torch.float64)
    weight = h.new_empty(0) if weight is None else weight
    _run(_survey, h, rows, pieces, *_arrays(h, weight), *_mask(real), *_arrays(shift, logits, sums, squares))
    count = element_count(h, real, h.shape[1])
    offset = sums.sum(1) / count
    # In float64, as numbers of one size are subtracted: there are few of them.
    variance = squares.sum(1) / count.squeeze(1) - offset.double().square().sum(1)
    return logits, offset, variance.clamp_min(0.0).float()


def weigh(h: Tensor, shift: Tensor, coefficients: Tensor) -> Tensor:
    """As :func:`excora.kernels.passes.weigh`, by way of sum_i c_i (h_i - shift) + shift sum_i c_i."""
    rows, pieces = _cut(h)
    sums = h.new_empty(len(h), pieces, h.shape[2])
    _run(_weigh, h, rows, pieces, *_arrays(h, shift, coefficients, sums))
    return torch.addcmul(sums.sum(1), shift, coefficients.sum(1, keepdim=True))


def project(h: Tensor, shift: Tensor, vector: Tensor, real: Tensor | None) -> Tensor:
    """As :func:`excora.kernels.passes.project`."""
    out = h.new_empty(h.shape[:2])
    _run(_project, h, *_cut(h), *_arrays(h, shift, vector), *_mask(real), *_arrays(out))
    return out


def gradient(
    h: Tensor,
    shift: Tensor,
    rate: Tensor,
    alpha: Tensor,
    pull: Tensor,
    slope: Tensor,
    weight: Tensor,
    constant: Tensor,
    real: Tensor | None,
    out: Tensor,
) -> None:
    """As :func:`excora.kernels.passes.gradient`."""
    arrays = _arrays(h, shift, rate, alpha, pull, slope, weight, constant)
    _run(_gradient, h, *_cut(h), *arrays, *_mask(real), *_arrays(out))


def _cut(h: Tensor) -> tuple[int, int]:
    """Rows in a piece of a bag, and pieces a bag has."""
    rows = max(PIECE // max(h.shape[2], 1), 1)
    return rows, -(-h.shape[1] // rows)


def _arrays(*tensors: Tensor) -> list[Any]:
    """As numpy sees them, row by row: one layout, one compilation."""
    return [tensor.detach().contiguous().numpy() for tensor in tensors]


def _mask(real: Tensor | None) -> tuple[Any, bool]:
    return (_NONE, False) if real is None else (real.contiguous().numpy(), True)


_workers: ThreadPoolExecutor | None = None


def _forget_workers() -> None:
    global _workers  # noqa: PLW0603  (a forked process has none of its parent's threads)
    _workers = None


os.register_at_fork(after_in_child=_forget_workers)


def _run(kernel: Callable[..., None], h: Tensor, rows: int, pieces: int, *arrays: Any) -> None:
    """All pieces of all bags, shared out among the threads torch would use."""
    global _workers  # noqa: PLW0603
    total, threads = len(h) * pieces, torch.get_num_threads()
    if threads == 1 or total < threads or h.numel() < WORTH_SHARING:
        kernel(0, total, rows, *arrays)
        return
    if _workers is None:
        _workers = ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="excora")
    cuts = [total * k // threads for k in range(threads + 1)]
    others = [_workers.submit(kernel, cuts[k], cuts[k + 1], rows, *arrays) for k in range(1, threads)]
    kernel(cuts[0], cuts[1], rows, *arrays)
    for other in others:
        other.result()
