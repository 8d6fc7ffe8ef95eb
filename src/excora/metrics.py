"""Correlation over an epoch, as torchmetrics metrics: float64 centred moments, merged exactly over batches and ranks.

A correlation is not additive, so a metric keeps moments and merges them (Chan et al.): every split of the data into
batches, one sample at a time included, gives the number of the whole. Arguments of ``update`` are those of
:mod:`excora.moments`: prediction and target (n,), (n, 1) or (n, targets), a boolean mask, non-negative weights.

Undefined (fewer than 2 samples; a standard deviation of prediction or target of at most 4 machine epsilons of its
mean, in the coarsest precision that came in; NaN or infinity among the values): NaN in a value per target, left out of
every mean and percentile, and counted. Nothing defined at all gives 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from excora.errors import InputError, MissingExtraError
from excora.functional import at_least_float32
from excora.moments import TOLERANCE
from excora.samples import columns

try:
    from torchmetrics import Metric
except ModuleNotFoundError as error:
    if error.name != "torchmetrics":
        raise
    raise MissingExtraError("torchmetrics", "app") from error

# Rows of a packed state (rows, targets): total weight, two means, sums of squared deviations of prediction and target,
# sum of their products, machine epsilon of the coarsest input.
ROWS = 7


def merge(parts: Tensor, index: Tensor | None = None, groups: int = 1) -> Tensor:
    """Packed moments of the unions of ``parts`` (k, ROWS, targets) with equal ``index``: (groups, ROWS, targets).

    W = sum W_k, mean = sum W_k mean_k / W, S = sum S_k + sum W_k (mean_k - mean)(mean_k - mean)'.
    """
    return _merge(parts[:, 0], parts[:, 1:3], parts[:, 3:6], parts[:, 6], index, groups)


def _merge(
    weight: Tensor, mean: Tensor, squares: Tensor | None, eps: Tensor, index: Tensor | None, groups: int
) -> Tensor:
    """Samples are parts too: of squares None, their means being the values themselves."""
    index = weight.new_zeros(weight.shape[0], dtype=torch.int64) if index is None else index

    def total(z: Tensor) -> Tensor:
        if groups == 1:
            return z.sum(0, keepdim=True)
        return z.new_zeros(groups, *z.shape[1:]).index_add_(0, index, z)

    sums = total(weight)
    divisor = torch.where(sums > 0, sums, 1.0).unsqueeze(1)
    # Two passes: what the rounded centre leaves is taken off the squares and added to the mean.
    centre = total(weight.unsqueeze(1) * mean) / divisor
    apart = mean - centre[index]
    weighted = weight.unsqueeze(1) * apart
    rest = total(weighted) / divisor
    products = total(torch.cat([weighted * apart, weighted[:, :1] * apart[:, 1:]], 1))
    products -= divisor * torch.cat([rest * rest, rest[:, :1] * rest[:, 1:]], 1)
    if squares is not None:
        products += total(squares)
    coarsest = eps.amax() if eps.numel() else eps.new_zeros(())
    return torch.cat([sums.unsqueeze(1), centre + rest, products, coarsest.expand_as(sums).unsqueeze(1)], 1)


def _merge_ranks(stacked: Tensor) -> Tensor:
    return merge(stacked)[0]


def _correlation(packed: Tensor) -> Tensor:
    """Correlation of packed moments (..., ROWS, targets): (..., targets), NaN where undefined."""
    weight, mean_x, mean_y, xx, yy, xy, eps = packed.unbind(-2)
    sigma_x, sigma_y = (xx.clamp_min(0.0) / weight).sqrt(), (yy.clamp_min(0.0) / weight).sqrt()
    noise = TOLERANCE * eps
    defined = (sigma_x > noise * mean_x.abs()) & (sigma_y > noise * mean_y.abs())
    rho = (xy / weight / sigma_x / sigma_y).clamp(-1.0, 1.0)
    return torch.where(defined & rho.isfinite(), rho, torch.nan)


def _concordance(packed: Tensor) -> Tensor:
    """2 S_xy / (S_xx + S_yy + W (mean_x - mean_y)^2), (..., targets), NaN where the correlation is undefined."""
    weight, mean_x, mean_y, xx, yy, xy, _ = packed.unbind(-2)
    agreement = (2.0 * xy / (xx + yy + weight * (mean_x - mean_y).square())).clamp(-1.0, 1.0)
    return torch.where(_correlation(packed).isnan(), torch.nan, agreement)


def _mean(values: Tensor, dim: int | None = None) -> Tensor:
    """Mean over the defined, 0 for none."""
    return values.nanmean(dim).nan_to_num(0.0)


class _Correlations(Metric):
    """What all metrics share: the pooled state and its update."""

    is_differentiable = False
    higher_is_better = True
    full_state_update = False
    pooled: Tensor

    def __init__(self, num_targets: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if num_targets < 1:
            raise InputError(f"num_targets must be at least 1, got {num_targets}")
        self.num_targets = num_targets
        empty = torch.zeros(ROWS, num_targets, dtype=torch.float64)
        self.add_state("pooled", empty, dist_reduce_fx=_merge_ranks)

    def _samples(
        self, prediction: Tensor, target: Tensor, mask: Tensor | None, weight: Tensor | None
    ) -> tuple[Tensor, Tensor, None, Tensor]:
        """The batch as parts for :func:`_merge`, without a graph."""
        kinds = [at_least_float32(t[:0]).dtype for t in (prediction, target) if t.is_floating_point()]
        x, y, w = columns(prediction.detach().double(), target.detach().double(), mask, weight)
        if x.shape[1] != self.num_targets:
            raise InputError(
                f"prediction must have the {self.num_targets} targets of num_targets, got shape "
                f"{tuple(prediction.shape)}"
            )
        eps = max((torch.finfo(kind).eps for kind in kinds), default=torch.finfo(x.dtype).eps)
        return torch.ones_like(x) if w is None else w, torch.stack([x, y], 1), None, x.new_tensor([eps])

    def _add(self, batch: Tensor) -> None:
        self.pooled = merge(torch.stack([self.pooled, batch]))[0]

    def _apply(self, fn: Callable[[Tensor], Tensor], exclude_state: Any = ()) -> Any:
        """Move the state with the module, and keep its dtype: ``.to(torch.float16)`` of a host must not damage it."""
        super()._apply(fn, exclude_state=[*self._defaults, *exclude_state])
        for name, default in self._defaults.items():
            state = getattr(self, name)
            moved = [t.to(self.device) for t in state] if isinstance(state, list) else state.to(self.device)
            setattr(self, name, moved)
            self._defaults[name] = default if isinstance(default, list) else default.to(self.device)
        return self


class _PerTarget(_Correlations):
    """A metric of one number a target."""

    def __init__(self, num_targets: int = 1, *, reduction: str = "none", **kwargs: Any) -> None:
        super().__init__(num_targets, **kwargs)
        if reduction not in ("none", "mean"):
            raise InputError(f"reduction must be 'none' or 'mean', got {reduction!r}")
        self.reduction = reduction

    def update(
        self, prediction: Tensor, target: Tensor, mask: Tensor | None = None, weight: Tensor | None = None
    ) -> None:
        """Add a batch; n = 0 is fine."""
        self._add(_merge(*self._samples(prediction, target, mask, weight), None, 1)[0])

    def _reduced(self, values: Tensor) -> Tensor:
        return values if self.reduction == "none" else _mean(values)


class PearsonCorrelation(_PerTarget):
    """Pearson correlation rho = cov(yhat, y) / (sigma_yhat sigma_y) of everything seen.

    ``reduction="none"`` gives (num_targets,) with NaN for undefined targets; of one target a scalar, as all of
    torchmetrics does. ``"mean"`` gives the mean over the defined ones, a scalar, 0 if there is none.

    >>> metric = PearsonCorrelation()
    >>> metric.update(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0]))
    >>> metric.update(torch.tensor([3.0]), torch.tensor([2.0]))
    >>> round(metric.compute().item(), 6)
    0.866025
    """

    def compute(self) -> Tensor:
        """The correlation of everything seen, float64."""
        return self._reduced(_correlation(self.pooled))


class ConcordanceCorrelation(_PerTarget):
    """Concordance 2 cov(yhat, y) / (sigma_yhat^2 + sigma_y^2 + (mean yhat - mean y)^2) of everything seen.

    A correlation that also asks for the target's mean and scale. Shapes and ``reduction`` as in
    :class:`PearsonCorrelation`, and undefined where that is. Variances are divided by the total weight W, as in
    :func:`excora.concordance`; torchmetrics' ConcordanceCorrCoef divides by n - 1 and so differs by O(1/n).

    >>> metric = ConcordanceCorrelation()
    >>> metric.update(torch.tensor([0.0, 2.0]), torch.tensor([1.0, 3.0]))
    >>> round(metric.compute().item(), 6)
    0.666667
    """

    def compute(self) -> Tensor:
        """The concordance of everything seen, float64."""
        return self._reduced(_concordance(self.pooled))


class GroupCorrelation(NamedTuple):
    """Correlation within each group: ``ids`` (groups,) ascending, ``correlation`` (groups, targets), NaN: undefined."""

    ids: Tensor
    correlation: Tensor


class CorrelationSummary(_Correlations):
    """Quartile, median and mean of the per-target correlations: pooled, and within groups side by side.

    ``compute()`` returns scalars over the defined targets:

    - ``PCC@F``, ``PCC@S``, ``PCC@M``: 25th percentile, median, mean (percentiles by linear interpolation);
    - ``undefined``: number of undefined targets;
    - ``selection``: the mean with 0 for each undefined target. Select models by this one: a collapsed model has few
      defined targets, and the mean of those may look perfect.

    Where ``groups`` (integer ids (n,): slides, subjects) were given, also ``group_PCC@F``, ``group_PCC@S``,
    ``group_PCC@M``: the same of each target's mean over the groups that define it; ``groups``: how many there are;
    ``group_undefined`` and ``group_selection``: as above, over all pairs of group and target. :meth:`by_group` has the
    single values. A group may be spread over batches and ranks.

    >>> metric = CorrelationSummary(num_targets=2)
    >>> metric.update(torch.tensor([[1.0, 0.0], [2.0, 0.0]]), torch.tensor([[1.0, 0.0], [3.0, 1.0]]))
    >>> {name: value.item() for name, value in metric.compute().items()}
    {'PCC@F': 1.0, 'PCC@S': 1.0, 'PCC@M': 1.0, 'undefined': 1, 'selection': 0.5}
    """

    group_ids: Any  # a list of tensors; one tensor after torchmetrics gathered it
    grouped: Any

    def __init__(self, num_targets: int = 1, **kwargs: Any) -> None:
        super().__init__(num_targets, **kwargs)
        self.add_state("group_ids", [], dist_reduce_fx="cat")
        self.add_state("grouped", [], dist_reduce_fx="cat")
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        super().reset()
        # Never an empty list: a rank without groups must gather tensors of the shape and dtype of the others.
        self.group_ids = [torch.zeros(0, dtype=torch.int64, device=self.pooled.device)]
        self.grouped = [self.pooled.new_zeros(0, ROWS, self.num_targets)]

    def update(
        self,
        prediction: Tensor,
        target: Tensor,
        groups: Tensor | None = None,
        mask: Tensor | None = None,
        weight: Tensor | None = None,
    ) -> None:
        """Add a batch; n = 0 is fine."""
        samples = self._samples(prediction, target, mask, weight)
        if groups is None:
            self._add(_merge(*samples, None, 1)[0])
            return
        if groups.is_floating_point() or groups.shape != prediction.shape[:1]:
            raise InputError(
                f"groups must be integer ids of shape ({prediction.shape[0]},), "
                f"got {groups.dtype} of shape {tuple(groups.shape)}"
            )
        ids, index = groups.unique(return_inverse=True)
        batch = _merge(*samples, index, len(ids))
        self._add(merge(batch)[0])
        self.group_ids.append(ids.to(torch.int64))
        self.grouped.append(batch)
        ids, merged = self._merged_groups()
        self.group_ids, self.grouped = [ids], [merged]

    def compute(self) -> dict[str, Tensor]:
        """The summary of everything seen: scalars by name."""
        rho = _correlation(self.pooled)
        summary = {**_quartiles(rho), "undefined": rho.isnan().sum(), "selection": rho.nan_to_num(0.0).mean()}
        ids, merged = self._merged_groups()
        if len(ids):
            rho = _correlation(merged)
            per_target = torch.where(rho.isnan().all(0), torch.nan, _mean(rho, 0))
            summary |= {f"group_{name}": value for name, value in _quartiles(per_target).items()}
            summary["groups"] = torch.tensor(len(ids), device=rho.device)
            summary["group_undefined"] = rho.isnan().sum()
            summary["group_selection"] = rho.nan_to_num(0.0).mean()
        return summary

    def by_group(self) -> GroupCorrelation:
        """Correlation of each group and target, over all ranks: every rank must call it."""
        with self.sync_context():
            ids, merged = self._merged_groups()
        return GroupCorrelation(ids, _correlation(merged))

    def _merged_groups(self) -> tuple[Tensor, Tensor]:
        """One entry an id, ascending."""
        ids, parts = (t if isinstance(t, Tensor) else torch.cat(t) for t in (self.group_ids, self.grouped))
        unique, index = ids.unique(return_inverse=True)
        return unique, merge(parts, index, len(unique)) if len(unique) else parts


def _quartiles(rho: Tensor) -> dict[str, Tensor]:
    defined = rho[~rho.isnan()]
    if not len(defined):
        defined = rho.new_zeros(1)
    quarter, median = torch.quantile(defined, rho.new_tensor([0.25, 0.5])).unbind()
    return {"PCC@F": quarter, "PCC@S": median, "PCC@M": defined.mean()}
