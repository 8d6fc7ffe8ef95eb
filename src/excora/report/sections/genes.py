"""Correlation gene by gene: its distribution, pooled over slides and slide by slide, and the genes at either end."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from excora.report.histograms import histogram
from excora.report.numerals import correlation, count, plural
from excora.report.records import RunRecord
from excora.report.sections import Made, Section, section
from excora.report.sections.tissue import places
from excora.report.tables import Cell, Column, Table
from excora.stats.correlation import pearson

Array = NDArray[np.float64]
#: Genes at either end.
ENDS = 10


class Summary(NamedTuple):
    """Of the correlations of genes: 25 % quantile, median and mean of those that are defined."""

    first: float | None
    second: float | None
    mean: float | None
    undefined: int

    @classmethod
    def of(cls, rho: Array) -> Summary:
        """NaN: undefined.

        >>> Summary.of(np.array([0.0, 0.5, 1.0, np.nan]))
        Summary(first=0.25, second=0.5, mean=0.5, undefined=1)
        """
        known = rho[~np.isnan(rho)]
        if not len(known):
            return cls(None, None, None, len(rho))
        first, second = map(float, np.quantile(known, [0.25, 0.5]))
        return cls(first, second, float(known.mean()), len(rho) - len(known))


@section("genes", "Genes", place=60)
def genes(record: RunRecord) -> Made:
    """Nothing to say where samples are no spots, or there are fewer than three genes."""
    found, under = record.predictions, record.tissue
    if found is None or under is None or len(found.target) < 3:
        return None
    rows = places(found, under)
    if not rows:
        return None
    names = list(found.target)
    y, guess = (np.stack([part[name] for name in names], 1) for part in (found.target, found.prediction))
    every = np.concatenate(list(rows.values()))
    pooled = pearson(guess[every], y[every])
    apart = {under.slides[k].name: pearson(guess[mine], y[mine]) for k, mine in rows.items()}
    each = _mean(np.stack(list(apart.values())))
    plots = []
    if (~np.isnan(each)).any():
        sentence = "How well genes are predicted: the correlation of each over the spots of a slide, mean over slides."
        known = [float(r) for r in each if not math.isnan(r)]
        plots.append(histogram("gene-pcc", "Correlation by gene", known, sentence, of="genes"))
    tables = [_summary(pooled, each, apart), _ends(names, pooled if len(apart) > 1 else None, each)]
    return Section(lead=_lead(pooled, each, len(apart)), plots=plots, tables=tables)


def _mean(rho: Array) -> Array:
    """Over slides, of those that have one."""
    known = ~np.isnan(rho)
    return np.where(known.any(0), np.nan_to_num(rho).sum(0) / np.maximum(known.sum(0), 1), np.nan)


def _lead(pooled: Array, each: Array, slides: int) -> str:
    ours, undefined = Summary.of(each), int(np.isnan(each).sum())
    words = (
        f"Over {plural(len(each), 'gene')} the mean correlation within a slide (PCC@M) is {correlation(ours.mean)}, "
        f"the median (PCC@S) {correlation(ours.second)}, the lower quartile (PCC@F) {correlation(ours.first)}."
    )
    if slides > 1:
        both = Summary.of(pooled).mean
        words += (
            f" Pooled over {slides} slides the mean is {correlation(both)}: that also counts differences between "
            "slides, and is no measure of a map."
        )
    if undefined:
        zero = float(np.nan_to_num(each).mean())
        egn = float(np.where(np.isnan(each), -1.0, each).mean())
        words += (
            f" {plural(undefined, 'gene')} without a correlation, constant as measured or as predicted, "
            f"{'is' if undefined == 1 else 'are'} left out; counted as 0 the mean were {correlation(zero)}, as −1, "
            f"which EGN does, {correlation(egn)}."
        )
    return words


def _summary(pooled: Array, each: Array, apart: dict[str, Array]) -> Table:
    rows = {"within slides, mean over slides": each} if len(apart) > 1 else {}
    rows |= {"pooled over slides": pooled} if len(apart) > 1 else {}
    rows |= {f"slide {name}": rho for name, rho in apart.items()}
    cells: list[list[Cell]] = [[name, *Summary.of(rho)] for name, rho in rows.items()]
    columns = [
        Column("Spots"), Column("PCC@F", correlation), Column("PCC@S", correlation), Column("PCC@M", correlation),
        Column("Undefined genes", count),
    ]  # fmt: skip
    return Table("Quartile, median and mean of the genes' correlations", columns, cells)


def _ends(names: list[str], pooled: Array | None, each: Array) -> Table:
    """The best and the worst genes; those without a correlation at the end."""
    order = sorted(range(len(names)), key=lambda k: (math.isnan(each[k]), -np.nan_to_num(each[k])))
    chosen = order if len(order) <= 2 * ENDS else [*order[:ENDS], *order[-ENDS:]]
    columns = {"PCC within slides": each} | ({} if pooled is None else {"PCC pooled": pooled})
    cells: list[list[Cell]] = []
    for k in chosen:
        found = [None if math.isnan(rho[k]) else float(rho[k]) for rho in columns.values()]
        cells.append([order.index(k) + 1, names[k], *found])
    heads = [Column("Place", count), Column("Gene"), *(Column(name, correlation) for name in columns)]
    words = "All genes" if len(order) <= 2 * ENDS else f"The {ENDS} best and the {ENDS} worst of {len(names):,} genes"
    return Table(words, heads, cells, sortable=True)
