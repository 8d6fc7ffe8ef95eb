"""Study ``gains``: what its tasks read, equal trials, what lies outside, the pairs, a run in seconds and its page."""

from __future__ import annotations

import csv
import dataclasses
import functools
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from excora.data.splits import Split
from excora.errors import InputError
from excora.models.pool import PoolNetwork
from excora.ragged import Ragged
from excora_studies import gains, reproduce, store
from excora_studies.gains import arms, page, table, tasks
from excora_studies.gains.tasks import TASKS, Sample, Task
from excora_studies.tabular.scores import unpack

RESULTS = Path(__file__).parents[2] / "docs" / "results" / "gains"
MOSI = "MOSI tokens, frozen"
LINEAR: dict[str, Any] = {"layers": 0, "epochs": 2, "patience": 2, "start": "none", "correlation": "none"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 clips of the format of the real ones."""
    where, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    (where / "mosi").mkdir()
    lengths = rng.integers(2, 6, 120).astype(np.int16)
    values = rng.normal(size=(int(lengths.sum()), 4)).astype(np.float16)
    np.savez(where / "mosi" / "mosi_minilm_tokens.npz", values=values, lengths=lengths)
    first = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    with (where / "mosi" / "mosi_labels_transcripts.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["label", "split_standard", "video_id"])
        for k in range(120):
            writer.writerow([float(values[first[k], 0]), ("train", "valid", "test")[k % 3], f"v{k // 4}"])
    return where


@pytest.fixture(scope="module")
def sample(folder: Path) -> Sample:
    return TASKS[MOSI].read(folder, None, 0)


def test_the_official_parts_are_the_same_for_every_seed(folder: Path, sample: Sample) -> None:
    again = TASKS[MOSI].read(folder, None, 3)
    assert [len(part) for part in sample.split] == [40, 40, 40]
    assert all(np.array_equal(*pair) for pair in zip(sample.split, again.split, strict=True))
    with pytest.raises(InputError, match="--data"):
        TASKS[MOSI].read(folder / "nowhere", None, 0)


def test_a_seed_of_mosi_by_video_tests_a_fold_of_whole_videos(folder: Path) -> None:
    parts = [TASKS["MOSI by video, frozen"].read(folder, None, seed) for seed in range(tasks.FOLDS)]
    assert sorted(np.concatenate([part.split.test for part in parts])) == list(range(120))
    for part in parts:
        for one, other in itertools.combinations(part.split, 2):
            assert not set(part.unit[one]) & set(part.unit[other])


def test_every_arm_has_the_same_trials_and_a_reference() -> None:
    for task in TASKS.values():
        assert task.reference in task.arms
        for arm in set(task.arms) - {*arms.TABLES}:
            arms.settings_of(task, arm)
    task = Task("t", None, ("softmax",), "linear head", "frozen", settings=LINEAR)  # type: ignore[arg-type]
    assert (len(task.rates), len(task.decays)) == (3, 2)


def test_tuning_reads_validation_alone_and_the_fit_takes_its_best(sample: Sample) -> None:
    task = Task("t", None, ("eca",), "linear head", "frozen", settings=LINEAR, rates=(1e-9, 0.1), decays=(0.0,))  # type: ignore[arg-type]
    target = sample.dataset.target
    assert target is not None
    changed = target.copy()
    changed[sample.split.test] = 0
    other = sample._replace(dataset=dataclasses.replace(sample.dataset, target=changed))
    trials, same = (arms.tune(given, task, "eca", 0) for given in (sample, other))
    assert trials == same
    assert len(trials) == 2
    assert trials[0]["validation"] == max(trial["validation"] for trial in trials)
    found, blind = (arms.network_run(given, task, "eca", trials[0], 1) for given in (sample, other))
    assert np.array_equal(found.prediction, blind.prediction)
    assert found.figures["gamma"] is not None
    assert 1 <= found.figures["epoch"] <= 2  # type: ignore[operator]


@pytest.mark.parametrize("arm", [*arms.ABLATED, "softmax, moments", "eca, 4 heads"])
def test_outside_is_beyond_every_element_of_the_bag(sample: Sample, arm: str) -> None:
    task = Task("t", None, (arm,), "linear head", "frozen", settings=LINEAR | {"epochs": 1})  # type: ignore[arg-type]
    settings = arms.settings_of(task, arm)
    training, built = arms.fit_network(sample, arm, settings, 0)
    network, index = training.network, sample.split.validation
    assert isinstance(network, PoolNetwork)
    if arm in arms.ABLATED:
        details = network.pool(torch.randn(3, 2, 4)).details
        gain = details["gamma"] if "gamma" in details else torch.ones(3)
        assert bool((gain == 1).all()) == (arm != "eca-paper without DATS")
    far = 0
    for k in index:
        inputs: Any = built.features.read(np.array([k]))
        values = h.values if isinstance(h := inputs["elements"], Ragged) else h[0]
        alone = network.pool.elements(values[None])[0] if hasattr(network.pool, "elements") else values
        with torch.no_grad():
            reach = network.head(alone)[:, 0]
        far += not reach.min() <= built.target[k, 0] <= reach.max()
    assert arms.outside(network, built, index) == pytest.approx(far / len(index))


def test_a_table_goes_through_the_default_and_through_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arms, "TabularRegressor", functools.partial(arms.TabularRegressor, members=1))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    frame = pd.DataFrame(x, columns=list("abc"))
    dataset = tasks.Dataset(
        ids=np.arange(60).astype(str).astype(object), targets=("y",), target=x[:, :1] * 9, content=tasks.Table(frame)
    )
    sample = Sample(dataset, Split(np.arange(36), np.arange(36, 48), np.arange(48, 60)), np.arange(60))
    for arm in (arms.HERE, "ridge"):
        found = arms.run(lambda _: sample, TASKS["small table: Servo"], arm, [0], 0)
        assert found["trials"] == []
        assert arms.scores(found["fits"][0].prediction, gains._target(sample))["PCC"] > 0.9


def test_the_components_are_those_of_the_training_spots() -> None:
    counts = np.random.default_rng(0).poisson(5, (30, 20)).astype(float)
    y = tasks.components(counts, np.arange(20))
    assert y.shape == (30, tasks.COMPONENTS)
    np.testing.assert_allclose(y[:20].mean(0), 0, atol=1e-9)
    others = np.cov(y[:20].T) - np.diag(y[:20].var(0, ddof=1))
    np.testing.assert_allclose(others, 0, atol=1e-9)


def test_the_study_runs_and_its_page_names_what_is_missing(folder: Path, tmp_path: Path) -> None:
    content = reproduce("gains", tmp_path, data=folder, preset="quick", only=["test part", "softmax"])
    assert not content["complete"]
    assert content["summary"]["missing"] == {MOSI: ["eca"]}
    assert "- MOSI tokens, frozen: eca" in page.missing(content)
    content = reproduce("gains", tmp_path, data=folder, preset="quick")
    assert content["complete"]
    assert page.missing(content) == "Every part is computed."
    (file,) = (path for path in tmp_path.glob("*.json") if path.name != "results.json")
    stored = json.loads(file.read_text())
    assert all(len(unpack(run["prediction"])) == 40 for run in stored[f"{MOSI} | eca"]["result"]["runs"])
    (pair,) = content["summary"]["pairs"]
    scores = {row["arm"]: row["PCC"] for row in content["table"]}
    assert pair["PCC difference"] == pytest.approx(scores["eca"] - scores["softmax"], abs=0.01)
    assert pair["PCC low"] <= pair["PCC difference"] <= pair["PCC high"]
    shown = page.scores(content)
    assert "| softmax |" in shown
    assert "40 / 40 / 40 samples" in shown
    assert page.small(content) == "Not computed yet."
    assert table.words(pair).startswith("eca - softmax: PCC")


def test_arms_without_their_test_part_are_listed_without_differences(folder: Path, tmp_path: Path) -> None:
    content = reproduce("gains", tmp_path, data=folder, preset="quick", only=[f"{MOSI} | softmax", f"{MOSI} | eca"])
    assert [row["arm"] for row in content["table"]] == ["softmax", "eca"]
    assert content["summary"]["pairs"] == []
    assert content["summary"]["missing"] == {MOSI: ["test part"]}
    assert "| softmax |" in page.scores(content)


def test_a_direction_holds_only_where_the_interval_says_so() -> None:
    def pair(low: float, high: float) -> dict[str, Any]:
        known = {"PCC difference": (low + high) / 2, "PCC low": low, "PCC high": high}
        return {"task": MOSI, "first": "eca", "second": "softmax"} | known

    for bounds, said in (
        ((0.001, 0.02), "**holds**"),
        ((-0.001, 0.02), "the same, but"),
        ((-0.02, 0.01), "does not hold up"),
        ((-0.02, -0.01), "**the other way**"),
    ):
        shown = page.expected({"summary": {"pairs": [pair(*bounds)]}})
        assert said in shown
        assert shown.count("not computed yet") == len(page.EXPECTED) - 1


def test_the_committed_parts_are_of_this_study_and_give_the_committed_table() -> None:
    content = json.loads((RESULTS / "results.json").read_text(encoding="utf-8"))
    configuration = gains.configure(seeds=None, preset="cpu", data=None)
    assert content["configuration"] == store.plain(configuration)
    keys = [chunk.key for chunk in gains.chunks(configuration, None)]
    stored = store.Store(RESULTS, "gains", configuration, keys=keys, table_of=gains.table_of).results
    there = {(task, arm) for task, about in configuration["tasks"].items() for arm in about["arms"]}
    absent = {(task, arm) for task, arms_ in content["summary"]["missing"].items() for arm in arms_}
    shown = {(row["task"], row["arm"]): row["PCC"] for row in content["table"]}
    assert {*shown} == there - absent
    for (task, arm), pcc in shown.items():
        runs = stored[gains.key(task, arm)]["runs"]
        assert len(runs) == 5
        assert pcc == pytest.approx(sum(run["PCC"] for run in runs) / 5, rel=1e-4)
