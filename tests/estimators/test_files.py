"""Saved regressors: back as they were, and nothing in a file is run or believed."""

from __future__ import annotations

import json
import os
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file
from sklearn.exceptions import NotFittedError

from estimators.test_bags import sacks, small
from excora.errors import InputError
from excora.estimators import BagRegressor, TabularRegressor


def frame(rows=30):
    rng = np.random.default_rng(0)
    return pd.DataFrame({"a": rng.normal(size=rows), "b": rng.choice(["u", "v"], rows)}), rng.normal(size=rows)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    table = TabularRegressor(dim=8, heads=2, epochs=2, random_state=0).fit(*frame())
    bags = small().fit(*sacks(20))
    table.save(folder / "table.safetensors")
    bags.save(folder / "bags.safetensors")
    return folder, table, bags


def test_a_saved_regressor_comes_back_as_it_was(saved):
    folder, table, bags = saved
    for model, name, x in ((table, "table", frame()[0]), (bags, "bags", sacks(20)[0])):
        again = type(model).load(folder / f"{name}.safetensors")
        assert np.array_equal(again.predict(x), model.predict(x))
        assert again.get_params() == model.get_params()
        assert (again.history_, again.n_iter_, again.best_epoch_) == (model.history_, model.n_iter_, model.best_epoch_)
        assert again.verdict_ == model.verdict_
        assert again.n_features_in_ == model.n_features_in_
    assert list(again.attention(x[:1])[0][0]) == list(bags.attention(x[:1])[0][0])
    again = TabularRegressor.load(folder / "table.safetensors")
    assert list(again.feature_names_in_) == ["a", "b"]
    assert np.isfinite(again.set_params(warm_start=True, epochs=1).fit(*frame()).predict(frame()[0])).all()


def test_saving_needs_a_fit_and_a_random_state_object_is_not_kept(tmp_path):
    with pytest.raises(NotFittedError):
        small().save(tmp_path / "model.safetensors")
    model = small(epochs=1, random_state=np.random.RandomState(0)).fit(*sacks(20))
    model.save(tmp_path / "model.safetensors")
    assert BagRegressor.load(tmp_path / "model.safetensors").random_state is None


class Poison:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("writer", [pickle.dumps, None], ids=["pickle", "torch"])
def test_a_poisoned_pickle_is_refused_and_not_run(tmp_path, writer):
    canary, path = tmp_path / "canary", tmp_path / "model.safetensors"
    if writer is None:
        torch.save(Poison(canary), path)
    else:
        path.write_bytes(writer(Poison(canary)))
    with pytest.raises(InputError, match=r"model.safetensors"):
        BagRegressor.load(path)
    assert not canary.exists()


def test_files_that_are_not_a_saved_regressor_are_refused(saved, tmp_path):
    folder, *_ = saved
    with pytest.raises(InputError, match=r"not a BagRegressor.*TabularRegressor.load"):
        BagRegressor.load(folder / "table.safetensors")
    with pytest.raises(InputError, match="no file"):
        BagRegressor.load(tmp_path / "nothing.safetensors")
    save_file({"x": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(InputError, match=r"other.safetensors.*\.save"):
        BagRegressor.load(tmp_path / "other.safetensors")


def parts(path):
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118


@pytest.mark.parametrize(
    "spoil",
    [
        lambda tensors: tensors.update({"head.weight": torch.zeros(1, 9)}),
        lambda tensors: tensors.update({"head.weight": tensors["head.weight"].double()}),
        lambda tensors: tensors.update({"head.weight": tensors["head.weight"].long()}),
        lambda tensors: tensors.pop("head.bias"),
        lambda tensors: tensors.update({"surplus": torch.zeros(1)}),
    ],
)
def test_weights_that_do_not_fit_are_refused(saved, tmp_path, spoil):
    tensors, metadata = parts(saved[0] / "bags.safetensors")
    spoil(tensors)
    save_file(tensors, tmp_path / "model.safetensors", metadata)
    with pytest.raises(InputError, match=r"head|surplus"):
        BagRegressor.load(tmp_path / "model.safetensors")


@pytest.mark.parametrize("name", ["dim", "heads", "layers"])
@pytest.mark.parametrize("size", [10**6, 10**18, 10**30])
def test_settings_of_absurd_size_are_refused_without_memory_for_them(saved, tmp_path, name, size):
    tensors, metadata = parts(saved[0] / "table.safetensors")
    tree = json.loads(metadata["excora"])
    tree["settings"][name] = size
    save_file(tensors, tmp_path / "model.safetensors", {**metadata, "excora": json.dumps(tree)})
    with pytest.raises(InputError, match=r"model\.safetensors is not a TabularRegressor"):
        TabularRegressor.load(tmp_path / "model.safetensors")


def leaves(tree, path=()):
    """The paths of all values of nested dicts and lists."""
    if isinstance(tree, dict | list):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield (*path, key)
            yield from leaves(value, (*path, key))


JUNK = st.sampled_from([None, "junk", -1, 10**12, 10**18, 0.5, [], {}, True, [None], {"a": 1}])


@given(st.data())
def test_altered_descriptions_load_or_are_refused(saved, tmp_path_factory, data):
    name = data.draw(st.sampled_from(["table", "bags"]))
    kind = {"table": TabularRegressor, "bags": BagRegressor}[name]
    tensors, metadata = parts(saved[0] / f"{name}.safetensors")
    tree = json.loads(metadata["excora"])
    *way, last = data.draw(st.sampled_from(sorted(leaves(tree), key=str)))
    spot = tree
    for step in way:
        spot = spot[step]
    if data.draw(st.booleans()) and isinstance(spot, dict):
        del spot[last]
    else:
        spot[last] = data.draw(JUNK)
    path = tmp_path_factory.mktemp("altered") / "model.safetensors"
    save_file(tensors, path, {**metadata, "excora": json.dumps(tree)})
    try:
        model = kind.load(path)
    except InputError as error:
        assert "model.safetensors" in str(error)  # noqa: PT017  (loading may succeed: history is free text)
    else:
        assert isinstance(model, kind)


@given(cut=st.integers(0, 2000), flip=st.integers(0, 1999))
def test_broken_bytes_load_or_are_refused(saved, tmp_path_factory, cut, flip):
    content = bytearray((saved[0] / "bags.safetensors").read_bytes())
    content[flip] ^= 0x41
    path = tmp_path_factory.mktemp("broken") / "model.safetensors"
    path.write_bytes(bytes(content[: len(content) - cut]))
    try:
        model = BagRegressor.load(path)
    except InputError as error:
        assert "model.safetensors" in str(error)  # noqa: PT017  (a flipped bit in a weight cannot be seen)
    else:
        assert isinstance(model, BagRegressor)
