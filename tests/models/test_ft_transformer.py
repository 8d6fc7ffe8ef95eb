"""FTTransformer against rtdl's package, outputs and gradients, and against a numpy oracle; its parts, saving."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import rtdl_revisiting_models as rtdl
import torch
from oracles.ft_transformer import forward as oracle
from oracles.rows import CATEGORIES, randomised, single, table
from safetensors.torch import load, save
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from excora import PlateauMonitor
from excora.data.bags import BagSpec
from excora.data.table import TableSpec
from excora.encodings.columns import quantile_bins
from excora.errors import InputError
from excora.models.ft_transformer import FTTransformer

NO_DROPOUT: dict[str, Any] = {"attention_dropout": 0.0, "feedforward_dropout": 0.0}
FORM = {"residual": "free", "temperature": "learned", "cap": 4.0, "scale": "sqrt_dim"}
PAPER = {"residual": "paper", "temperature": (0.5, 1.0), "cap": 2.0, "scale": "sqrt_dim"}


def from_rtdl(theirs: dict[str, Tensor], blocks: int) -> dict[str, Tensor]:
    """rtdl's tensors (weights, or gradients) under our names; every one of them is used exactly once."""
    left = dict(theirs)
    take = left.pop
    cls = take("cls_embedding.weight")[None]
    bias, ours = [cls], {}
    if "cont_embeddings.weight" in left:
        ours["encoder.tokens.weight"] = take("cont_embeddings.weight")
        bias.append(take("cont_embeddings.bias"))
    if "cat_embeddings.bias" in left:
        names = sorted(name for name in left if name.startswith("cat_embeddings.embeddings"))
        ours["encoder.tokens.codes.weight"] = torch.cat([take(name) for name in names])
        bias.append(take("cat_embeddings.bias"))
    ours["encoder.tokens.bias"] = torch.cat(bias)
    for b in range(blocks):
        old, final = f"backbone.blocks.{b}.", b == blocks - 1
        new, after = ("pool.", "head.") if final else (f"encoder.blocks.{b}.", f"encoder.blocks.{b}.")
        for kind in ("weight", "bias"):
            parts = [take(f"{old}attention.W_{x}.{kind}") for x in "qkv"]
            ours[f"{new}attention.inner.{kind}"] = torch.cat(parts)
            if f"{old}attention.W_out.{kind}" in left:
                ours[f"{new}attention.outer.{kind}"] = take(f"{old}attention.W_out.{kind}")
            if b:
                ours[f"{new}norm.{kind}"] = take(f"{old}attention_normalization.{kind}")
            ours[f"{after}feedforward.norm.{kind}"] = take(f"{old}ffn_normalization.{kind}")
            for place, name in (("first", "linear1"), ("second", "linear2")):
                ours[f"{after}feedforward.{place}.{kind}"] = take(f"{old}ffn.{name}.{kind}")
    for kind in ("weight", "bias"):
        ours[f"head.norm.{kind}"] = take(f"backbone.output.normalization.{kind}")
        ours[f"head.out.{kind}"] = take(f"backbone.output.linear.{kind}")
    assert left == {}
    return ours


@pytest.mark.parametrize(
    ("numeric", "categories", "blocks", "heads"),
    [(5, (), 3, 2), (5, CATEGORIES, 3, 4), (0, CATEGORIES, 2, 2), (4, (), 1, 2), (4, (3,), 2, 1)],
)
def test_outputs_and_gradients_are_those_of_rtdl(numeric, categories, blocks, heads):
    theirs = rtdl.FTTransformer(
        n_cont_features=numeric, cat_cardinalities=list(categories), d_out=2, n_blocks=blocks, d_block=20,
        attention_n_heads=heads, attention_dropout=0.0, ffn_d_hidden_multiplier=4 / 3, ffn_dropout=0.0,
        residual_dropout=0.0,
    ).double()  # fmt: skip
    randomised(theirs)
    spec = TableSpec(targets=2, numeric=numeric, categories=categories)
    ours = FTTransformer(spec, dim=20, blocks=blocks, heads=heads, **NO_DROPOUT).double()
    found = ours.load_state_dict(from_rtdl(theirs.state_dict(), blocks), strict=False)
    assert found.unexpected_keys == []
    own = {"encoder.tokens.missing"} | (set() if numeric else {"encoder.tokens.weight"})  # the latter is empty
    assert set(found.missing_keys) == own
    x = table(7, numeric, categories)
    cells = [x["numeric"].clone().requires_grad_() for _ in range(2)]
    wanted = theirs(cells[0] if numeric else None, x["codes"] if categories else None)
    output = ours(x | {"numeric": cells[1]})
    pull = torch.randn_like(wanted)
    wanted.backward(pull)
    output.prediction.backward(pull)
    torch.testing.assert_close(output.prediction, wanted, rtol=0, atol=1e-10)
    if numeric:
        torch.testing.assert_close(cells[1].grad, cells[0].grad, rtol=0, atol=1e-10)
    grads = from_rtdl({name: p.grad for name, p in theirs.named_parameters()}, blocks)
    for name, parameter in ours.named_parameters():
        expected = grads.get(name, torch.zeros_like(parameter))  # the missing vectors alone are ours
        torch.testing.assert_close(
            parameter.grad, expected, rtol=0, atol=1e-10, msg=lambda m, name=name: f"{name}: {m}"
        )
        assert name in grads or name in own


