"""A classifier by optimal transport: move each class onto a normal cloud of its own, then ask which cloud is near.

After Quadrio and Candelieri (arXiv 2512.09530), with the pairing put right. For k classes: means on a circle of radius
3k, dummies drawn around them; within a class the points are paired with its dummies at the least squared cost; a small
network learns point -> dummy; the class of a new point is the nearest mean after the move. On two normal classes with
means (-i, 0) and (i, 0) and covariance 2 I the best possible accuracy is Phi(i / sqrt(2)).

    python examples/optimal_transport_classifier.py
"""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import nn

from excora.diagnosis.transport import transport


def drawn(separation: float, instances: int, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points (instances, rows, 2) and the class of each instance."""
    rng = np.random.default_rng(seed)
    label = np.arange(instances) % 2
    x = rng.normal(scale=math.sqrt(2), size=(instances, rows, 2))
    x[..., 0] += separation * np.where(label == 0, -1.0, 1.0)[:, None]
    return x, label


def paired(x: np.ndarray, label: np.ndarray, means: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The dummy of each point: drawn around the mean of its class, paired at the least cost within it."""
    dummy = np.empty_like(x)
    for k, mean in enumerate(means):
        mine = np.flatnonzero(label == k)
        cloud = rng.normal(size=(len(mine), 2)) + mean
        cost = ((x[mine, None] - cloud[None]) ** 2).sum(2)
        dummy[mine] = cloud[linear_sum_assignment(cost)[1]]
    return dummy


def trained(x: np.ndarray, dummy: np.ndarray, steps: int = 200) -> nn.Module:
    """A network of two layers of 32 that carries points to their dummies."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    points, aim = (torch.as_tensor(one, dtype=torch.float32) for one in (x, dummy))
    for _ in range(steps):
        optimizer.zero_grad()
        (model(points) - aim).square().mean().backward()
        optimizer.step()
    return model.eval()


def accuracies(separation: float) -> dict[str, float]:
    """Shares of new points and of new instances (their rows together) that get their class."""
    means = 6.0 * np.array([[1.0, 0.0], [-1.0, 0.0]])
    x, label = drawn(separation, 90, 10, seed=0)
    flat, of_point = x.reshape(-1, 2), np.repeat(label, x.shape[1])
    centre, scale = flat.mean(0), flat.std(0)
    dummy = paired((flat - centre) / scale, of_point, means, np.random.default_rng(1))
    model = trained((flat - centre) / scale, dummy)
    new, truth = drawn(separation, 400, 10, seed=2)
    with torch.no_grad():
        moved = model(torch.as_tensor((new - centre) / scale, dtype=torch.float32)).double().numpy()
    # log softmax(-|moved - mean|) of each row, summed over the rows of an instance
    near = -np.linalg.norm(moved[:, :, None] - means, axis=-1)
    logit = near - np.log(np.exp(near).sum(-1, keepdims=True))
    way = transport([(flat - centre) / scale, dummy], label=of_point)
    return {
        "points": float((logit.argmax(-1) == truth[:, None]).mean()),
        "instances": float((logit.sum(1).argmax(-1) == truth).mean()),
        "best possible": 0.5 * (1 + math.erf(separation / 2)),
        "optimality": way.optimality,
    }


if __name__ == "__main__":
    print("separation  points  instances  best possible (points)")
    for i in (1.0, 2.0, 3.0):
        found = accuracies(i)
        print(f"{i:10g}  {found['points']:.3f}   {found['instances']:.3f}      {found['best possible']:.3f}")
