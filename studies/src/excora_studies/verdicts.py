"""Evidence for the verdicts: runs trained into a known fault, and what the monitor says of them.

Each cause is produced by construction, with real pools, losses and optimisers on :class:`PlateauTask`; strengths and
noise vary with the seed. Two severities: "clear" faults, and "mild" ones that cost little and lie near the thresholds.
Causes and thresholds were settled on clear faults of seeds from 1000 on; reported are seeds 0 to 9 of each cause
(healthy: 0 to 19, so that one false alarm is 5 %).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from excora.diagnosis.verdicts import TEXTS, Thresholds
from excora.losses import DispersionNormalizedPearsonLoss, JointLoss, PearsonLoss
from excora.monitor import PlateauMonitor
from excora.pooling import ECAPool, LinearScorer, Pool, SoftmaxPool
from excora.tasks.plateau import PlateauTask
from excora_studies.figures import Figure, Heat, Panel
from excora_studies.markdown import Contents, table
from excora_studies.runner import Chunk, Report, Results, Tick

BAGS, BATCH = 512, 128
#: What a recorded run can be told; "overfitting" takes a validation part.
VERDICTS = tuple(name for name in TEXTS if name != "overfitting")
SEVERITIES = ("clear", "mild")
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


def healthy(seed: int, draw: Draw, mild: bool) -> Run:
    """What the pool can express and training finds, by thirds: ECA with kappa above eta; softmax below; and softmax
    where the mean is already right (kappa = eta / K), so that uniform attention is no fault.
    """
    eta, clean = draw(0.8, 1.2), {"label_std": draw(0.25, 0.35) if mild else draw(0.02, 0.25)}
    if seed % 3 == 0:
        return Run(_task(draw, eta=eta, kappa=eta * draw(1.2, 2.0), **clean), ECAPool(16), epochs=120)
    share = 0.1 if seed % 3 == 1 else draw(0.4, 0.9)
    return Run(_task(draw, eta=eta, kappa=eta * share, **clean), SoftmaxPool(16))


def capacity(_seed: int, draw: Draw, mild: bool) -> Run:
    """Softmax attention where the label reaches beyond the hull, trained to its ceiling."""
    eta = draw(0.5, 0.9)
    return Run(_task(draw, eta=eta, kappa=eta * (draw(1.4, 2.5) if mild else draw(2.5, 4.0))), SoftmaxPool(16))


def optimisation(seed: int, draw: Draw, mild: bool) -> Run:
    """Training that does not get there: a learning rate that decays too early, or a scorer that no gradient reaches.

    The scorer starts blind to the key, attending to what distinguishes background elements.
    """
    task = _task(draw, kappa=draw(0.3, 0.6) if mild else draw(0.6, 1.2), floor_std=draw(0.1, 0.2))
    _, across = task.directions()
    start = torch.randn(16)
    start -= (start @ across.float() + draw(0.0, 0.3)) * across.float()
    pool = _scorer(SoftmaxPool(16), draw(1.0, 2.0) * start, frozen=seed % 2 == 1)
    if seed % 2:
        return Run(task, pool)
    rate = draw(0.3, 0.6)
    return Run(task, pool, lr=draw(0.01, 0.03), decay=lambda epoch: rate ** max(epoch - 2, 0))


def collapsed(seed: int, draw: Draw, mild: bool) -> Run:
    """Attention that stays uniform: a scorer frozen at zero, or a temperature of a hundred."""
    task = _task(draw, kappa=draw(0.3, 0.6) if mild else draw(0.6, 1.2))
    if seed % 2:
        return Run(task, _scorer(SoftmaxPool(16), torch.zeros(16), frozen=True))
    return Run(task, ECAPool(16, residual=None, temperature=(draw(60.0, 120.0), 0.0)))


def saturated(_seed: int, draw: Draw, mild: bool) -> Run:
    """A scorer that starts so large that one background element takes all: its softmax has no gradient."""
    task = _task(draw, kappa=draw(0.3, 0.6) if mild else draw(0.6, 1.2))
    _, across = task.directions()
    return Run(task, _scorer(SoftmaxPool(16), draw(1e4, 3e4) * (torch.randn(16) / 4 - 2 * across.float())))


def noise(_seed: int, draw: Draw, mild: bool) -> Run:
    """Labels of which a good part is noise, fitted as well as can be."""
    eta = draw(0.8, 1.2)
    return Run(
        _task(draw, eta=eta, kappa=eta * draw(0.4, 0.9), label_std=draw(0.5, 1.0) if mild else draw(1.0, 2.5)),
        SoftmaxPool(16),
    )


def affine(_seed: int, draw: Draw, mild: bool) -> Run:
    """Trained by correlation alone, which sees neither scale nor offset, on a target far from zero."""
    eta = draw(0.8, 1.2)
    offset = draw(0.3, 1.0) if mild else draw(1.0, 4.0)
    task = _task(draw, eta=eta, kappa=eta * draw(0.4, 0.9))
    return Run(task, SoftmaxPool(16), loss=PearsonLoss(), target=lambda y: y + offset)


def improving(_seed: int, draw: Draw, mild: bool) -> Run:
    """Stopped early: a third of the way with a small learning rate."""
    task = _task(draw, kappa=draw(0.6, 1.2))
    epochs = round(draw(50, 80) if mild else draw(30, 50))
    return Run(task, SoftmaxPool(16), epochs=epochs, lr=draw(1.5e-3, 3e-3), decay=lambda _: 1.0)


CAUSES: dict[str, Callable[[int, Draw, bool], Run]] = {
    "healthy": healthy,
    "capacity-limited": capacity,
    "optimisation-limited": optimisation,
    "attention collapsed": collapsed,
    "attention saturated": saturated,
    "noise-limited": noise,
    "scale or offset only": affine,
    "still improving": improving,
}


def train(cause: str, seed: int, *, mild: bool = False) -> PlateauMonitor:
    """Train one run of that cause under a monitor."""
    generator = torch.Generator().manual_seed(10_000 + seed)

    def draw(low: float, high: float) -> float:
        return low + (high - low) * float(torch.rand((), generator=generator))

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        run = CAUSES[cause](seed, draw, mild)
        h, y = run.task.sample(BAGS, seed=seed)
        return _fit(run, h, run.target(y))


def _fit(run: Run, h: Tensor, y: Tensor) -> PlateauMonitor:
    head, monitor = nn.Linear(h.shape[2], 1), PlateauMonitor()
    scorer = run.pool.scorer
    # The weights of a scaled scorer step by lr / scale, so that z = h . w does by lr: causes are named in z.
    quick = [scorer.weight] if isinstance(scorer, LinearScorer) else []
    rest = [p for module in (run.pool, head) for p in module.parameters() if all(p is not q for q in quick)]
    groups: list[dict[str, Any]] = [{"params": rest}, {"params": quick, "lr": run.lr / getattr(scorer, "scale", 1.0)}]
    trained = [group | {"params": [p for p in group["params"] if p.requires_grad]} for group in groups]
    optimiser = torch.optim.Adam([group for group in trained if group["params"]], lr=run.lr)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, run.decay)
    for _ in range(run.epochs):
        for rows in torch.randperm(len(h)).split(BATCH):
            pooled = run.pool(h[rows])
            prediction = head(pooled.value).squeeze(1)
            monitor.update(prediction, y[rows], pooled=pooled, h=h[rows], head=head)
            extra = {"penalty": pooled.penalty} if isinstance(run.loss, JointLoss) else {}
            optimiser.zero_grad()
            run.loss(prediction, y[rows], **extra).backward()
            optimiser.step()
        schedule.step()
        monitor.end_epoch()
    return monitor


def judge(cause: str, seed: int, *, mild: bool = False) -> dict[str, Any]:
    """Verdict and last record of one run."""
    monitor = train(cause, seed, mild=mild)
    return {"cause": cause, "seed": seed, "verdict": monitor.verdict().name, **monitor.records[-1]}


def configure(*, seeds: int | None, preset: str, data: Path | None) -> dict[str, Any]:  # noqa: ARG001  (the protocol)
    """Everything that the numbers depend on; ``data`` is not used."""
    count = seeds or (1 if preset == "quick" else 10)
    return {
        "severities": ["mild"] if preset == "quick" else list(SEVERITIES),
        "seeds": {cause: 2 * count if cause == "healthy" and preset != "quick" else count for cause in CAUSES},
        "bags": BAGS,
        "batch": BATCH,
        "thresholds": dataclasses.asdict(Thresholds()),
    }


def chunks(configuration: dict[str, Any], data: Path | None) -> list[Chunk]:  # noqa: ARG001  (the protocol)
    """A chunk for each severity and cause."""

    def chunk(severity: str, cause: str) -> Chunk:
        seeds = configuration["seeds"][cause]

        def compute(_: Results, tick: Tick) -> Any:
            rows = []
            for seed in range(seeds):
                rows.append(judge(cause, seed, mild=severity == "mild"))
                tick()
            return rows

        return Chunk(f"{severity}: {cause}", seeds, compute)

    return [chunk(severity, cause) for severity in configuration["severities"] for cause in CAUSES]


def score(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Confusion counts, share right (each cause counts the same), and false alarms: healthy runs given any fault."""
    counts = {c: {v: sum(r["cause"] == c and r["verdict"] == v for r in rows) for v in VERDICTS} for c in CAUSES}
    fine = counts["healthy"]
    innocent = fine["healthy"] + fine["still improving"] + fine["cannot tell"]
    right = [counts[cause][cause] / max(sum(counts[cause].values()), 1) for cause in CAUSES]
    alarms = 1.0 - innocent / max(sum(fine.values()), 1)
    return {"right": sum(right) / len(right), "false_alarms": alarms, "confusion": counts}