@pytest.mark.parametrize("columns", [28, 58, 81])
def test_the_number_of_parameters_is_that_of_the_reference(columns):
    model = FTTransformer(TableSpec(targets=1, numeric=columns), dim=256, blocks=3, heads=8)
    ours = sum(p.numel() for p in model.parameters()) - model.encoder.tokens.missing.numel()
    assert ours == {28: 1_595_903, 58: 1_611_263, 81: 1_623_039}[columns]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("where", ["last", "all"])
def test_at_its_start_the_extrapolative_model_is_the_baseline(where, training):
    spec = TableSpec(targets=1, numeric=4, categories=CATEGORIES)
    baseline = randomised(FTTransformer(spec, dim=16, blocks=3).double())
    model = FTTransformer(spec, dim=16, blocks=3, attention="eca", where=where).double()
    left = model.load_state_dict(baseline.state_dict(), strict=False)
    assert {name.split(".extrapolation.")[1].split(".")[0] for name in left.missing_keys} == {"gain", "temperature"}
    assert len(left.missing_keys) == 6 * (3 if where == "all" else 1)
    x = table(6, 4, CATEGORIES)
    outputs = []
    for m in (baseline, model):
        torch.manual_seed(3)  # the same cells drop out
        outputs.append(m.train(training)(x))
    torch.testing.assert_close(outputs[0].prediction, outputs[1].prediction, rtol=0, atol=1e-12)
    assert outputs[1].pooled["read-out"].details["gamma"].tolist() == [1.0] * 6
    torch.manual_seed(4)
    moved = not torch.equal(model(x).prediction, outputs[1].prediction)
    assert moved is training


FORMS = {
    "softmax": ({}, {}),
    "ours": ({"attention": "eca"}, FORM),
    "ours, without residual": ({"attention": "eca", "residual": None}, FORM | {"residual": None}),
    "ours, without temperature": ({"attention": "eca", "temperature": None}, FORM | {"temperature": None}),
    "ours, literal scale": ({"attention": "eca", "scale": "paper"}, FORM | {"scale": "paper"}),
    "paper": ({"attention": "eca-paper"}, PAPER),
    "paper, literal scale": ({"attention": "eca-paper", "scale": "paper"}, PAPER | {"scale": "paper"}),
    "paper, cold": (
        {"attention": "eca-paper", "temperature": [0.0, 0.3], "cap": 3.0},
        PAPER | {"temperature": (0.0, 0.3), "cap": 3.0},
    ),
}


@pytest.mark.parametrize("where", ["last", "all"])
@pytest.mark.parametrize("name", FORMS)
def test_away_from_its_start_it_is_the_oracle(name, where):
    options, form = FORMS[name]
    spec = TableSpec(targets=2, numeric=4, categories=CATEGORIES)
    model = FTTransformer(spec, dim=12, blocks=3, heads=3, where=where, **NO_DROPOUT, **options).double()
    randomised(model)
    x = table(5, 4, CATEGORIES, missing=0.3)
    output = model(x)
    state = {key: value.numpy() for key, value in model.state_dict().items()}
    rows = {name: part.numpy() for name, part in x.items()}
    wanted = oracle(state, **rows, categories=CATEGORIES, blocks=3, heads=3, form=form, where=where)
    pooled = output.pooled["read-out"]
    found = {"prediction": output.prediction, "value": pooled.value, "weights": pooled.weights} | pooled.details
    assert set(found) == {"prediction", "value", "weights", "logits"} | (
        ({"gamma", "temperature"} | ({"dispersion"} if form["temperature"] else set())) if form else set()
    )
    for key, value in found.items():
        np.testing.assert_allclose(value.detach().numpy(), wanted[key], rtol=0, atol=1e-10, err_msg=key)
    np.testing.assert_allclose(pooled.penalty.sum.item(), wanted["penalty"].sum(), atol=1e-12)
    assert float(pooled.penalty.count) == (5 if form else 0)
    if form and form["residual"]:
        assert float(pooled.details["gamma"].detach().sub(1).abs().min()) > 1e-3  # the comparison meant something


