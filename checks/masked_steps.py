"""Does hiding steps of a clip, and guessing them, help on MOSI? Frozen text, official split (some minutes).

``python -m checks.masked_steps [DATA] [SEEDS]`` fits `streams` with ECA and a small encoder to the text of MOSI
(``DATA/mosi``), with shares of hidden steps of 0, 0.15 and 0.3; everything else is equal and nothing is tuned. The
epoch is chosen on validation; test figures are means over seeds, with the paired difference to 0.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

from excora.settings import Settings
from excora.stats.correlation import pearson
from excora.training import train
from excora.training.building import build
from excora.training.evaluation import predictions
from excora_studies.sentiment.clips import official

SHARES = (0.0, 0.15, 0.3)


def fit(clips, share: float, seed: int) -> tuple[float, float]:
    """PCC and MAE of the test part."""
    settings = Settings("streams", pool="eca", masked=share, seed=seed, epochs=40, patience=8, accelerator="cpu")
    setup = settings.settled("modalities", len(clips.split.train))
    built = build(clips.dataset, clips.split.train, setup, validation=clips.split.validation)
    trained = train(
        built.network, built.features, built.target, clips.split, setup.recipe, setup.machine, progress=False
    )
    test = clips.split.test
    found = built.preparation.unscale(predictions(trained.network, built.features, test, setup))
    label = clips.dataset.target[test]
    return float(pearson(found, label)[0]), float(np.abs(found - label).mean())


def main(data: Path, seeds: int) -> None:
    torch.set_num_threads(1)
    clips = official(data)
    found = {share: [] for share in SHARES}
    for seed in range(seeds):
        for share in SHARES:
            found[share].append(fit(clips, share, seed))
            print(
                f"seed {seed}, hidden {share}: PCC {found[share][-1][0]:.4f}, MAE {found[share][-1][1]:.4f}", flush=True
            )
    for share in SHARES:
        here, plain = np.array(found[share]), np.array(found[0.0])
        gain = here - plain
        error = gain.std(0, ddof=1) / np.sqrt(seeds) if seeds > 1 else np.full(2, np.nan)
        (pcc, mae), (more, worse) = here.mean(0), gain.mean(0)
        print(
            f"hidden {share}: PCC {pcc:.4f}, MAE {mae:.4f}; against none PCC {more:+.4f} +- {error[0]:.4f} (standard "
            f"error over {seeds} seeds), MAE {worse:+.4f}"
        )


if __name__ == "__main__":
    words = sys.argv[1:]
    main(Path(words[0] if words else "."), int(words[1]) if len(words) > 1 else 5)
