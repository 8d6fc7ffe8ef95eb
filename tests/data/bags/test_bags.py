"""Bags from long tables, ragged .npz and folders of files: equal numbers, lazy reading, and what is refused."""

from __future__ import annotations

import h5py
import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_tensors

from excora.data.bags import ArrayBags, ChosenBags, PickedBags
from excora.data.preparation import Preparation
from excora.data.reading import read
from excora.data.splits import split
from excora.data.validation import validate
from excora.errors import DataError, InputError

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


def test_a_folder_of_files(folder):
    data = labelled(folder, group="case")
    assert data.ids.tolist() == IDS[::-1]
    assert data.group.tolist()[:3] == ["c3", "c3", "c3"]
    np.testing.assert_array_equal(data.target[:, 0], TARGET[::-1])
    same(data, BAGS[::-1])
    unlabelled = read(folder, target="y", labelled=False)
    assert unlabelled.ids.tolist() == IDS
    assert unlabelled.target is None
    same(unlabelled)
    some = folder.parent / "some.csv"
    some.write_text("slide\n003\n001\n")
    data = read(folder, target="y", labels=some, labelled=False)
    assert data.ids.tolist() == ["003", "001"]


def test_a_long_table_in_any_order(tmp_path):
    rows = [(name, *map(float, row), y) for name, bag, y in zip(IDS, BAGS, TARGET, strict=True) for row in bag]
    frame = pd.DataFrame(rows, columns=["bag", "a", "b", "c", "y"])
    frame["case"] = frame["bag"].str[-1]
    frame.to_csv(tmp_path / "long.csv", index=False)
    data = read(tmp_path / "long.csv", bag="bag", target="y", group="case")
    assert data.ids.tolist() == IDS
    same(data)
    mixed = frame.iloc[np.argsort(np.arange(len(frame)) % 3, kind="stable")]  # stable: elements keep their order
    mixed.to_parquet(tmp_path / "long.parquet")
    data = read(tmp_path / "long.parquet", bag="bag", target="y", drop="case")
    order = [IDS.index(name) for name in data.ids]
    np.testing.assert_array_equal(data.target[:, 0], TARGET[order])
    for k, place in enumerate(order):
        assert sorted(data.content.bags.read(k).tolist()) == sorted(BAGS[place].tolist())
    assert data.notes == ("a column without a name is left out: (unnamed) __index_level_0__",)  # of pandas
    assert validate(tmp_path / "long.csv", bag="bag", target="y").to_dict()["elements"]["max"] == 4


def test_columns_of_elements_are_known_by_name(tmp_path):
    frame = pd.DataFrame(
        {"b": list("pqrst") * 2, "x": np.arange(10.0), "z": np.arange(10.0) ** 2, "y": [*range(5)] * 2}
    )
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame[["z", "b", "x"]].assign(more=1).to_csv(tmp_path / "b.csv", index=False)
    frame[["b", "x"]].to_csv(tmp_path / "c.csv", index=False)
    data = read(tmp_path / "a.csv", bag="b", target="y")
    prepared = Preparation.fit(data, np.arange(5))
    assert prepared.matrix_names[:2] == ("mean of x", "mean of z")
    new = read(tmp_path / "b.csv", bag="b", target="y", labelled=False)
    assert prepared.examine(new).notes == ("column 'more' is ignored: training has not seen it",)
    np.testing.assert_array_equal(prepared.matrix(new), prepared.matrix(data))
    wanted = prepared.features(data).read(np.arange(5))
    torch.testing.assert_close(prepared.features(new).read(np.arange(5)), wanted, rtol=0, atol=0)
    with pytest.raises(DataError, match="column 'z' is missing"):
        prepared.features(read(tmp_path / "c.csv", bag="b", target="y", labelled=False))