@pytest.mark.parametrize("options", [{}, {"attention": "eca", "where": "all"}, {"attention": "eca-paper"}])
def test_gradients_are_those_of_finite_differences(options):
    spec = TableSpec(targets=1, numeric=2, categories=(2,))
    model = randomised(FTTransformer(spec, dim=4, heads=2, **NO_DROPOUT, **options).double())
    x = table(3, 2, (2,), missing=0.3)
    names = [name for name, _ in model.named_parameters()]

    def run(cells: Tensor, *values: Tensor) -> Tensor:
        state = dict(zip(names, values, strict=True))
        output = torch.func.functional_call(model, state, (x | {"numeric": cells},))
        return output.prediction.sum() + output.pooled["read-out"].penalty.sum

    values = [p.detach().requires_grad_(not name.endswith("inner.bias")) for name, p in model.named_parameters()]
    cells = x["numeric"].requires_grad_()
    assert torch.autograd.gradcheck(run, (cells, *values), fast_mode=True)


def test_the_bias_of_the_keys_gets_no_gradient():
    model = randomised(FTTransformer(TableSpec(targets=1, numeric=3), dim=8, blocks=3, heads=2).double())
    model(table(6, 3)).prediction.square().sum().backward()
    for layer in (*(block.attention for block in model.encoder.blocks), model.pool.attention):
        q, k, v = layer.inner.bias.grad.chunk(3)
        assert k.count_nonzero() == 0
        assert q.count_nonzero() == v.count_nonzero() == 8


def test_only_what_is_read_is_computed():
    """Multiplications of a step: the last block and the first projections are all but gone."""
    theirs = rtdl.FTTransformer(
        n_cont_features=30, cat_cardinalities=[], d_out=1, n_blocks=3, d_block=64, attention_n_heads=8,
        attention_dropout=0.0, ffn_d_hidden_multiplier=4 / 3, ffn_dropout=0.0, residual_dropout=0.0,
    )  # fmt: skip
    x = single(table(32, 30))
    counts = []
    ours = FTTransformer(TableSpec(targets=1, numeric=30), dim=64, blocks=3, heads=8, **NO_DROPOUT)
    for run in (lambda: theirs(x["numeric"], None), lambda: ours(x).prediction):
        with FlopCounterMode(display=False) as counter:
            run().sum().backward()
        counts.append(counter.get_total_flops())
    assert counts[1] < 0.65 * counts[0]


@pytest.mark.parametrize("embeddings", ["linear", "piecewise", "periodic"])
def test_a_model_comes_back_from_json_and_safetensors(embeddings):
    x = single(table(40, 3, CATEGORIES, missing=0.2))
    x["numeric"][:, 1] = x["numeric"][:, 1].sign()  # fewer edges than the others
    x["numeric"][:, 2] = 1.0
    bins = quantile_bins(x["numeric"], x["missing"]) if embeddings == "piecewise" else None
    options: dict[str, Any] = {
        "dim": 8, "heads": 2, "attention": "eca-paper", "temperature": (0.3, 0.5), "embeddings": embeddings,
    }  # fmt: skip
    spec = TableSpec(targets=1, numeric=3, categories=CATEGORIES)
    model = randomised(FTTransformer(spec, bins=bins, **options)).eval()
    config = json.dumps(options | {"bins": model.encoder.tokens.edges})
    again = FTTransformer(spec, **json.loads(config)).eval()
    again.load_state_dict(load(save(model.state_dict())))
    assert torch.equal(model(x).prediction, again(x).prediction)


def test_a_state_dict_of_version_0_1_loads():
    """Its temperatures were scalars."""
    spec, x = TableSpec(targets=1, numeric=3), table(6, 3)
    model = randomised(FTTransformer(spec, dim=8, heads=2, attention="eca", where="all").double()).eval()
    old = {name: p.view(()) if ".temperature." in name else p for name, p in model.state_dict().items()}
    assert sum(p.dim() == 0 for p in old.values()) == 4
    fresh = FTTransformer(spec, dim=8, heads=2, attention="eca", where="all").double().eval()
    fresh.load_state_dict(old, strict=True)
    assert torch.equal(fresh(x).prediction, model(x).prediction)


