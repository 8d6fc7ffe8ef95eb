"""Runs on the plateau task that are trained into a known fault: what no real set shows on demand.

Each cause is produced by construction, with real pools, losses and optimisers on :class:`PlateauTask`; strengths and
noise vary with the seed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from excora.diagnosis.report import diagnose_run
from excora.losses import DispersionNormalizedPearsonLoss, JointLoss, PearsonLoss
from excora.monitor import PlateauMonitor
from excora.pooling import ECAPool, LinearScorer, Pool, SoftmaxPool
from excora.tasks.plateau import PlateauTask
from excora_studies.verdicts.sets import Samples
from excora_studies.verdicts.simple import GIVEN, Simple, simple
from excora_studies.verdicts.training import Recording, rounded

BAGS, BATCH = 512, 128
FIRST = 200  #: seeds 0 to 3, 100 to 105 and from 1000 on were looked at while limits were set
Draw = Callable[[float, float], float]


@dataclasses.dataclass
class Run:
    """A run before its training: what a cause sets up."""

    task: PlateauTask
    pool: Pool
    loss: nn.Module = dataclasses.field(default_factory=lambda: JointLoss(DispersionNormalizedPearsonLoss()))
    epochs: int = 80
    lr: float = 0.03
    decay: Callable[[int], float] = lambda epoch: 0.94 ** max(epoch - 30, 0)
    target: Callable[[Tensor], Tensor] = lambda y: y


def _task(draw: Draw, **fields: float) -> PlateauTask:
    return PlateauTask(**{"eta": draw(0.7, 1.2), "nu": draw(0.7, 1.2), "label_std": draw(0.02, 0.5), **fields})  # type: ignore[arg-type]


def _scorer(pool: Pool, weight: Tensor, *, frozen: bool = False) -> Pool:
    """Start the pool's linear scorer from z = h . ``weight``."""
    scorer = pool.scorer
    assert isinstance(scorer, LinearScorer)
    with torch.no_grad():
        scorer.weight.copy_(weight / scorer.scale)
    scorer.weight.requires_grad_(not frozen)
    return pool


def healthy(seed: int, draw: Draw) -> Run:
    """What the pool can express and training finds, by thirds: ECA with kappa above eta; softmax below; and softmax
    where the mean is already right (kappa = eta / K), so that uniform attention is no fault.
    """
    eta, clean = draw(0.8, 1.2), {"label_std": draw(0.02, 0.25)}
    if seed % 3 == 0:
        return Run(_task(draw, eta=eta, kappa=eta * draw(1.2, 2.0), **clean), ECAPool(16), epochs=120)
    share = 0.1 if seed % 3 == 1 else draw(0.4, 0.9)
    return Run(_task(draw, eta=eta, kappa=eta * share, **clean), SoftmaxPool(16))


def capacity(_seed: int, draw: Draw) -> Run:
    """Softmax attention where the label reaches beyond the hull, trained to its ceiling."""
    eta = draw(0.5, 0.9)
    return Run(_task(draw, eta=eta, kappa=eta * draw(2.5, 4.0)), SoftmaxPool(16))


def optimisation(seed: int, draw: Draw) -> Run:
    """Training that does not get there: a learning rate that decays too early, or a scorer that no gradient reaches.

    The scorer starts blind to the key, attending to what distinguishes background elements.
    """
    task = _task(draw, kappa=draw(0.6, 1.2), floor_std=draw(0.1, 0.2))
    _, across = task.directions()
    start = torch.randn(16)
    start -= (start @ across.float() + draw(0.0, 0.3)) * across.float()
    pool = _scorer(SoftmaxPool(16), draw(1.0, 2.0) * start, frozen=seed % 2 == 1)
    if seed % 2:
        return Run(task, pool)
    rate = draw(0.3, 0.6)
    return Run(task, pool, lr=draw(0.01, 0.03), decay=lambda epoch: rate ** max(epoch - 2, 0))


def collapsed(seed: int, draw: Draw) -> Run:
    """Attention that stays uniform: a scorer frozen at zero, or a temperature of a hundred."""
    task = _task(draw, kappa=draw(0.6, 1.2))
    if seed % 2:
        return Run(task, _scorer(SoftmaxPool(16), torch.zeros(16), frozen=True))
    return Run(task, ECAPool(16, residual=None, temperature=(draw(60.0, 120.0), 0.0)))


def saturated(_seed: int, draw: Draw) -> Run:
    """A scorer that starts so large that one background element takes all: its softmax has no gradient."""
    task = _task(draw, kappa=draw(0.6, 1.2))
    _, across = task.directions()
    return Run(task, _scorer(SoftmaxPool(16), draw(1e4, 3e4) * (torch.randn(16) / 4 - 2 * across.float())))


