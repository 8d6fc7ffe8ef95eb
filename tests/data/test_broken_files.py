"""Broken files: whatever is in them, an ExcoraError comes out or samples do; never another error or a warning."""

from __future__ import annotations

import contextlib
import io
import tempfile
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from excora.data.reading import read
from excora.data.roles import Roles
from excora.data.sheet import Sheet
from excora.data.table.columns import Column, learn
from excora.data.validation import validate
from excora.errors import ExcoraError

ROLES = {"target": "y", "group": "g", "weight": "w"}


def table() -> pd.DataFrame:
    n = 12
    days = [f"2024-01-{k + 1:02d}" for k in range(n)]
    return pd.DataFrame(
        {"x": np.arange(n) / 3, "d": days, "c": list("abc") * 4, "y": range(n), "g": range(n), "w": 1.0}
    )


def to_bytes(kind: str) -> bytes:
    """A sound file of each kind."""
    out = io.BytesIO()
    values = np.arange(12, dtype=np.float32).reshape(6, 2)
    if kind == "parquet":
        table().to_parquet(out)
    elif kind == "csv":
        return table().to_csv(index=False).encode()
    elif kind == "csv.gz":
        table().to_csv(out, index=False, compression="gzip")
    elif kind == "ragged npz":
        np.savez(out, values=values, lengths=np.ones(6, int), target=np.arange(6.0), group=np.arange(6))
    elif kind == "npz":
        np.savez(out, features=values, coords=values)
    elif kind == "compressed npz":
        np.savez_compressed(out, features=values)
    elif kind == "h5":
        with h5py.File(out, "w") as file:
            file.create_dataset("features", data=values, chunks=(2, 2), compression="gzip")
            file["coords"] = values
    else:
        return save({"features": values})
    return out.getvalue()


TABLES = {"parquet": "a.parquet", "csv": "a.csv", "csv.gz": "a.csv.gz", "ragged npz": "a.npz"}
FILES = {"npz": "a.npz", "compressed npz": "a.npz", "h5": "a.h5", "safetensors": "a.safetensors"}
SOUND = {kind: to_bytes(kind) for kind in (*TABLES, *FILES)}


