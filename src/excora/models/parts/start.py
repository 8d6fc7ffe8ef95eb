"""The ridge that a network starts from: prediction = ridge + network, and the network's last layer is 0 at first.

A run then begins as the best linear model of the samples' summaries and keeps that if no epoch improves on it. Whether
it does (``start="auto"``) is decided before training, target by target, by what left-out samples and the validation
part say of the ridge.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from excora.data.dataset import Features, Index, Inputs, Spec, in_double
from excora.errors import InputError
from excora.functional import at_least_float32, full_precision
from excora.models.base import Network, Samples
from excora.stats.correlation import Array, mean_over_targets
from excora.stats.intervals import pooled_interval
from excora.stats.ridge import LeftOutRidge, left_out_ridge

#: What a recipe may ask for.
STARTS = ("auto", "ridge", "none")
#: Training samples that a ridge is fitted to, at most; of more, every so-manieth.
MOST_ROWS = 20_000
#: A Gram matrix of more rows takes longer to decompose than "auto" waits for.
MOST_COLUMNS = 3000
#: So many targets, such as genes, share a penalty: one each is worse (PCC .220 against .250 on a held-out section).
MANY = 20
#: Standardised columns end here, as those of retrieval do.
REACH = 5.0
#: Samples that are summarised at a time.
_PIECE = 256


class LinearStart(nn.Module):
    """yhat = clamp(z W + c, low, high) with z = clamp((x - m) / s, -5, 5) of the summaries x (:meth:`Spec.summarise`).

    A wild cell must not make a wild prediction: z ends where that of retrieval does, and yhat, on the standardised
    scale, half a range beyond the training labels. Nothing of it is trained.

    >>> from excora.data.table import TableSpec
    >>> start = LinearStart(TableSpec(targets=1, numeric=2))
    >>> start.weight.shape
    torch.Size([4, 1])
    """

    centre: Tensor
    spread: Tensor
    weight: Tensor
    bias: Tensor
    low: Tensor
    high: Tensor

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.spec = spec
        self.fresh = False  #: whether the network has yet to add to it
        self.register_buffer("centre", torch.zeros(spec.summary))
        self.register_buffer("spread", torch.ones(spec.summary))
        self.register_buffer("weight", torch.zeros(spec.summary, spec.targets))
        for name in ("bias", "low", "high"):
            self.register_buffer(name, torch.zeros(spec.targets))

    def forward(self, inputs: Inputs) -> Tensor:
        """(n, targets), in float32 or better."""
        x = at_least_float32(self.spec.summarise(inputs))
        with full_precision(x.device):
            line = ((x - self.centre) / self.spread).clamp(-REACH, REACH) @ self.weight + self.bias
        return torch.minimum(torch.maximum(line, self.low), self.high)

    @torch.no_grad()
    def fit(self, x: Array, y: Array, weight: Array | None, group: NDArray[Any] | None) -> LeftOutRidge:
        """To summaries (n, summary) and labels (n, targets); what it predicts of left-out samples comes back.

        ``x`` is standardised where it stands: of many samples a copy is a lot.
        """
        centre, largest = x.mean(0), np.maximum(x.max(0), -x.min(0))
        x -= centre
        spread = np.sqrt(np.einsum("ij,ij->j", x, x) / len(x))
        flat = ~(spread > 1e-12 * largest)
        spread[flat] = 1.0
        x /= spread
        np.clip(x, -REACH, REACH, out=x)
        x[:, flat] = 0.0
        found = left_out_ridge(x, y, weight, group=group, shared=y.shape[1] >= MANY)
        low, high = np.nanmin(y, 0, initial=0.0), np.nanmax(y, 0, initial=0.0)
        reach = (high - low) / 2
        values = (centre, spread, *found.line, low - reach, high + reach)
        for buffer, value in zip(self.buffers(), values, strict=True):
            buffer.copy_(torch.from_numpy(value))
        return found

    @torch.no_grad()
    def keep(self, kept: NDArray[np.bool_]) -> None:
        """0 for all targets but these."""
        for part in (self.weight, self.bias):
            part.mul_(torch.from_numpy(kept).to(part.dtype))

    def check(self) -> None:
        """Raise unless all of it is finite: it may come from a stranger's file."""
        broken = [name for name, values in self.named_buffers() if not bool(values.isfinite().all())]
        broken += ["spread"] if bool((self.spread <= 0).any()) else []
        if broken:
            raise InputError(f"the ridge that the network starts from is damaged in {', '.join(broken)}")


#: A PCC and its 95 % interval.
Figures = tuple[float, float, float]


class Begun(NamedTuple):
    """What a network starts from, and why."""

    kind: str  #: "ridge" or "none"
    note: str  #: in a sentence
    pcc: float = float("nan")  #: of left-out training samples, mean over targets
    low: float = float("nan")  #: of its 95 % interval, mean over targets
    high: float = float("nan")
    targets: int = 0  #: that start from it

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return self._asdict()


