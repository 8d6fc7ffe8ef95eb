"""Real runs with a cause that is made: what is trained, and what each cause does to it.

The network reads a sample as a bag: elements are embedded, softmax attention pools them, and a small network with a
linear path beside it reads the pooled value and the summary. Whether a cause is clear is settled on the test part,
which no verdict sees.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from excora.diagnosis import Verdict, diagnose
from excora.losses import DispersionNormalizedPearsonLoss, JointLoss
from excora.monitor import PlateauMonitor
from excora.peers import Part, peers, tuned
from excora.pooling import LinearScorer, SoftmaxPool
from excora.stats.correlation import pearson
from excora.stats.intervals import fisher
from excora.stats.scores import criterion
from excora_studies.verdicts.sets import Samples, load, split

DIM, HIDDEN, BATCH = 16, 48, 64
LONG, USUAL, SHORT = 80, 40, 16  #: epochs: far past the best one, enough, stopped early
RATE, SLOW = 3e-3, 2e-4
GIVEN, HIDDEN_PEERS = ("ridge", "lightgbm"), ("extratrees", "neighbours")
ENOUGH = 80  #: validation samples from which on "no signal found" is asked for
Parts = tuple[NDArray[np.intp], ...]


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
    """A training: monitors of both parts, and predictions of validation and test after every epoch."""

    training: PlateauMonitor
    validation: PlateauMonitor
    predictions: Mapping[str, Sequence[NDArray[np.float64]]]
    target: Mapping[str, NDArray[np.float64]]

    @property
    def kept(self) -> int:
        """The best epoch on validation, by the rule of the library."""
        return int(np.argmin([r["mse"] + 1 - (r["pcc"] or 0.0) for r in self.validation.records]))  # type: ignore[operator]

    def until(self, epochs: int) -> Recording:
        """The same, had it been stopped then."""
        cut = [PlateauMonitor(stage=one.stage) for one in (self.training, self.validation)]
        for short, long in zip(cut, (self.training, self.validation), strict=True):
            short.records = long.records[:epochs]
        training, validation = cut
        shorter = {part: x[:epochs] for part, x in self.predictions.items()}
        return Recording(training, validation, shorter, self.target)

    def test(self, epoch: int | None = None) -> float:
        """PCC of the test part, by default in the kept epoch; 0 where undefined."""
        x = self.predictions["test"][self.kept if epoch is None else epoch]
        return float(np.nan_to_num(pearson(x, self.target["test"])[0]))

    def test_error(self, epoch: int) -> float:
        """MSE of the test part."""
        return float(((self.predictions["test"][epoch] - self.target["test"]) ** 2).mean())


def train(
    samples: Samples, parts: Parts, *, epochs: int, seed: int, rate: float = RATE, frozen: bool = False
) -> Recording:
    """Train one network under two monitors."""
    summary = samples.summary
    centre, scale = summary[parts[0]].mean(0), np.maximum(summary[parts[0]].std(0), 1e-6)
    s = torch.tensor(np.clip((summary - centre) / scale, -6, 6), dtype=torch.float32)
    x, y = (torch.tensor(a, dtype=torch.float32) for a in (samples.elements, samples.target))
    mask = None if samples.mask is None else torch.tensor(samples.mask)
    monitors = PlateauMonitor(), PlateauMonitor(stage="validation")
    kept: dict[str, list[NDArray[np.float64]]] = {"validation": [], "test": []}
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
                kept["validation"].append(prediction.double().numpy())
                kept["test"].append(look(parts[2])[0].double().numpy())
            for monitor in monitors:
                monitor.end_epoch()
    return Recording(*monitors, kept, {"validation": samples.target[parts[1]], "test": samples.target[parts[2]]})


class Simple(NamedTuple):
    """What simple models reach: records of those that a verdict is given, and the test PCC of all."""

    given: list[dict[str, Any]]
    test: dict[str, float]

    @property
    def best(self) -> float:
        """Of the given ones, on the test part."""
        return max(self.test[name] for name in GIVEN)


def simple(samples: Samples, parts: Parts, names: tuple[str, ...] = (*GIVEN, *HIDDEN_PEERS)) -> Simple:
    """Ridge and LightGBM for the verdict; extremely randomised trees and neighbours to contradict it."""
    x, y = samples.summary, samples.target[:, None]
    train_part, held, test = (Part(x[rows], y[rows]) for rows in parts)
    given, scores = [], {}
    for name in names:
        fitted = tuned(peers[name], train_part, held, criterion("joint"), seconds=0.3)
        scores[name] = float(np.nan_to_num(pearson(fitted.predict(test.x), test.y)[0]))
        if name in GIVEN:
            pcc = float(np.nan_to_num(pearson(fitted.predict(held.x), held.y)[0]))
            given.append({"name": name, "validation": {"pcc": pcc}})
    return Simple(given, scores)


class Judged(NamedTuple):
    """A run, its made cause, whether that is clear, and the answers that are right (none: any but a fault)."""

    cause: str
    clear: bool
    right: tuple[str, ...]
    verdict: Verdict
    pcc: float  #: of the test part
    tested: int  #: samples of it
    simple: Simple
    level: bool  #: on the test part no simple model is ahead by more than 0.01


#: Verdicts that accuse nobody.
INNOCENT = ("healthy", "data-limited", "cannot tell", "still improving")
#: Verdicts that a better simple model would contradict.
CLAIMS = ("healthy", "data-limited", "no signal found", "scale or offset only")


def runs(name: str, seed: int, data: Path | None) -> list[Judged]:
    """All causes on one set."""
    samples = load(name, data)
    parts = split(len(samples.target), seed)
    found = simple(samples, parts)
    base = train(samples, parts, epochs=LONG, seed=seed)
    made = [*_stopped(base, found), *_rescaled(base, found, seed)]
    slow = train(samples, parts, epochs=SHORT, seed=seed, rate=SLOW)
    behind = base.test() - slow.test() >= 0.05 and _sure(slow)
    made.append(_judged("stopped early", slow, found, behind, ("still improving",)))
    frozen = _rested(train(samples, parts, epochs=USUAL, seed=seed, frozen=True))
    made.append(_judged("attention frozen", frozen, found, _sure(frozen), ("attention collapsed",)))
    return [*made, *_permuted(samples, parts, seed), *_halved(samples, parts, found, seed)]


def _judged(cause: str, run: Recording, found: Simple, clear: bool, right: tuple[str, ...]) -> Judged:
    verdict = diagnose(run.training, validation=run.validation, peers=found.given).verdict
    level = run.test() >= max(found.test.values()) - 0.01
    return Judged(cause, clear, right, verdict, run.test(), len(run.target["test"]), found, level)


def _rested(run: Recording) -> Recording:
    """Ended with a patience of 12 epochs."""
    best, since = np.inf, 0
    for epoch, row in enumerate(run.validation.records):
        value = row["mse"] + 1 - (row["pcc"] or 0.0)  # type: ignore[operator]
        if value < best:
            best, since = value, epoch
        if epoch - since >= 12 and epoch >= 16:
            return run.until(epoch + 1)
    return run


def _sure(run: Recording) -> bool:
    """A correlation on the test part that leaves no doubt, three standard errors above 0."""
    return fisher(run.test(), 3 + (len(run.target["test"]) - 3) * (1.96 / 3) ** 2)[0] > 0


def _stopped(base: Recording, found: Simple) -> list[Judged]:
    """Far past its best epoch, and soon after it."""
    worse = base.test_error(LONG - 1) / base.test_error(base.kept)
    clear = worse >= 1.25 and base.kept < LONG - 20 and _sure(base)
    return [
        _judged("far past the best epoch", base, found, clear, ("overfitting",)),
        _judged("as it should be", _rested(base), found, True, ()),
    ]


def _rescaled(base: Recording, found: Simple, seed: int) -> list[Judged]:
    x, y = base.predictions["validation"][base.kept], base.target["validation"]
    generator = np.random.default_rng(seed)
    factor, shift = generator.choice([0.25, 3.0]), generator.choice([-1.5, 1.5])
    level = base.test() >= max(found.test.values()) - 0.01
    clear = _sure(base) and base.test() >= found.best - 0.02
    made = []
    for cause, values in (("rescaled and shifted", factor * x + shift), ("as predicted", x)):
        verdict = diagnose(values, y, peers=found.given).verdict
        right = ("scale or offset only",) if cause == "rescaled and shifted" else ()
        scores = (base.test(), len(base.target["test"]), found, level)
        made.append(Judged(cause, clear or not right, right, verdict, *scores))
    return made


def _permuted(samples: Samples, parts: Parts, seed: int) -> list[Judged]:
    order = np.random.default_rng(50 + seed).permutation(len(samples.target))
    mixed = samples._replace(target=samples.target[order])
    run, found = train(mixed, parts, epochs=USUAL, seed=seed), simple(mixed, parts, GIVEN)
    right = ("no signal found",) if len(parts[1]) >= ENOUGH else ("no signal found", "cannot tell")
    return [_judged("labels permuted", run, found, True, right)]


def _halved(samples: Samples, parts: Parts, whole: Simple, seed: int) -> list[Judged]:
    half = samples.without_informative_half(parts[0])
    run, found = _rested(train(half, parts, epochs=USUAL, seed=seed)), simple(half, parts)
    level = abs(run.test() - found.best) <= 0.02
    clear = whole.best - found.best >= 0.05 and level and _sure(run)
    return [_judged("half of the columns gone", run, found, clear, ("data-limited",))]


def row(name: str, seed: int, one: Judged) -> dict[str, Any]:
    """What is stored of a run."""
    limit = max(one.pcc + 0.05, fisher(one.pcc, one.tested)[1])
    others = [peer for peer, pcc in one.simple.test.items() if pcc > limit]
    return {
        "set": name, "seed": seed, "cause": one.cause, "clear": one.clear, "right": list(one.right),
        "verdict": one.verdict.name, "sentence": one.verdict.sentence, "test PCC": one.pcc, "level": one.level,
        **{f"test PCC, {peer}": pcc for peer, pcc in one.simple.test.items()},
        "contradicted by": others if one.verdict.name in CLAIMS else [],
    }  # fmt: skip
