"""How the stacked studies train and select: one protocol for all models, the epoch chosen on validation."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from excora.pooling import ECAPool
from excora.tasks.plateau import PlateauTask
from excora_studies.runner import Chunk, Results, Tick
from excora_studies.stacked import Bags, Output, Stack, Variant, scores

SOFTMAX, PAPER, OURS = "softmax", "ECA (paper)", "ECA (ours)"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Protocol:
    """Adam from ``rate`` to 0 along a cosine; shuffled batches; sizes are numbers of bags."""

    epochs: int
    batch: int = 250
    rate: float = 1e-2
    train: int = 2000
    validation: int = 300
    # DIFF: the paper has 300; fresh bags cost nothing here, and 2000 tell differences of 0.001.
    test: int = 2000
    looks: int = 50

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
    *,
    observe: Callable[[Look], None] | None = None,
    tick: Callable[[], None] = lambda: None,
    seed: int = 0,
) -> Tensor:
    """Train the stack; leave each model at its epoch of highest validation PCC, and return these epochs."""
    training, validation = bags
    optimizer = torch.optim.Adam(stack.parameters(), lr=protocol.rate)
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
                optimizer.param_groups[0]["lr"] = protocol.rate * (1.0 + math.cos(math.pi * done)) / 2.0
                batch = training.take(order[step * protocol.batch : (step + 1) * protocol.batch])
                optimizer.zero_grad()
                stack.loss(stack(batch), batch.target).backward()
                optimizer.step()
            tick()
        if epoch in looks:
            with torch.no_grad():
                look = Look(stack, epoch, stack(training).prediction, stack(validation).prediction)
            if observe is not None:
                observe(look)
            pcc, _ = scores(look.validation, validation.target)
            better = pcc > highest
            highest, chosen = torch.where(better, pcc, highest), torch.where(better, epoch, chosen)
            stack.keep_where(better, best)
    stack.restore(best)
    return chosen


_NUMBERS = ("pcc", "mse", "validation_pcc", "validation_mse", "epoch")
_CURVES = ("train_pcc", "train_mse", "validation_pcc", "validation_mse")


def compare(
    tasks: Sequence[PlateauTask],
    seeds: Sequence[int],
    variants: Sequence[Variant],
    protocol: Protocol,
    tick: Callable[[], None],
    *,
    curves: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Train all variants on each (task, seed); per group the chosen epoch and its validation and test scores.

    ``curves`` names the variants whose scores at every look are kept.
    """
    training, validation, test = sample(tasks, seeds, protocol)
    stack = Stack(variants, seeds, tasks[0].dim)
    looks: list[Tensor] = []

    def observe(look: Look) -> None:
        pairs = ((look.train, training.target), (look.validation, validation.target))
        looks.append(torch.stack([score for pair in pairs for score in scores(*pair)]))

    chosen = train(stack, (training, validation), protocol, observe=observe if curves else None, tick=tick)
    with torch.no_grad():
        output, on_validation = stack(test), scores(stack(validation).prediction, validation.target)
    numbers = torch.stack([*scores(output.prediction, test.target), *on_validation, chosen.double()])
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


T_MIN, BETA = (0.0, 0.4, 0.8), (0.5, 1.0, 3.0)


def tune_paper_form(
    tasks: Sequence[PlateauTask], seed: int, protocol: Protocol, tick: Callable[[], None]
) -> dict[str, Any]:
    """(t_min, beta) of the paper's range with the highest mean validation PCC over all tasks: one pair for all."""
    pairs = [(t_min, beta) for t_min in T_MIN for beta in BETA]
    variants = [
        Variant(name=f"{t_min}, {beta}", pool="paper", options={"t_min": t_min, "beta": beta}) for t_min, beta in pairs
    ]
    groups = compare(tasks, [seed] * len(tasks), variants, protocol, tick)
    means = [
        sum(group["models"][variant.name]["validation_pcc"] for group in groups) / len(groups) for variant in variants
    ]
    t_min, beta = pairs[max(range(len(pairs)), key=means.__getitem__)]
    return {"t_min": t_min, "beta": beta, "validation_pcc": dict(zip((v.name for v in variants), means, strict=True))}


TUNING_SEED = 100  # none of the seeds that are compared


def seed_chunks(
    tasks: Callable[[int], list[PlateauTask]], configuration: dict[str, Any], *, curves: Sequence[str] = ()
) -> list[Chunk]:
    """The chunks of a study of every variant: the paper's t_min and beta first, then one for each seed."""
    protocol = Protocol(**configuration["protocol"])

    def tune(_: Results, tick: Tick) -> Any:
        return tune_paper_form(tasks(TUNING_SEED), TUNING_SEED, protocol, tick)

    def seed_chunk(seed: int) -> Chunk:
        def compute(done: Results, tick: Tick) -> Any:
            settings = tasks(seed)
            return compare(settings, [seed] * len(settings), variants(done["tuning"]), protocol, tick, curves=curves)

        return Chunk(f"seed {seed}", protocol.epochs, compute)

    return [Chunk("tuning", protocol.epochs, tune), *map(seed_chunk, configuration["seeds"])]


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
