"""What does it cost to hide neighbours in training that are there at test? Two sets, one seed (3 CPU minutes).

On a random split a row finds near copies of itself among the training rows: those ten minutes away (Appliances), those
of its composition (Superconductivity). Trained for 8 epochs with and without such rows in sight, the retrieval model is
scored on the validation part, which sees all training rows in either case. The test part is not read.

Rows of one composition are equal in all columns, and equal rows never see each other in training: to let them, they are
made different by noise of 1e-5 standard deviations.

``python -m checks.exclusion [SET ...]``, the files from EXCORA_DATA.
"""

from __future__ import annotations

import dataclasses
import sys
import time

import numpy as np
import torch

from excora.data.dataset import Dataset
from excora.data.splits import Split
from excora.data.table import Table
from excora.settings import Settings
from excora.training import train
from excora.training.building import build
from excora_studies.tabular.sets import load, make_split

EPOCHS = 8
#: Of each set: what training rows do not see, the gap, and whether their groups count.
CASES: dict[str, dict[str, tuple[float, bool]]] = {
    "Appliances": {"itself": (0.0, False), "an hour around it": (3600.0, False)},
    "Superconductivity": {"itself": (0.0, False), "its composition": (0.0, True)},
}


def different(dataset: Dataset) -> Dataset:
    """The rows with a trace of noise."""
    assert isinstance(dataset.content, Table)
    frame = dataset.content.frame
    noise = np.random.default_rng(0).normal(size=frame.shape) * frame.std().to_numpy()
    return dataclasses.replace(dataset, content=Table(frame + 1e-5 * noise))


def score(dataset: Dataset, split: Split, gap: float, *, grouped: bool) -> tuple[float, float]:
    """Validation PCC, and MSE in units of the target's variance."""
    asked = Settings(model="retrieval", metric="full", gap=gap, epochs=EPOCHS)
    setup = asked.settled("table", len(split.train))
    seen = dataset if grouped else dataclasses.replace(dataset, group=None)
    network, features, target, *_ = build(seen, split.train, setup)
    network = train(network, features, target, split, setup.recipe, setup.machine, progress=False).network
    with torch.inference_mode():
        found = network(features.read(split.validation)).prediction[:, 0].double().numpy()
    y = target[split.validation, 0]
    return float(np.corrcoef(found, y)[0, 1]), float(np.square(found - y).mean() / y.var())


def main() -> None:
    torch.set_num_threads(1)
    for name in sys.argv[1:] or CASES:
        dataset = load(name, None)
        if dataset.group is not None:
            dataset = different(dataset)
        split = make_split(dataset, "random", 0)
        for hidden, (gap, grouped) in CASES[name].items():
            begun = time.process_time()
            pcc, mse = score(dataset, split, gap, grouped=grouped)
            cpu = time.process_time() - begun
            print(
                f"{name}: a training row does not see {hidden}: PCC {pcc:.4f}, MSE {mse:.4f}, {cpu:.0f} CPU s",
                flush=True,
            )


if __name__ == "__main__":
    main()