def noise(_seed: int, draw: Draw) -> Run:
    """Labels of which a good part is noise, fitted as well as can be."""
    eta = draw(0.8, 1.2)
    return Run(
        _task(draw, eta=eta, kappa=eta * draw(0.4, 0.9), label_std=draw(1.0, 2.5)),
        SoftmaxPool(16),
    )


def affine(_seed: int, draw: Draw) -> Run:
    """Trained by correlation alone, which sees neither scale nor offset, on a target far from zero."""
    eta = draw(0.8, 1.2)
    offset = draw(1.0, 4.0)
    task = _task(draw, eta=eta, kappa=eta * draw(0.4, 0.9))
    return Run(task, SoftmaxPool(16), loss=PearsonLoss(), target=lambda y: y + offset)


def improving(_seed: int, draw: Draw) -> Run:
    """Stopped early: a third of the way with a small learning rate."""
    task = _task(draw, kappa=draw(0.6, 1.2))
    epochs = round(draw(30, 50))
    return Run(task, SoftmaxPool(16), epochs=epochs, lr=draw(1.5e-3, 3e-3), decay=lambda _: 1.0)


CAUSES: dict[str, Callable[[int, Draw], Run]] = {
    "healthy": healthy,
    "capacity-limited": capacity,
    "optimisation-limited": optimisation,
    "attention collapsed": collapsed,
    "attention saturated": saturated,
    "data-limited": noise,
    "scale or offset only": affine,
    "still improving": improving,
}


def _run(cause: str, seed: int) -> Run:
    """To be trained; the random state goes on where it leaves it."""
    generator = torch.Generator().manual_seed(10_000 + seed)

    def draw(low: float, high: float) -> float:
        return low + (high - low) * float(torch.rand((), generator=generator))

    torch.manual_seed(seed)
    return CAUSES[cause](seed, draw)


def reached(cause: str, seed: int) -> dict[str, Any]:
    """What simple models reach on the bags of a run."""
    with torch.random.fork_rng(devices=[]):
        run = _run(cause, seed)
        h, y = run.task.sample(3 * BAGS, seed=seed)
    samples = Samples(h.double().numpy(), np.ones(h.shape[:2], dtype=bool), run.target(y).double().numpy())
    return simple(samples, tuple(np.split(np.arange(3 * BAGS), 3)), GIVEN)._asdict()


def record(cause: str, seed: int) -> dict[str, Any]:
    """Train one run of that cause under two monitors, in plain numbers."""
    with torch.random.fork_rng(devices=[]):
        run = _run(cause, seed)
        h, y = run.task.sample(3 * BAGS, seed=seed)
        found = _fit(run, h, run.target(y))
    return {"cause": cause, "seed": seed, "run": found.to_dict()}


def judge(stored: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """What is said of a run, beside what simple models reach, by the rules as they are."""
    run = Recording.from_dict(stored["run"])
    found = diagnose_run(run.training, run.validation, peers=Simple(**others).given).verdict
    cause = stored["cause"]
    row = {"set": "plateau task", "seed": stored["seed"], "cause": cause, "clear": True, "right": [cause]}
    return row | {"verdict": found.name, "sentence": found.sentence}


def _fit(run: Run, h: Tensor, y: Tensor) -> Recording:
    """The first third is trained on, the second is validation, the third nobody sees."""
    head, training, validation = nn.Linear(h.shape[2], 1), PlateauMonitor(), PlateauMonitor(stage="validation")
    scorer, held = run.pool.scorer, slice(BAGS, 2 * BAGS)
    # The weights of a scaled scorer step by lr / scale, so that z = h . w does by lr: causes are named in z.
    quick = [scorer.weight] if isinstance(scorer, LinearScorer) else []
    rest = [p for module in (run.pool, head) for p in module.parameters() if all(p is not q for q in quick)]
    groups: list[dict[str, Any]] = [{"params": rest}, {"params": quick, "lr": run.lr / getattr(scorer, "scale", 1.0)}]
    trained = [group | {"params": [p for p in group["params"] if p.requires_grad]} for group in groups]
    optimiser = torch.optim.Adam([group for group in trained if group["params"]], lr=run.lr)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, run.decay)
    for _ in range(run.epochs):
        for rows in torch.randperm(BAGS).split(BATCH):
            pooled = run.pool(h[rows])
            prediction = head(pooled.value).squeeze(1)
            training.update(prediction, y[rows])
            extra = {"penalty": pooled.penalty} if isinstance(run.loss, JointLoss) else {}
            optimiser.zero_grad()
            run.loss(prediction, y[rows], **extra).backward()
            optimiser.step()
        schedule.step()
        with torch.no_grad():
            pooled = run.pool(h[held])
            validation.update(head(pooled.value).squeeze(1), y[held], pooled=pooled, h=h[held], head=head)
        training.end_epoch()
        validation.end_epoch()
    rows = rounded(validation.records)
    return Recording(rounded(training.records), rows, [0.0] * len(rows), 0, {})
