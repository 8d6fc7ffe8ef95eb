"""Why the correlation stops rising, I: gradients of PCC and MSE through attention, their ratio, and its bounds.

One batch has S bags. ``prediction`` and ``target`` are (bags,) or (bags, targets); ``mask`` (True = label present) and
``weight`` as in :mod:`excora.moments`. With p_s = weight_s / sum(weight) (1/S when unweighted; 0 under the mask)
every mean below is sum_s p_s x_s, and every statement of the paper holds with 1/S replaced by p_s.
Words and symbols: a_s = y_s - mean(y), b_s = yhat_s - mean(yhat), sigma_y, sigma_yhat, rho = PCC, alpha = attention
weights, w = head, L_si = the sensitivity of the prediction to a logit. Results per target: () or (targets,).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from excora.errors import InputError
from excora.functional import at_least_float32, blank_padding, safe_sqrt
from excora.moments import TOLERANCE
from excora.samples import columns


@dataclass(frozen=True, eq=False)
class Bound:
    """A bound per target that says whether it applies: ``value`` is NaN where it does not, never a number.

    ``applies``: the statement's conditions hold. ``vacuous``: it applies and says nothing (a PCC below 1, say).
    ``reason``: in words, for how many entries it does not apply or is vacuous; empty when all is well.
    ``estimate``: True for a number that is computed, not proven.
    """

    value: Tensor
    applies: Tensor
    vacuous: Tensor
    reason: str = ""
    estimate: bool = False


def make_bound(
    value: Tensor, applies: Tensor, vacuous: Tensor, rule: str, emptiness: str = "", *, estimate: bool = False
) -> Bound:
    """Bound with NaN where it does not apply; ``rule`` says when it applies, ``emptiness`` why it may say nothing."""
    vacuous = vacuous & applies
    reasons = [
        f"{what} for {int(flag.sum())} of {flag.numel()}: {why}"
        for what, flag, why in (("does not apply", ~applies, rule), ("vacuous", vacuous, emptiness))
        if bool(flag.any())
    ]
    return Bound(torch.where(applies, value, torch.nan), applies, vacuous, "; ".join(reasons), estimate)


class Batch(NamedTuple):
    """Standardised batch, (bags, targets), and its statistics, (targets,); 0 in a row that does not count."""

    share: Tensor  # p_s; sums to 1
    error: Tensor  # yhat_s - y_s
    target: Tensor  # a_s / sigma_y, 0 where the correlation is undefined
    prediction: Tensor  # b_s / sigma_yhat, likewise
    target_std: Tensor
    prediction_std: Tensor
    pcc: Tensor
    defined: Tensor

    @property
    def residual(self) -> Tensor:
        """a_s/sigma_y - rho b_s/sigma_yhat, whose mean square is 1 - rho^2."""
        return self.target - self.pcc * self.prediction


def _centre(x: Tensor, share: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Deviations from the mean, their root mean square, and whether that is more than rounding."""
    mean = (share * x).sum(0)
    deviation = x - mean
    # Twice, because the mean of numbers far from zero is rounded; 0 where a row does not count.
    deviation = torch.where(share > 0, deviation - (share * deviation).sum(0), 0.0)
    std = safe_sqrt((share * deviation.square()).sum(0))
    return deviation, std, std > TOLERANCE * torch.finfo(x.dtype).eps * mean.abs()


def measure(prediction: Tensor, target: Tensor, mask: Tensor | None, weight: Tensor | None) -> Batch:
    """Every statistic that the statements below need; inputs and undefined correlations as in :mod:`excora.moments`."""
    x, y, w = columns(prediction, target, mask, weight)
    w = torch.ones_like(x) if w is None else w
    share = w / w.sum(0).clamp_min(torch.finfo(w.dtype).tiny)
    (a, target_std, target_varies), (b, prediction_std, prediction_varies) = _centre(y, share), _centre(x, share)
    defined = target_varies & prediction_varies
    u = torch.where(defined, a / torch.where(defined, target_std, 1.0), 0.0)
    v = torch.where(defined, b / torch.where(defined, prediction_std, 1.0), 0.0)
    return Batch(share, x - y, u, v, target_std, prediction_std, (share * u * v).sum(0), defined)


def spread(x: Tensor, mask: Tensor | None, weight: Tensor | None) -> Batch:
    """The statistics of one variable alone: ``prediction`` fields hold it, ``defined`` says that it is not constant."""
    return measure(x, x, mask, weight)


def head_norm(head: Tensor, targets: int) -> Tensor:
    """||w|| of a head (dim,) or of each row of (targets, dim): (1,) or (targets,)."""
    norm = at_least_float32(head).reshape(-1, head.shape[-1]).norm(dim=-1)
    if len(norm) != targets:
        raise InputError(f"head must be (targets, dim) with targets = {targets}, got {tuple(head.shape)}")
    return norm


