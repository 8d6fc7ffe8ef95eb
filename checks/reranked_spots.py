"""Exemplars of spots, the nearest against re-ranked ones: how alike their labels are, and what they do for PCC@M.

her2st by section, as the study ``spatial`` has it: one tested, one that picks settings, the others learned from; then
both are learned from and the tested one is looked at once. Each arm has the same two trials of learning rate and weight
decay and the same epochs; the re-ranker has nothing to tune. Alike: the mean over spots of the tested section and their
exemplars of the correlation, over genes, of two spots' standardised expression, and of what the ridge without the own
section leaves of it. The mean expression of the exemplars is also scored as a prediction. Intervals are those of
:mod:`excora.stats.paired`; a fold is a training, squares of tissue are resampled.

``python -m checks.reranked_spots FOLDER [SECTION ...]``, her2st from EXCORA_DATA. FOLDER keeps what is done: the same
command goes on with what is missing, and prints the tables of what is there.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from excora.models import Samples
from excora.models.parts.exemplars import Exemplars
from excora.stats.correlation import Array
from excora.stats.paired import Predicted, draw, errors, pairwise
from excora_studies.spatial import configure
from excora_studies.spatial.rows import Arm, pick, scores, start, trained_network
from excora_studies.spatial.sets import VALIDATION, Fold, Task, find_folder, prepare, slides

ARMS = {"nearest": False, "re-ranked": True}
#: Exemplars of "spots" in the study, and of EGN.
COUNTS = {"spots": 32, "egn": 9}
SEED = 0
RESAMPLES = 300


def alike(task: Task, model: str, *, rerank: bool, seed: int = SEED) -> dict[str, float]:
    """Mean correlation of the labels of tested spots and of their exemplars."""
    rows, begun, k = task.rows(final=True), start(task, final=True), COUNTS[model]
    labels = begun.left if model == "spots" else task.scaled
    torch.manual_seed(seed)
    bank = Exemplars(len(rows), task.features.inputs["feature"].shape[1], labels.shape[1], rerank=k if rerank else 0)
    bank.remember(Samples(task.features, labels, rows))
    bank.learn(seed=seed)
    test = task.parts.test
    found = bank.look_up(task.features, k)
    near, allowed = found.found[test].numpy(), found.allowed[test].numpy()
    assert allowed.all()
    left = task.scaled - begun.prediction  # of a tested spot: its ridge has not seen it
    left[rows] = begun.left[rows]
    similar = {
        name: float(_correlation(y[test][:, None], y[rows][near]).mean())
        for name, y in (("expression", task.scaled), ("left by the ridge", left))
    }
    mean = task.scaled[rows][near].astype(float).mean(1)
    return similar | {"PCC@M of their mean": scores(mean, task.scaled[test].astype(float))["PCC@M"]}


def _correlation(a: Array, b: Array) -> Array:
    """Over the last axis."""
    a, b = a - a.mean(-1, keepdims=True), b - b.mean(-1, keepdims=True)
    return (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))


def run(task: Task, configuration: dict[str, Any]) -> tuple[dict[str, Any], Array]:
    """Similarities and scores of both arms on the tested section, and their predictions (arms, n, genes)."""
    found: dict[str, Any] = {}
    predictions = []
    tried = tuple({"learning_rate": rate, "weight_decay": decay} for rate, decay in configuration["tried"])
    for name, rerank in ARMS.items():
        begun = time.process_time()
        options = configuration["spots"] | {"pool": "eca", "exemplars": COUNTS["spots"], "rerank": rerank}
        arm = Arm(tried, trained_network("spots", options, configuration["spots recipe"]), seeded=True)
        picked = pick(task, arm)
        prediction, _ = arm.fit(task, picked.settings, SEED, True)
        test = task.parts.test
        predictions.append(prediction[test])
        score = scores(task.preparation.unscale(prediction)[test], task.target[test])
        found[name] = {
            "PCC@M": score["PCC@M"], "MSE": float(np.square(prediction[test] - task.scaled[test]).mean()),
            "settings": picked.settings, "CPU s": time.process_time() - begun,
            **{model: alike(task, model, rerank=rerank) for model in COUNTS},
        }  # fmt: skip
    return found, np.stack(predictions)


def lines(folder: Path, sections: list[str]) -> list[str]:
    """Similarities and PCC@M by section, and the paired difference over those that are there."""
    done = {section: json.loads((folder / f"{section}.json").read_text()) for section in sections}
    found = ["| mean over sections | " + " | ".join(ARMS) + " |", "|---|---|---|"]
    for model, k in COUNTS.items():
        for what in ("expression", "left by the ridge", "PCC@M of their mean"):
            means = [np.mean([one[arm][model][what] for one in done.values()]) for arm in ARMS]
            found.append(f"| {k} exemplars of {model}: {what} | " + " | ".join(f"{m:.4f}" for m in means) + " |")
    for what in ("PCC@M", "MSE", "CPU s"):
        means = [np.mean([one[arm][what] for one in done.values()]) for arm in ARMS]
        found.append(f"| spots, ECA: {what} | " + " | ".join(f"{m:.4f}" for m in means) + " |")
    for section, one in done.items():
        cells = [f"{one[arm]['PCC@M']:.4f} ({one[arm]['spots']['expression']:.4f})" for arm in ARMS]
        found.append(f"| {section}: PCC@M (alike) | " + " | ".join(cells) + " |")
    seeds = []
    for number, section in enumerate(sections):
        kept = np.load(folder / f"{section}.npz")
        unit = kept["unit"] + 100_000 * number
        seeds.append(Predicted(kept["prediction"].astype(float), kept["target"].astype(float), unit, 0 * unit))
    draws = draw(seeds, resamples=RESAMPLES)
    for metric in ("pcc", "mse"):
        (bounds,) = pairwise(*errors(draws[metric], [(1, 0)]))
        found.append(f"re-ranked - nearest, {metric}: {bounds.difference:+.4f} [{bounds.low:+.4f}, {bounds.high:+.4f}]")
    return found


def main() -> None:
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("sections", nargs="*", default=list(VALIDATION))
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    data = find_folder(None)
    configuration = configure(seeds=1, preset="default", data=data)
    for section in asked.sections:
        if (asked.folder / f"{section}.json").exists():
            continue
        sizes = {name: configuration[name] for name in ("neighbours", "components")}
        task = prepare(slides(data, "her2st"), Fold("her2st", section), **sizes)
        found, predictions = run(task, configuration)
        test = task.parts.test
        np.savez_compressed(
            asked.folder / f"{section}.npz", prediction=predictions.astype(np.float32), target=task.scaled[test],
            unit=task.unit[test],
        )  # fmt: skip
        (asked.folder / f"{section}.json").write_text(json.dumps(found, indent=1) + "\n")
        print(section, found, flush=True)
    there = [section for section in VALIDATION if (asked.folder / f"{section}.json").exists()]
    print("\n".join(lines(asked.folder, there)))


if __name__ == "__main__":
    main()
