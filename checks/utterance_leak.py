"""What do MOSI's utterance features know of the labels of training clips? (seconds)

``python -m checks.utterance_leak [DATA]`` fits a ridge to the features of each clip alone (``DATA/mosi``,
``split_bclstm``) and prints its PCC on the training, the validation and the test part, by modality. The validation
part is a fifth of the training videos: where it is far above the test part, features were made by networks that had
seen these labels, and no choice by validation is worth much.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from excora.stats.correlation import pearson
from excora_studies.sentiment.clips import utterance

PENALTY = 300.0


def main(data: Path) -> None:
    """One line a modality."""
    for name in ("text", "audio", "vision"):
        clips = utterance(data, modalities=(name,))
        assert clips.dataset.target is not None
        bags, y = clips.dataset.content.frames[name].bags, clips.dataset.target[:, :1]
        x = np.stack([bags.read(place)[0, :-1] for place in range(len(y))]).astype(np.float64)
        train = clips.split.train
        x = (x - x[train].mean(0)) / np.maximum(x[train].std(0), 1e-9)
        gram = x[train].T @ x[train] + PENALTY * np.eye(x.shape[1])
        weight = np.linalg.solve(gram, x[train].T @ (y[train] - y[train].mean()))
        found = [float(pearson(x[part] @ weight, y[part])[0]) for part in clips.split]
        print(f"{name:6s} PCC: training {found[0]:.3f}, validation {found[1]:.3f}, test {found[2]:.3f}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("data"))
