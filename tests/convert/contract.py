"""What every converted model must do, whatever its library: run by tests/convert/test_*.py on the models of the zoo."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from oracles.attention import head
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from checks.convertible import attempt, set_gamma
from checks.zoo import CASES, case
from excora.convert import Conversion, extrapolate_
from excora.convert.core import survey
from excora.pooling import parameter_groups
from excora.reduce import penalties


def convertible(library: str) -> list[str]:
    """The models of a library that convert, by the table of docs/convert.md, which another test keeps true."""
    declined = {"Gemma 2", "DeBERTa", "LeViT", "SmABMIL"}
    return [one.model for one in CASES if one.library == library and one.model not in declined]


def rows_in_docs(library: str) -> list[str]:
    lines = (Path(__file__).parents[2] / "docs" / "convert.md").read_text().splitlines()
    return [line for line in lines if line.startswith(f"| {library} |")]


def check_table(library: str) -> None:
    """docs/convert.md says what is found; else: python -m checks.convertible."""
    assert [attempt(library, one.model).row for one in CASES if one.library == library] == rows_in_docs(library)


def shake(conversion: Conversion, scale: float = 0.5) -> None:
    """Parameters as training might leave them: gamma and tau differ between heads, bags and queries."""
    with torch.no_grad():
        for parameter in conversion.parameters():
            parameter.normal_(std=scale)


def snapshot(model: nn.Module) -> list[Any]:
    """Everything that undo must restore."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_load_state_dict_pre_hooks")
    return [
        (type(m), sorted(vars(m)), list(m._parameters), list(m._modules), [list(getattr(m, h)) for h in hooks],
         getattr(m, "fused_attn", None), getattr(getattr(m, "config", None), "_attn_implementation", None))
        for m in model.modules()
    ]  # fmt: skip


def check_contract(library: str, name: str) -> None:
    model, run = case(library, name)
    with torch.no_grad():
        without = run(model)
    before, was, old = run(model).detach(), snapshot(model), copy.deepcopy(model.state_dict())
    size = float(before.abs().max())
    conversion = extrapolate_(model)
    with torch.no_grad():
        torch.testing.assert_close(run(model), without, atol=2e-6 * size, rtol=0)
    torch.testing.assert_close(run(model).detach(), before, atol=2e-6 * size, rtol=0)
    assert [key for key in model.state_dict() if key in old] == list(old)
    assert set(model.state_dict()) - set(old) == set(conversion.named_parameters())

    free_of_decay = {id(p) for p in parameter_groups(model, 0.1)[1]["params"]}
    assert free_of_decay >= {id(p) for p in conversion.parameters()}
    set_gamma(model, 2.0)
    assert float((run(model).detach() - before).abs().max()) > 1e-3 * size
    for parameter in conversion.parameters():
        assert parameter.requires_grad
    shake(conversion)
    moved = run(model)
    penalty = penalties(model)
    assert len(penalty.sum) == len(conversion.changes)
    (moved.square().mean() + penalty.sum.sum()).backward()
    grads = [parameter.grad for parameter in conversion.parameters()]
    assert all(g is not None and g.abs().max() > 0 for g in grads)

    model.zero_grad()
    again = checkpoint(lambda: run(model), use_reentrant=False)
    (again.square().mean() + penalties(model).sum.sum()).backward()
    for parameter, grad in zip(conversion.parameters(), grads, strict=True):
        torch.testing.assert_close(parameter.grad, grad)

    twin = copy.deepcopy(model)
    assert torch.equal(run(twin), moved)
    new = copy.deepcopy(model.state_dict())
    model.load_state_dict(old, strict=True)
    torch.testing.assert_close(run(model).detach(), before, atol=2e-6 * size, rtol=0)
    model.load_state_dict(new, strict=True)
    assert torch.equal(run(model), moved)
    conversion.undo()
    assert snapshot(model) == was
    assert torch.equal(run(model), before)
    assert not torch.equal(run(twin), before)


def check_all_layers(library: str, name: str) -> None:
    """layers="all" takes every one, in the order of the forward pass; in training, with dropout, the same start."""
    model, run = case(library, name)
    before = run(model).detach()
    found, _ = survey(model)
    calls: list[str] = []
    hooks = [
        one.module.register_forward_pre_hook(lambda *_, name=one.name: calls.append(name)) for one in found
    ]  # fmt: skip
    run(model)
    for hook in hooks:
        hook.remove()
    towers = [[call for call in calls if call.split(".")[0] == top] for top in {call.split(".")[0] for call in calls}]
    registered = [one.name for one in found]
    assert all([registered.index(call) for call in tower] == sorted(map(registered.index, tower)) for tower in towers)

    trained = [copy.deepcopy(model).train() for _ in range(2)]
    conversion = extrapolate_(model, layers="all")
    assert set(conversion.converted) == {one.name for one in found}
    torch.testing.assert_close(run(model).detach(), before, atol=5e-6 * float(before.abs().max()), rtol=0)
    assert len(penalties(model).sum) == len(found)
    for one in trained:
        for module in one.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.3
            for rate in ("attn_dropout", "dropout"):
                if isinstance(getattr(module, rate, None), float):
                    setattr(module, rate, 0.3)
    extrapolate_(trained[1], layers="all")
    outputs = []
    for one in trained:
        torch.manual_seed(5)  # the same cells drop out
        outputs.append(run(one).detach())
    torch.testing.assert_close(*outputs, atol=5e-6 * float(before.abs().max()), rtol=0)


class Watch:
    """q, k and v of the extrapolation of one layer, and what it made of them."""

    def __init__(self, extrapolation: nn.Module) -> None:
        self.extrapolation, self.calls = extrapolation, []
        self.hook = extrapolation.register_forward_hook(lambda _, given, result: self.calls.append((given[:3], result)))

    def compare(self, seen: Tensor, bias: Tensor | None = None, scaling: float | None = None) -> None:
        """With the oracle, one query at a time; ``seen`` (bags, queries, keys), ``bias`` (heads, queries, keys)."""
        self.hook.remove()
        ((q, k, v), result), = self.calls  # fmt: skip
        p = {name: x.detach().double().numpy() for name, x in self.extrapolation.named_parameters()}
        width = v.shape[-1]
        q, k, v = (x.detach().double().numpy() for x in (q, k, v))
        q = q if scaling is None else q * scaling * math.sqrt(q.shape[-1])
        output = result.output.detach().double().numpy()
        for b, h, i in np.ndindex(*q.shape[:3]):
            raw = (p["gain.weight"][h], p["gain.bias"][h], p["temperature.log_base"][h], p["temperature.slope"][h])
            offset = np.zeros(k.shape[2]) if bias is None else bias[h, i].detach().double().numpy()
            expected, _, _ = head(q[b, h, i], k[b, h], v[b, h], seen[b, i].numpy(), offset, raw, 4.0, math.sqrt(width),
                                  paper=False)  # fmt: skip
            np.testing.assert_allclose(output[b, h, i], expected, atol=2e-5)