def report(configuration: dict[str, Any], results: Results) -> Report:
    """The confusion matrix of each severity, with the share right and the share of false alarms."""
    severities = configuration["severities"]
    scores = {s: score([row for cause in CAUSES for row in results[f"{s}: {cause}"]]) for s in severities}
    rows = [
        {"severity": severity, "cause": cause, **counts, **_told(cause, counts)}
        for severity in severities
        for cause, counts in scores[severity]["confusion"].items()
    ]
    notes = [f"{s}: {scores[s]['right']:.1%} right, {scores[s]['false_alarms']:.1%} false alarms" for s in severities]
    panels = [
        Panel(
            title=note,
            x="verdict",
            y="cause by construction",
            heat=Heat(
                x=list(VERDICTS),
                y=list(CAUSES),
                z=[list(counts.values()) for counts in scores[severity]["confusion"].values()],
                limit=max(configuration["seeds"].values()),
            ),
        )
        for severity, note in zip(severities, notes, strict=True)
    ]
    figure = Figure(title="Verdicts on runs of a known cause", panels=panels, columns=len(panels), size=(6.5, 5.0))
    columns = ("severity", "cause", "runs", "right", "instead")
    return Report(rows, scores, {"confusion": figure}, notes, columns)


def _told(cause: str, counts: dict[str, int]) -> dict[str, Any]:
    """How many runs of a cause were given it, and what the others were given."""
    wrong = [f"{verdict} {count}" for verdict, count in counts.items() if count and verdict != cause]
    return {"runs": sum(counts.values()), "right": counts[cause], "instead": ", ".join(wrong)}


def _block(contents: Contents, severity: str) -> str:
    """The confusion matrix of one severity."""
    found = contents["verdicts"]["summary"][severity]
    verdicts = list(next(iter(found["confusion"].values())))
    rows = [[cause, *(str(n) if n else "" for n in row.values())] for cause, row in found["confusion"].items()]
    line = f"{severity.capitalize()} faults: **{found['right']:.0%} right, {found['false_alarms']:.0%} false alarms**"
    return f"{line} on healthy runs.\n\n{table(('cause, below; verdict, right', *verdicts), rows)}"


#: For the pages: what stands between the marks of that name.
BLOCKS = {
    "clear faults": functools.partial(_block, severity="clear"),
    "mild faults": functools.partial(_block, severity="mild"),
}