def affine_pcc(pcc: Tensor, scale: Tensor | float) -> Tensor:
    """PCC after an affine change of the prediction (Lemma 2.1): PCC(y, m yhat + n) = sign(m) PCC(y, yhat), m != 0.

    >>> affine_pcc(torch.tensor(0.5), -3.0)
    tensor(-0.5000)

    With m = 0 the prediction is constant and the correlation undefined: NaN.
    """
    sign = torch.as_tensor(scale, dtype=pcc.dtype, device=pcc.device).sign()
    return torch.where(sign == 0, torch.nan, sign * pcc)


def softmax_jacobian(h: Tensor, weights: Tensor, *, mask: Tensor | None = None) -> Tensor:
    """How the pooled vector moves with a logit (Lemma 2.2): dv_s/dz_si = alpha_si (h_si - v_s), (bags, elements, dim).

    >>> softmax_jacobian(torch.tensor([[[0.0], [4.0]]]), torch.tensor([[0.5, 0.5]])).flatten()
    tensor([-1.,  1.])

    ``mask`` is the element mask, (bags, elements); what stands in padding does not reach the result.
    """
    h = blank_padding(at_least_float32(h), mask)
    pooled = (weights.unsqueeze(-1) * h).sum(1, keepdim=True)
    return weights.unsqueeze(-1) * (h - pooled)


def sensitivity(h: Tensor, weights: Tensor, head: Tensor, *, mask: Tensor | None = None) -> Tensor:
    """How the prediction moves with a logit (Lemma 2.2): L_si = dyhat_s/dz_si = alpha_si w.(h_si - v_s).

    ``head`` is w, (dim,) or (targets, dim); returns (bags, elements) or (bags, elements, targets).

    >>> sensitivity(torch.tensor([[[0.0], [4.0]]]), torch.tensor([[0.5, 0.5]]), torch.tensor([2.0]))
    tensor([[-2.,  2.]])
    """
    scores = blank_padding(at_least_float32(h), mask) @ head.to(at_least_float32(h).dtype).t()
    alpha = weights if head.dim() == 1 else weights.unsqueeze(-1)
    return alpha * (scores - (alpha * scores).sum(1, keepdim=True))


def pcc_factor(
    prediction: Tensor, target: Tensor, *, mask: Tensor | None = None, weight: Tensor | None = None
) -> Tensor:
    """Global factor of the PCC gradient: g_s = (1/sigma_yhat)(a_s/sigma_y - rho b_s/sigma_yhat), shaped as prediction.

    >>> pcc_factor(torch.tensor([0.0, 0.0, 3.0]), torch.tensor([-1.0, 1.0, 0.0]))
    tensor([-0.8660,  0.8660,  0.0000])

    Zero where the correlation is undefined (constant prediction or target) and where the label is missing.
    """
    return _pcc_factor(measure(prediction, target, mask, weight)).reshape(prediction.shape)


def mse_factor(
    prediction: Tensor, target: Tensor, *, mask: Tensor | None = None, weight: Tensor | None = None
) -> Tensor:
    """Global factor of the MSE gradient: g_s = 2 (yhat_s - y_s), shaped as prediction; 0 where the label is missing.

    >>> mse_factor(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 2.0]))
    tensor([2., 0.])
    """
    return 2.0 * measure(prediction, target, mask, weight).error.reshape(prediction.shape)


def _pcc_factor(batch: Batch) -> Tensor:
    return batch.residual / torch.where(batch.defined, batch.prediction_std, 1.0)


def _through_logits(factor: Tensor, slope: Tensor) -> Tensor:
    """p_s g_s L_si, for p g of shape (bags, targets) and L of shape (bags, elements) or (bags, elements, targets)."""
    columnwise = slope if slope.dim() == 3 else slope.unsqueeze(-1)
    if columnwise.dim() != 3 or columnwise.shape[::2] != factor.shape:
        raise InputError(
            "slope, as from sensitivity(), must be (bags, elements) for one target and (bags, elements, targets) "
            f"for more; got {tuple(slope.shape)} for (bags, targets) = {tuple(factor.shape)}"
        )
    return (factor.unsqueeze(1) * columnwise).reshape(slope.shape)


def pcc_gradient(
    prediction: Tensor, target: Tensor, slope: Tensor, *, mask: Tensor | None = None, weight: Tensor | None = None
) -> Tensor:
    """Gradient of PCC by the logits (Thm 2.1): drho/dz_si = (1/(S sigma_yhat)) (a_s/sigma_y - rho b_s/sigma_yhat) L_si.

    ``slope`` is L from :func:`sensitivity`; the result has its shape. With weights, p_s stands for 1/S.

    >>> y = torch.tensor([-1.0, 1.0, 0.0])
    >>> pcc_gradient(torch.tensor([0.0, 0.0, 3.0]), y, torch.ones(3, 1)).flatten()
    tensor([-0.2887,  0.2887,  0.0000])
    """
    batch = measure(prediction, target, mask, weight)
    return _through_logits(batch.share * _pcc_factor(batch), slope)


