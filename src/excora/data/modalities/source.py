"""Clips of several modalities: MMSA's files, for sentiment and whatever else is said, heard and seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from excora.data import sources
from excora.data.dataset import Dataset, Index
from excora.data.modalities.clips import clips_in
from excora.data.modalities.content import MODALITIES
from excora.data.modalities.conversion import Clips, is_converted, write_clips
from excora.data.modalities.known import described
from excora.data.modalities.layout import PICKLES, holds
from excora.data.modalities.preparation import PreparedModalities, clips_of
from excora.data.roles import Roles
from excora.data.source import Fact, Prepared, Source
from excora.errors import InputError
from excora.stats.sentiment import sentiment_scores

#: Names of the label, the first that a file has, unless a target is named; their range.
LABELS, RANGE = ("regression_labels", "labels"), (-3.0, 3.0)


class ModalitySource(Source):
    """MMSA's pickles, .npz of the same layout, and what was converted from them."""

    kind = "modalities"
    says = "clips of text, audio and vision: a .pkl or .npz in MMSA's layout, a .safetensors made of it, or its folder"
    sample = "clip"
    roles = ("target", "group", "weight", "drop")

    def claims(self, path: Path, roles: Roles) -> bool:  # noqa: ARG002
        """Every pickle; other files that have this layout; a folder that holds one."""
        return bool(_files(path))

    def read(self, path: Path, roles: Roles, *, labelled: bool, problems: list[str]) -> Dataset | None:
        """One target, the file's label, unless others are named; the file's own split goes with it."""
        files = _files(path)
        if len({file.stem for file in files}) > 1:
            raise InputError(f"{path}: several files hold clips: name one of {', '.join(f.name for f in files)}")
        unknown = [name for name in roles.drop if name not in MODALITIES]
        if unknown:
            problems.append(f"{path}: drop= takes {', '.join(MODALITIES)}, got {unknown[0]!r}")
        clips = clips_in(files[0], roles.drop)
        names = roles.target or next(((name,) for name in LABELS if name in clips.columns), LABELS[:1])
        target = _target(path, clips, names, problems) if labelled else None
        group = _named(path, clips, roles.group, "group", problems, labelled=labelled)
        weight = _named(path, clips, roles.weight, "weight", problems, labelled=labelled)
        return Dataset(
            clips.ids, names, target, clips.content,
            group=clips.columns.get("video") if roles.group is None else group,
            weight=None if weight is None else weight.astype(np.float64),
            part=clips.part, notes=clips.notes,
        )  # fmt: skip

    def prepare(
        self, dataset: Dataset, index: Index, *, scaling: str = "standard", text: str = "features", tokenizer: str = ""
    ) -> PreparedModalities:
        """``scaling`` of the features: standard, or none as the published models have them; ``text``: or as ids."""
        return PreparedModalities.learn(dataset, index, scaling, text, tokenizer)

    def load(self, values: dict[str, Any]) -> PreparedModalities:
        """From JSON."""
        return PreparedModalities.from_dict(values)

    def scores(self, target: str, prediction: NDArray[np.float64], label: NDArray[np.float64]) -> dict[str, float]:
        """The eight figures of sentiment, as MMSA computes them, of a label in [-3, 3]."""
        return sentiment_scores(prediction, label).named() if target in LABELS else {}

    def describe(self, dataset: Dataset, prepared: Prepared) -> list[Fact]:  # noqa: ARG002
        """Which file it is, and each modality."""
        content = clips_of(dataset)
        found = [Fact(name, text, {}) for name, text in content.facts.items()]
        for name, one in content.frames.items():
            figures = {"width": one.bags.width, "steps": one.longest, "most": int(one.bags.lengths.max())}
            found.append(Fact(name, described(name, one), figures))
        return found


def convert(path: str | Path, output: str | Path) -> None:
    """Read a file in MMSA's layout once, with its checks and repairs, and write it as .safetensors."""
    if Path(output).suffix != ".safetensors":
        raise InputError(f"the output must be a .safetensors file, got {str(output)!r}")
    if Path(path).is_file() and not _files(Path(path)):
        raise InputError(
            f"{path}: expected clips, a .pkl or .npz in MMSA's layout (docs/sentiment.md), got another file"
        )
    write_clips(Path(output), clips_in(Path(path)))


def _files(path: Path) -> list[Path]:
    """The file itself, or those of a folder that hold clips, converted ones first; none: not ours."""
    if path.is_dir():
        inside = [file for file in sorted(path.iterdir()) if file.is_file()]
        few = inside if len(inside) <= 16 else []  # a folder of bags has one file a bag
        found = [file for file in few for one in _files(file) if one == file]
        return sorted(found, key=lambda file: file.suffix != ".safetensors")
    suffix = path.suffix.lower()
    ours = suffix in PICKLES or (suffix == ".npz" and holds(path)) or (suffix == ".safetensors" and is_converted(path))
    return [path] if ours else []


def _target(path: Path, clips: Clips, names: tuple[str, ...], problems: list[str]) -> NDArray[np.float64] | None:
    found = []
    for name in names:
        values = clips.columns.get(name)
        if values is None or values.dtype.kind != "f":
            have = ", ".join(key for key, column in clips.columns.items() if column.dtype.kind == "f") or "none"
            problems.append(f"{path}: the target {name!r} must be numbers with an entry a clip; such are {have}")
            continue
        low, high = RANGE if name in LABELS else (-1e30, 1e30)
        bad = ~np.isnan(values) & ~((values >= low) & (values <= high))
        if bad.any():
            place = int(bad.argmax())
            problems.append(
                f"{path}: the label {name!r} must lie in [{low:g}, {high:g}], or be NaN where it is unknown, got "
                f"{values[place]:g} for {clips.ids[place]!r} ({int(bad.sum())} such clips): correct the file"
            )
        found.append(values)
    return np.stack(found, 1) if len(found) == len(names) else None


def _named(path: Path, clips: Clips, name: str | None, role: str, problems: list[str], *, labelled: bool) -> Any:
    if name is None:
        return None
    if name in clips.columns:
        return clips.columns[name].astype(object)
    if labelled:
        problems.append(f"{path}: there is no array {name!r} for the {role}; there are {', '.join(clips.columns)}")
    return None


sources.register(ModalitySource.kind, ModalitySource())