@pytest.mark.parametrize("compressed", [False, True])
def test_a_ragged_npz(tmp_path, compressed):
    arrays = {"values": np.concatenate(BAGS), "lengths": np.array([len(bag) for bag in BAGS])}
    keep = np.savez_compressed if compressed else np.savez
    keep(tmp_path / "a.npz", **arrays, target=TARGET, ids=np.array(IDS), group=np.arange(N) // 2, other=np.ones(2))
    data = read(tmp_path / "a.npz")
    assert isinstance(data.content.bags.values, np.memmap) is not compressed
    assert (data.ids.tolist(), data.group.tolist()[:3], data.targets) == (IDS, ["0", "0", "1"], ("target",))
    same(data)
    both = np.stack([TARGET, -TARGET], 1)
    keep(tmp_path / "b.npz", **(arrays | {"values": np.asfortranarray(arrays["values"])}), target=both, when=TARGET)
    data = read(tmp_path / "b.npz", target=["up", "down"], time="when")
    np.testing.assert_array_equal(data.target, both)
    assert (data.targets, data.time.tolist(), data.ids[0]) == (("up", "down"), TARGET.tolist(), "0")
    same(data)
    assert read(tmp_path / "b.npz").targets == ("target 0", "target 1")
    with pytest.raises(DataError, match="target has 2 columns, got 3 names"):
        read(tmp_path / "b.npz", target=["a", "b", "c"])
    assert read(tmp_path / "b.npz", target="when").target[:, 0].tolist() == TARGET.tolist()
    roles = {"target": ["up", "down", "odd"], "id": "names", "group": "g", "labelled": False}
    assert read(tmp_path / "b.npz", **roles).target is None


def test_types_of_numbers(tmp_path):
    (tmp_path / "bags").mkdir()
    values = torch.arange(6.0).reshape(2, 3)
    save_tensors({"features": values.bfloat16()}, tmp_path / "bags" / "a.safetensors")
    save_tensors({"embedding": values.half(), "coords": torch.zeros(2, 2)}, tmp_path / "bags" / "b.safetensors")
    np.savez(tmp_path / "bags" / "c.npz", anything=values.numpy().astype(">f8"))
    with h5py.File(tmp_path / "bags" / "d.h5", "w") as file:
        file.create_dataset("x", data=values.numpy().astype(np.uint8), compression="gzip")
        file.create_group("attributes")
    data = read(tmp_path / "bags", labelled=False)
    assert [data.content.bags.read(k).tolist() for k in range(4)] == [values.tolist()] * 4


def problems(path, **roles) -> list[str]:
    with pytest.raises(DataError) as caught:
        validate(path, **roles)
    return caught.value.problems


def test_everything_wrong_in_a_folder_is_reported_at_once(folder):
    save(folder / "000.h5", np.zeros((4, WIDTH + 1), np.float32))
    save(folder / "spare.npz", BAGS[0])
    (folder / "002.safetensors").write_bytes(b"\x10")
    np.savez(folder / "001.npz", features=np.array([[1, None]], object))
    with h5py.File(folder / "003.hdf5", "w") as file:
        file["features"] = np.zeros((0, WIDTH))
    labels = folder.parent / "labels.csv"
    labels.write_text(labels.read_text() + "1,c9,absent\nx,c9,005\n")
    found = problems(folder, labels=labels, target="y", id="slide", group="case")
    text = "\n".join(found)
    for wanted in (
        "the id 'slide' must be different in every row, got '005' in 8 and 15",
        "the target 'y' must be a finite number, or empty where it is unknown, got 'x' in row 15",
    ):
        assert wanted in text
    labels.write_text(labels.read_text().replace("x,c9,005\n", ""))
    found = problems(folder, labels=labels, target="y", group="case")
    expected = [
        (labels, "there is no file of features for 'absent'"),
        (folder / "spare.npz", "there is no row for it in"),
        (folder / "002.safetensors", "not readable as safetensors"),
        (folder / "001.npz", "holds Python objects, which are never loaded"),
        (folder / "003.hdf5", "the bag is empty (0 elements"),
        (folder / "000.h5", "its elements have 4 features, those of most files 3"),
    ]
    assert len(found) == len(expected)
    for got, (path, message) in zip(found, expected, strict=True):
        assert got.startswith(f"{path}: ")
        assert message in got


def test_a_bad_element_is_found_by_validate_and_named_when_read(folder):
    bad = BAGS[4].copy()
    bad[0, 1] = np.nan
    save(folder / "004.h5", bad)
    data = labelled(folder)
    with pytest.raises(InputError, match=r"004\.h5: element 0, feature 1 is nan"):
        Preparation.fit(data, np.arange(N))
    seen = []
    found = problems(
        folder, labels=folder.parent / "labels.csv", target="y", progress=lambda done, total: seen.append((done, total))
    )
    assert len(found) == 1
    assert "004.h5: element 0, feature 1 is nan" in found[0]
    assert seen == [(k + 1, N) for k in range(N)]
    save(folder / "004.h5", np.zeros((9, WIDTH), np.float32))
    with pytest.raises(InputError, match=r"004\.h5: expected numbers of shape \(1, 3\), got float32 of shape \(9, 3\)"):
        data.content.bags.read(N - 1 - 4)


def test_numbers_too_large_for_float32_are_refused():
    with pytest.raises(InputError, match="element 0, feature 0 is 1e"):
        ArrayBags(np.array([[1e300]]), [1]).read(0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_some_bags_at_once_are_the_bags_one_by_one(folder, dtype):
    lengths, index = [len(bag) for bag in BAGS], np.array([5, 0, 5, 11])
    arrays = ArrayBags((10 * np.concatenate(BAGS)).astype(dtype), lengths)
    kinds = [arrays, PickedBags(arrays, [2, 0]), labelled(folder).content.bags, ChosenBags(arrays, np.arange(N)[::-1])]
    for bags in kinds:
        found = bags.gather(index)
        assert found.dtype == np.float32
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, np.concatenate([bags.read(k) for k in index]))
        found[:] = 0  # a copy
        assert bags.gather(index).any()
    broken = np.concatenate(BAGS).astype(np.float64)
    broken[lengths[0], 1] = 1e300
    with pytest.raises(InputError, match=r"bag '1': element 0, feature 1 is 1e\+300"):
        ArrayBags(broken, lengths).gather(np.array([3, 1]))


def outside(kind, folder, file) -> None:
    """Ways by which an HDF5 file can point to another one."""
    other = folder.parent / "secret.h5"
    with h5py.File(other, "w") as secret:
        secret["features"] = np.ones((2, WIDTH))
    if kind == "external link":
        file["features"] = h5py.ExternalLink(str(other), "features")
    elif kind == "soft link through a link":
        file["way"] = h5py.ExternalLink(str(other), "/")
        file["features"] = h5py.SoftLink("/way/features")
    elif kind == "virtual":
        layout = h5py.VirtualLayout((2, WIDTH), "f8")
        layout[:] = h5py.VirtualSource(str(other), "features", (2, WIDTH))
        file.create_virtual_dataset("features", layout)
    else:
        (folder.parent / "raw").write_bytes(bytes(8 * 2 * WIDTH))
        file.create_dataset("features", (2, WIDTH), "f8", external=[(str(folder.parent / "raw"), 0, 8 * 2 * WIDTH)])


@pytest.mark.parametrize("kind", ["external link", "soft link through a link", "virtual", "external storage"])
def test_hdf5_that_leads_out_of_the_file_is_refused(folder, kind):
    with h5py.File(folder / "000.h5", "w") as file:
        outside(kind, folder, file)
    with pytest.raises(DataError, match=r"000\.h5: 'features' is a .*copy the data into it"):
        labelled(folder)
    # Also when the link comes after the headers were read.
    save(folder / "000.h5", np.zeros((2, WIDTH)))
    data = labelled(folder)
    with h5py.File(folder / "000.h5", "w") as file:
        outside(kind, folder, file)
    with pytest.raises(InputError, match="copy the data into it"):
        data.content.bags.read(N - 1)


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"target": "y"}, "needs labels="),
        ({"target": "y", "labels": "empty.csv"}, "a header but no row"),
        ({"target": "y", "labels": "empty.csv", "id": "slide", "labelled": False}, "a header but no row"),
        ({"target": "y", "labels": "other.csv"}, "no column has the name of a file .* such as '000'"),
        ({"target": "y", "labels": "labels.csv", "id": "case"}, "the id 'case' must be different in every row"),
        ({"target": "y", "labels": "labels.csv", "id": "Slide"}, "no column 'Slide' for the id; did you mean 'slide'"),
        ({"target": "y", "labels": "absent.csv"}, "absent.csv: there is no such file"),
        ({"target": "y", "labels": "labels.csv", "bag": "slide"}, "bag= is for long tables"),
    ],
)
def test_labels_that_do_not_fit(folder, roles, message):
    (folder.parent / "empty.csv").write_text("slide,y\n")
    (folder.parent / "other.csv").write_text("slide,y\n0,1\n1,2\n")
    roles = roles | ({"labels": folder.parent / roles["labels"]} if "labels" in roles else {})
    with pytest.raises(DataError, match=message):
        read(folder, **roles)


