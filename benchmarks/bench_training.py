"""Training by the application against a bare PyTorch loop on the same model, data and batches, per step.

Bags of 200 x 128, batches of 64, an encoder of one linear layer and GELU, ECAPool, linear head, AdamW; a pass over the
validation part after each epoch on both sides. The application also reads and standardises the bags, watches with
PlateauMonitor, scores, and writes checkpoints. The bare loop has its data as one tensor in memory.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable

import numpy as np
import torch
from excora.models.network import build

from benchmarks.timing import Row
from excora.data.bags import ArrayBags
from excora.data.dataset import Dataset
from excora.data.preparation import Preparation
from excora.data.splits import Split
from excora.losses import JointLoss
from excora.pooling import parameter_groups
from excora.settings import Settings
from excora.training import train
from excora.training.batches import in_order, shuffled

BAGS, ELEMENTS, WIDTH = 1280, 200, 128
SETTINGS = Settings(dim=WIDTH, epochs=3, batch_size=64, patience=100, accelerator="cpu")
PARTS = Split(np.arange(BAGS), np.arange(BAGS, BAGS + 128), np.arange(0))
ROUNDS = 7


def _dataset() -> Dataset:
    generator = np.random.default_rng(0)
    n = BAGS + len(PARTS.validation)
    values = generator.standard_normal((n * ELEMENTS, WIDTH), dtype=np.float32)
    target = generator.normal(size=(n, 1))
    bags = ArrayBags(values, np.full(n, ELEMENTS))
    return Dataset(np.arange(n).astype(str).astype(object), ("y",), target, bags=bags)


def _sides() -> tuple[Callable[[], object], Callable[[], object], int]:
    """The application, the bare loop, and the number of steps of either."""
    dataset = _dataset()
    preparation = Preparation.fit(dataset, PARTS.train)
    features, target = preparation.features(dataset), preparation.scale(dataset.target)
    x, y = (
        torch.cat([features.read(np.arange(k, k + 64)) for k in range(0, len(dataset), 64)]),
        torch.from_numpy(target),
    )

    def ours() -> object:
        with tempfile.TemporaryDirectory() as folder:
            network = build(preparation.inputs, SETTINGS)
            return train(network, features, target, PARTS, SETTINGS, folder=folder, progress=False)

    def bare() -> object:
        network, loss = build(preparation.inputs, SETTINGS), JointLoss(weight=SETTINGS.correlation_weight)
        optimizer = torch.optim.AdamW(parameter_groups(network, SETTINGS.weight_decay), lr=SETTINGS.learning_rate)
        for epoch in range(SETTINGS.epochs):
            for index in shuffled(PARTS.train, SETTINGS.batch_size, seed=0, epoch=epoch):
                optimizer.zero_grad()
                output = network(x[index])
                loss(output.prediction, y[index], penalty=output.pooled.penalty).backward()
                optimizer.step()
            with torch.inference_mode():
                for index in in_order(PARTS.validation, features.sizes, max_elements=SETTINGS.max_elements):
                    network(x[index])
        return network

    return ours, bare, SETTINGS.epochs * len(shuffled(PARTS.train, SETTINGS.batch_size, seed=0, epoch=0))


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
