"""
Exact data-parallel correlation
===============================

A mean of the ranks' correlations is not the correlation of the batch. Excora's losses reduce sums and counts, so that two ranks, or a hundred micro-batches, give the
gradient of one process. Here a large batch is taken apart into micro-batches of four.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

from excora import PearsonLoss, accumulate_backward

torch.manual_seed(0)
x, y = torch.randn(64, 8, dtype=torch.float64), torch.randn(64, dtype=torch.float64)
model, loss = nn.Linear(8, 1).double(), PearsonLoss()


def gradient():
    """Of the weights, and reset."""
    found = model.weight.grad.clone().ravel()
    model.zero_grad()
    return found


loss(model(x).squeeze(1), y).backward()
whole = gradient()
for rows in torch.arange(64).split(4):
    (loss(model(x[rows]).squeeze(1), y[rows]) / 16).backward()
naive = gradient()
accumulate_backward(
    model,
    lambda rows: {"prediction": model(x[rows]).squeeze(1), "target": y[rows]},
    loss,
    list(torch.arange(64).split(4)),
)
exact = gradient()
print("naive, off by", (naive - whole).norm().item() / whole.norm().item())
print("exact, off by", (exact - whole).norm().item() / whole.norm().item())

# %%
# The gradient of the whole batch, of the mean of micro-batches, and of ``accumulate_backward``. Under ``torchrun`` the losses do the same over ranks by themselves.
for k, (name, found) in enumerate({"whole batch": whole, "mean of micro-batches": naive, "exact": exact}.items()):
    plt.bar(torch.arange(8) + 0.27 * (k - 1), found, width=0.25, label=name)
plt.xlabel("weight")
plt.ylabel("gradient of 1 - PCC")
plt.legend()
plt.show()

assert torch.allclose(exact, whole, rtol=1e-10)
assert not torch.allclose(naive, whole, rtol=0.1)
