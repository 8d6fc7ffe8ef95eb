"""How long a training may take, measured before its first epoch on a few samples."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from excora.data.dataset import Index
from excora.models import Network
from excora.settings import Machine, Recipe
from excora.training.batches import Rows
from excora.training.progress import LONG, SECONDS, duration

#: A backward pass takes about two forward passes.
PASSES = 3.0
#: A measurement that takes less says more about the call than about the samples.
ENOUGH = 0.05


def foresee(
    network: Network, rows: Rows, train: Index, validation: Index, recipe: Recipe, machine: Machine,
    *, clock: Callable[[], float] = time.perf_counter,
) -> str:  # fmt: skip
    """A line on how long training takes at most, patience apart; "" if that is a few seconds, or on a GPU.

    seconds = epochs (3 n_train + n_validation) t, with t the time of a forward pass a sample: that of 2, 4, 8, ...
    samples, until it takes long enough to be measured. The network, its gradients and torch's random state are left
    as they were.
    """
    if machine.accelerator not in ("auto", "cpu") or (machine.accelerator == "auto" and torch.cuda.is_available()):
        return ""
    a_sample = forward_time(network, rows, train, recipe.batch_size, clock)
    seconds = recipe.epochs * (PASSES * len(train) + len(validation)) * a_sample
    if seconds < SECONDS:
        return ""
    hint = "; fewer --epochs, a smaller --dim or another --model (see excora models) are quicker"
    return (
        f"estimate: about {duration(seconds / recipe.epochs)} an epoch, at most {duration(seconds)} for "
        f"{recipe.epochs} epochs, less where patience ends it{hint if seconds >= LONG else ''}"
    )


@torch.no_grad()
def forward_time(network: Network, rows: Rows, train: Index, most: int, clock: Callable[[], float]) -> float:
    """Seconds that a forward pass takes a sample."""
    before = network.training
    network.eval()
    size, spent = 2, 0.0
    with torch.random.fork_rng(devices=[]):
        network(rows.features.read(train[:1]))  # what is compiled or allocated once
        while True:
            piece = train[:size]
            begun = clock()
            network(rows.features.read(piece))
            spent = clock() - begun
            if spent >= ENOUGH or size >= min(most, len(train)):
                break
            size *= 2
    network.train(before)
    return spent / len(piece)
