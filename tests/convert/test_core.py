"""extrapolate_: which layers, in what order, and what it says of the others."""

from __future__ import annotations

import copy
import pickle
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torchmil.nn.attention import AttentionPool

from checks.zoo import CASES
from convert.contract import check_table, rows_in_docs
from convert.samples import BAGS, DIM, LENGTH, Host, encoder
from excora.attention import ExtrapolativeAttention
from excora.convert import extrapolate_, load
from excora.errors import ConversionError, InputError
from excora.pooling import parameter_groups
from excora.reduce import penalties


def test_identity_hooks_optimiser_and_keys_stay() -> None:
    model, x = Host(), torch.randn(BAGS, LENGTH, DIM)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(x).sum().backward()
    optimizer.step()
    calls: list[nn.Module] = []
    model.first.register_forward_hook(lambda module, *_: calls.append(module))
    first, keys, before = model.first, list(model.state_dict()), model(x)
    calls.clear()
    conversion = extrapolate_(model, layers="all")
    torch.testing.assert_close(model(x), before, atol=1e-5, rtol=1e-5)
    assert model.first is first is model.again
    assert calls == [first, first]
    assert [key for key in model.state_dict() if key in keys] == keys
    assert list(conversion.converted) == ["first", "second", "pool"]
    new = {id(p) for p in conversion.parameters()}
    known = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert new | known == {id(p) for p in model.parameters()}
    assert not new & known
    assert "add_param_group" in str(conversion)
    optimizer.add_param_group({"params": conversion.parameters(), "weight_decay": 0.0})
    assert {id(p) for p in parameter_groups(model, 0.1)[1]["params"]} == new
    assert penalties(model).count.tolist() == [BAGS * 2, BAGS * 4, BAGS]


def test_a_failure_changes_nothing() -> None:
    model, x = Host(), torch.randn(BAGS, LENGTH, DIM)
    before = model(x)
    with pytest.raises(InputError, match="cap"):
        extrapolate_(model, cap=0.5)
    model.pool.fc1.module.in_features = 0  # the pool comes last and fails
    with pytest.raises(InputError, match="dim"):
        extrapolate_(model, layers="all")
    assert {type(m) for m in (model.first, model.second)} == {nn.MultiheadAttention}
    assert type(model.pool) is AttentionPool
    assert torch.equal(model(x), before)


@pytest.mark.parametrize(
    ("selection", "converted"),
    [
        ({"include": "layers.0.*"}, ["layers.0.self_attn"]),
        ({"exclude": ["layers.0.*"]}, ["layers.1.self_attn"]),
        ({"include": nn.MultiheadAttention, "exclude": "*.1.*"}, ["layers.0.self_attn"]),
        ({"include": lambda name, module: "1" in name and module.num_heads == 2}, ["layers.1.self_attn"]),
    ],
)
def test_include_and_exclude(selection: dict[str, Any], converted: list[str]) -> None:
    model = encoder()
    conversion = extrapolate_(model, layers="all", **selection)
    assert list(conversion.converted) == converted
    assert len(conversion.left) == 1
    assert sum(isinstance(m, ExtrapolativeAttention) for m in model.modules()) == 1


