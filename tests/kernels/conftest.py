"""Fixtures that the tests of this folder share."""

from __future__ import annotations

import pytest
import torch

import excora.ragged
from excora.kernels import calls, closed_form, compiled, function


@pytest.fixture(params=[1 << 19, 8], ids=["one block", "many blocks"])
def tile(request, monkeypatch):
    for module, name in ((excora.ragged, "TILE"), (closed_form, "CHUNK")):
        monkeypatch.setattr(module, name, request.param)


@pytest.fixture(params=["torch", "compiled", "compiled, two threads"])
def kind(request, monkeypatch):
    """Both ways to compute in float32, the compiled one also with its bags shared out among threads."""
    chosen = closed_form if request.param == "torch" else compiled
    monkeypatch.setattr(function, "fastest", lambda dtype, *_: chosen if dtype == torch.float32 else closed_form)
    threads = torch.get_num_threads()
    if "two" in request.param:
        monkeypatch.setattr(calls, "WORTH_SHARING", 0)
        torch.set_num_threads(2)
    yield chosen
    torch.set_num_threads(threads)
