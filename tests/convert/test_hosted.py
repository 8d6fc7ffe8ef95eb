"""Extrapolation inside a host's layer: its masks, and a layer that does not do what was promised."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from checks.zoo import case
from convert.contract import Watch, shake
from convert.samples import ByHand, Mixer, size
from excora import extrapolate_, register_adapter
from excora.convert.hosted import HostedExtrapolation, read_mask, with_bias
from excora.errors import ConversionError, InputError
from excora.visibility import Visibility


def test_masks_of_a_rerouted_layer() -> None:
    register_adapter(Mixer, size=size)
    layer, x = Mixer(), torch.randn(2, 5, 8)
    shake(extrapolate_(layer))
    seen = torch.rand(2, 5, 5) < 0.6
    seen[0, 2] = False
    bias = torch.randn(2, 5, 5)
    for mask, given in ((seen[:, None], None), (bias.masked_fill(~seen[0], -1e9)[None], bias)):
        watch = Watch(layer.extrapolation)
        layer(x, mask)
        visible = seen if given is None else seen[:1].expand(2, -1, -1)
        watch.compare(visible, given)
        assert watch.calls[0][1].output.isfinite().all()


def test_a_layer_that_does_not_do_what_was_promised() -> None:
    register_adapter(Mixer, size=size)
    register_adapter(ByHand, size=size)
    for layer, times in ((Mixer(2), 2), (ByHand(), 0)):
        extrapolate_(layer)
        with pytest.raises(ConversionError, match=rf"once and called it {times} times.*mixin"):
            layer(torch.randn(2, 5, 8))
    with pytest.raises(InputError, match="size="):
        register_adapter(Mixer, size=(4, 2))
    with pytest.raises(InputError, match=r"subclass of excora\.convert\.Converted"):
        register_adapter(Mixer, size=size, mixin=nn.Module)
    taken = Mixer()
    taken.extrapolation = 3
    with pytest.raises(ConversionError, match="something else in its attribute"):
        extrapolate_(taken)
    assert type(taken) is Mixer


KINDS = [
    ("torch", "nn.TransformerEncoder"),
    ("transformers", "BERT"),
    ("timm", "ViT"),
    ("rtdl_revisiting_models", "FTTransformer"),
]
KINDS += [("torchmil", name) for name in ("ABMIL", "DSMIL", "TransMIL", "TransformerABMIL")]


@pytest.mark.parametrize(("library", "name"), KINDS)
def test_a_model_that_trains_beside_a_frozen_extrapolation_warns_once(library: str, name: str) -> None:
    model, run = case(library, name)
    conversion = extrapolate_(model)
    for parameter in conversion.parameters():
        parameter.requires_grad_(False)
    run(model)  # an evaluation
    twin = copy.deepcopy(model.train())
    for one in (model, twin):
        with pytest.warns(UserWarning, match=r"frozen where it started .* modules_to_save=conversion.modules_to_save"):
            run(one)
        run(one)
    conversion.undo()
    frozen = extrapolate_(model.requires_grad_(False))
    run(model)  # nothing trains
    model.requires_grad_(True)
    frozen.parameters()[-1].requires_grad_(False)
    run(model)  # the others train
    for parameter in frozen.parameters():
        parameter.requires_grad_(False)
    shake(frozen)
    run(model)  # frozen, where training left it


@pytest.mark.parametrize(("library", "name"), KINDS)
def test_a_model_on_meta_takes_an_old_file_as_its_own(library: str, name: str) -> None:
    model, run = case(library, name)
    if library == "transformers":
        extrapolate_(model)  # which refuses layers without weights
    old = {key: x for key, x in model.state_dict().items() if "extrapolation" not in key}
    before, buffers = run(model).detach(), {key: x.clone() for key, x in model.named_buffers()}
    model.to("meta")
    if library != "transformers":
        extrapolate_(model)
    model.load_state_dict(old, strict=True, assign=True)
    for key, x in buffers.items():  # those that no file has
        owner, _, own = key.rpartition(".")
        model.get_submodule(owner)._buffers[own] = x
    assert not any(p.is_meta for p in model.parameters())
    torch.testing.assert_close(run(model), before, atol=2e-6 * float(before.abs().max()), rtol=0)
    hidden = [p for key, p in model.named_parameters() if ".hidden." in key]
    assert all(0.0 < p.abs().max() <= 16**-0.5 for p in hidden)
    assert bool(hidden) == (name in ("ABMIL", "TransformerABMIL"))


def test_reading_masks() -> None:
    padding = torch.tensor([[True, True, False]])[:, None, None]
    for mask in (padding, padding.expand(1, 1, 4, 3), torch.zeros(1, 1, 1, 3).masked_fill(~padding, -1e9)):
        read = read_mask(mask, 3)
        assert read.keys is not None
        assert read.pairs is None
        assert torch.equal(read.keys, padding)
    assert read_mask(torch.ones(4, 3, dtype=torch.bool), 3).pairs.shape == (1, 1, 4, 3)
    assert read_mask(None, 3, causal=True) == Visibility(None, None, None, True)
    with pytest.raises(InputError, match="not both"):
        read_mask(padding, 3, causal=True)
    causal = with_bias(Visibility(None, None, None, True), torch.zeros(1, 2, 3, 3), 3, 3)
    assert torch.equal(causal.pairs[0, 0], torch.ones(3, 3, dtype=torch.bool).tril())
    assert with_bias(Visibility(None, None, None, False), torch.zeros(1, 2, 3, 3), 3, 3).keys.all()


def test_the_elliptical_metric_weighs_the_channels_of_the_queries() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 4, 5, 8, dtype=torch.float64)
    layer, plain = (
        HostedExtrapolation(8, heads=4, metric="elliptical").double(),
        HostedExtrapolation(8, heads=4).double(),
    )
    every = Visibility(None, None, None, False)
    keys, values = k - k.mean(2, keepdim=True), v - v.mean(2, keepdim=True)
    moved = torch.einsum("bhnc,bhnd->bhcd", keys, values).div(5).abs().sum(-1)  # |cov(k_c, v)|_1
    expected = plain(q * (moved / moved.amax(-1, keepdim=True)).unsqueeze(2), k, v).output
    torch.testing.assert_close(layer(q, k, v, every).output, expected, atol=1e-5, rtol=1e-5)
    with pytest.raises(InputError, match="one metric a bag"):
        layer(q, k, v, Visibility(None, None, None, True))
