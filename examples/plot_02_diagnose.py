"""
Why has it stopped?
===================

Two monitors in a loop of your own, one for training and one for validation, and ``diagnose`` says what holds the correlation back, with its evidence.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import Ridge
from torch import nn

from excora import PlateauMonitor, SoftmaxPool, diagnose
from excora.tasks import tasks

torch.manual_seed(0)
torch.set_num_threads(1)
task = tasks["plateau"](kappa=2.0).with_dispersion(0.24)
(h, y), (held_h, held_y) = task.sample(512, seed=1), task.sample(512, seed=2)
pool, head = SoftmaxPool(h.shape[-1]), nn.Linear(h.shape[-1], 1)
optimizer = torch.optim.Adam([*pool.parameters(), *head.parameters()], lr=0.1)
monitor, held = PlateauMonitor(), PlateauMonitor(stage="validation")

for _ in range(40):
    for rows in torch.randperm(len(h)).split(64):
        pooled = pool(h[rows])
        prediction = head(pooled.value).squeeze(1)
        optimizer.zero_grad()
        nn.functional.mse_loss(prediction, y[rows]).backward()
        monitor.update(prediction, y[rows])  # one line a batch
        optimizer.step()
    with torch.no_grad():
        pooled = pool(held_h)
        held.update(head(pooled.value).squeeze(1), held_y, pooled=pooled, h=held_h, head=head)
    monitor.end_epoch(), held.end_epoch()  # and one an epoch

# %%
# What simple models reach on the same validation rows belongs to the evidence; ``excora fit`` measures them itself.
peers = []
for peer in (Ridge(), ExtraTreesRegressor(50, random_state=0)):
    reached = np.corrcoef(peer.fit(h.mean(1), y).predict(held_h.mean(1)), held_y)[0, 1]
    peers.append({"name": type(peer).__name__, "validation": {"pcc": float(reached)}})
found = diagnose(monitor, validation=held, peers=peers)
print(found)

# %%
# The curves that the verdict rests on.
plt.plot([record["pcc"] for record in held.records], label="validation PCC")
plt.plot([record["mse"] / held.records[0]["mse"] for record in held.records], label="validation MSE, of the first")
plt.xlabel("epoch")
plt.legend()
plt.show()

assert found.verdict
