"""Study ``spatial``: folds, components, what is picked, scores, and the page; on spots in memory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from excora.data.splits import Split
from excora.errors import InputError
from excora_studies import STUDIES
from excora_studies.spatial import PAIRS, page
from excora_studies.spatial.rows import Arm, arms, pick, scores
from excora_studies.spatial.sets import Fold, find_folder, parts_of, reduced

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
import samples_data

QUICK = {
    "tried": [[3e-3, 1.0]], "trees": 0, "exemplars": 3, "spots": {"dim": 4}, "egn": {"dim": 8},
    "spots recipe": {"epochs": 1}, "egn recipe": {"epochs": 1},
}  # fmt: skip


def test_it_is_in_the_catalogue_and_every_pair_has_its_rows() -> None:
    assert "spatial" in STUDIES
    names = set(arms(QUICK))
    assert {row for pair in PAIRS for row in pair} <= names


def test_a_section_is_tested_and_another_one_picks(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = samples_data.spatial()
    monkeypatch.setattr("excora_studies.spatial.sets.VALIDATION", {"slide 1": "slide 2"})
    monkeypatch.setattr(
        "excora_studies.spatial.sets.sources", {"spatial": type("S", (), {"apart": lambda _, __, p: p})()}
    )
    parts = parts_of(dataset, Fold("her2st", "slide 1"))
    names: Any = dataset.content.slide_names  # type: ignore[union-attr]
    assert set(names[parts.test]) == {"slide 1"}
    assert set(names[parts.validation]) == {"slide 2"}
    assert set(names[parts.train]) == {"slide 0", "slide 3"}


def test_components_keep_distances_up_to_one_scale() -> None:
    torch.manual_seed(0)
    x = torch.randn(60, 5) * torch.tensor([5.0, 3.0, 1.0, 0.5, 0.1])
    found = reduced(x, x[:40], 5)
    ratio = torch.pdist(found) / torch.pdist(x)
    assert ratio.std() / ratio.mean() < 1e-3
    assert reduced(x[:, None].expand(-1, 2, -1), x[:40], 2).shape == (60, 2, 2)


def test_validation_picks_the_settings() -> None:
    y = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    task: Any = type("T", (), {"scaled": y, "parts": Split(np.arange(10), np.arange(10, 20), np.arange(20, 30))})()
    arm = Arm(({"right": 0.0}, {"right": 1.0}), lambda t, s, *_: (t.scaled * s["right"] + 0.0, {"more": 1}))
    picked = pick(task, arm)
    assert picked.settings == {"right": 1.0, "more": 1}
    assert picked.score == pytest.approx(0.0, abs=1e-6)


def test_an_undefined_correlation_counts_as_none() -> None:
    y = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
    found = scores(y.copy(), y)
    assert (found["PCC@M"], found["undefined"], found["by gene"]) == (0.5, 1, [1.0, None])


def test_the_folder_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("EXCORA_DATA", raising=False)
    with pytest.raises(InputError, match="this study reads her2st/"):
        find_folder(None)
    with pytest.raises(InputError, match="this study reads her2st/"):
        find_folder(tmp_path)


def test_the_page_has_scores_folds_and_differences() -> None:
    row = {"set": "her2st", "row": "ridge", "folds": 1, "undefined": 0.0, "seconds": 2.0}
    row |= dict.fromkeys(("PCC@F", "PCC@S", "PCC@M", "MSE"), 0.25)
    row |= {f"{name} sd": None for name in ("PCC@F", "PCC@S", "PCC@M", "MSE")}
    bounds = {"difference": 0.5, "low": 0.25, "high": 0.75}
    summary = {"differences": {"her2st": {"a - b": {"PCC": bounds, "MSE": bounds}}}, "genes": {"her2st": []},
               "folds": {"her2st": {"ridge": {"B4": 0.25}}}}  # fmt: skip
    content = {"configuration": {"sets": {"her2st": ["B4"]}}, "table": [row], "summary": summary}
    text = page.block({"spatial": content})
    assert "| ridge | 1 | 0.250 |" in text
    assert "| a − b | +0.5000 [+0.2500, +0.7500] |" in text
