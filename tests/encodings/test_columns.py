"""ColumnTokens against its formula, for every embedding; bins of every kind of column."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
import rtdl_num_embeddings
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles.rows import CATEGORIES, randomised, table
from torch import Tensor, nn

from excora.encodings.columns import ColumnTokens, quantile_bins
from excora.errors import InputError, MissingExtraError


def rows(numeric: Tensor, missing: Tensor, codes: Tensor) -> dict[str, Tensor]:
    return {"numeric": numeric, "missing": missing, "codes": codes}


@pytest.mark.parametrize("embeddings", ["linear", "piecewise", "periodic"])
@pytest.mark.parametrize("cls", [False, True])
def test_tokens_and_their_projection(embeddings, cls):
    x = table(9, 3, CATEGORIES, missing=0.3)
    bins = quantile_bins(x["numeric"], x["missing"], bins=4) if embeddings == "piecewise" else None
    tokens = ColumnTokens(3, CATEGORIES, dim=8, cls=cls, embeddings=embeddings, bins=bins)
    tokens = randomised(tokens.double())
    found = tokens(x)
    content = x["numeric"][..., None] * tokens.weight if embeddings == "linear" else tokens.embed(x["numeric"])
    content = content + x["missing"][..., None] * tokens.missing
    codes = torch.stack([tokens.codes.weight[start + x["codes"][:, j]] for j, start in enumerate((0, 3, 5))], 1)
    wanted = torch.cat([content, codes], 1)
    wanted = torch.cat([torch.zeros(9, 1, 8).double(), wanted], 1) if cls else wanted
    torch.testing.assert_close(found, wanted + tokens.bias, rtol=0, atol=1e-12)
    weight, bias = torch.randn(5, 8).double(), torch.randn(5).double()
    projected = tokens.project(x, found, weight, bias)
    torch.testing.assert_close(projected, nn.functional.linear(found, weight, bias), rtol=0, atol=1e-12)
    pull = torch.randn_like(projected)
    parameters = dict(tokens.named_parameters())
    through = torch.autograd.grad((projected * pull).sum(), parameters.values(), retain_graph=True)
    direct = torch.autograd.grad((nn.functional.linear(found, weight, bias) * pull).sum(), parameters.values())
    for name, a, b in zip(parameters, through, direct, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12, msg=lambda m, name=name: f"{name}: {m}")


def test_a_missing_number_starts_as_an_average_one_and_whatever_stands_there_is_not_read():
    tokens = ColumnTokens(2, (), dim=4)
    hidden = torch.tensor([[True, False]])
    codes = torch.zeros(1, 0, dtype=torch.long)
    found = tokens(rows(torch.tensor([[math.nan, 2.0]]), hidden, codes))
    torch.testing.assert_close(found, tokens(rows(torch.tensor([[0.0, 2.0]]), ~hidden & hidden, codes)))
    assert found.isfinite().all()


def test_piecewise_tokens_start_linear():
    bins = quantile_bins(torch.randn(100, 2))
    tokens = ColumnTokens(2, (), dim=4, embeddings="piecewise", bins=bins)
    x = torch.randn(5, 2)
    linear = tokens.embed.linear0
    given_x = rows(x, torch.zeros(5, 2, dtype=torch.bool), torch.zeros(5, 0, dtype=torch.long))
    torch.testing.assert_close(tokens(given_x), x[..., None] * linear.weight + linear.bias + tokens.bias)


def test_bins_are_quantiles_of_what_is_there():
    x = torch.randn(1000, 2)
    for mine, theirs in zip(quantile_bins(x, bins=10), rtdl_num_embeddings.compute_bins(x, 10), strict=True):
        torch.testing.assert_close(mine, theirs)
    hidden = torch.zeros_like(x, dtype=torch.bool)
    hidden[500:] = True
    assert torch.equal(quantile_bins(x.masked_fill(hidden, 9.0), hidden)[0], quantile_bins(x[:500])[0])


@given(
    st.lists(
        st.lists(st.sampled_from([0.0, 1.0, -3.5, 1e-7, 1e6, 1e6 + 0.5, -1e12]), min_size=2, max_size=2), max_size=9
    ),
    st.integers(2, 60),
)
def test_bins_of_any_column_make_a_finite_embedding(values, bins):
    x = np.array(values, dtype=np.float64).reshape(-1, 2)
    edges = quantile_bins(x, bins=bins)
    assert all(len(e) >= 3 and bool((e.diff() > 0).all()) for e in edges)
    tokens = ColumnTokens(2, (), dim=4, embeddings="piecewise", bins=edges)
    cells = torch.tensor([[0.0, 0.0], *values[:3]], dtype=torch.float32)
    found = tokens(rows(cells, torch.zeros_like(cells, dtype=torch.bool), torch.zeros(len(cells), 0).long()))
    assert found.isfinite().all()


def test_without_the_package_of_the_embeddings_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "rtdl_num_embeddings", None)
    with pytest.raises(MissingExtraError, match=r"excora\[app\]"):
        ColumnTokens(2, (), dim=4, embeddings="periodic")


def test_wrong_columns_are_named():
    with pytest.raises(InputError, match="mark NaN and infinity as missing"):
        quantile_bins(np.array([[np.nan]]))
    with pytest.raises(InputError, match="bins must be at least 2"):
        quantile_bins(np.zeros((3, 1)), bins=1)
    with pytest.raises(InputError, match="of the same shape"):
        quantile_bins(np.zeros((3, 1)), np.zeros((3, 2), dtype=bool))
    with pytest.raises(InputError, match="at least one numeric or categorical column"):
        ColumnTokens(0, (), dim=4)
    for wrong, words in ((torch.zeros(3, 2), "Tensor"), ({"numeric": torch.zeros(3, 2)}, r"\['numeric'\]")):
        with pytest.raises(InputError, match=f"by the names numeric, missing, codes, got {words}"):
            ColumnTokens(2, (), dim=4)(wrong)
