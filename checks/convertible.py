"""Which models convert: tries every one of checks/zoo.py and prints the table of docs/convert.md (20 CPU seconds).

A model converts if its output is the same at the start (to 1e-5 of its scale), moves with gamma = 2, the new
parameters get a gradient, and undo gives the old output to the bit. A library that is not installed is left out.

``python -m checks.convertible [LIBRARY ...]``
"""

from __future__ import annotations

import importlib.util
import math
import sys
from typing import NamedTuple

import torch
from torch import nn

from checks.zoo import CASES, case
from excora.convert import extrapolate_
from excora.convert.core import survey

HEADER = "| library | model | converted by default | layers in all | left alone |\n|---|---|---|---|---|"


class Found(NamedTuple):
    row: str
    difference: float  # at the start; NaN for a model that does not convert


def set_gamma(model: nn.Module, gamma: float, cap: float = 4.0) -> None:
    """Solves gamma = cap / (1 + (cap - 1) exp(-raw)) for the bias of every gain."""
    for module in model.modules():
        extrapolation = module._modules.get("extrapolation")
        gain = getattr(extrapolation, "gain", None)  # a pool in place of a pool has its own further down
        if gain is not None:
            bias = gain.bias if hasattr(gain, "bias") else gain.out.bias
            nn.init.constant_(bias, -math.log((cap / gamma - 1.0) / (cap - 1.0)))


def attempt(library: str, name: str) -> Found:
    model, run = case(library, name)
    found, left = survey(model)
    reasons = "; ".join(sorted(set(left.values())))
    if not found:
        return Found(f"| {library} | {name} | none | 0 | {reasons} |", math.nan)
    before = run(model).detach()
    conversion = extrapolate_(model)
    start = run(model).detach()
    difference = float((start - before).abs().max())
    assert difference <= 1e-5 * float(before.abs().max()), (name, difference)
    set_gamma(model, 2.0)
    moved = run(model)
    assert float((moved.detach() - before).abs().max()) > 1e-4, f"{name} does not extrapolate"
    moved.square().sum().backward()
    assert all(p.grad is not None for p in conversion.parameters()), f"{name}: a new parameter gets no gradient"
    names = ", ".join(f"`{layer}`" if layer else "the model itself" for layer in conversion.converted)
    conversion.undo()
    assert torch.equal(run(model), before), f"{name}: undo is not exact"
    return Found(f"| {library} | {name} | {names} | {len(found)} | {reasons} |", difference)


def main(libraries: list[str]) -> None:
    print(HEADER)
    found = []
    for one in CASES:
        if one.library in libraries or (not libraries and importlib.util.find_spec(one.library) is not None):
            found.append(attempt(one.library, one.model))
            print(found[-1].row)
    largest = max(one.difference for one in found if not math.isnan(one.difference))
    print(f"\nlargest difference at the start: {largest:.1e}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
