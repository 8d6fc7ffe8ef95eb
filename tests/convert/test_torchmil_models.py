"""extrapolate_ on torchmil's DSMIL and the Nystrom attention of TransMIL."""

from __future__ import annotations

import copy

import torch
from torchmil.nn.attention import NystromAttention

from checks.zoo import REAL, bags, case
from convert.contract import Watch, shake
from excora.convert import extrapolate_


def test_nystrom_attention_extrapolates_as_far_as_its_rows_sum_to_one() -> None:
    """m + gamma (A v - m), with A of the layer itself at the temperature that was reached."""
    layer = NystromAttention(16, att_dim=8, n_heads=2, n_landmarks=7, pinv_iterations=12).double()
    x = bags().double()
    shake(extrapolate_(layer, temperature=None))
    output, weights = layer(x, return_att=True)
    v = layer.qkv_nn(x).chunk(3, -1)[2].unflatten(-1, (2, 4)).transpose(1, 2)
    gamma = layer.extrapolation.last_details["gamma"].unsqueeze(-1)
    mean = v.mean(2, keepdim=True)
    expected = (mean + gamma * (weights @ v - mean)).transpose(1, 2).flatten(2)
    torch.testing.assert_close(layer.out_proj(expected), output, atol=1e-6, rtol=0)
    assert (gamma - 1.0).abs().min() > 1e-3


def test_nystrom_attention_ignores_what_is_masked() -> None:
    old = NystromAttention(16, att_dim=8, n_heads=2, n_landmarks=4)
    new = copy.deepcopy(old)
    conversion = extrapolate_(new)
    torch.testing.assert_close(new(bags(), REAL)[REAL], old(bags(), REAL)[REAL])
    shake(conversion)
    other = torch.where(REAL[..., None], bags(), 5.0)
    assert torch.equal(new(other, REAL)[REAL], new(bags(), REAL)[REAL])


def test_dsmil_returns_what_it_returned() -> None:
    model, _ = case("torchmil", "DSMIL")
    before = [model(bags(), REAL, att, inst) for att in (False, True) for inst in (False, True)]
    conversion = extrapolate_(model)
    after = [model(bags(), REAL, att, inst) for att in (False, True) for inst in (False, True)]
    torch.testing.assert_close(after, before)
    shake(conversion)
    watch = Watch(model.extrapolation)
    model(bags(), REAL)
    watch.compare(REAL[:, None])
    loss = model.compute_loss(torch.ones(2), bags(), REAL)[1]
    sum(loss.values()).backward()
    assert all(p.grad is not None for p in conversion.parameters())
