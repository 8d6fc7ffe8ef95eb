"""Random predictions and labels for :mod:`checks.fuzz`: losses, metrics and functions against the oracles in float64.

An input is one batch of predictions: a few samples of one to three targets, of sizes from 1e-18 to 1e18 (squared errors
exist in float32), some far from zero, constant, masked, weighted, without samples at all.

Tolerances, with ``unit`` = 64 machine epsilons and a = x - mean x, b = y - mean y. Correlation: values are centred
exactly and scaled by powers of two, so rho is off by unit, its gradient by unit of (|b_i| / sigma_y + |a_i| / sigma_x)
w_i / (W sigma_x), the terms it is the difference of, and by what a mean loses, eps of sigma. Concordance besides by
what the difference of the means loses, eps (|mean x| + |mean y|). Errors and penalties are sums of positive terms: unit
of the sum. Metrics accumulate in float64: 1e-9. Where a deviation is within a factor 4 of the 4 epsilons of the mean
that count as constant, either answer is right, and the input is asked for finite results only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

import excora
from checks.fuzz_oracle import EXACT
from checks.fuzz_pools import DTYPES, UNIT, Array, Check, worst
from excora import losses
from tests.oracles import correlation

TINY = float(torch.finfo(torch.float32).smallest_normal)
CORRELATIONS = (losses.PearsonLoss, losses.DispersionNormalizedPearsonLoss, losses.ConcordanceLoss)
INPUTS = 12


class Samples(NamedTuple):
    """Arguments of a loss as tensors, and what the oracle reads: float64 (n, targets), weight 0 where masked."""

    prediction: torch.Tensor
    target: torch.Tensor
    mask: torch.Tensor | None
    weight: torch.Tensor | None
    x: Array
    y: Array
    w: Array

    @property
    def given(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        """As the losses take them."""
        return self[:4]


def make(rng: np.random.Generator) -> Samples:
    """One batch."""
    n, targets = (
        int(rng.choice([0, 1, 2, int(rng.integers(3, 25))], p=[0.03, 0.05, 0.1, 0.82])),
        int(rng.integers(1, 4)),
    )
    dtype = list(DTYPES)[rng.choice(4, p=list(DTYPES.values()))]
    widest = 18 if dtype in (torch.float32, torch.float64) else 2
    sides = []
    for _ in range(2):
        far = rng.choice([0.0, 1.0, 10.0 ** rng.uniform(0, 4)], size=targets)
        side = rng.normal(size=(n, targets)) + far
        side[:, rng.random(targets) < 0.1] = rng.normal()
        sides.append(side * 10.0 ** rng.uniform(-widest, widest, size=targets))
    if rng.random() < 0.5 and n:  # the same size on both sides: else concordance is 0
        sides[1] = sides[0] + rng.normal(size=sides[0].shape) * sides[0].std(0)
    limit = torch.finfo(dtype).max / 4
    prediction, target = (torch.from_numpy(np.clip(side, -limit, limit)).to(dtype) for side in sides)
    mask = torch.from_numpy(rng.random((n, targets)) < rng.choice([0.3, 0.9])) if rng.random() < 0.4 else None
    weight = (
        torch.from_numpy(rng.choice([0.0, 0.5, 1.0, 3.0, 1e-3], size=(n, targets))).float()
        if rng.random() < 0.4
        else None
    )
    w = np.ones((n, targets)) if weight is None else weight.double().numpy()
    w = w if mask is None else w * mask.numpy()
    x, y = prediction.double().numpy(), target.double().numpy()
    if mask is not None and rng.random() < 0.5:
        prediction, target = (t.masked_fill(~mask, float(rng.choice([np.nan, np.inf]))) for t in (prediction, target))
    if targets == 1 and rng.random() < 0.5:
        prediction, target = prediction[:, 0], target[:, 0]
        mask, weight = (None if t is None else t[:, 0] for t in (mask, weight))
    return Samples(prediction.requires_grad_(), target, mask, weight, x, y, w)


class Target(NamedTuple):
    """What the oracle says of one target; gradients are (n,), of zeros where there is no weight."""

    defined: bool
    unclear: bool
    rho: float
    ccc: float
    sigma: float
    d_rho: Array
    d_ccc: Array
    rho_slack: Array
    ccc_slack: Array
    ccc_error: float


def judge(x: Array, y: Array, w: Array, eps: float) -> Target:
    """One target of the batch."""
    zeros, kept = np.zeros(len(x)), w > 0
    nothing = Target(False, False, 0.0, 0.0, 0.0, zeros, zeros, zeros, zeros, 0.0)
    if not kept.any():
        return nothing
    share = w / w.sum()
    means = [float((share * z).sum()) for z in (x, y)]
    sigmas = [correlation.deviation(z, w) for z in (x, y)]
    clear = [s / (4 * eps * abs(m)) if m else np.inf * s if s else 0.0 for s, m in zip(sigmas, means, strict=True)]
    if min(clear) < 0.25 or kept.sum() < 2 or min(sigmas) == 0.0:
        return nothing
    if min(clear) < 4:
        return nothing._replace(unclear=True)
    unit, offset = UNIT * eps, means[0] - means[1]
    rho, ccc = correlation.pearson(x, y, w), correlation.concordance(x, y, w)
    denominator = sigmas[0] ** 2 + sigmas[1] ** 2 + offset**2
    d_rho, d_ccc = zeros.copy(), zeros.copy()
    d_rho[kept], d_ccc[kept] = correlation.pearson_gradient(x, y, w), correlation.concordance_gradient(x, y, w)
    a, b = np.abs(x - means[0]), np.abs(y - means[1])
    lost = abs(means[0]) + abs(means[1])  # times eps: of the difference of the means
    # The oracle's own deviations lose what float64 loses at the mean.
    a, b = (z + EXACT / unit * abs(m) for z, m in zip((a, b), means, strict=True))
    rho_slack = share * (unit * (b / sigmas[1] + a / sigmas[0]) + 2 * eps) / sigmas[0]  # means are off by eps sigma
    worse = 1 + 2 * abs(offset) * lost / denominator
    ccc_slack = unit * share * 2 * (b + a + abs(offset) + lost) / denominator * worse
    # x is measured in its own size: what the slope is below float32's range in that unit, is lost.
    ccc_slack = ccc_slack + TINY / max(abs(means[0]), sigmas[0])
    return Target(True, False, rho, ccc, sigmas[0], d_rho, d_ccc, rho_slack, ccc_slack, unit * worse)


def case(rng: np.random.Generator) -> tuple[int, Iterator[Check]]:
    """How many batches of predictions, and all that is to be compared."""
    return INPUTS, (check for _ in range(INPUTS) for check in compare(rng, make(rng)))


def compare(rng: np.random.Generator, samples: Samples) -> Iterator[Check]:
    """One loss, one function and one metric."""
    eps = torch.finfo(torch.promote_types(samples.prediction.dtype, torch.float32)).eps
    targets = [judge(*(z[:, t] for z in (samples.x, samples.y, samples.w)), eps) for t in range(samples.x.shape[1])]
    what = f"{tuple(samples.prediction.shape)} {samples.prediction.dtype}"
    unclear = any(target.unclear for target in targets)
    kind = CORRELATIONS[int(rng.integers(3))]
    yield from loss(rng, f"{kind.__name__}, {what}", kind(), samples, targets, unclear, eps)
    if not unclear:
        yield from functions(what, samples, targets, UNIT * eps)
        yield from metric(rng, what, samples, targets)


def parts(kind: Any, target: Target, unit: float) -> tuple[float, float, Array, Array]:
    """Loss of one target, how far it may be off, and the same of its gradient."""
    if isinstance(kind, losses.ConcordanceLoss):
        return 1 - target.ccc, target.ccc_error, -target.d_ccc, target.ccc_slack
    factor = target.sigma if isinstance(kind, losses.DispersionNormalizedPearsonLoss) else 1.0
    return factor * (1 - target.rho), factor * 2 * unit, -factor * target.d_rho, factor * 2 * target.rho_slack


def loss(
    rng: np.random.Generator, what: str, kind: Any, s: Samples, targets: list[Target], unclear: bool, eps: float
) -> Iterator[Check]:
    """A correlation loss, alone or in JointLoss with a penalty; value and gradient."""
    joint, factor = bool(rng.random() < 0.5), float(rng.choice([1e-3, 0.5, 2.0]))
    penalty = (torch.tensor(3.0), torch.tensor(2.0)) if rng.random() < 0.5 else None
    called = excora.JointLoss(kind, weight=factor) if joint else kind
    value = called(*s.given, **({"penalty": penalty} if joint else {}))
    (grad,) = torch.autograd.grad(value, s.prediction)
    defined, unit = [t for t in targets if t.defined], UNIT * eps
    total, slack, d_total = 0.0, 0.0, np.zeros_like(s.x)
    d_slack = np.zeros_like(s.x)
    for t, target in enumerate(targets):
        if target.defined:
            found = [part / len(defined) for part in parts(kind, target, unit)]
            total, slack = total + found[0], slack + found[1]
            d_total[:, t], d_slack[:, t] = found[2], found[3]
    if joint:
        difference, share = s.x - s.y, s.w / max(s.w.sum(), 1e-30)
        error = float((share * difference**2).sum())
        total, slack = error + factor * total + 1.5 * (penalty is not None), factor * slack + unit * (error + 1.5)
        d_total, d_slack = factor * d_total + 2 * share * difference, factor * d_slack
        d_slack = d_slack + unit * share * np.abs(difference)
    largest = float(torch.finfo(value.dtype).max) / 1e3
    if total > largest or np.abs(d_total).max(initial=0.0) > float(torch.finfo(grad.dtype).max) / 1e3:
        return  # there is no such number
    yield Check(f"{what}: finite", float((~grad.isfinite()).sum() + (~value.isfinite()).sum()), 0.0)
    if unclear:
        return
    yield worst(f"{what}: undefined", int(called.undefined) - (len(targets) - len(defined)), 0.0)
    tiny = float(torch.finfo(value.dtype).smallest_normal)
    yield worst(f"{what}: {'joint ' * joint}loss", value.item() - total, slack + unit * abs(total) + tiny * UNIT)
    stored = torch.finfo(grad.dtype)
    d_slack = d_slack + stored.eps * np.abs(d_total) + float(stored.smallest_normal)
    yield worst(f"{what}: {'joint ' * joint}gradient", grad.double().numpy().reshape(s.x.shape) - d_total, d_slack)


def functions(what: str, s: Samples, targets: list[Target], unit: float) -> Iterator[Check]:
    """pearson, concordance and the terms of mse_decomposition, which add up to the error."""
    with torch.no_grad():
        rho, ccc = (f(*s.given).double().numpy().reshape(-1) for f in (excora.pearson, excora.concordance))
        terms = [term.double().numpy().reshape(-1) for term in excora.mse_decomposition(*s.given)]
    yield worst(f"{what}: pearson", rho - [t.rho for t in targets], unit)
    yield worst(f"{what}: concordance", ccc - [t.ccc for t in targets], [t.ccc_error + unit for t in targets])
    share = s.w / np.maximum(s.w.sum(0), 1e-30)
    error = (share * (s.x - s.y) ** 2).sum(0)
    size = (share * (s.x**2 + s.y**2)).sum(0)  # the terms are differences of numbers of this size
    if size.max(initial=0.0) < 1e36:
        tiny = UNIT * 1.2e-38
        yield worst(f"{what}: mse", terms[3] - error, unit * error + tiny)
        yield worst(f"{what}: sum of the terms", terms[0] + terms[1] + terms[2] - error, unit * (size + error) + tiny)


def metric(rng: np.random.Generator, what: str, s: Samples, targets: list[Target]) -> Iterator[Check]:
    """One metric, fed in pieces."""
    if rng.random() < 0.85:  # an update costs as much as all the rest
        return
    n, count = len(s.x), len(targets)
    chosen = int(rng.integers(3))
    kinds = (excora.PearsonCorrelation, excora.ConcordanceCorrelation, excora.CorrelationSummary)
    ours = kinds[chosen](count)
    cuts = sorted(rng.integers(0, n + 1, size=2))
    for piece in (slice(0, cuts[0]), slice(cuts[0], cuts[1]), slice(cuts[1], n)):
        part = [None if z is None else z[piece].detach() for z in s.given]
        ours.update(part[0], part[1], mask=part[2], weight=part[3])
    found = ours.compute()
    rho = np.array([t.rho if t.defined else np.nan for t in targets])
    if chosen == 2:
        known = rho[~np.isnan(rho)] if (~np.isnan(rho)).any() else np.zeros(1)
        expected = [
            np.quantile(known, 0.25),
            np.median(known),
            known.mean(),
            np.isnan(rho).sum(),
            np.nan_to_num(rho).mean(),
        ]
        values = [float(found[k]) for k in ("PCC@F", "PCC@S", "PCC@M", "undefined", "selection")]
        yield worst(f"{what}: CorrelationSummary", np.array(values) - expected, 1e-9)
        return
    expected = rho if chosen == 0 else np.array([t.ccc if t.defined else np.nan for t in targets])
    values = found.double().numpy().reshape(-1)
    yield worst(f"{what}: {kinds[chosen].__name__}, undefined", (np.isnan(values) != np.isnan(expected)).sum(), 0.0)
    yield worst(f"{what}: {kinds[chosen].__name__}", np.nan_to_num(values) - np.nan_to_num(expected), 1e-9)
