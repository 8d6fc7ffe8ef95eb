"""The parts that columns and files play: declared once, for readers, command line, run folders and documentation."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from excora.data.delimited import Writing
from excora.errors import InputError

Kind = Literal["column", "columns", "file", "word"]


class Role(NamedTuple):
    """What is known of a role."""

    name: str  #: the keyword of :func:`excora.data.reading.read`, and with two dashes the option of the command line
    says: str  #: in the words of the command line's help
    kind: (
        Kind  #: who plays it: one column, any number of them, a file beside the data, or a word on how they are written
    )
    text: bool  #: the characters of its column count as they are: an id of 007 does not become 7


def _role(kind: Kind, says: str, *, text: bool = False) -> Any:
    metadata = {"kind": kind, "help": says, "text": text}
    return dataclasses.field(default=() if kind == "columns" else None, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Which column plays which part; a role nobody has is None or empty.

    >>> roles = Roles.of(target="y", group="slide")
    >>> roles.words()
    ['--target', 'y', '--group', 'slide']
    >>> Roles.from_dict(roles.to_dict()) == roles
    True
    """

    target: tuple[str, ...] = _role("columns", "Column to predict; repeat it for several.")
    group: str | None = _role("column", "Column of the slide, subject, date: no split cuts a group.", text=True)
    time: str | None = _role("column", "Column that orders the samples: the latest are the test part.")
    weight: str | None = _role("column", "Column of sample weights.")
    bag: str | None = _role("column", "Column that says which bag a row, or a file of --labels, belongs to.", text=True)
    time_within: str | None = _role("column", "Long tables: column of the time of an element, which orders its bag.")
    labels: Path | None = _role("file", "Folders of bags: the table of targets, one row a bag.")  # noqa: RUF009
    features: Path | None = _role("file", "Slides: folder of patch features, NAME.h5 a slide.")  # noqa: RUF009
    genes: str | None = _role("word", "Slides: how many genes, those of the largest mean in training (250); a file.")
    expression: str | None = _role("word", "Slides: log1p (of counts per 10,000), or the paper's minmax.")
    id: str | None = _role("column", "Column that names the samples; in a label table, the file's name.", text=True)
    drop: tuple[str, ...] = _role("columns", "Column to leave out; repeat it for several.")
    sep: str | None = _role("word", "Text files: what separates the cells; guessed.")
    decimal: str | None = _role("word", "Text files: the decimal point of numbers; guessed.")
    encoding: str | None = _role("word", "Text files: utf-8, cp1252, ...; guessed.")

    @classmethod
    def fields(cls) -> tuple[Role, ...]:
        """Every role there is."""
        return tuple(
            Role(field.name, field.metadata["help"], field.metadata["kind"], field.metadata["text"])
            for field in dataclasses.fields(cls)
        )

    @classmethod
    def of(cls, **given: Any) -> Roles:
        """From what a caller gives: one name or several, a path or its text."""
        kinds = {role.name: role.kind for role in cls.fields()}
        unknown = sorted(set(given) - set(kinds))
        if unknown:
            raise TypeError(f"there is no role {unknown[0]!r}; there are {', '.join(kinds)}")
        return cls(**{name: _plain(value, kinds[name]) for name, value in given.items()})

    def to_dict(self) -> dict[str, Any]:
        """Every role by name, as plain values for JSON."""
        return {
            name: list(value) if isinstance(value, tuple) else None if value is None else str(value)
            for name, value in vars(self).items()
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Roles:
        """The roles among ``values``, which may hold other things; what is no name of a column is an InputError."""
        found = {}
        for role in cls.fields():
            value = values.get(role.name)
            several = value if isinstance(value, list | tuple) and role.kind == "columns" else [value]
            if value is not None and not all(isinstance(item, str) for item in several):
                raise InputError(f"the role {role.name!r} must name a {role.kind.removesuffix('s')}, got {value!r}")
            found[role.name] = value
        return cls.of(**found)

    def words(self) -> list[str]:
        """The options of the command line that say the same."""
        found = []
        for name, value in self.to_dict().items():
            for item in value if isinstance(value, list) else [value]:
                found += [] if item is None else [f"--{name.replace('_', '-')}", item]
        return found

    @property
    def given(self) -> tuple[str, ...]:
        """The roles that somebody plays."""
        return tuple(name for name, value in vars(self).items() if value not in (None, ()))

    @property
    def writing(self) -> Writing:
        """How text files are written."""
        return Writing(self.sep, self.decimal, self.encoding)

    @property
    def columns(self) -> dict[str, str]:
        """Role of each column that has one, the dropped ones aside."""
        single = {name: role.name for role in self.fields() if role.kind == "column" and (name := self[role.name])}
        return single | dict.fromkeys(self.target, "target")

    @property
    def text(self) -> list[str]:
        """Columns whose characters count as they are."""
        return [name for role in self.fields() if role.text and (name := self[role.name])]

    def __getitem__(self, role: str) -> Any:
        return getattr(self, role)


def _plain(given: Any, kind: Kind) -> Any:
    if kind == "columns":
        return () if given is None else (given,) if isinstance(given, str) else tuple(str(name) for name in given)
    return None if given is None else Path(given) if kind == "file" else str(given)