def mse_gradient(
    prediction: Tensor, target: Tensor, slope: Tensor, *, mask: Tensor | None = None, weight: Tensor | None = None
) -> Tensor:
    """Gradient of MSE by the logits (Lemma 2.3): dMSE/dz_si = (2/S)(yhat_s - y_s) L_si, shaped as ``slope`` (L).

    >>> mse_gradient(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 2.0]), torch.ones(2, 1)).flatten()
    tensor([1., 0.])
    """
    batch = measure(prediction, target, mask, weight)
    return _through_logits(2.0 * batch.share * batch.error, slope)


def gradient_ratio(
    prediction: Tensor, target: Tensor, *, mask: Tensor | None = None, weight: Tensor | None = None
) -> Tensor:
    """RMS of the PCC factor over that of the MSE factor, exactly (C.2): r = sqrt(1-rho^2) / (2 sigma_yhat sqrt(MSE)).

    It does not depend on the batch size: a batch repeated ten times has the same ratio.

    >>> gradient_ratio(torch.tensor([0.0, 0.0, 3.0]), torch.tensor([-1.0, 1.0, 0.0]))
    tensor(0.1846)

    NaN where it is 0/0: constant prediction or target, or a perfect fit.
    """
    batch = measure(prediction, target, mask, weight)
    mse = (batch.share * batch.error.square()).sum(0)
    known = batch.defined & (mse > 0)
    # 1 - rho^2 as the mean square of a/sigma_y - rho b/sigma_yhat: the same number, without the cancellation.
    unexplained = safe_sqrt((batch.share * batch.residual.square()).sum(0))
    ratio = unexplained / torch.where(known, 2.0 * batch.prediction_std * safe_sqrt(mse), 1.0)
    return torch.where(known, ratio, torch.nan).reshape(prediction.shape[1:])


def gradient_ratio_bound(
    prediction: Tensor, target: Tensor, *, mask: Tensor | None = None, weight: Tensor | None = None
) -> Bound:
    """Bound on :func:`gradient_ratio` (Cor 2.1, rho in [0, 1]): r <= 1 / (2 sqrt(sigma_y) sigma_yhat^1.5).

    The supremum of r/bound is 1: means and deviations equal, rho -> 1. The proof's last step drops
    sqrt((1 + rho)/2) <= 1, so at rho = 0 the ratio can reach 0.707 of the bound and no more.

    >>> gradient_ratio_bound(torch.tensor([0.0, 0.0, 3.0]), torch.tensor([-1.0, 0.0, 1.0])).value
    tensor(0.3290)

    Does not apply for rho < 0 or an undefined correlation.
    """
    batch = measure(prediction, target, mask, weight)
    applies = batch.defined & (batch.pcc >= 0)
    scale = 2.0 * safe_sqrt(batch.target_std) * torch.where(applies, batch.prediction_std, 1.0).pow(1.5)
    value = (1.0 / torch.where(applies, scale, 1.0)).reshape(prediction.shape[1:])
    applies = applies.reshape(value.shape)
    return make_bound(value, applies, torch.zeros_like(applies), "it is stated for a defined PCC in [0, 1]")


def gradient_bound(
    prediction: Tensor,
    dispersion: Tensor,
    count: Tensor,
    head: Tensor,
    *,
    mask: Tensor | None = None,
    weight: Tensor | None = None,
) -> Bound:
    """Bound on each PCC gradient (Cor 2.2): |drho/dz_si| <= (1/sigma_yhat)(4 sqrt(n_s (S-1))/S) ||w|| sigma_s, per bag.

    ``dispersion`` sigma_s and ``count`` n_s are (bags,); ``head`` w is (dim,) or (targets, dim). The value has the
    shape of ``prediction``. With weights sqrt(S-1)/S is sqrt(p_s (1-p_s)). The supremum of gradient/bound is
    sqrt(2)/16 = 0.0884: the proof adds two terms of which at most one can be large, and takes alpha (1-alpha) <= 1/4
    and the distance sqrt(2 n_s) sigma_s for 1 and 2 sqrt(n_s) sigma_s.

    >>> one = torch.ones(2)
    >>> gradient_bound(torch.tensor([-1.0, 1.0]), one, 4 * one, torch.tensor([3.0, 4.0])).value
    tensor([20., 20.])

    Does not apply to a constant prediction.
    """
    batch = spread(prediction, mask, weight)
    share, varies = batch.share, batch.defined
    batch_factor = 4.0 * safe_sqrt(share * (1.0 - share)) / torch.where(varies, batch.prediction_std, 1.0)
    bag_factor = (safe_sqrt(count.to(share.dtype)) * at_least_float32(dispersion)).unsqueeze(1)
    value = (batch_factor * bag_factor * head_norm(head, share.shape[1])).reshape(prediction.shape)
    applies = varies.expand_as(share).reshape(prediction.shape)
    return make_bound(value, applies, torch.zeros_like(applies), "the prediction must not be constant")
