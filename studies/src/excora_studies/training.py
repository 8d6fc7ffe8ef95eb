"""How the stacked studies train and select: one protocol for all models, the epoch chosen on validation."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from excora.pooling import ECAPool
from excora.tasks.plateau import PlateauTask
from excora_studies.stacked import Bags, Output, Stack, Variant, scores

SOFTMAX, PAPER, OURS = "softmax", "ECA (paper)", "ECA (ours)"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Protocol:
    """Adam along a cosine to 0, from that of ``rates`` which suits a model; shuffled batches; sizes are in bags."""

    epochs: int
    batch: int = 250
    rates: Sequence[float] = (3e-2, 1e-1, 3e-1, 1.0)
    train: int = 2000
    validation: int = 300
    # DIFF: the paper has 300; fresh bags cost nothing here, and 2000 tell differences of 0.001.
    test: int = 2000
    looks: int = 50

    @classmethod
    def quick(cls, epochs: int) -> Protocol:
        """For trying a study out."""
        return cls(epochs=epochs, batch=64, train=128, validation=50, test=100, rates=(0.1, 0.3))

    def evaluations(self) -> list[int]:
        """Epochs after which the models are looked at: the start, each of the first ten, then ``looks`` more."""
        step = max(1, self.epochs // self.looks)
        return sorted({*range(min(10, self.epochs) + 1), *range(step, self.epochs + 1, step), self.epochs})


class Look(NamedTuple):
    """What an observer sees after an epoch (0: before the first): the stack as it is then, and its predictions."""

    stack: Stack
    epoch: int
    train: Tensor  # (groups, variants, bags)
    validation: Tensor


def sample(tasks: Sequence[PlateauTask], seeds: Sequence[int], protocol: Protocol) -> tuple[Bags, Bags, Bags]:
    """Training, validation and test bags of each (task, seed); the same seed has the same centres in every task."""
    sizes = (protocol.train, protocol.validation, protocol.test)
    return tuple(  # type: ignore[return-value]  # three, as there are three sizes
        Bags.of([task.sample(size, seed=3 * seed + part) for task, seed in zip(tasks, seeds, strict=True)])
        for part, size in enumerate(sizes)
    )


def train(
    stack: Stack,
    bags: tuple[Bags, Bags],
    protocol: Protocol,
    rates: Tensor,
    *,
    observe: Callable[[Look], None] | None = None,
    tick: Callable[[], None] = lambda: None,
    seed: int = 0,
) -> Tensor:
    """Train the stack, each model from its own of ``rates`` (groups, variants), or one for all.

    Leaves each model at its epoch of highest validation PCC, and returns these epochs.
    """
    training, validation = bags
    optimizer = torch.optim.Adam(stack.parameters(), lr=1.0)
    rates = rates.expand(len(stack.seeds), len(stack.variants))
    steps = protocol.train // protocol.batch
    generator = torch.Generator().manual_seed(seed)
    shape = len(stack.seeds), len(stack.variants)
    highest, chosen, best = torch.full(shape, -math.inf).double(), torch.zeros(shape), stack.snapshot()
    looks = set(protocol.evaluations())
    for epoch in range(protocol.epochs + 1):
        if epoch > 0:
            order = torch.randperm(protocol.train, generator=generator)
            for step in range(steps):
                done = ((epoch - 1) * steps + step) / (protocol.epochs * steps)
                optimizer.param_groups[0]["lr"] = (1.0 + math.cos(math.pi * done)) / 2.0
                batch = training.take(order[step * protocol.batch : (step + 1) * protocol.batch])
                optimizer.zero_grad()
                stack.loss(stack(batch), batch.target).backward()
                before = stack.snapshot()
                optimizer.step()
                stack.shorten(before, rates)
            tick()
        if epoch in looks:
            with torch.no_grad():
                seen = stack(validation).prediction
                if observe is not None:
                    observe(Look(stack, epoch, stack(training).prediction, seen))
            pcc, _ = scores(seen, validation.target)
            better = pcc > highest
            highest, chosen = torch.where(better, pcc, highest), torch.where(better, epoch, chosen)
            stack.keep_where(better, best)
    stack.restore(best)
    return chosen


Rates = Mapping[str, Sequence[float]]
"""By name of a variant its learning rate in each task."""

_NUMBERS = ("pcc", "mse", "validation_pcc", "validation_mse", "epoch", "rate")
_CURVES = ("train_pcc", "train_mse", "validation_pcc", "validation_mse")


def compare(
    tasks: Sequence[PlateauTask],
    seeds: Sequence[int],
    variants: Sequence[Variant],
    rates: Rates,
    protocol: Protocol,
    tick: Callable[[], None],
    *,
    curves: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Train all variants on each (task, seed); per group the chosen epoch and its validation and test scores.

    ``rates`` has a learning rate for each task by variant; ``curves`` names the variants whose scores at every look
    are kept.
    """
    training, validation, test = sample(tasks, seeds, protocol)
    stack = Stack(variants, seeds, tasks[0].dim)
    looks: list[Tensor] = []

    def observe(look: Look) -> None:
        pairs = ((look.train, training.target), (look.validation, validation.target))
        looks.append(torch.stack([score for pair in pairs for score in scores(*pair)]))

    begin = torch.tensor([rates[variant.name] for variant in variants]).T
    parts = training, validation
    chosen = train(stack, parts, protocol, begin, observe=observe if curves else None, tick=tick)
    with torch.no_grad():
        output, on_validation = stack(test), scores(stack(validation).prediction, validation.target)
    numbers = torch.stack([*scores(output.prediction, test.target), *on_validation, chosen.double(), begin.double()])
    groups: list[dict[str, Any]] = [
        {"task": dataclasses.asdict(task), "seed": seed, "models": _models(stack, output, numbers[:, g], g)}
        for g, (task, seed) in enumerate(zip(tasks, seeds, strict=True))
    ]
    for g, group in enumerate(groups):
        for v, variant in enumerate(variants):
            if variant.name in curves:
                history = torch.stack(looks)[:, :, g, v].T.tolist()
                group["models"][variant.name]["curves"] = dict(zip(_CURVES, history, strict=True))
    return groups


