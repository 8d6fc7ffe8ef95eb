"""What is trained on a real set, and what is recorded of it: enough to judge it again when the rules change.

The network reads a sample as a bag: elements are embedded, softmax attention pools them, and a small network with a
linear path beside it reads the pooled value and the summary.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from excora.losses import DispersionNormalizedPearsonLoss, JointLoss
from excora.monitor import PlateauMonitor
from excora.pooling import LinearScorer, SoftmaxPool
from excora.stats.correlation import pearson
from excora_studies.verdicts.sets import Samples

DIM, HIDDEN, BATCH = 16, 48, 64
RATE = 3e-3
PATIENCE, FEWEST = 12, 16  #: epochs without a better one after which a run rests, and the least it has
CURVE = 5  #: digits of a curve
LAST = 5  #: epochs that are "the end"
Parts = tuple[NDArray[np.intp], ...]
Rows = list[dict[str, Any]]


class Network(nn.Module):
    """Elements, softmax attention, and a network with a linear path beside it; ``frozen``: uniform attention."""

    def __init__(self, samples: Samples, summary: int, *, frozen: bool) -> None:
        super().__init__()
        width = samples.elements.shape[-1]
        self.table = samples.mask is None
        self.scale = nn.Parameter(torch.randn(width, DIM)) if self.table else None
        self.shift = nn.Parameter(0.5 * torch.randn(width, DIM)) if self.table else None
        self.encoder = None if self.table else nn.Linear(width, DIM)
        self.pool = SoftmaxPool(DIM)
        if frozen:
            assert isinstance(self.pool.scorer, LinearScorer)
            nn.init.zeros_(self.pool.scorer.weight)
            self.pool.scorer.requires_grad_(False)
        self.body = nn.Sequential(nn.Linear(DIM + summary, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1))
        self.line = nn.Linear(summary, 1)
        nn.init.zeros_(self.line.weight)

    def forward(self, elements: Tensor, mask: Tensor | None, summary: Tensor) -> tuple[Tensor, Tensor, Any]:
        """Predictions (n,), embeddings (n, k, dim) and what the pool said."""
        if self.encoder is None:
            assert self.scale is not None
            assert self.shift is not None
            h = elements[..., None] * self.scale + self.shift
        else:
            h = self.encoder(elements)
        h = torch.relu(h)
        pooled = self.pool(h, mask)
        z = torch.cat([pooled.value, summary], 1)
        return (self.body(z) + self.line(summary)).squeeze(1), h, pooled


@dataclasses.dataclass(frozen=True)
class Recording:
    """A run in plain numbers: a row an epoch of either part, the whole record only of epochs that may be kept.

    ``test``: PCC of the test part after each epoch. ``rise``: of validation and test, by which share the squared error
    rose from the kept epoch to the mean of the last five, and in how many of its paired standard errors over samples.
    """

    training: Rows
    validation: Rows
    test: Sequence[float]
    tested: int
    rise: dict[str, tuple[float, float]]

    @property
    def kept(self) -> int:
        """The best epoch on validation, by the rule of the library."""
        return kept(self.validation)

    @property
    def pcc(self) -> float:
        """Of the test part in the kept epoch."""
        return self.test[self.kept]

    def rested(self) -> Recording:
        """The same, had it been stopped with a patience of 12 epochs."""
        best, since = np.inf, 0
        for epoch, row in enumerate(self.validation):
            value = row["mse"] + 1 - row["pcc"]
            if value < best:
                best, since = value, epoch
            if epoch - since >= PATIENCE and epoch >= FEWEST:
                return self.until(epoch + 1)
        return self

    def until(self, epochs: int) -> Recording:
        """The same, had it been stopped then."""
        fields = {name: getattr(self, name)[:epochs] for name in ("training", "validation", "test")}
        return dataclasses.replace(self, **fields)

    def to_dict(self) -> dict[str, Any]:
        """Curves in place of rows: for JSON."""
        names = ("pcc", "mse", "attention_spread")
        curves = {name: [row.get(name) for row in self.validation] for name in names}
        wanted = {self.kept, self.rested().kept}
        return {
            "training": [row["mse"] for row in self.training],
            "validation": curves,
            "records": {str(epoch): self.validation[epoch] for epoch in sorted(wanted)},
            "test": list(self.test), "tested": self.tested, "rise": {k: list(v) for k, v in self.rise.items()},
        }  # fmt: skip

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Recording:
        """What :meth:`to_dict` gave."""
        curves, records = stored["validation"], stored["records"]
        bags = next(iter(records.values()))["bags"]
        rows = [
            dict(zip(curves, values, strict=True)) | {"bags": bags} for values in zip(*curves.values(), strict=True)
        ]
        for epoch, record in records.items():
            rows[int(epoch)] = record
        rise = {part: (float(share), float(errors)) for part, (share, errors) in stored["rise"].items()}
        return cls([{"mse": mse} for mse in stored["training"]], rows, stored["test"], stored["tested"], rise)


def kept(rows: Rows) -> int:
    """The epoch of the lowest MSE + 1 - PCC."""
    return int(np.argmin([row["mse"] + 1 - row["pcc"] for row in rows]))


def train(
    samples: Samples, parts: Parts, *, epochs: int, seed: int, rate: float = RATE, frozen: bool = False
) -> tuple[Recording, NDArray[np.float64]]:
    """Train one network under two monitors; also what it predicts of validation in the kept epoch."""
    summary = samples.summary
    centre, scale = summary[parts[0]].mean(0), np.maximum(summary[parts[0]].std(0), 1e-6)
    s = torch.tensor(np.clip((summary - centre) / scale, -6, 6), dtype=torch.float32)
    x, y = (torch.tensor(a, dtype=torch.float32) for a in (samples.elements, samples.target))
    mask = None if samples.mask is None else torch.tensor(samples.mask)
    monitors = PlateauMonitor(), PlateauMonitor(stage="validation")
    said: dict[str, list[NDArray[np.float64]]] = {"validation": [], "test": []}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network, loss = Network(samples, s.shape[1], frozen=frozen), JointLoss(DispersionNormalizedPearsonLoss())
        optimiser = torch.optim.Adam([p for p in network.parameters() if p.requires_grad], lr=rate)

        def look(rows: Any) -> tuple[Tensor, Tensor, Any]:
            rows = torch.as_tensor(rows)
            found: tuple[Tensor, Tensor, Any] = network(x[rows], None if mask is None else mask[rows], s[rows])
            return found

        for _ in range(epochs):
            for rows in torch.tensor(parts[0])[torch.randperm(len(parts[0]))].split(BATCH):
                prediction, _, pooled = look(rows)
                monitors[0].update(prediction, y[rows])
                optimiser.zero_grad()
                loss(prediction, y[rows], penalty=pooled.penalty).backward()
                optimiser.step()
            with torch.no_grad():
                prediction, h, pooled = look(parts[1])
                held = None if mask is None else mask[torch.as_tensor(parts[1])]
                monitors[1].update(prediction, y[parts[1]], pooled=pooled, h=h, mask=held)
                said["validation"].append(prediction.double().numpy())
                said["test"].append(look(parts[2])[0].double().numpy())
            for monitor in monitors:
                monitor.end_epoch()
    target = {"validation": samples.target[parts[1]], "test": samples.target[parts[2]]}
    return _recording(monitors, said, target)


def _recording(
    monitors: tuple[PlateauMonitor, ...], said: dict[str, list[NDArray[np.float64]]], target: dict[str, Any]
) -> tuple[Recording, NDArray[np.float64]]:
    training, validation = (rounded(monitor.records) for monitor in monitors)
    test = [round(float(np.nan_to_num(pearson(x, target["test"])[0])), CURVE) for x in said["test"]]
    best = kept(validation)
    rise = {part: risen(np.stack(said[part]), target[part], best) for part in said}
    return Recording(training, validation, test, len(target["test"]), rise), said["validation"][best]


def rounded(records: Sequence[Any]) -> Rows:
    """Records without what they do not know, to so many digits that the rules see no difference; PCC 0 if undefined."""
    rows = [{name: _digits(name, value) for name, value in row.items() if value is not None} for row in records]
    return [{"pcc": 0.0} | row for row in rows]


def _digits(name: str, value: float) -> float:
    """Attention that is even and attention that is nearly so must stay apart."""
    return value if isinstance(value, int) else round(value, 8 if name == "attention_spread" else CURVE)


def risen(x: NDArray[np.float64], y: NDArray[np.float64], epoch: int) -> tuple[float, float]:
    """Share by which the squared error rose from ``epoch`` to the end, and that in paired standard errors."""
    error = (x - y) ** 2
    change = error[-LAST:].mean(0) - error[epoch]
    spread = float(change.std(ddof=1)) / np.sqrt(len(y))
    return float(change.mean() / error[epoch].mean()), float(change.mean() / max(spread, 1e-12))