def begin(network: Network, spec: Spec, samples: Samples, asked: str, validation: Index | None = None) -> Begun:
    """Give a fresh network its start, if it is ``asked`` for: "ridge"; "auto", where it helps; "none".

    "auto": a target starts from the ridge if the PCC of its left-out training samples (whole groups, where there are
    groups) is above 0 with its whole 95 % interval, and if on the validation part the ridge has a smaller squared error
    than the mean. The test part is not read.
    """
    rows = _rows(samples)
    reason = _hindered(network, spec, samples, rows, asked)
    if asked == "none" or reason:
        if asked == "ridge":
            raise InputError(f"start='ridge' is not possible: {reason}; take 'auto' or 'none'")
        return Begun("none", f"start: none, {reason}" if asked == "auto" and spec.summary else "")
    x, y = summaries(spec, samples.features, rows), samples.target[rows].astype(np.float64)
    weight, group = (None if part is None else part[rows] for part in (samples.weight, samples.group))
    start = LinearStart(spec)
    found = start.fit(x, y, weight, group)
    codes = None if group is None else np.unique(group, return_inverse=True)[1]
    left_out = [pooled_interval(found.left_out[:, k], y[:, k], codes) for k in range(spec.targets)]
    kept = np.ones(spec.targets, bool)
    if asked == "auto":
        kept = np.array([one.low > 0 for one in left_out]) & ~_worse(start, samples, validation)
        start.keep(kept)
    figures = (_mean([x.value for x in left_out]), _mean([x.low for x in left_out]), _mean([x.high for x in left_out]))
    if not kept.any():
        return Begun("none", _refused(figures), *figures)
    if not network.begin_at_zero(samples.features.read(rows[:2])):
        raise InputError(f"{type(network).__name__}.begin_at_zero must make every prediction 0")
    network.linear_start, start.fresh = start, True
    return Begun("ridge", _said(figures, int(kept.sum()), spec.targets), *figures, int(kept.sum()))


def _mean(values: list[float]) -> float:
    return float(mean_over_targets(np.array(values)))


def summaries(spec: Spec, features: Features, index: Index) -> Array:
    """:meth:`Spec.summarise` of the samples of ``index`` in float64, some at a time: (n, summary)."""
    found = np.empty((len(index), spec.summary))
    for start in range(0, len(index), _PIECE):
        piece = index[start : start + _PIECE]
        found[start : start + _PIECE] = spec.summarise(in_double(features.read(piece))).numpy()
    return found


def _rows(samples: Samples) -> Index:
    """The training samples that count, at most :data:`MOST_ROWS`, evenly spread."""
    train = samples.train if samples.weight is None else samples.train[samples.weight[samples.train] > 0]
    return train[:: -(-len(train) // MOST_ROWS)] if len(train) > MOST_ROWS else train


def _hindered(network: Network, spec: Spec, samples: Samples, rows: Index, asked: str) -> str:
    """Why there can be no ridge; "" if there can."""
    if not spec.summary:
        return f"samples of the kind {spec.kind!r} have no summary for a ridge to read"
    if len(rows) < 3:
        return f"a ridge needs 3 training samples, there are {len(rows)}"
    if asked == "auto" and min(len(rows), spec.summary) > MOST_COLUMNS:
        return f"a ridge of {spec.summary} columns and {len(rows)} samples takes long (--start ridge waits for it)"
    if asked != "none" and not network.begin_at_zero(samples.features.read(rows[:2]), only_try=True):
        return "this model has no last layer that could be 0"
    return ""


def _worse(start: LinearStart, samples: Samples, validation: Index | None) -> NDArray[np.bool_]:
    """(targets,): whether the ridge is no better on the validation part than 0, the mean of standardised labels."""
    targets = samples.target.shape[1]
    if validation is None or not len(validation):
        return np.zeros(targets, bool)
    pieces = np.array_split(validation, -(-len(validation) // _PIECE))
    prediction = np.concatenate([start(samples.features.read(piece)).double().numpy() for piece in pieces])
    y = samples.target[validation].astype(np.float64)
    weight = np.ones(len(y)) if samples.weight is None else samples.weight[validation]
    # sum_i v_i (yhat_i - y_i)^2 against sum_i v_i y_i^2, over the known labels
    gain = weight @ np.nan_to_num(np.square(y) - np.square(prediction - y))
    return np.asarray((gain <= 0) & ~np.isnan(y).all(0))


def _said(figures: Figures, kept: int, targets: int) -> str:
    some = "" if targets == 1 else f" for {kept} of {targets} targets"
    pcc, low, high = figures
    return (
        f"start: ridge{some}, whose PCC on left-out training samples is {pcc:.3f} (95 % interval {low:.3f} to "
        f"{high:.3f}); the network adds to it"
    )


def _refused(figures: Figures) -> str:
    pcc, low, high = figures
    return (
        f"start: none, a ridge has a PCC of {pcc:.3f} on left-out training samples (95 % interval {low:.3f} to "
        f"{high:.3f}) and does not help on validation"
        if low > 0
        else f"start: none, the PCC of a ridge on left-out training samples is not above 0 ({pcc:.3f}, 95 % interval "
        f"{low:.3f} to {high:.3f})"
    )
