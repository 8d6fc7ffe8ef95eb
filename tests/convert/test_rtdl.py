"""extrapolate_ on the real rtdl_revisiting_models."""

from __future__ import annotations

import copy

import torch
from rtdl_revisiting_models import MultiheadAttention

from checks.zoo import bags, case
from convert.contract import Watch, check_all_layers, check_contract, check_table, shake
from excora.convert import extrapolate_


def test_ft_transformer_keeps_the_contract() -> None:
    check_table("rtdl_revisiting_models")
    check_contract("rtdl_revisiting_models", "FTTransformer")
    check_all_layers("rtdl_revisiting_models", "FTTransformer")


def test_its_optimiser_groups_still_work() -> None:
    model, _ = case("rtdl_revisiting_models", "FTTransformer")
    conversion = extrapolate_(model)
    groups = model.make_parameter_groups()
    grouped = {id(p) for group in groups for p in group["params"]}
    assert {id(p) for p in conversion.parameters()} <= grouped


def test_compressed_keys_and_one_head() -> None:
    options = {"n_tokens": 7, "linformer_kv_compression_ratio": 0.5}
    for sharing in ("headwise", "key-value"):
        old = MultiheadAttention(
            d_embedding=16, n_heads=4, dropout=0.0, linformer_kv_compression_sharing=sharing, **options
        )
        new = copy.deepcopy(old)
        conversion = extrapolate_(new)
        torch.testing.assert_close(new(bags(), bags()), old(bags(), bags()))
        shake(conversion)
        watch = Watch(new.extrapolation)
        new(bags(), bags())
        watch.compare(torch.ones(2, 7, 3, dtype=torch.bool))
    single = MultiheadAttention(d_embedding=16, n_heads=1, dropout=0.2).eval()
    before = single(bags()[:, :2], bags())
    extrapolate_(single)
    torch.testing.assert_close(single(bags()[:, :2], bags()), before)
    assert not torch.equal(single.train()(bags(), bags()), single(bags(), bags()))
