"""A folder of bags."""

from __future__ import annotations

import pandas as pd
import pytest

from data.bags.made import BAGS, IDS, TARGET, N, save


@pytest.fixture
def folder(tmp_path):
    """A folder of bags in all formats, with its labels."""
    (tmp_path / "bags").mkdir()
    for k, (name, bag) in enumerate(zip(IDS, BAGS, strict=True)):
        save(tmp_path / "bags" / f"{name}{('.h5', '.npz', '.safetensors', '.hdf5')[k % 4]}", bag)
    (tmp_path / "bags" / "readme.txt").write_text("not a bag")
    (tmp_path / "bags" / "._000.h5").write_text("left by a file manager")
    frame = pd.DataFrame({"y": TARGET, "case": [f"c{k // 3}" for k in range(N)], "slide": IDS})
    frame.iloc[::-1].to_csv(tmp_path / "labels.csv", index=False)
    return tmp_path / "bags"
