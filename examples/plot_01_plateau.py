"""
The plateau and its cure
========================

Each bag holds elements that are nearly alike; the label reaches beyond them. Softmax attention averages, so its prediction cannot follow, and the
correlation stops below a ceiling that can be computed. ``ECAPool`` starts as the same attention and learns to step outside.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

from excora import ECAPool, JointLoss, SoftmaxPool, parameter_groups, pearson
from excora.tasks import tasks

torch.manual_seed(0)
torch.set_num_threads(1)
task = tasks["plateau"](kappa=2.0).with_dispersion(0.24)
(train_h, train_y), (test_h, test_y) = task.sample(1024, seed=1), task.sample(1024, seed=2)


def curve(pool):
    """Test PCC after each epoch."""
    head, loss = nn.Linear(train_h.shape[-1], 1), JointLoss(weight=0.5)
    optimizer = torch.optim.AdamW(parameter_groups(nn.ModuleList([pool, head]), weight_decay=0.0), lr=2e-2)
    found = []
    for _ in range(25):
        for rows in torch.randperm(len(train_h)).split(64):
            pooled = pool(train_h[rows])
            optimizer.zero_grad()
            loss(head(pooled.value).squeeze(1), train_y[rows], penalty=pooled.penalty).backward()
            optimizer.step()
        with torch.no_grad():
            found.append(pearson(head(pool(test_h).value).squeeze(1), test_y).item())
    return found


dim = train_h.shape[-1]
curves = {"softmax": curve(SoftmaxPool(dim)), "ECA": curve(ECAPool(dim))}
print({name: round(found[-1], 3) for name, found in curves.items()})

# %%
# The picture: both learn alike at first; one goes on.
for name, found in curves.items():
    plt.plot(range(1, 26), found, label=name)
plt.axhline(task.best_softmax_pcc, linestyle=":", color="grey", label="the best that weights of softmax can do")
plt.xlabel("epoch")
plt.ylabel("test PCC")
plt.legend()
plt.show()

assert curves["ECA"][-1] > curves["softmax"][-1] + 0.03
