"""The ragged .npz: all bags end to end in one array, and arrays with an entry a bag."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from excora.data.bags.content import BagSet
from excora.data.bags.files import map_member, members, read_member
from excora.data.bags.stores import ArrayBags
from excora.data.dataset import Dataset
from excora.data.hdf5 import complaints
from excora.data.roles import Roles
from excora.data.sheet import Sheet, note_all
from excora.errors import InputError


def read_ragged(path: Path, roles: Roles, *, labelled: bool, problems: list[str]) -> Dataset:
    """An .npz with ``values`` (total, width), ``lengths`` (bags,) and arrays with an entry a bag."""
    import pandas as pd

    for role in ("bag", "labels"):
        if getattr(roles, role) is not None:
            problems.append(f"{path}: {role}= has no meaning for an .npz, whose arrays say what the bags are")
    values, lengths, arrays = _ragged_arrays(path)
    columns, roles = _describe(path, arrays, roles, labelled)
    sheet = Sheet(str(path), pd.DataFrame(columns, index=range(len(lengths))), np.arange(len(lengths)), "bag", problems)
    ids = sheet.names(roles.id, "id", unique=True) if roles.id and (labelled or roles.id in columns) else None
    ids = np.arange(len(lengths)).astype(str).astype(object) if ids is None else ids
    with complaints(path, "a ragged .npz"):
        bags = ArrayBags(values, lengths, ids.tolist())
    if not bags.width:
        sheet.complain("the elements have no features")
    empty = [f"{path}: bag {ids[place]!r} is empty: leave it out" for place in np.flatnonzero(bags.lengths == 0)]
    note_all(problems, empty, "empty bags")
    return Dataset(ids, roles.target, content=BagSet(bags), **sheet.described(roles, labelled=labelled))


def _ragged_arrays(path: Path) -> tuple[NDArray[Any], NDArray[Any], dict[str, NDArray[Any]]]:
    """Values (mapped if they are not compressed), lengths, and the arrays that have an entry a bag."""
    with complaints(path, "an .npz of plain arrays"), zipfile.ZipFile(path) as archive:
        arrays = members(path, archive)
        if not {"values", "lengths"} <= set(arrays):
            raise InputError(
                f"{path}: expected the arrays values (total, width) and lengths (bags,), got {', '.join(arrays)}"
            )
        mapped = map_member(path, arrays["values"])
        values = read_member(archive, arrays.pop("values")) if mapped is None else mapped
        lengths = read_member(archive, arrays.pop("lengths"))
        if lengths.ndim != 1 or not len(lengths):
            raise InputError(f"{path}: lengths must have an entry for each bag, got shape {lengths.shape}")
        ours = {key: member for key, member in arrays.items() if member.shape[:1] == lengths.shape}
        return values, lengths, {key: read_member(archive, m) for key, m in ours.items() if len(m.shape) < 3}


def _describe(
    path: Path, arrays: dict[str, NDArray[Any]], roles: Roles, labelled: bool
) -> tuple[dict[str, Any], Roles]:
    """The arrays as columns, and the roles that arrays of the usual names play unless told otherwise."""
    targets = roles.target or ("target",)
    columns = {key: _plain(values) for key, values in arrays.items() if values.ndim == 1}
    both = arrays.get("target")
    if both is not None and both.ndim == 2 and not set(targets) & set(columns):
        width = both.shape[1]
        if targets == ("target",) and width > 1:
            targets = tuple(f"target {k}" for k in range(width))
        if len(targets) == width:
            columns |= {name: _plain(both[:, k]) for k, name in enumerate(targets)}
        elif labelled:
            raise InputError(f"{path}: the array target has {width} columns, got {len(targets)} names for them")

    def role(name: str | None, usual: str) -> str | None:
        return name or (usual if usual in columns else None)

    return columns, replace(
        roles,
        target=targets,
        group=role(roles.group, "group"),
        time=role(roles.time, "time"),
        weight=role(roles.weight, "weight"),
        id=role(roles.id, "ids"),
    )


def _plain(values: NDArray[Any]) -> Any:
    """Numbers, dates and text as pandas likes them: native byte order, text as objects."""
    if values.dtype.kind == "S":
        return np.char.decode(values, "utf-8", "replace").astype(object)
    if values.dtype.kind in "fiu":
        return values.astype(values.dtype.newbyteorder("="))
    return values.astype(object) if values.dtype.kind not in "bM" else values