class DistributedDataParallel(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module


def test_errors_say_what_to_do() -> None:
    with pytest.raises(ConversionError, match=r"nn.MultiheadAttention .* seen: none"):
        extrapolate_(nn.Linear(2, 2))
    model = encoder()
    extrapolate_(model, layers="all")
    with pytest.raises(ConversionError, match="nothing is left to convert"):
        extrapolate_(model)
    with pytest.raises(ConversionError, match="'layer' fits none"):
        extrapolate_(encoder(), include="layer")
    with pytest.raises(ConversionError, match="before wrapping"):
        extrapolate_(DistributedDataParallel(encoder()))
    nested = torch.nested.nested_tensor([torch.randn(2, DIM), torch.randn(3, DIM)], layout=torch.jagged)
    with pytest.raises(InputError, match="pass padded tensors and key_padding_mask instead"):
        model.layers[0].self_attn(nested, nested, nested)


def test_dtype_frozen_layers_and_the_model_itself() -> None:
    model = nn.MultiheadAttention(DIM, 2, dtype=torch.float64).requires_grad_(False)
    conversion = extrapolate_(model)
    assert list(conversion.converted) == [""]
    assert "(the model itself)" in str(conversion)
    assert "frozen" in str(conversion)
    assert {(p.dtype, p.requires_grad) for p in conversion.parameters()} == {(torch.float64, False)}
    trained = extrapolate_(AttentionPool(DIM, 4).double())
    assert {(p.dtype, p.requires_grad) for p in trained.parameters()} == {(torch.float64, True)}
    switched = extrapolate_(Host(), layers="all", residual=None)
    assert sum(p.numel() for p in switched.parameters()) == 2 * (2 + 4) + 2


class Skipping(nn.Module):
    """Two layers, the second of which a call may leave out."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.MultiheadAttention(DIM, 2, batch_first=True) for _ in range(2))

    def forward(self, x: torch.Tensor, skip: bool, saving: bool = False) -> torch.Tensor:
        for layer in self.layers[: 1 if skip else 2]:
            run = partial(layer, x, x, x, need_weights=False)
            x = x + (checkpoint(run, use_reentrant=False) if saving else run())[0]
        return x


@pytest.mark.parametrize("saving", [False, True])
def test_a_layer_left_out_leaves_no_penalty_of_an_earlier_step(saving: bool) -> None:
    model, x = Skipping(), torch.randn(BAGS, LENGTH, DIM)
    conversion = extrapolate_(model, layers="all")
    with torch.no_grad():
        model.eval()(x, skip=False)  # an evaluation, of which nobody asked the penalties
    model.train()
    for skip in (True, False, True, True):
        output, found = model(x, skip, saving), penalties(model)
        assert penalties(model).sum.tolist() == found.sum.tolist()
        assert found.count.round().tolist() == [BAGS * 2, 0 if skip else BAGS * 2]
        (output.sum() + (found.sum / found.count).sum()).backward()
    twin = pickle.loads(pickle.dumps(copy.deepcopy(model)))
    twin(x, skip=False)
    twin(x, skip=True)
    assert penalties(twin).count.round().tolist() == [BAGS * 2, 0]
    conversion.undo()
    assert not model._forward_pre_hooks


def test_a_compiled_model_forgets_too() -> None:
    model, x = Skipping(), torch.randn(BAGS, LENGTH, DIM)
    extrapolate_(model, layers="all")
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for skip in (False, True):
        compiled(x, skip).sum().backward()
        assert penalties(model).count.round().tolist() == [BAGS * 2, 0 if skip else BAGS * 2]


def test_the_table_in_the_docs_has_a_row_a_model() -> None:
    """What is in the rows is compared where the libraries are imported anyway: test_timm.py and the like."""
    for library in {one.library for one in CASES}:
        assert len(rows_in_docs(library)) == len([one for one in CASES if one.library == library])
    check_table("torch")


def test_the_metric_of_queries_and_keys(tmp_path: Any) -> None:
    """It changes the outputs, is kept in the files, and is refused by pools and under another name."""
    torch.manual_seed(0)
    x = torch.randn(BAGS, LENGTH, DIM)
    model, same = encoder(), encoder()
    same.load_state_dict(model.state_dict())
    before = model.eval()(x)
    conversion = extrapolate_(model, metric="elliptical")
    assert [change.module.metric for change in conversion.changes] == ["elliptical"]
    changed = model(x)
    assert not torch.allclose(changed, before, atol=1e-4)
    conversion.save(tmp_path / "kept")
    load(same, tmp_path / "kept")
    torch.testing.assert_close(same.eval()(x), changed)
    with pytest.raises(ConversionError, match="is a pool and has no queries"):
        extrapolate_(AttentionPool(DIM, 4), metric="elliptical")
    with pytest.raises(InputError, match="metric must be 'plain' or 'elliptical'"):
        extrapolate_(encoder(), metric="round")
