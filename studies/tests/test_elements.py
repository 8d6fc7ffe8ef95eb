"""Study ``elements``: what is read, what rows see, equal starts, what is stored, and the page."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from excora.data.bags import BagSpec
from excora.errors import InputError
from excora.models import models
from excora.models.base import seeded
from excora.pooling import pools
from excora_studies import elements, reproduce
from excora_studies.elements import NETWORK, ROWS, SPLITS, TREES
from excora_studies.elements import page as element_page
from excora_studies.elements.bags import read
from excora_studies.tabular.scores import scores, unpack
from excora_studies.tabular.sets import make_split

NAMES = np.array(["H", "O", "Fe", "Cu"])


def start(pool: str, options: dict[str, Any]) -> Any:
    """A fresh network of the model "pool"."""
    model, known = models["pool"], {**options, "pool": pool}
    with seeded(0):
        return model.network(BagSpec(targets=1, width=4), model.Options(**known), {})


SMALL: dict[str, Any] = {"setup": {"epochs": 1, "dim": 8}, "trees": 3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of the formats of the real ones, 120 materials of 40 compositions."""
    where, rng = tmp_path_factory.mktemp("materials"), np.random.default_rng(0)
    element, fraction = np.full((120, 9), -1, np.int8), np.zeros((120, 9))
    composition = []
    for k in range(120):
        draw = np.random.default_rng(k % 40)
        size = int(draw.integers(1, 5))
        element[k, :size] = draw.permutation(4)[:size]
        fraction[k, :size] = draw.dirichlet(np.ones(size))
        composition.append(str(k % 40))
    temperature = 50 * fraction.max(1) + rng.normal(size=120)
    properties = rng.normal(size=(4, 8))
    np.savez(
        where / "superconduct_bags.npz",
        element=element,
        fraction=fraction,
        critical_temp=temperature,
        element_names=NAMES,
        element_table=properties,
        element_props=np.array([f"p{k}" for k in range(8)]),
    )
    table = pd.DataFrame({"largest": fraction.max(1), "noise": rng.normal(size=120), "critical_temp": temperature})
    table.to_csv(where / "superconductivity.csv.xz", index=False)
    pd.DataFrame({"composition": composition}).to_csv(where / "superconduct_composition.csv.xz", index=False)
    return where


def test_an_element_is_its_properties_its_kind_and_its_fraction(folder: Path) -> None:
    materials = read(folder)
    stored = np.load(folder / "superconduct_bags.npz")
    assert materials.names == NAMES.tolist()
    for k in (0, 7, 39):
        for place in range(9):
            which, f = int(stored["element"][k, place]), float(stored["fraction"][k, place])
            assert (which < 0) == (place >= len(materials.bags[k]))
            if which < 0:
                continue
            waves = [wave(2**j * math.pi * f) for wave in (math.sin, math.cos) for j in range(6)]
            kind = [float(which == j) for j in range(4)]
            expected = [*stored["element_table"][which], *kind, f, math.log(f), *waves]
            np.testing.assert_allclose(materials.bags[k][place], expected, rtol=1e-5, atol=1e-6)
    assert len(read(folder, 50).table) == len(read(folder, 50).bags) == 50


def test_files_that_do_not_belong_together_are_refused(folder: Path, tmp_path: Path) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    stored = dict(np.load(folder / "superconduct_bags.npz"))
    np.savez(tmp_path / "superconduct_bags.npz", **stored | {"critical_temp": stored["critical_temp"][::-1]})
    with pytest.raises(InputError, match="same materials in the same order"):
        read(tmp_path)
    (tmp_path / "superconduct_bags.npz").unlink()
    with pytest.raises(InputError, match=r"missing: superconduct_bags.npz.*--data"):
        reproduce("elements", tmp_path / "out", data=tmp_path, preset="quick")


