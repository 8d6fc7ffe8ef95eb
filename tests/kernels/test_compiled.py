"""The compiled form: independent of threads."""

from __future__ import annotations

import torch

from excora.extrapolation import learned_temperature
from excora.kernels import compiled
from excora.kernels.formulas import Box


def test_the_compiled_form_does_not_depend_on_the_number_of_threads(monkeypatch):
    monkeypatch.setattr(compiled, "WORTH_SHARING", 0)
    scores = torch.randn(8), torch.tensor(0.1)
    box = Box(
        torch.randn(5, 50, 8), None, None, scores, learned_temperature, (torch.tensor(0.7), torch.tensor(0.3)), 2.0
    )
    before, found = torch.get_num_threads(), []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        found.append(compiled.forward(box).found)
    torch.set_num_threads(before)
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))
