"""kernels.calls: a loop gets what it is given, and every job is done once, whatever the number of threads."""

from __future__ import annotations

import numba
import numpy as np
import pytest
import torch

from excora.errors import InputError
from excora.kernels import calls
from excora.kernels.calls import Loop, flags, floats, next_job


def _body(record):
    call = numba.carray(record, 1)[0]
    x, out, mask = floats(call.x, (call.rows, 2)), floats(call.out, call.rows), flags(call.mask, call.rows)
    b = next_job(record)
    while b < call.rows:
        if call.mask == 0 or mask[b]:
            out[b] += np.float32(call.factor) * (x[b, 0] + x[b, 1])
        b = next_job(record)


LOOP = Loop(_body, arrays="x out mask", whole="rows", real="factor")


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("masked", [False, True])
def test_every_job_is_done_once(monkeypatch, threads, masked):
    monkeypatch.setattr(calls, "WORTH_SHARING", 0)
    x, mask = torch.randn(1000, 2), torch.rand(1000) > 0.5 if masked else None
    out, before = torch.zeros(1000), torch.get_num_threads()
    torch.set_num_threads(threads)
    LOOP(1000, 1, factor=3.0, rows=1000, mask=mask, out=out, x=x)  # by name, in any order
    torch.set_num_threads(before)
    expected = 3.0 * x.sum(1)
    torch.testing.assert_close(out, expected if mask is None else expected * mask)


def test_no_job_is_nothing_to_do():
    LOOP(0, 0, x=torch.empty(0, 2), out=torch.empty(0), mask=None, rows=0, factor=1.0)


def test_an_argument_that_is_missing_is_named():
    with pytest.raises(KeyError, match="factor"):
        LOOP(1, 0, x=torch.ones(1, 2), out=torch.zeros(1), mask=None, rows=1)


def test_a_tensor_elsewhere_is_refused():
    with pytest.raises(InputError, match=r"one device, got cpu and meta"):
        LOOP(1, 0, x=torch.ones(1, 2, device="meta"), out=torch.zeros(1), mask=None, rows=1, factor=1.0)
