"""The read-out under dropout, against attention over every token, and what it refuses."""

from __future__ import annotations

import math

import pytest
import torch
from oracles.rows import randomised
from torch import nn

from excora.errors import InputError
from excora.extrapolation import Extrapolation
from excora.models.parts.readout import ReadOut
from excora.ragged import Ragged


def test_the_read_out_under_dropout_scales_what_is_left_of_the_residual():
    """m + gamma (a - m), where the weights of a need not sum to 1."""
    pool = ReadOut(6, 2, attention_dropout=0.4, extrapolation=Extrapolation(6)).double()
    pool = randomised(pool, std=0.6)
    h = torch.randn(3, 5, 6).double()
    torch.manual_seed(1)
    pooled = pool(h)
    u = pool.norm(h)
    q, k, v = pool.attention.inner(u).chunk(3, -1)
    a, b, c = (x.unflatten(-1, (2, 3)).transpose(1, 2) for x in (q, k, v))
    weights = torch.softmax(a[:, :, :1] @ b.mT / math.sqrt(3) / pooled.details["temperature"].view(-1, 1, 1, 1), -1)
    torch.manual_seed(1)
    attended = (nn.functional.dropout(weights.squeeze(2), 0.4).unsqueeze(2) @ c).flatten(1)
    mean, gamma = v.mean(1), pooled.details["gamma"].unsqueeze(1)
    value = h[:, 0] + pool.attention.outer(mean + gamma * (attended - mean))
    torch.testing.assert_close(pooled.value, value, rtol=0, atol=1e-12)
    torch.testing.assert_close(pooled.weights, weights.squeeze(2).mean(1), rtol=0, atol=1e-12)


def test_what_is_no_row_of_tokens_is_refused():
    for wrong in (Ragged(torch.randn(3, 4), torch.tensor([3])), torch.randn(3, 4)):
        with pytest.raises(InputError, match="no Ragged and no mask"):
            ReadOut(4, 2)(wrong)
