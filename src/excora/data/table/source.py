"""Tables: a row is a sample."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from excora.data import sources
from excora.data.dataset import Dataset, Index
from excora.data.frames import is_table
from excora.data.roles import Roles
from excora.data.source import Fact, Plain, Prepared, Source
from excora.data.table.preparation import PreparedTable
from excora.data.table.reading import read_table
from excora.errors import InputError

SCALINGS = ("standard", "quantile")


class TableSource(Source):
    """Files of rows and columns, unless ``--bag`` says that a row is an element."""

    kind = "table"
    says = "a table (.csv, .tsv, also .gz and .xz, .parquet, .feather or .xlsx), a row a sample"
    sample = "row"
    roles = tuple(name for name in Source.roles if name != "time_within")
    by_name = True

    def claims(self, path: Path, roles: Roles) -> bool:
        """By the ending of the name."""
        return is_table(path) and not path.is_dir() and roles.bag is None

    def read(self, path: Path, roles: Roles, *, labelled: bool, problems: list[str]) -> Dataset | None:
        """All columns without a role are features."""
        return read_table(path, roles, labelled=labelled, problems=problems)

    def prepare(self, dataset: Dataset, index: Index, *, scaling: str = "standard") -> PreparedTable:
        """``scaling`` of the numbers: "standard", by mean and deviation, or "quantile", by their ranks."""
        if scaling not in SCALINGS:
            raise InputError(f"scaling must be one of {', '.join(SCALINGS)}, got {scaling!r}")
        return PreparedTable.learn(dataset, index, scaling)

    def load(self, values: dict[str, Any]) -> PreparedTable:
        """From JSON."""
        return PreparedTable.from_dict(values)

    def plain(self, dataset: Dataset, prepared: Prepared) -> Plain:
        """The columns; a date may follow the label, as what grows with time does."""
        assert isinstance(prepared, PreparedTable)
        return prepared.plain(dataset)

    def describe(self, dataset: Dataset, prepared: Prepared) -> list[Fact]:  # noqa: ARG002
        """How many columns of each kind are used."""
        assert isinstance(prepared, PreparedTable)
        kinds = [column.kind for column in prepared.columns]
        names = {"numeric": "number", "categorical": "category", "dates": "date"}
        counts = {name: kinds.count(kind) for name, kind in names.items()}  # type: ignore[arg-type]
        text = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        return [Fact("features", text, counts)]


sources.register(TableSource.kind, TableSource())
