"""One epoch of a run, batch by batch, and the record it ends in: statistics of the whole epoch, not means of batches.

Kept per bag: prediction and target, and where known the figures of :mod:`excora.monitor.hull`, some ten numbers; and
for the last :data:`PROBE_BAGS` measured bags the mean and the pooled embedding, for the probe.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import NamedTuple

import torch
from torch import Tensor

from excora.errors import InputError
from excora.functional import at_least_float32, full_precision
from excora.moments import mse_decomposition
from excora.monitor.hull import Columns, Head, attention_columns, head_slope, hull_columns
from excora.monitor.probe import probe_correlation
from excora.pooling.base import Pooled
from excora.ragged import Ragged
from excora.reduce import all_reduce_max, all_reduce_sum, is_distributed
from excora.samples import columns
from excora.theory import achievable_ceiling, gradient_ratio, gradient_ratio_bound, hull_ceiling, rms_over_bags
from excora.theory.plateau import measure

PROBE_BAGS = 2048
BUDGET = 1 << 19  # a batch of more numbers than this is large: its geometry is measured in part, and not always
EVERY = 4  # of the large batches, every fourth is measured
FIT = ("prediction", "target", "known")
TARGETS = 16  # measured at a time
Record = dict[str, float | int | None]

FIELDS = {
    "epoch": "number of the epoch, from 0",
    "bags": "samples seen",
    "pcc": "rho, over the epoch",
    "mse": "MSE = mse_offset + mse_scale + mse_correlation",
    "mse_offset": "(mean yhat - mean y)^2",
    "mse_scale": "(sigma_yhat - sigma_y)^2",
    "mse_correlation": "2 sigma_y sigma_yhat (1 - rho)",
    "mse_affine": "sigma_y^2 (1 - rho^2): the MSE after the best affine change of the prediction",
    "sigma_ratio": "sigma_yhat / sigma_y",
    "gradient_ratio": "RMS of the PCC gradient's factor over that of the MSE's",
    "gradient_ratio_bound": "1 / (2 sqrt(sigma_y) sigma_yhat^1.5), where rho >= 0",
    "dispersion": "sigma~, RMS over the measured bags, as all figures down to probe_gain",
    "radius": "R~, RMS over bags",
    "mean_cosine": "mean cosine of two elements of a bag, mean over bags: near 1 they have collapsed into one",
    "mean_pcc": "rho_0, of the mean embeddings under the same head",
    "hull_ceiling": "proven ceiling of convex weights; none where it does not apply or the head is not linear",
    "hull_used": "PCC of the same bags / hull_ceiling",
    "achievable_ceiling": "estimated ceiling of convex weights under this head",
    "achievable_used": "PCC of the same bags / achievable_ceiling",
    "probe_pcc": "PCC of a cross-validated linear read-out of mean, pooled and extreme elements",
    "probe_gain": "probe_pcc - pcc, both on the probe's bags",
    "probe_error": "standard error of probe_gain",
    "effective_elements": "exp(attention entropy), mean over bags",
    "attention_spread": "(effective - 1) / (elements - 1), mean over bags of 2 and more: 0 one element, 1 uniform; "
    "none for a pool without attention, such as the mean",
    "gamma_10": "quantiles of gamma",
    "gamma_50": "",
    "gamma_90": "",
    "temperature_10": "quantiles of the temperature",
    "temperature_50": "",
    "temperature_90": "",
}
"""Fields of a record and what they are; None where the run did not give what they need. Several targets: the mean
over the targets for which a figure is defined."""


class Bags(NamedTuple):
    """What the pool did with a batch: attention of all bags, and the geometry of ``rows``, those that were measured.

    ``geometry`` is None where it was not this batch's turn.
    """

    attention: Columns
    rows: slice
    geometry: Columns | None


def measure_bags(
    pooled: Pooled | None, h: Tensor | Ragged | None, mask: Tensor | None, head: Head | None, *, turn: int
) -> Bags:
    """Everything about the bags of a batch.

    Attention is read for all bags. Geometry takes passes over h, so a batch of more than :data:`BUDGET` numbers is cut
    into equal parts, and of every fourth such batch one part is measured: over an epoch, every bag with the same
    chance. ``turn`` is the number of the batch.
    """
    if head is not None and (h is None or pooled is None):
        raise InputError("head says what the elements would predict: give h= and pooled= with it")
    lengths = h.lengths if isinstance(h, Ragged) else None
    attention = {} if pooled is None else attention_columns(pooled, lengths, mask)
    if h is None:
        return Bags(attention, slice(0), {})
    bags = len(h)
    work = (h.values if isinstance(h, Ragged) else h).numel()
    step = max(min(bags, BUDGET * bags // max(work, 1)), 1)
    if step < bags and turn % EVERY:
        return Bags(attention, slice(0), None)
    start = turn // EVERY % max(-(-bags // step), 1) * step
    rows = slice(start, min(start + step, bags))
    if isinstance(h, Ragged):
        ends = [0, *h.lengths.cumsum(0).tolist()]
        h, mask = Ragged(h.values[ends[rows.start] : ends[rows.stop]], h.lengths[rows]).pad()
    else:
        h, mask = h[rows], None if mask is None else mask[rows]
    if pooled is None:
        return Bags(attention, rows, hull_columns(h, mask, {}, None, None))
    value = at_least_float32(pooled.value[rows].detach())
    known: Columns = {name: pooled.details[name][rows] for name in ("dispersion", "radius") if name in pooled.details}
    slope = None if head is None else head_slope(head, value)
    return Bags(attention, rows, hull_columns(h, mask, known, value, slope) | {"value": value})


class Epoch:
    """The running epoch: :meth:`add` batches, then :meth:`record`."""

    def __init__(self) -> None:
        self.samples: list[Columns] = []
        self.measured: list[Columns] = []
        self.probed: deque[Columns] = deque()
        self.kept = 0  # bags in probed
        self.names: list[list[str]] = []

    @torch.no_grad()
    def look(self, pooled: Pooled | None, h: Tensor | Ragged | None, mask: Tensor | None, head: Head | None) -> Bags:
        """Measure the bags of the next batch."""
        like = pooled.value if pooled is not None else h.values if isinstance(h, Ragged) else h
        if like is None:
            return measure_bags(None, None, None, head, turn=0)
        with full_precision(like.device):
            return measure_bags(pooled, h, mask, head, turn=len(self.samples))

    @torch.no_grad()
    def add(self, prediction: Tensor, target: Tensor, label_mask: Tensor | None, bags: Bags) -> None:
        """Take in a batch and what :meth:`look` saw of it."""
        x, y, w = columns(prediction.detach(), target.detach(), label_mask, None)
        part = {"prediction": x, "target": y, "known": torch.ones_like(x) if w is None else w}
        fit = {name: column[bags.rows] for name, column in part.items()}
        sample, measured = part | bags.attention, (fit | bags.geometry if bags.geometry else {})
        size, part_size = x.shape[0], fit["target"].shape[0]
        wrong = {name: c.shape[0] for name, c in sample.items() if c.shape[0] != size}
        wrong |= {name: c.shape[0] for name, c in measured.items() if c.shape[0] != part_size}
        if wrong:
            raise InputError(f"prediction has {size} samples, but the pool saw other numbers of bags: {wrong}")
        names = [[*sample], [*measured]]
        if bags.geometry is None:
            names[1] = self.names[1] if self.names else []
        if self.names not in ([], names):
            raise InputError(
                "every batch of an epoch must bring the same arguments: pooled=, h= and head= in all of them or in none"
            )
        self.names = names
        self.samples.append(sample)
        if measured:
            self._measure(measured)

    def _measure(self, part: Columns) -> None:
        self.probed.append(part)
        self.measured.append({name: column for name, column in part.items() if name not in ("mean", "value")})
        self.kept += len(part["target"])
        while self.kept - len(self.probed[0]["target"]) >= PROBE_BAGS:
            self.kept -= len(self.probed.popleft()["target"])

    @torch.no_grad()
    def record(self, number: int, *, rank: int | None = None, gather: bool = True) -> Record:
        """The epoch's record; under torch.distributed that of all ranks together, and then collective.

        ``gather=False``: of the samples of this process alone.
        """
        parts = (self.samples, self.measured, self.probed)
        samples, measured, probed = (merge(list(part), rank, gather=gather) for part in parts)
        if not samples or not len(samples["prediction"]):
            raise InputError("an epoch without samples has no record: call update(prediction, target) for its batches")
        record: Record = dict.fromkeys(FIELDS)
        record |= {"epoch": number, "bags": len(samples["prediction"])}
        record |= _fit(samples) | _attention(_double(samples, but=FIT))
        if measured:
            record |= _hull(_double(measured))
        if "value" in probed:
            record |= probe_correlation(_double(probed))
        return record


def merge(parts: list[Columns], rank: int | None, *, gather: bool = True) -> Columns:
    """The batches as one table on the CPU, with the rows of every rank."""
    table = {name: torch.cat([part[name] for part in parts]) for name in parts[0]} if parts else {}
    if gather and is_distributed():
        if rank is None:
            raise InputError("torch.distributed runs with several ranks: call end_epoch(rank=dist.get_rank())")
        table = {name: _gather(table[name], rank) for name in sorted(table)}
    return {name: column.cpu() for name, column in table.items()}


def _double(table: Columns, but: Collection[str] = ()) -> Columns:
    """In float64."""
    return {name: column.double() for name, column in table.items() if name not in but}


def _gather(column: Tensor, rank: int) -> Tensor:
    """The rows of all ranks in rank order: each writes its own into zeros, and the sum is the union."""
    world = int(all_reduce_max(torch.tensor(rank, device=column.device))) + 1
    counts = torch.zeros(world, dtype=torch.int64, device=column.device)
    counts[rank] = len(column)
    counts = all_reduce_sum(counts)
    full = column.new_zeros(int(counts.sum()), *column.shape[1:])
    start = int(counts[:rank].sum())
    full[start : start + len(column)] = column
    return all_reduce_sum(full)


def mean_defined(values: Tensor, defined: Tensor | None = None) -> float | None:
    """Mean over the defined (and finite) entries; None for none."""
    good = values.isfinite() if defined is None else defined & values.isfinite()
    return float(values[good].mean()) if bool(good.any()) else None


def _fit(table: Columns) -> Record:
    """Means over the targets, some of which are measured at a time: hundreds of genes in float64 are a lot."""
    blocks = zip(*(table[name].split(TARGETS, 1) for name in FIT), strict=True)
    every = [_figures(x.double(), y.double(), known > 0) for x, y, known in blocks]
    return {name: mean_defined(torch.cat([one[name] for one in every])) for name in every[0]}


def _figures(x: Tensor, y: Tensor, mask: Tensor) -> Columns:
    """(targets,) of each; NaN where undefined."""
    batch = measure(x, y, mask, None)
    parts = mse_decomposition(x, y, mask)
    varies = batch.target_std > 0
    ratio = batch.prediction_std / torch.where(varies, batch.target_std, 1.0)
    return {
        "pcc": torch.where(batch.defined, batch.pcc, torch.nan),
        "mse": parts.mse,
        "mse_offset": parts.offset,
        "mse_scale": parts.scale,
        "mse_correlation": parts.correlation,
        "mse_affine": batch.target_std.square() * (1.0 - batch.pcc.square()),
        "sigma_ratio": torch.where(varies, ratio, torch.nan),
        "gradient_ratio": gradient_ratio(x, y, mask=mask),
        "gradient_ratio_bound": gradient_ratio_bound(x, y, mask=mask).value,
    }


def _hull(table: Columns) -> Record:
    record: Record = {name: float(rms_over_bags(table[name])) for name in ("dispersion", "radius")}
    record["mean_cosine"] = mean_defined(table["cosine"])
    if "mean_prediction" not in table:
        return record
    y, mask, ybar = table["target"], table["known"] > 0, table["mean_prediction"]
    base = measure(ybar, y, mask, None)
    record["mean_pcc"] = mean_defined(base.pcc, base.defined)
    best = achievable_ceiling(table["lowest"], table["highest"], y, mask=mask)
    record["achievable_ceiling"] = mean_defined(best.value, best.applies)
    if "reach" in table:
        # The head moves during an epoch. ||w_s|| R_s per bag keeps the theorem exact; the head's own norm is then 1.
        one = torch.ones(1, dtype=y.dtype)
        bounds = [
            hull_ceiling(ybar[:, t], y[:, t], table["reach"][:, t], one, mask=mask[:, t]) for t in range(y.shape[1])
        ]
        record["hull_ceiling"] = mean_defined(torch.stack([bound.value for bound in bounds]))
    now = measure(table["prediction"], y, mask, None)
    rho = mean_defined(now.pcc, now.defined)
    for name in ("hull", "achievable"):
        top = record.get(f"{name}_ceiling")
        record[f"{name}_used"] = rho / top if rho is not None and top else None
    return record


def _attention(table: Columns) -> Record:
    record: Record = {}
    if "effective" in table:
        several = (table["count"] >= 2) & (table["attends"] > 0)
        spread = (table["effective"] - 1.0) / (table["count"] - 1.0).clamp_min(1.0)
        record["effective_elements"] = mean_defined(table["effective"], table["count"] >= 1)
        record["attention_spread"] = mean_defined(spread, several)
    for name in ("gamma", "temperature"):
        if name in table:
            quantiles = torch.quantile(table[name], torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64))
            record |= {f"{name}_{percent}": float(q) for percent, q in zip((10, 50, 90), quantiles, strict=True)}
    return record