def test_folders_without_bags_and_with_two_files_a_bag(folder, tmp_path):
    (tmp_path / "clam" / "h5_files").mkdir(parents=True)
    with pytest.raises(DataError, match=r"no file of features .* did you mean .*h5_files\?"):
        read(tmp_path / "clam", labelled=False)
    save(folder / "000.npz", BAGS[0])
    with pytest.raises(DataError, match=r"000\.npz: there is 000\.h5 as well"):
        labelled(folder)
    with h5py.File(tmp_path / "clam" / "a.h5", "w") as file:
        file["p"], file["q"], file["r"] = np.zeros((2, 2)), np.zeros((2, 3)), np.zeros(3)
    with pytest.raises(DataError, match=r"expected an array 'features' .* got p \(2, 2\), q \(2, 3\), r \(3,\)"):
        read(tmp_path / "clam", labelled=False)
    with h5py.File(tmp_path / "clam" / "a.h5", "w") as file:
        file["features"] = np.zeros((1, 2, 3))
    with pytest.raises(DataError, match=r"must have shape \(elements, width\), got \(1, 2, 3\)"):
        read(tmp_path / "clam", labelled=False)
    with h5py.File(tmp_path / "clam" / "a.h5", "w") as file:
        file["features"] = np.array([[b"x"]])
    with pytest.raises(DataError, match="must hold numbers"):
        read(tmp_path / "clam", labelled=False)


