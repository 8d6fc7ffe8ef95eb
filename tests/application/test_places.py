"""Attention in place: which elements are drawn, and that a folder with coords gives a picture."""

from __future__ import annotations

import json

import h5py
import numpy as np
import pandas as pd
import pytest

from excora.application import fit, predict
from excora.application.places import DRAWN, HEAVIEST, drawn, picture
from excora.settings import Settings


def test_all_elements_are_drawn_or_the_heaviest_and_an_even_choice():
    share = np.random.default_rng(0).normal(size=9000)
    kept = drawn(share)
    assert len(kept) == len(set(kept)) == DRAWN
    assert (np.diff(kept) > 0).all()
    assert set(np.argsort(-np.abs(share))[:HEAVIEST]) <= set(kept)
    assert np.diff(kept).max() < 30
    assert drawn(share[:DRAWN]).tolist() == list(range(DRAWN))
    found = picture(np.array([[1, 2], [1234567, 4]]), np.array([0.1234567, -1]))
    assert found == {"x": [1, 1234600], "y": [2, 4], "effective": [0.12346, -1]}


@pytest.fixture(scope="module")
def slides(tmp_path_factory):
    """24 slides of 3 to 8 patches on a grid, and one whose places are broken."""
    folder, generator = tmp_path_factory.mktemp("slides"), np.random.default_rng(0)
    (folder / "h5").mkdir()
    rows = []
    for k in range(24):
        patches = generator.normal(size=(3 + k % 6, 3)).astype(np.float32)
        with h5py.File(folder / "h5" / f"s{k:02d}.h5", "w") as file:
            file["features"] = patches
            file["coords"] = (
                np.full((len(patches), 2), np.nan) if k == 5 else 256 * np.arange(2 * len(patches)).reshape(-1, 2)
            )
        rows.append((f"s{k:02d}", float(patches[:, 0].mean())))
    pd.DataFrame(rows, columns=["slide", "y"]).to_csv(folder / "labels.csv", index=False)
    return folder


def test_a_folder_with_coords_gives_a_picture(slides):
    settings = Settings(dim=8, epochs=1, batch_size=8)
    labels = slides / "labels.csv"
    run = fit(slides / "h5", labels=labels, target="y", output=slides / "run", settings=settings, progress=False)
    (pool,) = json.loads((run.path / "attention.json").read_text())["pools"].values()
    drawn_ones = {bag["id"]: bag["places"] for bag in pool["bags"] if "places" in bag}
    assert 1 <= len(drawn_ones) <= 3, "every other of 5 test slides"
    shares = predict(run, slides / "h5", attention=True).attention.set_index("id")["effective"]
    for name, found in drawn_ones.items():
        assert found["effective"] == pytest.approx(shares.loc[name].to_list(), abs=1e-4)
        assert found["y"] == [256 * (2 * k + 1) for k in range(len(found["x"]))]
    assert "Attention in place" in (run.path / "report.html").read_text()
