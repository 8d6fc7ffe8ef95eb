"""What the tests of this folder share."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd

from excora.settings import Settings

TINY = Settings(model="pool", dim=8, epochs=2, batch_size=16, learning_rate=0.01)
ROLES = {"target": ["y", "z"], "group": "slide", "drop": "comment"}
COPIED = ("config.json", "preparation.json", "weights.safetensors", "results.json", "metrics.csv", "monitor.json",
          "predictions.csv", "attention.json")  # fmt: skip


def table(rows: int = 90) -> pd.DataFrame:
    generator = np.random.default_rng(0)
    x, colour = generator.normal(size=(rows, 3)), generator.choice(["red", "blue"], rows)
    y = x[:, 0] + np.sin(x[:, 1]) + (colour == "red")
    frame = pd.DataFrame(x, columns=["a", "b", "c"]).assign(colour=colour, comment="none", y=y, z=10 * y + x[:, 2])
    frame.loc[3, "b"] = np.nan
    return frame.assign(slide=[f"s{k % 12}" for k in range(rows)])


def content(folder: Path, name: str) -> dict:
    return json.loads((folder / name).read_text())


class Poison:
    """Unpickling it creates the canary."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self):
        return (os.system, (f"touch '{self.canary}'",))


def leaves_of(value):
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield value, key
        if isinstance(item, dict | list):
            yield from leaves_of(item)