def test_weight_decay_leaves_out_what_the_reference_leaves_out():
    model = FTTransformer(TableSpec(targets=1, numeric=28), dim=256, blocks=3, heads=8, attention="eca")
    free = {id(p) for p in model.decay_free()}
    decayed = {name: p.numel() for name, p in model.named_parameters() if id(p) not in free}
    assert sum(decayed.values()) == 1_572_608 - 256  # rtdl decays the weight of the last LayerNorm, perhaps unawares
    assert all(name.endswith("weight") and "norm" not in name for name in decayed)
    assert all(p in free for p in map(id, model.pool.attention.extrapolation.parameters()))


def test_the_literal_dispersion_flattens_the_attention():
    x = single(table(64, 20))
    spread, taus = [], []
    for scale in ("sqrt_dim", "paper"):
        torch.manual_seed(0)
        model = FTTransformer(TableSpec(targets=1, numeric=20), dim=256, heads=8, attention="eca-paper", scale=scale)
        pooled = model.eval()(x).pooled["read-out"]
        spread.append((pooled.weights.amax(1) / pooled.weights.amin(1)).mean().item())
        taus.append(pooled.details["temperature"].mean().item())
    assert taus[0] < 1.5
    assert taus[1] > 6
    assert spread[1] - 1 < 0.2 * (spread[0] - 1)


def test_the_monitor_reads_it():
    x = single(table(60, 5))
    model = FTTransformer(TableSpec(targets=1, numeric=5), dim=8, heads=2, attention="eca")
    monitor = PlateauMonitor()
    t, _ = model.encoder(x)
    output = model.eval()(x)
    elements = model.pool.elements(t)
    pooled = output.pooled["read-out"]
    monitor.update(output.prediction, x["numeric"][:, :1], pooled=pooled, h=elements, head=model.head)
    record = monitor.end_epoch()
    assert 1 < record["effective_elements"] <= 6
    assert record["gamma_50"] == record["temperature_50"] == 1.0
    assert record["achievable_ceiling"] is not None


def test_it_learns_in_half_precision_too():
    x = single(table(64, 4, (3,), missing=0.1))
    y = x["numeric"][:, :1] * (x["codes"][:, :1] - 1)
    model = FTTransformer(TableSpec(targets=1, numeric=4, categories=(3,)), dim=16, attention="eca", where="all")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(25):
        with torch.autocast("cpu", torch.bfloat16):
            loss = (model(x).prediction.float() - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0]
    with torch.no_grad():
        exact = model.eval()(x).prediction
        with torch.autocast("cpu", torch.bfloat16):
            rough = model(x).prediction
    torch.testing.assert_close(rough.float(), exact, rtol=0, atol=0.05)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": 3}, "multiple of heads"),
        ({"blocks": 0}, "blocks must be at least 1, got 0"),
        ({"attention": "linear"}, "attention must be one of softmax, eca, eca-paper, got 'linear'"),
        ({"where": "first"}, "where must be one of last, all"),
        ({"residual_dropout": 1.0}, "residual_dropout must be in"),
        ({"cap": 2.0}, "softmax attention has no cap"),
        ({"attention": "eca", "scale": "none"}, "scale must be"),
        ({"embeddings": "fourier"}, "embeddings must be"),
        ({"embeddings": "piecewise"}, "bins go with"),
        ({"embeddings": "piecewise", "bins": [3]}, "each of the 2 numeric columns, got 1"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(InputError, match=message):
        FTTransformer(TableSpec(targets=1, numeric=2), **options)


def test_wrong_input_is_named():
    with pytest.raises(InputError, match=r"rows of a table, got BagSpec\(targets=1, width=3, time=None\)"):
        FTTransformer(BagSpec(targets=1, width=3))
    with pytest.raises(InputError, match="at least one numeric or categorical column"):
        FTTransformer(TableSpec(targets=1))
    with pytest.raises(InputError, match="by the names numeric, missing, codes, got Tensor"):
        FTTransformer(TableSpec(targets=1, numeric=2))(torch.randn(3, 2))
    with pytest.raises(InputError, match=r"by the names numeric, missing, codes, got \['elements'\]"):
        FTTransformer(TableSpec(targets=1, numeric=2))({"elements": torch.randn(3, 2)})
