"""What every source keeps, by being registered: a case for each kind, made small."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from data.spatial.made import Made

from excora.data import sources
from excora.data.dataset import Dataset
from excora.data.preparation import Preparation
from excora.data.reading import read, source_of
from excora.data.roles import Roles
from excora.data.source import Source
from excora.errors import ExcoraError, InputError
from excora.ragged import Ragged

N = 12


@dataclass
class Case:
    """A file of a kind: the same again with other content, and with the columns in another order and one more."""

    path: Path
    roles: dict[str, Any]
    other: Path
    mixed: Path | None = None  #: None: the features have no names
    unknown: int = 1  #: labels

    def read(self, path: Path | None = None, **more: Any) -> Dataset:
        return read(path or self.path, **(self.roles | more))


def of_table(folder: Path) -> Case:
    frame = pd.DataFrame({"x": np.arange(N) ** 0.5, "c": list("abc") * 4, "y": np.arange(N) * 1.5, "z": np.arange(N)})
    frame.loc[3, "y"] = None
    frame.to_csv(folder / "a.csv", index=False)
    frame.assign(x=frame["x"] + 1).to_csv(folder / "b.csv", index=False)
    frame[["c", "z", "x", "y"]].assign(more="new").to_csv(folder / "c.csv", index=False)
    return Case(folder / "a.csv", {"target": ["y", "z"]}, folder / "b.csv", folder / "c.csv")


def of_bags(folder: Path) -> Case:
    bag = np.repeat(np.arange(N), 1 + np.arange(N) % 3)
    rows = np.random.default_rng(0).standard_normal((len(bag), 3))
    frame = pd.DataFrame(rows, columns=["u", "v", "w"]).assign(slide=bag, y=bag * 1.5, z=bag)
    frame.loc[bag == 3, "y"] = None
    frame.to_csv(folder / "a.csv", index=False)
    frame.iloc[1:].to_csv(folder / "b.csv", index=False)
    frame[["w", "slide", "u", "z", "y", "v"]].assign(more="new").to_csv(folder / "c.csv", index=False)
    return Case(folder / "a.csv", {"target": ["y", "z"], "bag": "slide"}, folder / "b.csv", folder / "c.csv")


def of_spatial(folder: Path) -> Case:
    for number, name in enumerate("ab"):
        made = Made(seed=number, spots=N, name=name)
        made.h5ad(folder / f"{name}.h5ad")
        made.vectors(folder / "features" / f"{name}.h5")
    roles = {"target": ["ERBB2", "KRT8"], "features": folder / "features"}
    return Case(folder / "a.h5ad", roles, folder / "b.h5ad", unknown=0)


def of_modalities(folder: Path) -> Case:
    generator = np.random.default_rng(0)
    content = {
        "text": generator.standard_normal((N, 4, 3)), "audio": generator.standard_normal((N, 6, 2)),
        "audio_lengths": 1 + np.arange(N) % 6, "regression_labels": np.linspace(-3, 3, N), "z": np.arange(N),
        "raw_text": np.array([f"clip {k}" for k in range(N)]),
    }  # fmt: skip
    content["regression_labels"][3] = np.nan
    np.savez(folder / "clips.npz", **content)
    np.savez(folder / "others.npz", **content | {"text": content["text"] + 1})
    return Case(folder / "clips.npz", {"target": ["regression_labels", "z"]}, folder / "others.npz")


CASES: dict[str, Callable[[Path], Case]] = {
    "table": of_table,
    "bags": of_bags,
    "spatial": of_spatial,
    "modalities": of_modalities,
}
KINDS = sources.names()


def test_every_source_has_a_case():
    assert set(CASES) == set(KINDS)


@pytest.fixture(params=KINDS)
def source(request) -> Source:
    return sources[request.param]


@pytest.fixture
def case(source, tmp_path) -> Case:
    return CASES[source.kind](tmp_path)


@pytest.fixture
def data(case) -> Dataset:
    return case.read()


TRAIN = np.arange(8)


def equal(one: dict, other: dict) -> None:
    assert list(one) == list(other)
    for name, part in one.items():
        pair = [(p.values, p.lengths) if isinstance(p, Ragged) else (p,) for p in (part, other[name])]
        for left, right in zip(*pair, strict=True):
            torch.testing.assert_close(left, right, rtol=0, atol=0)


def rows_of(inputs: dict) -> set[int]:
    return {len(part) for part in inputs.values()}


def test_it_says_what_it_is(source):
    assert source.kind in sources
    assert source.says
    assert source.sample
    assert set(source.roles) <= {role.name for role in Roles.fields()}


def test_it_claims_what_it_reads(source, case, data):
    assert source_of(case.path, Roles.of(**case.roles)) is source
    assert not source.claims(case.path.with_name("a.unheard-of"), Roles())
    assert data.kind == data.content.kind == source.kind
    assert (len(data), len(data.content), data.target.shape) == (N, N, (N, 2))
    assert np.isnan(data.target).sum() == case.unknown


def test_data_to_predict_need_no_labels(case):
    new = case.read(labelled=False)
    assert len(new) == N
    assert len(case.read(labelled=False, target="absent")) == N


def test_some_of_the_samples(data):
    index = np.array([5, 0, 5])
    taken = data.take(index)
    assert (len(taken), len(taken.content), taken.kind) == (3, 3, data.kind)
    prepared = Preparation.fit(data, TRAIN)
    equal(prepared.features(taken).read(np.arange(3)), prepared.features(data).read(index))
    np.testing.assert_array_equal(prepared.matrix(taken), prepared.matrix(data)[index])


def test_the_fingerprint(case, data):
    assert data.fingerprint() == case.read().fingerprint()
    assert data.fingerprint() != case.read(case.other).fingerprint()
    assert data.fingerprint() != data.take(np.arange(N - 1)).fingerprint()


def test_only_the_training_part_is_looked_at(data):
    assert Preparation.fit(data, TRAIN) == Preparation.fit(data.take(TRAIN), TRAIN)


def test_json(source, data):
    prepared = Preparation.fit(data, TRAIN)
    again = Preparation.from_dict(json.loads(json.dumps(prepared.to_dict(), allow_nan=False)))
    assert again == prepared
    equal(again.features(data).read(TRAIN), prepared.features(data).read(TRAIN))
    for wrong in ({}, [], None, 5, {"names": 5}, {"columns": {"x": 1}}):
        with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
            source.load(wrong)


def test_it_cannot_be_changed(data):
    prepared = Preparation.fit(data, TRAIN)
    for thing in (prepared, prepared.content):
        name = dataclasses.fields(thing)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(thing, name, None)


def test_batches(data):
    prepared = Preparation.fit(data, TRAIN)
    assert (prepared.kind, prepared.spec.kind, prepared.spec.targets) == (data.kind, data.kind, 2)
    features = prepared.features(data)
    assert features.sizes.shape == (N,)
    assert (features.sizes > 0).all()
    for index in (np.arange(N), np.array([4]), np.array([4, 4, 1])):
        inputs = features.read(index)
        assert rows_of(inputs) == {len(index)}
        for part in inputs.values():
            values = part.values if isinstance(part, Ragged) else part
            assert values.dtype in (torch.float32, torch.int64, torch.bool)
            assert torch.isfinite(values).all()


def test_a_batch_of_one_is_that_sample_among_others(data):
    features = Preparation.fit(data, TRAIN).features(data)
    whole = features.read(np.arange(N))
    for k in range(N):
        for name, part in features.read(np.array([k])).items():
            among = whole[name]
            wanted = torch.split(among.values, among.lengths.tolist())[k] if isinstance(among, Ragged) else among[k]
            found = part.values if isinstance(part, Ragged) else part[0]
            torch.testing.assert_close(found, wanted, rtol=0, atol=0)


def test_the_matrix(data):
    prepared = Preparation.fit(data, TRAIN)
    matrix = prepared.matrix(data)
    assert matrix.shape == (N, len(prepared.matrix_names))
    assert matrix.dtype == np.float64
    assert np.isfinite(matrix).all()


def test_examination(data):
    prepared = Preparation.fit(data, TRAIN)
    assert prepared.examine(data).outside.shape == (N,)
    assert prepared.examine(data, np.array([1, 2])).outside.shape == (2,)
    assert not prepared.examine(data, TRAIN).outside.any()


def test_columns_in_another_order_and_one_more(case, data):
    if case.mixed is None:
        pytest.skip("its features have no names")
    prepared = Preparation.fit(data, TRAIN)
    again = Preparation.from_dict(json.loads(json.dumps(prepared.to_dict())))
    new = case.read(case.mixed, labelled=False)
    equal(again.features(new).read(np.arange(N)), prepared.features(data).read(np.arange(N)))
    np.testing.assert_array_equal(again.matrix(new), prepared.matrix(data))
    assert any("'more' is ignored" in note for note in again.examine(new).notes)


def test_checks_and_summary(source, data):
    problems: list[str] = []
    source.check(data, problems, None)
    assert problems == []
    facts = source.describe(data, Preparation.fit(data, TRAIN).content)
    assert all(fact.name and fact.text for fact in facts)
    json.dumps({fact.name: fact.figures for fact in facts}, allow_nan=False)


def test_samples_of_another_kind_are_refused(source, data, tmp_path):
    prepared = Preparation.fit(data, TRAIN)
    (tmp_path / "others").mkdir()
    for kind, make in CASES.items():
        if kind != source.kind:
            with pytest.raises(InputError, match="training had"):
                prepared.features(make(tmp_path / "others").read())


def test_a_file_of_rubbish_is_refused_and_not_run(case):
    case.path.write_bytes(b"\x80\x04cposix\nsystem\n")
    with pytest.raises(ExcoraError):
        case.read()