def test_the_gain_and_the_weights_by_element_come_from_the_attention(folder: Path) -> None:
    materials, test = read(folder), np.arange(7)
    rng, gamma = np.random.default_rng(0), 1.7
    weights = [rng.dirichlet(np.ones(len(bag))) for bag in materials.bags[:7]]
    found = elements._attention(materials, test, [(a, (1 - gamma) / len(a) + gamma * a) for a in weights])
    assert found["gamma"] == pytest.approx(gamma)
    assert found["gamma sd"] == pytest.approx(0, abs=1e-9)
    for place, name in enumerate(NAMES):
        held = [(k, list(materials.element[k]).index(place)) for k in range(7) if place in materials.element[k]]
        expected = [len(held), sum(weights[k][i] for k, i in held), sum(materials.fraction[k, i] for k, i in held)]
        np.testing.assert_allclose(found["attention"].get(name, [0, 0, 0]), expected, rtol=1e-12)
    assert "gamma" not in elements._attention(materials, test, [(a, a) for a in weights])


@pytest.mark.parametrize(("split", "row"), [("grouped", "bags, eca"), ("random", NETWORK), ("random", TREES)])
def test_no_row_sees_the_test_part(folder: Path, split: str, row: str) -> None:
    materials = read(folder)
    assert materials.table.target is not None
    parts = make_split(materials.table, split, 0)
    target = materials.table.target.copy()
    target[parts.test] *= -1
    other = materials._replace(table=dataclasses.replace(materials.table, target=target))
    tuned = None if row == TREES else {"rate": 1e-3}
    first, second = (elements._fit(given, split, 0, row, SMALL, tuned) for given in (materials, other))
    assert first["prediction"] == second["prediction"]
    assert first["MAE"] != second["MAE"]


def test_the_encoder_starts_alike_with_every_pool() -> None:
    bags = torch.randn(5, 3, 4)
    options: dict[str, Any] = {"dim": 8, "layers": 2, "head": 1}
    first, *others = (start(pool, options) for pool in pools)
    for network in others:
        assert torch.equal(network.encoder({"elements": bags}), first.encoder({"elements": bags}))


def test_the_study_runs_on_a_users_folder(folder: Path, tmp_path: Path) -> None:
    content = reproduce("elements", tmp_path / "out", data=folder, preset="quick")
    results = {key: chunk["result"] for key, chunk in content["chunks"].items()}
    assert [(row["split"], row["row"]) for row in content["table"]] == [(s, row) for s in SPLITS for row in ROWS]
    for row in ROWS[:-1]:
        tuned = results[f"learning rate | {row}"]
        best = tuned["validation_pcc"].index(max(tuned["validation_pcc"]))
        assert tuned["rate"] == content["configuration"]["rates"][best]
    table = read(folder).table
    assert table.group is not None
    assert table.target is not None
    for split in SPLITS:
        parts, test = make_split(table, split, 0), results[f"{split} | seed 0 | test"]
        codes = [int(code) for code in table.group[parts.test]]
        assert pd.Series(codes).nunique() == len(set(test["unit"]))
        target = table.target[parts.test, 0]
        for row in ROWS:
            found = results[f"{split} | seed 0 | {row}"]
            assert scores(unpack(found["prediction"]), target)["PCC"] == pytest.approx(found["PCC"], abs=0.01)
            assert ("attention" in found) == (row not in (NETWORK, TREES))
        attention = results[f"{split} | seed 0 | bags, mean"]["attention"]
        held = read(folder).element[parts.test] >= 0
        assert sum(row[1] for row in attention.values()) == pytest.approx(len(parts.test), rel=1e-5)
        assert sum(row[2] for row in attention.values()) == pytest.approx(len(parts.test), rel=1e-5)
        assert sum(row[0] for row in attention.values()) == held.sum()
    difference = content["summary"]["differences"]["random"]["bags, eca - bags, softmax"]["PCC"]
    ours, softmax = (results[f"random | seed 0 | bags, {pool}"]["PCC"] for pool in ("eca", "softmax"))
    assert difference["difference"] == pytest.approx(ours - softmax, abs=0.02)
    assert difference["low"] <= difference["high"]
    shown = element_page.block({"elements": content})
    assert shown.count("| random |") == len(ROWS) + 4
    assert "| O | " in shown
