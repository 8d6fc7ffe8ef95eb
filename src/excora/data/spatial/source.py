"""Slides: a sample is a spot, its labels are genes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from excora.data import sources
from excora.data.dataset import Dataset, Index
from excora.data.roles import Roles
from excora.data.source import Fact, Prepared, Progress, Source
from excora.data.spatial.content import SpatialSet
from excora.data.spatial.genes import SCALES, Expression, asked, check_names, largest
from excora.data.spatial.groups import groups_of, kept_apart, same_pictures
from excora.data.spatial.layouts import is_slides, read_slides
from excora.data.spatial.orientation import orientation_note
from excora.data.spatial.preparation import PreparedSpots, spots_of
from excora.data.spatial.slide import Slide
from excora.data.spatial.writing import write_h5ad
from excora.data.splits import Split
from excora.errors import InputError


class SpatialSource(Source):
    """.h5ad files, 10x Visium folders, tables of counts; one slide or several."""

    kind = "spatial"
    says = "slides: an .h5ad, a 10x Visium folder, a folder with ST-cnts and ST-spotfiles, or a folder of several"
    sample = "spot"
    roles = ("target", "group", "labels", "id", "genes", "expression", "features")

    def claims(self, path: Path, roles: Roles) -> bool:  # noqa: ARG002
        """By what is in a folder."""
        try:
            return is_slides(path)
        except OSError:
            return False

    def read(
        self, path: Path, roles: Roles, *, labelled: bool, problems: list[str], more: Sequence[Path] = ()
    ) -> Dataset | None:
        """The spots of every slide, also of those in ``more``; pictures and vectors are read when they are needed."""
        scale = roles.expression or SCALES[0]
        if scale not in SCALES:
            raise InputError(f"expression= is {' or '.join(SCALES)}, got {scale!r}")
        slides = read_slides([path, *more], roles, problems)
        _, _, listed = asked(roles.genes)
        genes = roles.target or listed
        if labelled:
            check_names(slides, genes, problems)
            problems += [
                f"slide {slide.name!r} has no counts to learn from" for slide in slides if slide.counts is None
            ]
        if problems or not slides:
            return None
        return _dataset(slides, roles, genes, scale, labelled=labelled)

    def targeted(self, dataset: Dataset, train: Index | None) -> Dataset:
        """Genes of the largest mean over the training spots, or over all: where ``train`` is None, or asked for."""
        content = spots_of(dataset)
        if content.expression is not None and dataset.target is not None and content.scale != "minmax":
            return dataset
        if all(slide.counts is None for slide in content.slides):
            raise InputError("these slides have no counts: there is nothing to learn from")
        index = np.arange(len(content)) if train is None else train
        slides, slide_of, spot_of = content.slides, content.slide_of, content.spot_of
        notes: tuple[str, ...] = ()
        if content.expression is not None:
            genes = content.expression.genes
        else:
            many, everywhere, _ = asked(content.genes)
            looked = np.arange(len(content)) if everywhere else index
            genes = largest(slides, slide_of[looked], spot_of[looked], many)
            over = "all" if everywhere or train is None else "the training"
            notes = (f"{len(genes)} genes, those of the largest mean count over {over} slides",)
        expression = Expression(genes, content.scale).fitted(slides, slide_of[index], spot_of[index])
        content = replace(content, expression=expression)
        known = replace(dataset, targets=genes, target=content.labels(expression), content=content)
        return replace(known, notes=(*dataset.notes, *notes))

    def apart(self, dataset: Dataset, parts: Split) -> Split:
        """Without spots next to held-out ones of their own slide."""
        content = spots_of(dataset)
        return kept_apart(content.slides, content.slide_of, content.spot_of, parts)

    def prepare(
        self, dataset: Dataset, index: Index, *, elements: str = "grid", neighbours: int = 0, window: int = 0,
        field: float = 0.0, feature: bool = False,
    ) -> PreparedSpots:  # fmt: skip
        """What a model reads of a spot.

        ``elements``: "grid", the vectors of the parts of its window, "features", its one vector, or "none";
        ``neighbours``: with the vectors of so many nearest spots of the slide. ``window``: the side of a picture, which
        shows ``field`` pixels of full resolution (0: the pitch of the spots). ``feature``: its own vector besides.
        """
        return PreparedSpots.learn(
            dataset, index, elements=elements, neighbours=neighbours, window=window, field=field, feature=feature
        )

    def load(self, values: dict[str, Any]) -> PreparedSpots:
        """From JSON."""
        return PreparedSpots.from_dict(values)

    def write(self, path: Path, dataset: Dataset, targets: tuple[str, ...], layers: Mapping[str, Any]) -> None:
        """As .h5ad."""
        if path.suffix != ".h5ad":
            raise InputError(f"{path}: predictions are written as .csv, .parquet or .h5ad, got {path.suffix!r}")
        write_h5ad(path, spots_of(dataset), targets, layers)

    def check(self, dataset: Dataset, problems: list[str], progress: Progress | None = None) -> None:
        """Every vector of every slide."""
        content = spots_of(dataset)
        done = 0
        for number, here in content.where():
            vectors = content.slides[number].vectors
            for piece in np.array_split(content.spot_of[here], -(-len(here) // 1024)) if vectors is not None else ():
                try:
                    vectors.take(piece, grid=True)  # type: ignore[union-attr]
                except InputError as error:
                    problems.append(str(error))
                    break
            done += len(here)
            if progress is not None:
                progress(done, len(content))

    def describe(self, dataset: Dataset, prepared: Prepared) -> list[Fact]:
        """Slides, spots, genes and vectors."""
        content = spots_of(dataset)
        spots = {content.slides[number].name: len(here) for number, here in content.where()}
        listed = ", ".join(f"{name} {count:,}" for name, count in list(spots.items())[:8])
        facts = [Fact("slides", f"{len(spots)} ({listed}{', ...' if len(spots) > 8 else ''})", {"slides": len(spots)})]
        every = {gene for slide in content.slides for gene in slide.genes}
        facts.append(Fact("genes", f"{len(every):,} in the union of the slides", {"genes": len(every)}))
        assert isinstance(prepared, PreparedSpots)
        if prepared.width:
            facts.append(Fact("vectors", f"{prepared.width} numbers each", {"numbers a vector": prepared.width}))
        return facts


def _dataset(slides: list[Slide], roles: Roles, genes: tuple[str, ...], scale: str, *, labelled: bool) -> Dataset:
    slide_of = np.repeat(np.arange(len(slides)), [len(slide) for slide in slides])
    spot_of = np.concatenate([np.arange(len(slide)) for slide in slides])
    names = [slide.name for slide in slides]
    if len(set(names)) != len(names):
        raise InputError(f"slides must have names of their own, got {', '.join(sorted(names))[:200]}")
    codes = [f"{names[s]}/{slides[s].barcodes[k]}" for s, k in zip(slide_of, spot_of, strict=True)]
    group = groups_of(slides, roles.group, slide_of, spot_of) if labelled else None
    notes = together([note for slide in slides for note in slide.notes])
    alone = len(slides) == 1 and group is not None and roles.group is None
    if labelled:
        notes += [*same_pictures(slides), *(note for slide in slides for note in orientation_note(slide))]
        notes += ["one slide: blocks of it are held out, which says little of another slide"] if alone else []
    expression = Expression(genes, scale) if genes else None
    content = SpatialSet(tuple(slides), slide_of, spot_of, group if alone else None, roles.genes, expression, scale)
    target = content.labels(expression) if expression is not None and scale != "minmax" and _counted(slides) else None
    return Dataset(np.array(codes, object), genes, target, content, group, notes=tuple(notes))


def _counted(slides: list[Slide]) -> bool:
    return any(slide.counts is not None for slide in slides)


sources.register(SpatialSource.kind, SpatialSource())


def together(notes: Sequence[str]) -> list[str]:
    """What is said of several files is said once.

    >>> together(["a.h5ad: no counts", "b.h5ad: no counts", "one slide"])
    ['a.h5ad and 1 more: no counts', 'one slide']
    """
    files: dict[str, list[str]] = {}
    for note in notes:
        file, apart, said = note.partition(": ")
        files.setdefault(said if apart else note, []).append(file if apart else "")
    found = []
    for said, names in files.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        found.append(f"{names[0]}{more}: {said}" if names[0] else said)
    return found
