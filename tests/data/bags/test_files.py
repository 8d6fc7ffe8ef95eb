"""One bag a file: types of numbers, which array is read, and files that lead elsewhere."""

from __future__ import annotations

import os

import h5py
import numpy as np
import pytest
import torch
from safetensors.torch import save_file as save_tensors

from data.bags.made import WIDTH, N, labelled, save
from excora.data.reading import read
from excora.errors import DataError, InputError


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


def test_tensors_of_torch_and_a_first_axis_of_one(tmp_path):
    values, places = torch.arange(6.0).reshape(2, 3), torch.tensor([[0, 1], [2, 3]])
    torch.save(values.half(), tmp_path / "a.pt")
    torch.save({"features": values[None], "coords": places}, tmp_path / "b.pt")
    torch.save(values, tmp_path / "c.pt", _use_new_zipfile_serialization=False)
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file["features"], file["coords"] = values[None].numpy(), places[None].numpy()
    data = read(tmp_path, labelled=False)
    assert data.ids.tolist() == ["a", "b", "c", "d"]
    assert [data.content.bags.read(k).tolist() for k in range(4)] == [values.tolist()] * 4
    assert [data.content.bags.positions(k) is None for k in range(4)] == [True, False, True, False]
    assert data.content.bags.positions(1).tolist() == data.content.bags.positions(3).tolist() == places.tolist()


class Poison:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


def test_nothing_but_tensors_is_ever_loaded_from_a_pt_file(tmp_path):
    (tmp_path / "bags").mkdir()
    torch.save({"features": torch.zeros(2, 3), "x": Poison(tmp_path / "run")}, tmp_path / "bags" / "a.pt")
    with pytest.raises(DataError, match=r"a\.pt: it holds more than tensors") as raised:
        read(tmp_path / "bags", labelled=False)
    assert "weights_only" not in str(raised.value)  # torch's advice to run it
    torch.save([1, 2], tmp_path / "bags" / "a.pt")
    with pytest.raises(DataError, match=r"a\.pt: expected an array 'features'.* got nothing"):
        read(tmp_path / "bags", labelled=False)
    assert not (tmp_path / "run").exists()
