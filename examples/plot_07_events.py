"""
Event sequences
===============

Events come at irregular times, and the label depends on when. A long table needs no code, ``excora fit events.csv --bag id --time-within t --target y``; here the same
in Python: a time encoding beside the features, then any pool.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

from excora import SoftmaxPool, pearson
from excora.encodings.time import Bochner
from excora.tasks import tasks

torch.manual_seed(0)
torch.set_num_threads(1)
task = tasks["event-times"]()
(h, y), (test_h, test_y) = task.sample(768, seed=1), task.sample(512, seed=2)
time = Bochner(16, shortest=1.0, longest=40.0)


def fitted(with_time):
    """Test PCC of a mean of a small network over the events, with and without their times."""

    def seen(x):
        return torch.cat([x[..., :-1], time(x[..., -1])], -1) if with_time else x[..., :-1]

    net = nn.Sequential(nn.Linear(seen(h).shape[-1], 64), nn.GELU(), nn.Linear(64, 16))
    pool, head = SoftmaxPool(16), nn.Linear(16, 1)
    parts = nn.ModuleList([net, pool, head, time])
    optimizer = torch.optim.Adam(parts.parameters(), lr=5e-3)
    for _ in range(15):
        for rows in torch.randperm(len(h)).split(64):
            optimizer.zero_grad()
            nn.functional.mse_loss(head(pool(net(seen(h[rows]))).value).squeeze(1), y[rows]).backward()
            optimizer.step()
    with torch.no_grad():
        return pearson(head(pool(net(seen(test_h))).value).squeeze(1), test_y).item()


found = {"no time": fitted(False), "Bochner time": fitted(True), "the best possible": task.bayes_pcc}
print(found)
plt.bar(list(found), list(found.values()))
plt.ylabel("test PCC")
plt.show()

assert found["Bochner time"] > found["no time"]
