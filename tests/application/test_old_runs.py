"""What earlier versions have saved (fixtures/runs, by fixtures/make_runs.py) loads, and predicts what it did then."""

from __future__ import annotations

import json
import math
import shutil
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from fixtures.make_runs import MODULES, outputs_of, samples_of
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import excora
from excora.report import write_report
from excora.settings import Setup

ROOT = Path(__file__).parents[1] / "fixtures" / "runs"
TOLERANCE = 1e-6  #: of the spread (largest minus smallest) of what was predicted then
RESUMED = 1e-4  #: training on another processor adds its own rounding, and AdamW makes more of it
FIXTURES = {f"{path.parts[-3]}/{path.parts[-2]}": path.parent for path in sorted(ROOT.glob("*/*/fixture.json"))}
VERSIONS = sorted(path for path in ROOT.iterdir() if path.is_dir())
TABLES = {
    *((model, pool) for model in ("pool", "ft-transformer", "retrieval") for pool in ("eca", "softmax", "eca-paper")),
    ("pool", "gated"),
}
BAGS = {("pool", pool) for pool in ("eca", "softmax", "eca-paper", "gated", "mean")}


def described(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "fixture.json").read_text())


def of_kind(*kinds: str) -> Any:
    """The fixtures of these kinds, as parameters."""
    chosen = {name: folder for name, folder in FIXTURES.items() if described(folder)["kind"] in kinds}
    return pytest.mark.parametrize("folder", chosen.values(), ids=chosen)


def distance(found: Any, expected: Any) -> float:
    """The largest difference in units of the spread of what is expected; of a constant, in units of its size."""
    found, expected = np.asarray(found, float), np.asarray(expected, float)
    assert found.shape == expected.shape
    return float(np.abs(found - expected).max() / (np.ptp(expected) or np.abs(expected).max() or 1.0))


def check_frame(found: pd.DataFrame, expected: dict[str, list[Any]], tolerance: float = TOLERANCE) -> None:
    """The same ids, and the same numbers, column by column."""
    for name, values in expected.items():
        if isinstance(values[0], str):
            assert found[name].tolist() == values, name
        else:
            assert distance(found[name], values) < tolerance, name


# That they are there.


def test_there_are_versions():
    assert [path.name for path in VERSIONS][:1] == ["0.1"]


@pytest.mark.parametrize("version", VERSIONS, ids=lambda path: path.name)
def test_every_kind_is_there(version):
    found = [(path, described(path)) for path in FIXTURES.values() if path.parent == version]
    configs = [json.loads((path / "run" / "config.json").read_text()) for path, one in found if one["kind"] == "run"]
    seen: dict[str, set[Any]] = {".csv": set(), "long": set(), ".npz": set(), "": set()}
    for config in configs:
        form = "long" if config["data"]["bag"] else Path(config["data"]["path"]).suffix
        seen[form].add((config["settings"]["model"], config["settings"].get("pool")))
    assert seen[".csv"] >= TABLES | {("kriging", None)}
    assert seen["long"] >= BAGS
    assert seen[".npz"]
    assert seen[""]  # a folder
    assert {len(config["data"]["target"]) for config in configs} == {1, 2}
    assert len([path for path, _ in found if scorers(path)]) >= 8
    assert {config["state"] for config in configs} == {"finished", "interrupted"}
    assert {one["class"] for _, one in found if one["kind"] == "estimator"} == {
        "TabularRegressor", "BagRegressor", "TabularEnsemble"
    }  # fmt: skip
    assert {one["module"] for _, one in found if one["kind"] == "module"} >= {
        "eca-pool", "eca-pool-paper", "softmax-pool", "gated-pool", "attention", "converted-layer", "ft-transformer"
    }  # fmt: skip
    assert "comparison" in {one["kind"] for _, one in found}


def test_they_are_small_and_name_no_folder_of_the_machine_they_were_made_on():
    files = [path for path in ROOT.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files if path.relative_to(ROOT).parts[0] == "0.1") < 1_500_000
    for path in files:
        assert path.name != "report.html"
        assert not any(word in path.read_bytes() for word in (b"/work", b"/tmp", b"/root", b"/home")), path
    for path in ROOT.rglob("config.json"):
        assert not Path(json.loads(path.read_text())["data"]["path"]).is_absolute()


# Runs.


@of_kind("run")
def test_a_run_predicts_what_it_did(folder):
    one = described(folder)
    run = excora.Run.load(folder / "run")
    found = excora.predict(run, folder.parent / one["new"], attention=True)
    assert found.attention is not None
    check_frame(found.frame, one["predictions"])
    check_frame(found.attention, one["attention"])


def scorers(folder: Path) -> list[str]:
    """The weights of a run that are those of a linear scorer, (1, dim)."""
    if not (folder / "run").exists():
        return []
    with safe_open(folder / "run" / "weights.safetensors", framework="pt") as file:
        return [name for name in file.keys() if name.endswith("pool.scorer.weight")]  # noqa: SIM118  (no mapping)


