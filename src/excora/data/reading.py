"""Files to samples: the source that knows a path is asked, and everything is checked before anything is trained."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from excora.data import sources
from excora.data.dataset import Dataset
from excora.data.roles import Roles
from excora.data.source import Source
from excora.errors import DataError, InputError

#: Where samples are: a file or folder, or several of one kind for a source that reads several.
Paths = str | Path | Sequence[str | Path]


def listed(paths: Paths) -> list[Path]:
    """As a list."""
    return [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]


def shown(paths: Paths) -> str:
    """As a command line has them.

    >>> shown(["a.h5ad", "b.h5ad"])
    'a.h5ad b.h5ad'
    """
    found = listed(paths)
    return str(found[0]) if len(found) == 1 else shlex.join(map(str, found))


def read(path: Paths, *, labelled: bool = True, **roles: Any) -> Dataset:
    """Samples from a table, a long table (``bag`` names the column of the bags), a ragged .npz, bags or slides.

    ``target``, ``group``, ``time``, ``weight``, ``id`` name the columns that play these roles, ``drop`` columns to
    leave out; all others are features. ``labels`` is the table that describes the files of a folder: the roles are
    those of :class:`excora.data.roles.Roles`, the layouts those of docs/data.md. With ``labelled`` False (data to
    predict) none of these columns need be there.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.csv"
    >>> _ = path.write_text("x,colour,y\\n1,red,2.5\\n2,blue,3.5\\n3,blue,\\n")
    >>> data = read(path, target="y")
    >>> len(data), list(data.content.frame), data.target.tolist(), data.ids.tolist(), data.notes
    (2, ['x', 'colour'], [[2.5], [3.5]], ['2', '3'], ('1 of 3 rows has no label and is left out',))

    A label that is unknown is NaN in the target. Everything found wrong is raised at once, as a :class:`DataError` with
    a line for each problem. The elements of bags in files are read later, when they are needed;
    :func:`excora.data.validation.validate` reads them all.
    """
    problems: list[str] = []
    dataset = gather(path, Roles.of(**roles), labelled, problems)
    if problems or dataset is None:
        raise DataError(problems)
    return dataset


def gather(path: Paths, roles: Roles, labelled: bool, problems: list[str]) -> Dataset | None:
    """:func:`read` with the problems noted in ``problems``; None where nothing can be built in spite of them."""
    try:
        places = listed(path)
        for found in places:
            if not found.exists():
                raise InputError(f"{found}: there is no such file or folder")
        if not places:
            raise InputError("there is nothing to read: give a file or folder")
        source = source_of(found := places[0], roles)
        for role in roles.given:
            if role not in source.roles:
                problems.append(f"{found}: {role}= has no meaning here, for the source of this file is {source.kind!r}")
        several = {"more": places[1:]} if len(places) > 1 else {}
        if several and "more" not in inspect.signature(source.read).parameters:
            raise InputError(f"{source.kind} are read from one file or folder, got {len(places)}: {shown(path)[:200]}")
        dataset = source.read(found, roles, labelled=labelled, problems=problems, **several)
        return dataset if dataset is None or not labelled else _with_labels(dataset, source)
    except DataError as error:
        problems.extend(error.problems)
    except InputError as error:
        problems.append(str(error))
    except OSError as error:  # a folder without permission, a disk that is gone
        problems.append(f"{shown(path)}: this cannot be read: {error}")
    return None


def source_of(path: Path, roles: Roles) -> Source:
    """The source that claims a path: one that has looked inside before one that goes by the name."""
    claim = [source for name in sources if (source := sources[name]).claims(path, roles)]
    found = [source for source in claim if not source.by_name] or claim
    if not found:
        known = "; or ".join(sources[name].says for name in sources)
        raise InputError(f"{path}: expected {known}; got {path.name!r}")
    if len(found) > 1:
        names = " and ".join(repr(source.kind) for source in found)
        raise InputError(f"{path}: the sources {names} both claim it, so nobody knows what a sample is: remove one")
    return found[0]


def _with_labels(dataset: Dataset, source: Source) -> Dataset:
    """The samples that have a label; without any there is nothing to learn from, nor to compare with."""
    if dataset.target is None:
        return dataset
    known = ~np.isnan(dataset.target).all(1)
    left, total = int((~known).sum()), len(dataset)
    if not left or left == total:
        return dataset
    verb = "has no label and is" if left == 1 else "have no label and are"
    note = f"{left:,} of {total:,} {source.sample}s {verb} left out"
    kept = dataset.take(np.flatnonzero(known))
    if kept.weight is not None and not kept.weight.any():
        raise InputError(f"the weight is 0 in every {source.sample} that has a label: nothing would be learned from")
    return replace(kept, notes=(*dataset.notes, note))
