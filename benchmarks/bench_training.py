"""Training by the application against a bare PyTorch loop on the same model, data and batches, per step.

Bags of 200 x 128, batches of 64, an encoder of one linear layer and GELU, ECAPool, linear head, AdamW; a pass over the
validation part after each epoch on both sides. The application also reads and standardises the bags, watches with
PlateauMonitor, scores, and writes checkpoints. The bare loop has its data as one tensor in memory.
"""

from __future__ import annotations

import copy
import tempfile
import time
from collections.abc import Callable

import numpy as np
import torch

from benchmarks.timing import Row
from excora.data.bags import ArrayBags, BagSet
from excora.data.dataset import Dataset
from excora.data.splits import Split
from excora.losses import JointLoss
from excora.pooling import parameter_groups
from excora.settings import Settings
from excora.training import train
from excora.training.batches import in_order, shuffled
from excora.training.building import build

BAGS, ELEMENTS, WIDTH = 1280, 200, 128
PARTS = Split(np.arange(BAGS), np.arange(BAGS, BAGS + 128), np.arange(0))
SETUP = Settings(dim=WIDTH, epochs=3, batch_size=64, patience=100, accelerator="cpu").settled("bags", BAGS)
ROUNDS = 7


def _dataset() -> Dataset:
    generator = np.random.default_rng(0)
    n = BAGS + len(PARTS.validation)
    values = generator.standard_normal((n * ELEMENTS, WIDTH), dtype=np.float32)
    target = generator.normal(size=(n, 1))
    bags = BagSet(ArrayBags(values, np.full(n, ELEMENTS)))
    return Dataset(np.arange(n).astype(str).astype(object), ("y",), target, bags)


def _sides() -> tuple[Callable[[], object], Callable[[], object], int]:
    """The application, the bare loop, and the number of steps of either."""
    dataset = _dataset()
    first, recipe = build(dataset, PARTS.train, SETUP), SETUP.recipe
    features, y = first.features, torch.from_numpy(first.target)
    x = torch.cat([features.read(np.arange(k, k + 64))["elements"] for k in range(0, len(dataset), 64)])

    def ours() -> object:
        with tempfile.TemporaryDirectory() as folder:
            arguments = (copy.deepcopy(first.network), features, first.target, PARTS, recipe, SETUP.machine)
            return train(*arguments, folder=folder, progress=False)

    def bare() -> object:
        network, loss = copy.deepcopy(first.network), JointLoss(weight=recipe.correlation_weight)
        optimizer = torch.optim.AdamW(parameter_groups(network, recipe.weight_decay), lr=recipe.learning_rate)
        for epoch in range(recipe.epochs):
            for index in shuffled(PARTS.train, recipe.batch_size, seed=0, epoch=epoch):
                optimizer.zero_grad()
                output = network({"elements": x[index]})
                loss(output.prediction, y[index], penalty=output.penalties).backward()
                optimizer.step()
            with torch.inference_mode():
                for index in in_order(PARTS.validation, features.sizes, max_elements=recipe.max_elements):
                    network({"elements": x[index]})
        return network

    return ours, bare, recipe.epochs * len(shuffled(PARTS.train, recipe.batch_size, seed=0, epoch=0))


def run() -> list[Row]:
    """The least of several rounds in turns: other work on the machine only ever adds."""
    ours, bare, steps = _sides()
    ours(), bare()
    seconds: dict[Callable[[], object], list[float]] = {ours: [], bare: []}
    for _ in range(ROUNDS):
        for side, times in seconds.items():
            start = time.perf_counter()
            side()
            times.append(time.perf_counter() - start)
    mine, theirs = (min(times) / steps * 1e3 for times in seconds.values())
    name = f"training, application / bare loop, a step of 64 bags of {ELEMENTS} x {WIDTH}"
    return [Row(name=name, target=1.25, at_least=False, ratio=mine / theirs, ours=mine, other=theirs)]
