"""Signed attention against its formula."""

from __future__ import annotations

import numpy as np
import torch

from excora.pooling.signed import SignedPool
from pooling.samples import DIM, batch


def test_weights_have_the_sign_of_their_score_and_the_softmax_of_its_size():
    torch.manual_seed(0)
    pool = SignedPool(DIM).double()
    h, mask = batch()
    pooled = pool(h, mask)
    for s in range(1, len(h)):
        real = h[s][mask[s]]
        z = pool.sign(real).detach().numpy()
        wanted = np.sign(z) * np.exp(np.abs(z)) / np.exp(np.abs(z)).sum()
        np.testing.assert_allclose(pooled.effective[s][mask[s]].detach(), wanted, atol=1e-12)
        np.testing.assert_allclose(pooled.value[s].detach(), wanted @ real.numpy(), atol=1e-12)
    assert (pooled.effective < 0).any()
    assert (pooled.weights >= 0).all()
