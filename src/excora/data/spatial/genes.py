"""Genes: which ones are predicted, and on what scale. What depends on samples comes from the training part alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from excora.data.dataset import Index
from excora.data.spatial.slide import Floats, Slide
from excora.errors import InputError

#: Scales: log(1 + counts per 10,000); log10(1 + count), then min-max by the training part.
SCALES = ("log1p", "minmax")
#: Genes that are predicted unless somebody says otherwise.
MOST = 250
_ENSEMBL = re.compile(r"ENS[A-Z]*G\d{6,}(\.\d+)?$")


@dataclass(frozen=True)
class Expression:
    """The genes that are predicted, and their scale.

    ::

        log1p:   t = log(1 + 10000 x / sum of x over all genes of the spot)
        minmax:  t = (log10(1 + x) - low) / (high - low + 1e-8), low and high over the training part
    """

    genes: tuple[str, ...]
    scale: str = "log1p"
    low: tuple[float, ...] = ()  #: of log10(1 + x) in training, for minmax
    high: tuple[float, ...] = ()

    def of(self, slides: Sequence[Slide], slide_of: Index, spot_of: Index) -> Floats:
        """(n, genes), NaN where a gene was not measured or a spot has no counts at all."""
        found = np.full((len(slide_of), len(self.genes)), np.nan)
        for number, slide in enumerate(slides):
            here = np.flatnonzero(slide_of == number)
            if len(here) and slide.counts is not None:
                found[here] = self._scaled(slide, spot_of[here])
        return found

    def _scaled(self, slide: Slide, spots: Index) -> Floats:
        x = columns(slide, self.genes)[spots]
        if slide.normalised:
            return x
        if self.scale == "log1p":
            total = slide.totals[spots, None]
            return np.where(total > 0, np.log1p(1e4 * x / np.where(total > 0, total, 1.0)), np.nan)
        low, high = np.array(self.low), np.array(self.high)
        # DIFF: a gene that never changes in training is left out before, so 1e-8 only repeats the published formula.
        return np.asarray((np.log10(1 + x) - low) / (high - low + 1e-8))

    def fitted(self, slides: Sequence[Slide], slide_of: Index, spot_of: Index) -> Expression:
        """With the ends of the min-max scale from these spots, which are those of training."""
        if self.scale != "minmax":
            return self
        plain = replace(self, low=(0.0,) * len(self.genes), high=(1.0 - 1e-8,) * len(self.genes))
        t = plain.of(slides, slide_of, spot_of)  # log10(1 + x)
        low, high = (np.nan_to_num(part) for part in (np.nanmin(t, 0, initial=np.inf), np.nanmax(t, 0, initial=0.0)))
        return replace(self, low=tuple(np.minimum(low, high).tolist()), high=tuple(high.tolist()))

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Expression:
        """What ``dataclasses.asdict`` gave; anything else is a ValueError, TypeError or KeyError."""
        ends = {name: tuple(map(float, values[name])) for name in ("low", "high")}
        found = cls(tuple(map(str, values["genes"])), str(values["scale"]), **ends)
        if found.scale not in SCALES or any(len(end) not in (0, len(found.genes)) for end in ends.values()):
            raise ValueError("an expression has genes, a scale, and the ends of each gene")
        return found


def columns(slide: Slide, genes: Sequence[str]) -> Floats:
    """The counts of these genes, (n, genes); of one that the slide lacks NaN, or 0 if it leaves out unseen ones."""
    found = np.full((len(slide), len(genes)), np.nan if slide.complete else 0.0)
    have = [(k, slide.place_of_gene[name]) for k, name in enumerate(genes) if name in slide.place_of_gene]
    if have:
        here, there = map(list, zip(*have, strict=True))
        found[:, here] = slide.counts[:, there].toarray()
    return found


def largest(slides: Sequence[Slide], slide_of: Index, spot_of: Index, many: int) -> tuple[str, ...]:
    """The genes of the largest mean count over these spots, of the union over slides; sorted by name.

    A gene that a slide lacks counts as 0 there. Of equal means the later name wins, as in the published code. Genes
    that never change are left out.
    """
    names = sorted({name for slide in slides for name in slide.genes})
    place = {name: k for k, name in enumerate(names)}
    total, low, high = np.zeros(len(names)), np.full(len(names), np.inf), np.full(len(names), -np.inf)
    for number, slide in enumerate(slides):
        spots = spot_of[slide_of == number]
        if slide.counts is None or not len(spots):
            continue
        some, where = slide.counts[spots], [place[name] for name in slide.genes]
        total[where] += np.asarray(some.sum(0, dtype=np.float64)).ravel()
        low[where] = np.minimum(low[where], some.min(0).toarray().ravel())
        high[where] = np.maximum(high[where], some.max(0).toarray().ravel())
    order = np.argsort(total, kind="stable")
    chosen = [k for k in order[::-1] if high[k] > low[k]][:many]
    if not chosen:
        raise InputError("no gene changes over the training spots: there is nothing to predict")
    return tuple(names[k] for k in sorted(chosen))


def asked(genes: str | None) -> tuple[int, bool, tuple[str, ...]]:
    """What ``genes=`` says: how many, whether over all slides, and the names in a file.

    >>> asked(None), asked("100"), asked("all:50")
    ((250, False, ()), (100, False, ()), (50, True, ()))
    """
    if genes is None:
        return MOST, False, ()
    word, _, number = genes.rpartition(":")
    if word in ("", "all") and number.isdigit() and int(number):
        return int(number), word == "all", ()
    path = Path(genes)
    if not path.is_file():
        raise InputError(f"genes= is a number, all:NUMBER, or a text file with a gene a line, got {genes!r}")
    try:
        lines = path.read_text("utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: the list of genes cannot be read: {error}") from None
    if not lines or len(set(lines)) != len(lines):
        raise InputError(f"{path}: expected genes, each once, a line each, got {len(lines)} lines")
    return len(lines), False, tuple(lines)


def unified(slides: list[Slide], symbols: dict[str, str]) -> list[Slide]:
    """Slides whose genes have one kind of name: Ensembl ids become symbols where any slide says what they mean."""
    meaning = {name.partition(".")[0]: symbol for name, symbol in symbols.items()}

    def renamed(slide: Slide) -> Slide:
        from excora.data.spatial.slide import unique

        ids = [name for name in slide.genes if _ENSEMBL.match(name)]
        if not ids or not meaning:
            return slide
        names = [meaning.get(name.partition(".")[0], name) if _ENSEMBL.match(name) else name for name in slide.genes]
        return slide if names == list(slide.genes) else replace(slide, genes=unique(names))

    return [renamed(slide) for slide in slides]


def check_names(slides: Sequence[Slide], genes: Sequence[str], problems: list[str]) -> None:
    """A gene that no slide has is a problem, with the nearest names."""
    import difflib

    have = {name for slide in slides for name in slide.genes}
    absent = [name for name in genes if name not in have]
    for name in absent[:5]:
        same = [other for other in have if other.casefold() == name.casefold()]
        near = same or difflib.get_close_matches(name, sorted(have), 1)
        problems.append(f"gene {name!r} is in none of the slides" + (f"; did you mean {near[0]!r}?" if near else ""))
    if len(absent) > 5:
        problems.append(f"{len(absent) - 5} more genes are in none of the slides")


def known(target: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """None where no label is known at all."""
    return None if np.isnan(target).all() else target