def _models(stack: Stack, output: Output, numbers: Tensor, group: int) -> dict[str, dict[str, Any]]:
    """The numbers of each variant of one group, and where it attends its mean gamma and temperature."""
    models: dict[str, dict[str, Any]] = {}
    for v, variant in enumerate(stack.variants):
        models[variant.name] = dict(zip(_NUMBERS, numbers[:, v].tolist(), strict=True))
        if v in stack.attends:
            a = stack.attends.index(v)
            gamma, temperature = output.gamma[group, a], output.temperature[group, a]
            models[variant.name] |= {"gamma": gamma.mean().item(), "gamma_sd": gamma.std(correction=0).item()}
            models[variant.name] |= {"temperature": temperature.mean().item()}
    return models


def form(dim: int) -> str:
    """Our pool as it is now, on one line: a change of its defaults is another configuration."""
    pool = ECAPool(dim)
    ours = pool.extrapolation
    return f"penalty_weight={ours.penalty_weight}, divisor={ours.divisor}, {' '.join(str(pool).split())}"


def variants(paper: dict[str, float]) -> list[Variant]:
    """Baselines, both forms of ECA and each ablation of ours; ``paper`` has the tuned t_min and beta.

    The baselines train with the paper's joint loss MSE + lambda (1 - rho), ECA with MSE + lambda DNPL.
    """
    fixed = {"t_min": paper["t_min"], "beta": paper["beta"]}
    return [
        Variant(name="mean", pool="mean", correlation="pcc"),
        Variant(name=SOFTMAX, pool="softmax", correlation="pcc"),
        Variant(name="softmax, MSE only", pool="softmax", correlation=None),
        Variant(name="softmax + DNPL", pool="softmax"),
        Variant(name=PAPER, pool="paper", options=fixed),
        Variant(name=OURS, pool="eca"),
        Variant(name="ours w/o SRA", pool="eca", options={"residual": None}),
        Variant(name="ours w/o DATS", pool="eca", options={"temperature": None}),
        Variant(name="ours w/o DNPL (PCC)", pool="eca", correlation="pcc"),
        Variant(name="ours w/o DNPL (MSE)", pool="eca", correlation=None),
    ]
