"""The learning rate of each arm in each setting, by equally many trials on validation bags of a seed of its own.

An under-trained softmax makes any alternative look good: one step size for all would decide the comparison.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from excora.tasks.plateau import PlateauTask
from excora_studies.runner import Chunk, Results, Tick
from excora_studies.stacked import Stack, Variant, scores
from excora_studies.training import Protocol, compare, sample, train, variants

TUNING_SEED = 100  # none of the seeds that are compared
T_MIN, BETA = (0.0, 0.4, 0.8), (0.5, 1.0, 3.0)  # the paper's range


def validated(
    models: Sequence[Variant], tasks: Sequence[PlateauTask], rates: Tensor, protocol: Protocol, tick: Tick
) -> Tensor:
    """Validation PCC (tasks, models) of each model at its best epoch, trained from its own of ``rates``.

    As many validation bags as a test has otherwise, so that nothing is picked by their luck; fewer looks.
    """
    protocol = dataclasses.replace(protocol, validation=protocol.test, test=1, looks=15)
    seeds = [TUNING_SEED] * len(tasks)
    training, validation, _ = sample(tasks, seeds, protocol)
    stack = Stack(models, seeds, tasks[0].dim)
    train(stack, (training, validation), protocol, rates, tick=tick)
    with torch.no_grad():
        pcc, _ = scores(stack(validation).prediction, validation.target)
    return pcc


def trials(arms: Sequence[Variant], tasks: Sequence[PlateauTask], protocol: Protocol, tick: Tick) -> Tensor:
    """Validation PCC (tasks, arms, rates) of every arm from every one of ``protocol.rates``."""
    count = len(protocol.rates)
    models, rates = [arm for arm in arms for _ in range(count)], torch.tensor([list(protocol.rates) * len(arms)])
    return validated(models, tasks, rates, protocol, tick).view(len(tasks), len(arms), count)


def tune(arms: Sequence[Variant], tasks: Sequence[PlateauTask], protocol: Protocol, tick: Tick) -> dict[str, Any]:
    """By name of the arm, the best of ``protocol.rates`` for each task and its validation PCC."""
    best = trials(arms, tasks, protocol, tick).max(2)
    return {
        "rates": {arm.name: [protocol.rates[i] for i in best.indices[:, a]] for a, arm in enumerate(arms)},
        "validation_pcc": {arm.name: best.values[:, a].tolist() for a, arm in enumerate(arms)},
    }


def tune_variants(tasks: Sequence[PlateauTask], protocol: Protocol, tick: Tick) -> dict[str, Any]:
    """:func:`tune` for all :func:`variants`; the paper's form also gets the t_min and beta of its range, one pair.

    They are found first, from the middle one of the rates: the pair with the highest mean validation PCC over all
    tasks.
    """
    pairs = [{"t_min": t_min, "beta": beta} for t_min in T_MIN for beta in BETA]
    forms = [Variant(name=str(pair), pool="paper", options=pair) for pair in pairs]
    middle = torch.tensor([[sorted(protocol.rates)[len(protocol.rates) // 2]]])
    means = validated(forms, tasks, middle, protocol, tick).mean(0)
    best = pairs[int(means.argmax())]
    return {**best, "pairs": means.tolist(), **tune(variants(best), tasks, protocol, tick)}


def seed_chunks(
    tasks: Callable[[int], list[PlateauTask]], configuration: dict[str, Any], *, curves: Sequence[str] = ()
) -> list[Chunk]:
    """The chunks of a study of every variant: what is tuned first, then one for each seed."""
    protocol = Protocol(**configuration["protocol"])

    def tuning(_: Results, tick: Tick) -> Any:
        return tune_variants(tasks(TUNING_SEED), protocol, tick)

    def seed_chunk(seed: int) -> Chunk:
        def compute(done: Results, tick: Tick) -> Any:
            settings, tuned = tasks(seed), done["tuning"]
            seeds = [seed] * len(settings)
            return compare(settings, seeds, variants(tuned), tuned["rates"], protocol, tick, curves=curves)

        return Chunk(f"seed {seed}", protocol.epochs, compute)

    return [Chunk("tuning", 2 * protocol.epochs, tuning), *map(seed_chunk, configuration["seeds"])]


def last_epochs(per_seed: Sequence[Sequence[dict[str, Any]]], protocol: Protocol) -> dict[str, int]:
    """By variant, how often over seeds and settings its best epoch was the last: there more might have helped."""
    groups = [group["models"] for groups in per_seed for group in groups]
    return {name: sum(group[name]["epoch"] == protocol.epochs for group in groups) for name in groups[0]}
