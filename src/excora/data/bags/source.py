"""Bags: a sample is a set of elements with the same features each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from excora.data import sources
from excora.data.bags.content import BagSet
from excora.data.bags.folder import read_folder
from excora.data.bags.long_table import read_long_table
from excora.data.bags.preparation import PreparedBags
from excora.data.bags.ragged_npz import read_ragged
from excora.data.dataset import Dataset, Index
from excora.data.frames import is_table
from excora.data.roles import Roles
from excora.data.sheet import note_all
from excora.data.source import Fact, Plain, Prepared, Progress, Source
from excora.errors import InputError


class BagSource(Source):
    """Long tables, ragged .npz and folders with one file a bag."""

    kind = "bags"
    says = "bags: a ragged .npz, a folder with one .h5, .npz, .safetensors or .pt a bag, or a long table with --bag"
    sample = "bag"
    by_name = True

    def claims(self, path: Path, roles: Roles) -> bool:
        """Every folder, every .npz, and tables if ``bag=`` names a column."""
        return path.is_dir() or path.suffix.lower() == ".npz" or (is_table(path) and roles.bag is not None)

    def read(self, path: Path, roles: Roles, *, labelled: bool, problems: list[str]) -> Dataset | None:
        """The elements of files are read later, when they are needed."""
        if roles.time_within is not None and not is_table(path):
            problems.append(f"{path}: time_within= is for long tables, in which a row is an element")
        if path.is_dir():
            return read_folder(path, roles, labelled=labelled, problems=problems)
        if path.suffix.lower() == ".npz":
            return read_ragged(path, roles, labelled=labelled, problems=problems)
        return read_long_table(path, roles, labelled=labelled, problems=problems)

    def prepare(self, dataset: Dataset, index: Index, *, scaling: str = "standard") -> PreparedBags:
        """``scaling`` of the features: by mean and deviation, "standard", is the only one."""
        if scaling != "standard":
            raise InputError(f"scaling of bags is standard, got {scaling!r}")
        return PreparedBags.learn(dataset, index)

    def load(self, values: dict[str, Any]) -> PreparedBags:
        """From JSON."""
        return PreparedBags.from_dict(values)

    def check(self, dataset: Dataset, problems: list[str], progress: Progress | None = None) -> None:
        """Every element of every bag."""
        assert isinstance(dataset.content, BagSet)
        wrong = []
        for place in range(len(dataset)):
            try:
                dataset.content.bags.read(place)
            except InputError as error:
                wrong.append(str(error))
            if progress is not None:
                progress(place + 1, len(dataset))
        note_all(problems, wrong, "bags with such problems")

    def plain(self, dataset: Dataset, prepared: Prepared) -> Plain | None:
        """Summaries of the bags."""
        assert isinstance(prepared, PreparedBags)
        return prepared.plain(dataset)

    def describe(self, dataset: Dataset, prepared: Prepared) -> list[Fact]:
        """The width of the elements, and how many a bag has."""
        assert isinstance(dataset.content, BagSet)
        assert isinstance(prepared, PreparedBags)
        sizes = dataset.content.bags.lengths
        counts: dict[str, float] = {"min": int(sizes.min()), "max": int(sizes.max()), "total": int(sizes.sum())}
        counts["median"] = float(np.median(sizes))
        text = "{min:,} to {max:,} a bag, median {median:,.0f}, {total:,} in all".format(**counts)
        width = Fact("features", f"{prepared.width} numbers an element", {"numbers an element": prepared.width})
        return [width, Fact("elements", text, counts)]


sources.register(BagSource.kind, BagSource())
