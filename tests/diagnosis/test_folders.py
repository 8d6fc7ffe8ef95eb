"""diagnose on run folders and recorded runs."""

from __future__ import annotations

import json

import pytest

from diagnosis.samples import records
from excora.diagnosis.files import diagnose_file
from excora.errors import InputError
from excora.monitor import PlateauMonitor


def write_monitor(path, rows) -> PlateauMonitor:
    monitor = PlateauMonitor()
    monitor.records = [dict(row, epoch=t) for t, row in enumerate(rows)]
    monitor.to_json(path)
    return monitor


def test_a_recorded_run_is_diagnosed_from_its_file(tmp_path) -> None:
    monitor = write_monitor(tmp_path / "run.json", records(achievable_used=0.99))
    found = diagnose_file(tmp_path / "run.json")
    assert (found.verdict.name, found.source) == ("capacity-limited", "full run")
    assert found.verdict == monitor.verdict()
    assert found.figures["kept epoch, training part"]["pcc"] == 0.7


@pytest.fixture
def folder(tmp_path):
    """A run of 40 epochs that got better on validation until the 15th."""
    write_monitor(tmp_path / "monitor.json", [{"pcc": 0.02 * t, "mse": 1 - 0.02 * t, "bags": 300} for t in range(40)])
    rows = [(0.6 - 2e-3 * abs(t - 14), 0.6 + 1e-2 * abs(t - 14)) for t in range(40)]
    lines = [f"{t},{pcc},{mse}" for t, (pcc, mse) in enumerate(rows)]
    (tmp_path / "metrics.csv").write_text("\n".join(["epoch,validation_pcc,validation_mse", *lines]) + "\n")
    return tmp_path


ENDED = {
    "stopped": "epochs", "epochs": 40, "best_epoch": 14, "counts": {"validation": 100},
    "validation": {"y": {"pcc": 0.6, "mse": 0.6}}, "test": {"y": {"pcc": 0.55, "low": 0.4, "high": 0.7}},
}  # fmt: skip


def judged(folder, **more):
    (folder / "results.json").write_text(json.dumps(ENDED | more))
    return diagnose_file(folder).verdict


def test_a_run_folder_is_judged_at_its_kept_epoch(folder) -> None:
    assert diagnose_file(folder).verdict.name == "still improving"  # it has not ended: the training part alone
    found = judged(folder)
    assert found.name == "overfitting"
    assert found.evidence["kept_epoch"].value == 15
    assert found.evidence["test_pcc"].met
    assert judged(folder, stopped="patience").name == "overfitting"
    assert judged(folder, test={"y": {"pcc": 0.163, "low": -0.22, "high": 0.51}}).name == "cannot tell"


def test_the_baselines_of_the_run_have_their_say(folder) -> None:
    flat = "\n".join(["epoch,validation_pcc,validation_mse", *(f"{t},0.702,0.5" for t in range(40))])
    (folder / "metrics.csv").write_text(flat)
    held = {"pcc": 0.702, "mse": 0.5, "mse_affine": 0.5, "bags": 100}
    ridge = {"name": "ridge", "validation": {"pcc": 0.979, "mse": 0.04}, "test": {"pcc": 0.98, "mse": 0.04}}
    found = judged(folder, held=held, baselines=[ridge])
    assert found.name == "behind a simple model"
    assert "ridge reaches 0.979" in found.sentence
    assert judged(folder, held=held).name == "cannot tell"


def test_what_is_no_run_is_refused(tmp_path, folder) -> None:
    with pytest.raises(InputError, match="expected epochs and best_epoch"):
        judged(folder, epochs="40")
    with pytest.raises(InputError, match="not what `excora fit` writes"):
        judged(folder, validation={"y": 3})
    (folder / "monitor.json").unlink()
    with pytest.raises(InputError, match=r"no monitor\.json in this folder"):
        diagnose_file(tmp_path)


def test_a_stack_of_attention_is_placed_beside_the_depth_threshold(folder) -> None:
    (folder / "results.json").write_text(json.dumps(ENDED))
    for model, options, said in (
        ("ft-transformer", {"layers": 3, "dim": 16}, "depth: 3 layers of width 16 are above the threshold"),
        ("retrieval", {}, ""),
        ("unheard-of", {}, ""),
    ):
        (folder / "config.json").write_text(json.dumps({"settings": {"model": model, "options": options}}))
        notes = [note for note in diagnose_file(folder).notes if note.startswith("depth")]
        assert [note[: len(said)] for note in notes] == ([said] if said else [])
