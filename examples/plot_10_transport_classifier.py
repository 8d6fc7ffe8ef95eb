"""
A classifier by optimal transport
=================================

Move each class onto a normal cloud of its own, then ask which cloud is near. After Quadrio and Candelieri (arXiv 2512.09530), with the pairing put right: for two classes, dummies are drawn
around two means 12 apart; within a class points and dummies are paired at the least squared cost; a small network learns point -> dummy; the class of a new point is the nearest mean
after the move. Of two normal classes with means (-i, 0) and (i, 0) and covariance 2 I no classifier gets more than Phi(i / sqrt(2)) of the points.
"""

import math

import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import nn

from excora.diagnosis.transport import transport

torch.set_num_threads(1)
MEANS = np.array([[6.0, 0.0], [-6.0, 0.0]])


def drawn(separation, instances, seed, rows=10):
    """Points (instances, rows, 2) and the class of each instance."""
    label = np.arange(instances) % 2
    x = np.random.default_rng(seed).normal(scale=math.sqrt(2), size=(instances, rows, 2))
    x[..., 0] += separation * np.where(label == 0, -1.0, 1.0)[:, None]
    return x, label


def paired(x, label, seed=1):
    """The dummy of each point, paired at the least cost within its class."""
    rng, dummy = np.random.default_rng(seed), np.empty_like(x)
    for k, mean in enumerate(MEANS):
        mine = np.flatnonzero(label == k)
        cloud = rng.normal(size=(len(mine), 2)) + mean
        dummy[mine] = cloud[linear_sum_assignment(((x[mine, None] - cloud[None]) ** 2).sum(2))[1]]
    return dummy


def trained(x, dummy):
    """A network that carries points to their dummies."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    points, aim = (torch.as_tensor(one, dtype=torch.float32) for one in (x, dummy))
    for _ in range(150):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(points), aim).backward()
        optimizer.step()
    return model


def classified(separation):
    """Shares of new points, and of new instances (their rows together), that get their class; and the move itself."""
    x, label = drawn(separation, 90, seed=0)
    flat, of_point = x.reshape(-1, 2), np.repeat(label, x.shape[1])
    centre, scale = flat.mean(0), flat.std(0)
    flat = (flat - centre) / scale
    dummy = paired(flat, of_point)
    model = trained(flat, dummy)
    new, truth = drawn(separation, 400, seed=2)
    with torch.no_grad():
        moved = model(torch.as_tensor((new - centre) / scale, dtype=torch.float32)).double().numpy()
    near = -np.linalg.norm(moved[:, :, None] - MEANS, axis=-1)
    logit = near - np.log(np.exp(near).sum(-1, keepdims=True))  # log softmax of each row, added up over an instance
    shares = ((logit.argmax(-1) == truth[:, None]).mean(), (logit.sum(1).argmax(-1) == truth).mean())
    return shares, (flat, dummy, of_point)


best = {i: 0.5 * (1 + math.erf(i / 2)) for i in (1.0, 2.0, 3.0)}
found = {i: classified(i) for i in best}
for i, ((points, instances), _) in found.items():
    print(f"separation {i:g}: points {points:.3f} (best possible {best[i]:.3f}), instances {instances:.3f}")

flat, dummy, of_point = found[2.0][1]
print("the pairing is an optimal map:", transport([flat, dummy], label=of_point).optimality)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.5))
for k, colour in enumerate(("#0072B2", "#D55E00")):
    mine = np.flatnonzero(of_point == k)[:80]
    axes[0].plot(*np.stack([flat[mine], dummy[mine]]).transpose(2, 0, 1), color=colour, linewidth=0.5)
    axes[0].plot(*flat[mine].T, ".", color=colour)
axes[0].set_title("points (dots) and where they are moved")
axes[1].plot(list(best), list(best.values()), "k:", label="best possible")
axes[1].plot(list(found), [shares[0] for shares, _ in found.values()], "o-", label="points")
axes[1].plot(list(found), [shares[1] for shares, _ in found.values()], "s-", label="instances of 10 points")
axes[1].set_xlabel("separation")
axes[1].set_ylabel("accuracy")
axes[1].legend()
plt.show()

assert all(shares[0] > best[i] - 0.03 for i, (shares, _) in found.items())
assert found[2.0][0][1] > 0.99
assert abs(transport([flat, dummy], label=of_point).optimality - 1) < 1e-9
