"""Run.load: files from a stranger are refused by name, and nothing in them is ever run."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
import torch

from application.samples import COPIED, ROLES, TINY, Poison, content
from excora.application import Run, fit, predict
from excora.errors import ExcoraError, InputError
from excora.report import write_report


def everything(run: Path, data: Path) -> None:
    """All that ever reads a run folder."""
    Run.load(run)
    predict(run, data)
    write_report(run)
    fit(data, output=run, settings=TINY.replace(epochs=3), resume=True, progress=False, **ROLES)


@pytest.mark.parametrize("name", [*COPIED, "checkpoints/last.ckpt"])
@pytest.mark.parametrize("kind", ["pickle", "torch"])
def test_a_poisoned_file_never_runs(home, copy, name, kind):
    canary = copy.parent / f"canary {name.replace('/', ' ')}"
    if kind == "pickle":
        (copy / name).write_bytes(pickle.dumps(Poison(canary)))
    else:
        torch.save({"state_dict": Poison(canary)}, copy / name)
    if name in ("metrics.csv", "monitor.json", "predictions.csv", "attention.json"):  # only the report reads them
        with pytest.raises(ExcoraError):
            write_report(copy)
        with pytest.raises(ExcoraError):
            _ = Run.load(copy).predictions if name == "predictions.csv" else write_report(copy)
    else:
        with pytest.raises(ExcoraError, match=name.rpartition("/")[2]):
            everything(copy, home / "data.csv")
    assert not canary.exists()


@pytest.mark.parametrize("name", ["config.json", "preparation.json", "weights.safetensors", "results.json"])
@pytest.mark.parametrize("how", ["missing", "half", "empty", "list", "deep"])
def test_a_file_that_is_missing_or_cut_is_named(copy, name, how):
    path = copy / name
    whole = path.read_bytes()
    if how == "missing":
        path.unlink()
    else:
        deep = b"[" * 100_000
        path.write_bytes({"half": whole[: len(whole) // 2], "empty": b"", "list": b"[1]", "deep": deep}[how])
    with pytest.raises(InputError, match=name):
        Run.load(copy)


def test_weights_of_another_model_are_refused(home, copy):
    from safetensors.torch import load_file, save_file

    good = load_file(copy / "weights.safetensors")
    spoilt = {
        "more": good | {"extra": torch.zeros(1)},
        "fewer": {name: t for name, t in good.items() if name != "head.bias"},
        "shape": good | {"head.bias": torch.zeros(3)},
        "type": good | {"head.bias": torch.zeros(2, dtype=torch.float64)},
    }
    for tensors in spoilt.values():
        save_file(tensors, copy / "weights.safetensors")
        with pytest.raises(InputError, match=r"weights are of another model, they differ in (extra|head\.bias)"):
            Run.load(copy)


@pytest.mark.parametrize(
    "change", [{"dim": 1_000_000}, {"layers": 10**7}, {"head": 10**7}, {"dim": "x"}, {"pool": []}, {"new": 1}]
)
def test_settings_of_a_stranger_are_checked_before_memory_is_taken(copy, change):
    config = content(copy, "config.json")
    config["settings"]["options"] |= change
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError):
        Run.load(copy)


def test_a_run_of_another_version_says_which(copy):
    config = content(copy, "config.json")
    config["settings"]["options"]["flux"] = 1
    (copy / "config.json").write_text(json.dumps(config | {"excora": "9.1.0"}))
    with pytest.raises(InputError, match=r"config.json: unknown options flux \(written by Excora 9.1.0, and this is "):
        Run.load(copy)
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=r"config.json: unknown options flux$"):
        Run.load(copy)
