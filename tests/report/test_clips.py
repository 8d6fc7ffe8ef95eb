"""What of clips a file may lack."""

from __future__ import annotations

from excora.report.checking import build
from excora.report.clips import Modalities


def test_clips_and_layers_may_be_missing_and_numbers_undefined():
    use = {"modality": "text", "moved": float("nan"), "pcc": 0.5}
    found = build(Modalities, {"clips": 2, "pcc": None, "uses": [use]}, "results.json")
    assert (found.by_clip, found.brought, found.pcc) == ([], [], None)
    assert (found.uses[0].moved, found.uses[0].pcc) == (None, 0.5)
