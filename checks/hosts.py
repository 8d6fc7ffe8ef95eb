"""Why does ECA give nothing over neighbours or columns here? What the trained gain does, on validation (5 CPU minutes).

For each set the retrieval network with ECA and the settings that validation picks for softmax (docs/tabular.md), and
for the first one an FT-Transformer, trained on the training part of the random split of seed 0. On its validation part:

- the label range: the share of targets outside the range of their neighbours' labels, where an average cannot reach,
  and the PCC of the best number within that range, the bound for any weights;
- gamma and temperature of the rows, and the effective number of elements, 1 / sum_i alpha_i^2;
- the PCC of the network, and of the same network with gamma = 1.

``python -m checks.hosts [SET ...]``, the files from EXCORA_DATA. The test part is not read.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import numpy as np
import torch
from torch import Tensor

from excora.data.dataset import Features
from excora.data.splits import Split
from excora.estimators.ensemble import COMMON, listed
from excora.models import Network
from excora.models.parts.neighbours import RetrievalFeatures
from excora.models.parts.retrieval import RetrievalNetwork
from excora.settings import Settings
from excora.training import Training, train
from excora.training.building import build
from excora_studies.tabular import SIZES
from excora_studies.tabular.sets import load, make_split

#: The trial of each set, by its place in the list, and whether to look at the FT-Transformer too.
CASES = {"Appliances": (4, True), "Superconductivity": (2, False), "News (partial)": (0, False)}


def pcc(prediction: Tensor, y: Tensor) -> float:
    return float(torch.corrcoef(torch.stack([prediction.double(), y.double()]))[0, 1])


@torch.inference_mode()
def look(network: Network, features: Features, rows: np.ndarray[Any, Any]) -> dict[str, Tensor]:
    """Of each row: prediction, weights, and gamma and temperature if the pool has them."""
    found = [network(features.read(part)) for part in np.array_split(rows, max(len(rows) // 2048, 1))]
    pooled = [next(iter(each.pooled.values())) for each in found]
    return {
        "prediction": torch.cat([each.prediction[:, 0] for each in found]),
        "weights": torch.cat([each.weights for each in pooled]),
        **{name: torch.cat([each.details[name] for each in pooled]) for name in pooled[0].details},
    }


def switch_off_gain(network: Network) -> None:
    """From here on gamma is 1."""
    if isinstance(network, RetrievalNetwork):
        network.pool.varying.extrapolation.gain = None  # type: ignore[assignment]
    else:
        network.pool.attention.extrapolation.gain = None  # type: ignore[union-attr]


def report(name: str, network: Network, features: Features, y: Tensor, rows: np.ndarray[Any, Any]) -> None:
    seen = look(network, features, rows)
    low, middle, high = torch.quantile(seen["gamma"], torch.tensor([0.1, 0.5, 0.9])).tolist()
    effective = seen["weights"].square().sum(1).reciprocal()
    if isinstance(features, RetrievalFeatures) and isinstance(network, RetrievalNetwork):
        labels = network.context_labels[features.neighbours[torch.from_numpy(rows)], 0]
        best = torch.clamp(y, labels.amin(1), labels.amax(1))
        print(f"{name}: {(best != y).float().mean():.1%} of targets outside their neighbours' labels, "
              f"the best number within has PCC {pcc(best, y):.3f}")  # fmt: skip
    tau, count = seen["temperature"].median(), seen["weights"].shape[1]
    print(f"{name}: gamma 10/50/90 % {low:.2f} {middle:.2f} {high:.2f}, temperature {tau:.2f}, "
          f"effective elements {effective.median():.1f} of {count}")  # fmt: skip
    switch_off_gain(network)
    plain = look(network, features, rows)["prediction"]
    print(f"{name}: PCC {pcc(seen['prediction'], y):.4f}, with gamma = 1 {pcc(plain, y):.4f}", flush=True)


def fitted(name: str, split: Split, settings: Settings) -> tuple[Training, Features, Tensor]:
    """Trained on the training part; its features; the standardised targets of the validation part."""
    setup = settings.settled("table", len(split.train))
    dataset = dataclasses.replace(load(name, None), time=None)
    network, features, target, *_ = build(dataset, split.train, setup)
    trained = train(network, features, target, split, setup.recipe, setup.machine, progress=False)
    return trained, features, torch.from_numpy(target[split.validation, 0])


def main() -> None:
    torch.set_num_threads(1)
    size = SIZES["cpu"]
    for name in sys.argv[1:] or CASES:
        split = make_split(load(name, None), "random", 0)
        number, columns = CASES[name]
        shared: dict[str, Any] = {"pool": "eca", "accelerator": "cpu"}
        trial = COMMON | listed(size.neighbours_epochs)[number]
        trained, features, y = fitted(name, split, Settings(**trial, **shared))
        report(f"{name}, neighbours", trained.network, features, y, split.validation)
        if columns:
            shape: dict[str, Any] = {"dim": size.dim, "heads": size.heads, "layers": size.blocks, "epochs": size.epochs}
            recipe = {name: trial[name] for name in ("schedule", "clip", "batch_size", "criterion")}
            settings = Settings(model="ft-transformer", learning_rate=1e-3, **shape, **recipe, **shared)
            trained, features, y = fitted(name, split, settings)
            report(f"{name}, columns", trained.network, features, y, split.validation)


if __name__ == "__main__":
    main()