LONG = "b,x,y,g\np,1,5,u\np,2,5,u\nq,3,6,v\nq,4,6,v\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (LONG.replace("q,4,6", "q,4,7"), "'y' must be the same in every row of a bag, got '6' and '7' in bag 'q'"),
        (LONG.replace("p,2,5,u", "p,2,5,v"), "'g' must be the same in every row of a bag, got 'u' and 'v' in bag 'p'"),
        (LONG.replace("p,2,5,u", "p,2,,u"), "'y' must be the same in every row of a bag, got '5.0' and 'nan'"),
        (LONG.replace("q,4", "q,"), "column 'x' must be a finite number in every row of a bag, got 'nan' in row 5"),
        (LONG.replace("q,4", "q,red"), "column 'x' must be a finite number in every row of a bag, got 'red' in row 5"),
        (LONG.replace("q,4", "q,1e39"), "column 'x' must be a finite number .* got '1e[+]39' in row 5"),
        (LONG.replace("q,4", ",4"), "the bag 'b' must be there in every row, got nothing in row 5"),
    ],
)  # fmt: skip
def test_long_tables_that_contradict_themselves(tmp_path, content, message):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(DataError, match=message):
        read(tmp_path / "a.csv", bag="b", target="y", group="g")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"values": np.ones((3, 2))}, "expected the arrays values .* and lengths"),
        ({"values": np.ones((3, 2)), "lengths": np.array([1, 3])}, r"sum to the 3 rows .* and sum 4"),
        ({"values": np.ones((3, 2)), "lengths": np.array([4, -1])}, "whole numbers >= 0"),
        ({"values": np.ones((3, 2)), "lengths": np.array([1.0, 2.0])}, "whole numbers"),
        ({"values": np.ones(3), "lengths": np.array([1, 2])}, r"values must be numbers of shape \(total, width\)"),
        ({"values": np.ones((3, 2)), "lengths": np.array([0, 3]), "target": np.arange(2)}, "bag '0' is empty"),
        ({"values": np.ones((3, 0)), "lengths": np.array([1, 2]), "target": np.arange(2)}, "have no features"),
        ({"values": np.ones((3, 2)), "lengths": np.array([1, 2]), "target": np.arange(3)}, "no column 'target'"),
        ({"values": np.ones((3, 2)), "lengths": np.array(3)}, "lengths must have an entry for each bag"),
        ({"values": np.array([["a"]]), "lengths": np.array([1])}, "values must be numbers"),
        (
            {"values": np.ones((2, 2)), "lengths": np.array([1, 1]), "ids": np.array(["a", "a"])},
            "in every bag, got 'a'",
        ),
    ],
)
def test_ragged_files_that_contradict_themselves(tmp_path, arrays, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=message):
        read(tmp_path / "a.npz")


def test_workers_read_what_one_process_reads(folder):
    data = labelled(folder)
    features = Preparation.fit(data, np.arange(N)).features(data)

    class Samples(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return N

        def __getitem__(self, place: int) -> torch.Tensor:
            return features.read(np.array([place]))["elements"][0]

    loader = torch.utils.data.DataLoader(Samples(), batch_size=None, num_workers=2, multiprocessing_context="fork")
    for k, bag in enumerate(loader):
        torch.testing.assert_close(bag, features.read(np.array([k]))["elements"][0], rtol=0, atol=0)


def test_bags_of_all_sizes_are_split_and_prepared(folder):
    data = labelled(folder)
    parts = split(data)
    prepared = Preparation.fit(data, parts.train)
    batch = prepared.features(data).read(parts.train)
    everything = np.concatenate([data.content.bags.read(k) for k in parts.train]).astype(float)
    wanted = (everything - everything.mean(0)) / everything.std(0)
    np.testing.assert_allclose(batch["elements"].values.numpy(), wanted, atol=2e-6)
    assert prepared.features(data).sizes.tolist() == data.content.bags.lengths.tolist()
