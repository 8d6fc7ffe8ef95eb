"""extrapolate_ on the real torchmil: pools, attention, CLAM, DTFD-MIL."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torchmil.nn.attention import AttentionPool, MultiheadCrossAttention, MultiheadSelfAttention

from checks.zoo import REAL, bags, case
from convert.contract import Watch, check_all_layers, check_contract, check_table, convertible, shake
from excora.convert import Conversion, extrapolate_, load

BAGS, LENGTH, DIM = 3, 5, 8
HIDDEN = torch.arange(LENGTH) >= torch.tensor([[5], [3], [4]])


def test_the_table_in_the_docs() -> None:
    check_table("torchmil")


@pytest.mark.parametrize("name", convertible("torchmil"))
def test_a_converted_model_keeps_the_contract(name: str) -> None:
    check_contract("torchmil", name)


@pytest.mark.parametrize("name", convertible("torchmil"))
def test_all_layers(name: str) -> None:
    check_all_layers("torchmil", name)


@pytest.fixture(params=[("tanh", False), ("relu", True), ("gelu", True)])
def pool(request: pytest.FixtureRequest) -> Iterator[tuple[AttentionPool, AttentionPool, Conversion]]:
    old = AttentionPool(DIM, 4, *request.param)
    new = copy.deepcopy(old)
    return old, new, extrapolate_(new)


@pytest.mark.parametrize("mask", [None, ~HIDDEN, (~HIDDEN).float()])
def test_a_torchmil_pool_is_itself_at_the_start(pool: Any, mask: Tensor | None) -> None:
    old, new, conversion = pool
    assert isinstance(new, AttentionPool)
    x = torch.randn(BAGS, LENGTH, DIM, requires_grad=True)
    theirs, ours = old(x, mask, return_att=True), new(x, mask, return_att=True)
    real = torch.ones_like(HIDDEN) if mask is None else mask.bool()
    torch.testing.assert_close(ours[0], theirs[0])
    torch.testing.assert_close(ours[1][real], theirs[1][real])
    torch.testing.assert_close(new(x, mask), ours[0])
    grads = [torch.autograd.grad(z.square().sum() + f[real].sum(), x)[0] for z, f in (theirs, ours)]
    torch.testing.assert_close(*grads)
    with torch.no_grad():
        new.extrapolation.gain.out.bias.fill_(1.0)
    assert ((new(x, mask) - ours[0]).abs().amax(-1) > 1e-3).all()
    conversion.undo()
    assert type(new) is AttentionPool
    assert torch.equal(new(x, mask), theirs[0])


def test_a_torchmil_pool_survives_padding_with_nan_and_an_empty_bag(pool: Any) -> None:
    _, new, _ = pool
    mask = (~HIDDEN).clone()
    mask[2] = False
    x = torch.randn(BAGS, LENGTH, DIM).masked_fill(~mask[..., None], math.nan)
    value = new(x, mask)
    assert value[2].abs().max() == 0
    grads = torch.autograd.grad(value.sum(), list(new.parameters()), allow_unused=True)
    assert all(g is None or g.isfinite().all() for g in grads)


def moved_pool() -> tuple[AttentionPool, Conversion, Tensor]:
    torch.manual_seed(0)
    pool, x = AttentionPool(DIM, 4), torch.randn(BAGS, LENGTH, DIM)
    conversion = extrapolate_(pool)
    shake(conversion)
    return pool, conversion, x


def test_files_of_a_pool_load_by_the_names_of_before(tmp_path: Path) -> None:
    pool, conversion, x = moved_pool()
    assert "extrapolation.gain.out.bias" in pool.state_dict()
    was = {name.replace("extrapolation.", "extrapolation.extrapolation."): p for name, p in pool.state_dict().items()}
    again = AttentionPool(DIM, 4)
    extrapolate_(again)
    nn.Sequential(nn.Identity(), again).load_state_dict({f"1.{name}": p for name, p in was.items()})
    assert torch.equal(again(x), pool(x))
    conversion.save(tmp_path)
    save_file({name: p for name, p in was.items() if "extrapolation" in name}, tmp_path / "excora.safetensors")
    plain = AttentionPool(DIM, 4)
    plain.load_state_dict({name: p for name, p in pool.state_dict().items() if "extrapolation" not in name})
    load(plain, tmp_path)
    assert torch.equal(plain(x), pool(x))


def test_a_copy_of_a_pool_has_its_own_logits() -> None:
    pool, _, x = moved_pool()
    before = pool(x)
    for twin in (copy.deepcopy(pool), pickle.loads(pickle.dumps(pool))):
        assert torch.equal(twin(x), before)
        nn.init.normal_(twin.fc2.weight)
        assert not torch.equal(twin(x), before)
        assert torch.equal(pool(x), before)


def test_peft_trains_and_saves_a_pool(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    model, run = case("torchmil", "ABMIL")
    conversion = extrapolate_(model)
    settings = peft.LoraConfig(target_modules=["fc2"], modules_to_save=conversion.modules_to_save)
    tuned = peft.get_peft_model(model, settings).train()
    ours = {name: p for name, p in tuned.named_parameters() if p.requires_grad}
    assert len([name for name in ours if "modules_to_save" in name]) == len(conversion.parameters())
    optimizer = torch.optim.SGD(ours.values(), lr=1.0)
    start = run(tuned).detach()
    for _ in range(3):  # LoRA and the gain begin with factors of zero
        optimizer.zero_grad()
        run(tuned).square().sum().backward()
        optimizer.step()
    assert all(p.grad.abs().max() > 0 for p in ours.values())
    output = run(tuned.eval())
    assert (output - start).abs().max() > 1e-3
    tuned.save_pretrained(tmp_path)
    fresh, _ = case("torchmil", "ABMIL")
    extrapolate_(fresh)
    assert torch.equal(run(peft.PeftModel.from_pretrained(fresh, tmp_path).eval()), output)
    torch.testing.assert_close(run(tuned.merge_and_unload()), output)


@pytest.mark.parametrize("masked", [False, True])
def test_self_attention_is_itself_at_the_start_and_follows_the_oracle(masked: bool) -> None:
    old = MultiheadSelfAttention(16, att_dim=8, n_heads=2)
    new = copy.deepcopy(old)
    conversion = extrapolate_(new)
    mask = REAL if masked else None
    torch.testing.assert_close(new(bags(), mask), old(bags(), mask))
    seen = (REAL if masked else torch.ones_like(REAL))[:, None].expand(-1, 7, -1)
    shake(conversion)
    watch = Watch(new.extrapolation)
    output = new(bags(), mask)
    watch.compare(seen)
    again, weights = new(bags(), mask, return_att=True)
    torch.testing.assert_close(again, output)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    assert (weights[~seen[:, None].expand_as(weights)] == 0).all()


def test_cross_attention_is_itself_at_the_start_and_follows_the_oracle() -> None:
    old = MultiheadCrossAttention(16, att_dim=8, n_heads=2)
    new = copy.deepcopy(old)
    conversion = extrapolate_(new)
    torch.testing.assert_close(new(bags()[:, :3], bags()), old(bags()[:, :3], bags()))
    shake(conversion)
    watch = Watch(new.extrapolation)
    new(bags()[:, :3], bags(), REAL)
    watch.compare(REAL[:, None].expand(-1, 3, -1))


def test_clam_still_finds_its_instances() -> None:
    model, _ = case("torchmil", "CLAM_SB")
    target = torch.tensor([0.0, 1.0])
    torch.manual_seed(1)
    before = model.compute_loss(target, bags(), None)[1]
    extrapolate_(model)
    after = model.compute_loss(target, bags(), None)[1]
    torch.testing.assert_close(after, before)
