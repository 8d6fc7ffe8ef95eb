"""Mean, softmax and gated pools against the oracle, and their scorers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from oracles.pooling import eca_bag

from excora import ECAPool, GatedPool, Ragged, SoftmaxPool
from pooling.samples import DIM, batch, state


@pytest.mark.parametrize("seed", range(3))
def test_softmax_and_gated_pools_equal_the_oracle(seed):
    """z = h.w / sqrt(dim) + b, z = h.w + b, and z = w.(tanh(U h) * sigmoid(V h)) + b."""
    torch.manual_seed(seed)
    h, mask = batch(seed)
    for pool in (SoftmaxPool(DIM).double(), SoftmaxPool.unscaled(DIM).double(), GatedPool(DIM, hidden=5).double()):
        with torch.no_grad():
            for parameter in pool.parameters():
                parameter.copy_(torch.randn_like(parameter) * 2)
        pooled, p = pool(h, mask), state(pool)
        for s in range(len(h)):
            real = h[s][mask[s]].numpy()
            if isinstance(pool, GatedPool):
                content = np.tanh(real @ p["scorer.content.weight"].T + p["scorer.content.bias"])
                gate = 1 / (1 + np.exp(-(real @ p["scorer.gate.weight"].T + p["scorer.gate.bias"])))
                logits = (content * gate) @ p["scorer.out.weight"][0] + p["scorer.out.bias"][0]
            elif p["scorer.weight"].ndim == 2:
                logits = real @ p["scorer.weight"][0] + p["scorer.bias"][0]
            else:
                logits = real @ p["scorer.weight"] / math.sqrt(DIM) + p["scorer.bias"][0]
            expected = eca_bag(real, logits, 1.0, 1.0)
            np.testing.assert_allclose(pooled.value[s].detach(), expected.value, atol=1e-11)
            np.testing.assert_allclose(pooled.details["logits"][s][mask[s]].detach(), logits, atol=1e-11)


@pytest.mark.parametrize("register", ["register_forward_hook", "register_forward_pre_hook"])
@pytest.mark.parametrize("ragged", [False, True])
def test_hooks_on_a_linear_scorer_are_called(register, ragged):
    pool, calls = ECAPool(DIM), []
    getattr(pool.scorer, register)(lambda *_: calls.append(1))
    h = torch.randn(2, 3, DIM)
    plain = ECAPool(DIM)
    plain.load_state_dict(pool.state_dict())
    x = Ragged(h.flatten(0, 1), torch.tensor([3, 3])) if ragged else h
    torch.testing.assert_close(pool(x).value, plain(x).value)
    assert calls == [1]