def survive(kind: str, content: bytes) -> bool:
    """Read and validate a file; True if it was refused, by an ExcoraError alone."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            if kind in TABLES:
                (folder / TABLES[kind]).write_bytes(content)
                roles = {} if kind == "ragged npz" else ROLES
                read(folder / TABLES[kind], **(roles | {"labelled": False}))
                validate(folder / TABLES[kind], **roles)
            else:
                (folder / FILES[kind]).write_bytes(content)
                read(folder, labelled=False).content.bags.read(0)
        except ExcoraError:
            return True
    return False


@pytest.mark.parametrize("kind", SOUND)
def test_the_sound_files_are_read(kind):
    assert not survive(kind, SOUND[kind])


@pytest.mark.parametrize("kind", SOUND)
@settings(max_examples=25)
@given(data=st.data())
def test_damaged_files_are_refused_or_read(kind, data):
    content = bytearray(SOUND[kind])
    how = data.draw(st.sampled_from(["cut", "change", "noise", "repeat", "insert"]))
    place = data.draw(st.integers(0, len(content) - 1))
    if how == "cut":
        content = content[:place]
    elif how == "change":
        for at in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=6)):
            content[at] = data.draw(st.integers(0, 255))
    elif how == "noise":
        content = bytearray(data.draw(st.binary(max_size=200)))
    elif how == "repeat":
        content = content[place:] + content
    else:
        content[place:place] = data.draw(st.binary(min_size=1, max_size=20))
    refused = survive(kind, bytes(content))
    assert refused or how != "cut" or kind in ("csv", "ragged npz", "csv.gz")


def learn_all(frame: pd.DataFrame | None) -> None:
    """Every column becomes finite features, or says why not."""
    for name in [] if frame is None else frame:
        found = learn(name, frame[name], np.arange(len(frame)))
        if isinstance(found, Column) and found.kind != "category":
            assert np.isfinite([(n.mean, n.std, n.low, n.high) for n in found.numbers]).all()
            assert found.values(frame[name]).shape == (len(frame), len(found.numbers))
        assert found


cells = st.one_of(
    st.sampled_from(["", "nan", "inf", "-1", "1e400", "0x1", "a", '"', '""', ",", "\t", "\x00", "2024-01-31",
                     "2024-02-31", "9999-12-31", "True", "None", "1_000", "١", "1+2j", "1e-400", "9" * 25]),
    st.floats().map(str), st.integers().map(str), st.text(max_size=6),
)  # fmt: skip


@settings(max_examples=50)
@given(st.lists(st.lists(cells, max_size=6), max_size=8), st.permutations(["x", "y", "g", "w", "b"]), st.booleans())
def test_tables_of_anything(rows, header, bags):
    text = "\n".join([",".join(header), *(",".join(row) for row in rows)])
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "a.csv"
        path.write_text(text, encoding="utf-8", errors="surrogatepass" if text.isascii() else "replace")
        roles = ROLES | ({"bag": "b"} if bags else {"time": "b"})
        for labelled in (True, False):
            data = None
            with contextlib.suppress(ExcoraError):
                data = read(path, **roles, labelled=labelled)
            assert data is None or data.target is None or not np.isinf(data.target).any()
            assert data is None or len(data) < len(text.splitlines())
            learn_all(None if data is None or data.kind != "table" else data.content.frame)


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=4), st.dates(),
    st.datetimes(), st.decimals(-1000, 1000), st.complex_numbers(), st.binary(max_size=3), st.times(),
    st.timedeltas(), st.just(pd.NA), st.just(pd.NaT),
    st.lists(st.integers(), max_size=2),
)  # fmt: skip


@settings(max_examples=50)
@given(st.lists(st.tuples(scalars, scalars, scalars, scalars), min_size=1, max_size=6))
def test_columns_of_mixed_cells(rows):
    """The same through the reader's back door: frames as Parquet or a caller could hold them."""
    frame = pd.DataFrame([[*row] for row in rows], columns=["x", "y", "g", "t"], dtype=object)
    sheet = Sheet("f", frame, np.arange(len(frame)))
    found = sheet.described(Roles.of(target="y", group="g", time="t", weight="x"), labelled=True)
    assert all("\n" not in problem for problem in sheet.problems)
    learn_all(frame.map(lambda cell: None if isinstance(cell, float) and not np.isfinite(cell) else cell))
    for role, values in found.items():
        assert values is not None or sheet.problems
        if role != "group" and values is not None:
            assert not np.isinf(values).any()
            assert role == "target" or not np.isnan(values).any()


def test_an_npz_that_lies_about_its_size_allocates_nothing(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (10**12, 10**4)})
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("features.npy", header.getvalue())
    with pytest.raises(ExcoraError, match="cut off: 40000000000000000 bytes announced, 0 there"):
        read(tmp_path, labelled=False)


def test_a_pickle_is_never_loaded(tmp_path):
    """A canary that writes a file when it is unpickled, in every slot that a reader opens."""
    import pickle

    class Canary:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "ran",))

    poison = pickle.dumps(Canary())
    (tmp_path / "bags").mkdir()
    for name in ("a.h5", "b.npz", "c.safetensors"):
        (tmp_path / "bags" / name).write_bytes(poison)
    np.savez(tmp_path / "bags" / "d.npz", features=np.array([[Canary()]], object))
    for name in ("a.csv", "a.csv.gz", "a.parquet", "a.npz"):
        (tmp_path / name).write_bytes(poison)
        with pytest.raises(ExcoraError):
            read(tmp_path / name, target="y")
    np.savez(tmp_path / "b.npz", values=np.array([[Canary()]], object), lengths=np.ones(1, int))
    with pytest.raises(ExcoraError, match="Python objects, which are never loaded"):
        read(tmp_path / "b.npz")
    with pytest.raises(ExcoraError) as caught:
        read(tmp_path / "bags", labelled=False)
    assert len(caught.value.problems) == 4
    assert not (tmp_path / "ran").exists()
