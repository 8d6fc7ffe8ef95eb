"""How wide should the gain network be? Validation PCC on seeds that no study reports (two minutes, one core)."""

from __future__ import annotations

import statistics

import torch

from excora_studies import grid, synthetic
from excora_studies.stacked import Variant
from excora_studies.training import Protocol, compare
from excora_studies.tuning import TUNING_SEED, tune

WIDTHS = (4, 8, 16, 32)
SEEDS = range(500, 508)


def main() -> None:
    torch.set_num_threads(1)
    variants = [Variant(name=str(width), pool="eca", options={"hidden": width}) for width in WIDTHS]
    for name, study, seeds, epochs in (("synthetic", synthetic, SEEDS, 150), ("grid", grid, SEEDS[:3], 100)):
        tasks = [task for seed in seeds for task in study.tasks(seed)]
        settings = len(tasks) // len(seeds)
        owners = [seed for seed in seeds for _ in range(settings)]
        protocol, once = Protocol(epochs=epochs), study.tasks(TUNING_SEED)
        rates = tune(variants, once, protocol, lambda: None)["rates"]
        every = {name: list(own) * len(seeds) for name, own in rates.items()}
        groups = compare(tasks, owners, variants, every, protocol, lambda: None)
        for setting in range(settings):
            rows = [group["models"] for group in groups[setting::settings]]
            means = [statistics.mean(row[str(width)]["validation_pcc"] for row in rows) for width in WIDTHS]
            print(name, setting, *(f"{width} units {mean:.5f}" for width, mean in zip(WIDTHS, means, strict=True)))


if __name__ == "__main__":
    main()
