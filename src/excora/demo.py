"""The demonstration: softmax pooling against extrapolative pooling on the synthetic plateau task, in under a minute."""

from __future__ import annotations

import copy
import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from excora.data.synthetic import PlateauTask
from excora.losses import JointLoss
from excora.moments import pearson
from excora.pooling import ECAPool, Pool, SoftmaxPool, parameter_groups

TRAIN, VALIDATION, TEST = 500, 300, 2000
CHECK_EVERY = 10

# One task in which the label reaches beyond the bag (kappa = 2 eta), one in which attention alone is enough.
SETTINGS = {
    "label beyond the bag": PlateauTask(eta=0.6, nu=0.55, kappa=1.2),
    "label within the bag": PlateauTask(eta=0.6, nu=0.55, kappa=0.6),
}
POOLS: dict[str, Callable[[int], Pool]] = {"softmax": SoftmaxPool, "ECA": ECAPool}


@dataclass(frozen=True)
class Result:
    """Test PCC and MSE of one pool on one task, a number per seed, and the best PCC that softmax can reach."""

    setting: str
    pool: str
    pcc: list[float]
    mse: list[float]
    ceiling: float

    def spread(self, values: list[float]) -> tuple[float, float]:
        """Mean and standard deviation over seeds."""
        return statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0


class _Regressor(nn.Module):
    def __init__(self, pool: Pool) -> None:
        super().__init__()
        self.pool, self.head = pool, nn.Linear(pool.dim, 1)

    def forward(self, h: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        pooled = self.pool(h)
        return self.head(pooled.value).squeeze(1), pooled.penalty


def train(pool: Pool, task: PlateauTask, seed: int, steps: int, tick: Callable[[], None]) -> tuple[float, float]:
    """Train pool and linear head with the joint loss, keep the weights best on validation; test PCC and MSE."""
    (h, y), (h_val, y_val), (h_test, y_test) = (
        task.sample(bags, seed=3 * seed + part) for part, bags in enumerate((TRAIN, VALIDATION, TEST))
    )
    model = _Regressor(pool)
    loss = JointLoss()
    optimizer = torch.optim.Adam(parameter_groups(model, 0.0), lr=2e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    best, kept = -2.0, copy.deepcopy(model.state_dict())
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        prediction, penalty = model(h)
        loss(prediction, y, penalty=penalty).backward()
        optimizer.step()
        schedule.step()
        if step % CHECK_EVERY == 0:
            with torch.no_grad():
                score = float(pearson(model(h_val)[0], y_val))
            if score > best:
                best, kept = score, copy.deepcopy(model.state_dict())
        tick()
    model.load_state_dict(kept)
    with torch.no_grad():
        prediction = model(h_test)[0]
        return float(pearson(prediction, y_test)), float((prediction - y_test).square().mean())


def run(*, seeds: int = 3, steps: int = 600, tick: Callable[[], None] = lambda: None) -> list[Result]:
    """Every pool on every setting; ``tick`` is called after each of the ``total(seeds, steps)`` training steps."""
    results = []
    for setting, task in SETTINGS.items():
        for name, make in POOLS.items():
            scores = []
            for seed in range(seeds):
                torch.manual_seed(seed)
                scores.append(train(make(task.dim), task, seed, steps, tick))
            pcc, mse = (list(column) for column in zip(*scores, strict=True))
            results.append(Result(setting, name, pcc, mse, task.best_softmax_pcc))
    return results


def total(seeds: int, steps: int) -> int:
    """Number of training steps of a run."""
    return len(SETTINGS) * len(POOLS) * seeds * steps
