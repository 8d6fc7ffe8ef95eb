"""Twelve bags, in memory and as a folder of files; random ones."""

from __future__ import annotations

import h5py
import numpy as np
from safetensors.numpy import save_file

from excora.data.bags import ArrayBags, BagSet
from excora.data.dataset import Dataset
from excora.data.reading import read

N, WIDTH = 12, 3


def make_bags() -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.standard_normal((1 + k % 4, WIDTH)).astype(np.float32) for k in range(N)]


BAGS = make_bags()
IDS = [f"{k:03d}" for k in range(N)]
TARGET = np.arange(N) ** 1.5


def save(path, values) -> None:
    places = np.zeros((len(values), 2), np.int64)
    if path.suffix in (".h5", ".hdf5"):
        with h5py.File(path, "w") as file:
            file["features"], file["coords"] = values, places
    elif path.suffix == ".npz":
        np.savez(path, features=values, coords=places)
    else:
        save_file({"features": values, "coords": places}, path)


def labelled(folder, **roles):
    return read(folder, labels=folder.parent / "labels.csv", target="y", **roles)


def same(data, bags=BAGS) -> None:
    assert data.kind == "bags"
    assert data.content.bags.width == WIDTH
    assert data.content.bags.lengths.tolist() == [len(bag) for bag in bags]
    for k, bag in enumerate(bags):
        found = data.content.bags.read(k)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, bag)


def random_bags(n=50, width=4, shift=0.0) -> tuple[ArrayBags, list[np.ndarray]]:
    generator = np.random.default_rng(1)
    lengths = generator.integers(1, 30, n)
    values = (generator.standard_normal((lengths.sum(), width)) * [1, 10, 0.1, 0] + shift).astype(np.float32)
    return ArrayBags(values, lengths), np.split(values.astype(float), lengths.cumsum()[:-1])


def dataset(bags: ArrayBags, names: tuple[str, ...] = ()) -> Dataset:
    n = len(bags.lengths)
    ids = np.arange(n).astype(str).astype(object)
    return Dataset(ids, ("y",), np.arange(float(n))[:, None], BagSet(bags, names))
