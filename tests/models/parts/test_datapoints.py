"""Attention between rows and columns: a numpy oracle, equivariance, and rows beside a context as whole tables."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from oracles.rows import randomised

from excora.errors import InputError
from excora.models.parts.datapoints import Attending, RowsAndColumns


def by_hand(layer: Attending, x: np.ndarray) -> np.ndarray:
    """The block for one set of rows (n, dim), in numpy, head by head."""
    w = {name: p.detach().numpy() for name, p in layer.named_parameters()}

    def line(name: str, h: np.ndarray) -> np.ndarray:
        return h @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0.0)

    def norm(name: str, h: np.ndarray) -> np.ndarray:
        h = (h - h.mean(1, keepdims=True)) / np.sqrt(h.var(1, keepdims=True) + 1e-5)
        return h * w[f"{name}.weight"] + w[f"{name}.bias"]

    q, k, v = line("query", norm("norm", x)), line("key", x), line("value", x)
    mixed = []
    for part in np.split(np.arange(layer.inner), layer.heads):
        a = np.exp(q[:, part] @ k[:, part].T / np.sqrt(layer.inner))
        mixed.append(a / a.sum(1, keepdims=True) @ v[:, part])
    h = line("mix", np.concatenate(mixed, 1)) + line("residual", x)
    inner = line("first", norm("second_norm", h))
    gelu = torch.nn.functional.gelu(torch.from_numpy(inner)).numpy()
    return h + line("second", gelu)


@pytest.mark.parametrize(("dim", "heads"), [(6, 2), (7, 3), (300, 4)])
def test_the_block_is_that_of_the_oracle(dim, heads):
    layer = randomised(Attending(dim, heads), 0.1).double()
    x = torch.randn(5, dim, dtype=torch.float64)
    np.testing.assert_allclose(layer(x).detach().numpy(), by_hand(layer, x.numpy()), atol=1e-10)


def test_rows_and_columns_may_come_in_any_order():
    body = randomised(RowsAndColumns(columns=3, dim=4, depth=2, heads=2), 0.2)
    t = torch.randn(2, 6, 3, 4)
    order = torch.randperm(6)
    torch.testing.assert_close(body(t[:, order]), body(t)[:, order], rtol=0, atol=1e-5)


def test_a_row_beside_its_context_is_a_row_of_a_table_that_the_others_do_not_see():
    body = randomised(RowsAndColumns(columns=3, dim=4, depth=3, heads=2), 0.2).double()
    context, x = torch.randn(2, 5, 3, 4).double(), torch.randn(4, 3, 4).double()
    real = torch.tensor([[True] * 5, [True, False, True, False, True]])
    block = torch.tensor([0, 1, 1, 0])
    found = body.beside(x, context, real, block)
    for s, b in enumerate(block.tolist()):
        rows = torch.cat([context[b, real[b]], x[s : s + 1]]).unsqueeze(0)
        seen = torch.ones(1, rows.shape[1], rows.shape[1], dtype=torch.bool)
        seen[:, :-1, -1] = False
        torch.testing.assert_close(found[s], body(rows, seen)[0, -1], rtol=0, atol=1e-10)


def test_a_context_of_nobody_leaves_a_row_to_itself():
    body = RowsAndColumns(columns=2, dim=4, depth=2, heads=2)
    x, context = torch.randn(3, 2, 4), torch.randn(1, 5, 2, 4)
    found = body.beside(x, context, torch.zeros(1, 5, dtype=torch.bool), torch.zeros(3, dtype=torch.long))
    torch.testing.assert_close(found, body(x.unsqueeze(1))[:, 0], rtol=0, atol=1e-5)


def test_shapes_that_cannot_be_are_refused():
    with pytest.raises(InputError, match="heads divide dim"):
        RowsAndColumns(columns=2, dim=6, depth=1, heads=4)
