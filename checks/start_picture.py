"""The picture of the start page: ``python -m checks.start_picture`` (90 s of CPU); ``--draw``: from its curves on file.

Softmax attention and ECA, each the pool of one small model, on both tasks of ``excora demo`` with its settings: PCC on
validation bags after each epoch, mean and range over seeds. Where the label reaches beyond the bag softmax stops at a
ceiling that is known in closed form; where it stays within, both end alike. Drawn for light and for dark pages.
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt

from excora.application import fit
from excora.demo import BAGS, SETTINGS, _bags
from excora.settings import Settings
from excora.threads import one_thread

FOLDER = Path(__file__).parent.parent / "docs" / "results" / "start"
POOLS = {"softmax": "#D55E00", "eca": "#0072B2"}
DARK = {"softmax": "#FF9C57", "eca": "#6CB8F0"}  # the same hues, lighter
SEEDS, EPOCHS = 5, 24
TITLES = {"beyond": "The label reaches beyond the bag", "within": "The label stays within the bag"}
NAMES = {"softmax": "softmax attention", "eca": "extrapolating (ECA)"}


def curve(task: Any, pool: str, seed: int, folder: Path) -> list[float]:
    """Validation PCC after each epoch, of the demo's settings with this pool."""
    file = folder / "bags.npz"
    file.write_bytes(_bags(task, BAGS))
    settings = Settings(
        layers=0, epochs=EPOCHS, patience=EPOCHS, start="none", learning_rate=0.3, schedule="cosine", batch_size=40,
        pool=pool, seed=seed,
    )  # fmt: skip
    fit(file, output=folder / f"{pool}{seed}", settings=settings, progress=False, baselines=False)
    with (folder / f"{pool}{seed}" / "metrics.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    return [round(float(row["validation_pcc"]), 4) for row in rows]


def measure() -> dict[str, Any]:
    """{setting: {"ceiling": PCC, "curves": {pool: a list a seed}}}."""
    found: dict[str, Any] = {}
    for name, setting in SETTINGS.items():
        with one_thread(), tempfile.TemporaryDirectory() as place:
            curves = {
                pool: [curve(setting.task, pool, seed, Path(place)) for seed in range(SEEDS)] for pool in POOLS
            }  # fmt: skip
        found[name] = {"ceiling": round(setting.task.best_softmax_pcc, 4), "curves": curves}
    return found


def draw(found: dict[str, Any], name: str, *, dark: bool) -> None:
    """One panel as SVG with a clear background: what is written is the page's own size."""
    ink, colours = ("#e0e0e0", DARK) if dark else ("#333333", POOLS)
    style = {"text.color": ink, "axes.labelcolor": ink, "axes.edgecolor": ink, "xtick.color": ink, "ytick.color": ink}
    case = found[name]
    with mpl.rc_context({**style, "svg.fonttype": "none", "font.size": 11, "svg.hashsalt": name}):
        figure, axis = plt.subplots(figsize=(4.0, 3.1), layout="constrained")
        for pool, runs in case["curves"].items():
            runs = np.array(runs)  # noqa: PLW2901  (seeds, epochs)
            epochs = np.arange(1, runs.shape[1] + 1)
            axis.fill_between(epochs, runs.min(0), runs.max(0), color=colours[pool], alpha=0.25, linewidth=0)
            axis.plot(epochs, runs.mean(0), color=colours[pool], linewidth=2.2, label=NAMES[pool])
        axis.axhline(case["ceiling"], linestyle=":", color=ink, label="the best softmax can do")
        axis.set(xlabel="epoch", ylabel="correlation (PCC)", ylim=(0.3, 1.02), xlim=(1, EPOCHS))
        axis.set_title(TITLES[name], fontsize=12)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, loc="lower right", fontsize=10)
        kind = "dark" if dark else "light"
        figure.savefig(FOLDER / f"{name}-{kind}.svg", transparent=True, metadata={"Date": None})
        plt.close(figure)


def main(*arguments: str) -> None:
    mpl.use("svg")
    FOLDER.mkdir(parents=True, exist_ok=True)
    file = FOLDER / "curves.json"
    if "--draw" not in arguments:
        file.write_text(json.dumps(measure()) + "\n")
    found = json.loads(file.read_text())
    for name, case in found.items():
        for dark in (False, True):
            draw(found, name, dark=dark)
        last = {pool: np.array(runs)[:, -1] for pool, runs in case["curves"].items()}
        shown = ", ".join(f"{pool} {x.mean():.3f} ({x.min():.3f} to {x.max():.3f})" for pool, x in last.items())
        print(f"{name}: {shown}; best of softmax {case['ceiling']:.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
