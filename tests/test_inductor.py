"""torch.compile as it comes, through a C++ compiler: a pool and the losses.

In one file, which one worker runs: most of the time goes into finding out about the processor and compiling headers,
which the second graph finds done.
"""

from __future__ import annotations

import pytest
import torch
from pooling.samples import moved
from test_losses import batch, value_and_gradient
from torch import Tensor, nn

from excora import ECAPool
from excora.losses import ConcordanceLoss, JointLoss, PearsonLoss
from excora.reduce import Penalty

pytestmark = pytest.mark.long


def test_a_pool():
    pool = moved(ECAPool(6))
    h, mask = torch.randn(2, 5, 6), torch.zeros(2, 5, dtype=torch.bool)
    mask[0, :4] = True  # and an empty bag
    compiled = torch.compile(pool, fullgraph=True)(h, mask)
    torch.testing.assert_close(compiled.value, pool(h, mask).value, rtol=1e-4, atol=1e-5)


class AllLosses(nn.Module):
    """One graph of all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.joint = JointLoss()
        self.plain, self.concordance = PearsonLoss(), ConcordanceLoss()

    def forward(self, x: Tensor, y: Tensor, mask: Tensor, weight: Tensor, penalty: Penalty) -> Tensor:
        first = self.joint(x, y, mask, weight, penalty)
        return first + self.plain(x, y) + self.concordance(x, y, mask)


def test_all_losses_and_their_gradient():
    x, y, mask, weight = batch(20, 3, torch.float32)
    y[:, 1] = 1.0
    penalty = Penalty(torch.tensor(3.0), torch.tensor(2.0))
    losses = AllLosses()
    value, gradient = value_and_gradient(losses, x, y, mask, weight, penalty)
    compiled = torch.compile(losses, fullgraph=True)
    losses.joint.correlation.undefined = torch.tensor(0)
    again, same = value_and_gradient(compiled, x, y, mask, weight, penalty)
    torch.testing.assert_close(again, value)
    torch.testing.assert_close(same, gradient)
    assert losses.joint.undefined.item() == 1