LINEAR = [name for name, folder in FIXTURES.items() if scorers(folder)]


@pytest.mark.parametrize("name", LINEAR)
def test_a_scorer_of_another_scale_would_be_seen(name, tmp_path):
    """So that the test above can fail: weights that are off by sqrt(dim) predict something else."""
    folder, file = FIXTURES[name], "weights.safetensors"
    for other in ("config.json", "preparation.json", "results.json"):
        shutil.copy(folder / "run" / other, tmp_path)
    tensors = load_file(folder / "run" / file)
    for scorer in scorers(folder):
        tensors[scorer] /= math.sqrt(tensors[scorer].shape[1])
    with safe_open(folder / "run" / file, framework="pt") as opened:
        save_file(tensors, tmp_path / file, opened.metadata())
    one = described(folder)
    frame = excora.predict(tmp_path, folder.parent / one["new"]).frame
    moved = [distance(frame[name], values) for name, values in one["predictions"].items() if name != "id"]
    assert min(moved) > 0.01


INTERRUPTED = {name: folder for name, folder in FIXTURES.items() if "resumed" in described(folder)}


@pytest.mark.parametrize("folder", INTERRUPTED.values(), ids=INTERRUPTED)
def test_an_interrupted_run_of_another_scale_says_that_it_cannot_go_on(folder, tmp_path):
    one, copy = described(folder), tmp_path / "run"
    before = excora.Run.load(shutil.copytree(folder / "run", copy))
    assert before.state == "interrupted"
    data = before.config["data"]
    roles = {name: data[name] for name in ("target", "group", "drop")}
    arguments = {"output": copy, "settings": before.setup.settings(), "resume": True, "progress": False, **roles}
    with pytest.raises(excora.errors.InputError, match=r"begun by Excora 0\.1.*fit again"):
        excora.fit(folder.parent / one["data"], **arguments)
    check_frame(excora.predict(copy, folder.parent / one["new"]).frame, one["predictions"])


WITH_RECORDS = [name for name, folder in FIXTURES.items() if (folder / "run" / "monitor.json").exists()]


@pytest.mark.parametrize("name", WITH_RECORDS)
def test_the_report_of_an_old_run_can_be_written(name, tmp_path):
    copy = shutil.copytree(FIXTURES[name] / "run", tmp_path / "run")
    write_report(copy)
    assert (copy / "report.html").stat().st_size > 10_000


# Comparisons, estimators, modules.


@of_kind("comparison")
def test_a_comparison_is_taken_up_and_says_what_it_did(folder, tmp_path):
    one, copy = described(folder), tmp_path / "comparison"
    shutil.copytree(folder / "comparison", copy)
    written = {path.name: path.read_bytes() for path in (copy / "runs").iterdir()}
    before = json.loads((copy / "comparison.json").read_text())
    table = pd.read_csv(copy / "out_of_fold.csv")
    found = excora.compare(
        folder.parent / one["data"], output=copy, settings=Setup.from_dict(before["setup"]["settings"]).settings(),
        resume=True, progress=False, **one["options"], **one["roles"],
    )  # fmt: skip
    assert {path.name: path.read_bytes() for path in (copy / "runs").iterdir()} == written  # nothing ran again
    assert len(written) == 2 * len(one["options"]["models"])
    check_frame(pd.read_csv(copy / "out_of_fold.csv"), table.to_dict("list"))
    for row in before["rows"]:
        again = found.row(row["model"])
        assert [again.pcc, again.mse, again.mae, again.seconds] == pytest.approx(
            [row["pooled_pcc"], row["pooled_mse"], row["mae"], row["seconds"]], rel=TOLERANCE
        )


@of_kind("estimator")
def test_an_estimator_predicts_what_it_did(folder):
    one = described(folder)
    model = getattr(excora, one["class"]).load(folder / one["file"])
    samples, _ = samples_of(folder.parent / one["new"])
    assert distance(model.predict(samples), one["predictions"]["prediction"]) < TOLERANCE


@of_kind("module")
def test_a_module_takes_its_old_state_and_gives_what_it_did(folder):
    tensors = load_file(folder / "tensors.safetensors")
    parts: dict[str, dict[str, torch.Tensor]] = {"state": {}, "input": {}, "output": {}}
    for name, value in tensors.items():
        part, key = name.split(".", 1)
        parts[part][key] = value
    state = OrderedDict(parts["state"])
    with safe_open(folder / "tensors.safetensors", framework="pt") as file:
        state._metadata = json.loads(file.metadata()["_metadata"])  # as torch.load of a saved state dict has it
    module = MODULES[described(folder)["module"]]().eval()
    module.load_state_dict(state)
    found = outputs_of(module.double(), parts["input"])
    assert {"value", "prediction"} & set(parts["output"])
    for name, expected in parts["output"].items():
        assert distance(found[name], expected) < TOLERANCE, name
