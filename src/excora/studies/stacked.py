"""Many small attention regressors trained as one: every variant of every group (setting, seed) in one batched module.

A model is pool + linear head. The head is applied before pooling, because a prediction needs only the numbers
u_si = w.h_si and z_si = w_attn.h_si of each element:

    yhat_s = ubar_s + gamma_s (sum_i softmax(z_s / tau_s)_i u_si - ubar_s) + c,      ubar_s = w.mu_s

so one batched matrix product serves all variants that share a group's data. Parameters come from the real modules
(:class:`ECAPool`, :class:`SoftmaxPool`, :class:`MeanPool` and ``nn.Linear``) and go back into them; gain, temperature
and loss are the library's own functions. Adam works by element, so training the stack is training each model alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from excora.functional import dispersion, free_gain, linear_temperature, masked_mean, paper_gain, power_temperature
from excora.losses import CorrelationLoss, DispersionNormalizedPearsonLoss, JointLoss, PearsonLoss
from excora.moments import moments, squared_error
from excora.pooling import ECAPool, MeanPool, SoftmaxPool
from excora.pooling.base import Pool
from excora.samples import columns

_POOLS: dict[str, Callable[..., Pool]] = {
    "mean": MeanPool,
    "softmax": SoftmaxPool,
    "eca": ECAPool,
    "paper": ECAPool.paper,
}
_CORRELATIONS: dict[str, type[CorrelationLoss]] = {"pcc": PearsonLoss, "dnpl": DispersionNormalizedPearsonLoss}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variant:
    """One way to pool and to train: MSE + weight * correlation loss (None: MSE alone) + the pool's penalty."""

    name: str
    pool: Literal["mean", "softmax", "eca", "paper"]
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    correlation: Literal["pcc", "dnpl"] | None = "dnpl"
    weight: float = 0.5

    def model(self, dim: int, seed: int) -> nn.ModuleDict:
        """A fresh {"head", "pool"}; for one seed, head and scorer start alike whatever the pool."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            head = nn.Linear(dim, 1)
            return nn.ModuleDict({"head": head, "pool": _POOLS[self.pool](dim, **self.options)})

    def loss(self) -> JointLoss:
        """The loss this variant trains with."""
        kind = _CORRELATIONS[self.correlation or "pcc"]
        return JointLoss(kind(), weight=self.weight if self.correlation else 0.0)


class Bags(NamedTuple):
    """Data of all groups: what the stack needs of it, (groups, ...)."""

    elements: Tensor  # (groups, elements, bags, dim): bags inside, so that sums over elements run along vectors
    mean: Tensor  # (groups, bags, dim)
    dispersion: Tensor  # (groups, bags)
    target: Tensor  # (groups, bags)

    @classmethod
    def of(cls, samples: Sequence[tuple[Tensor, Tensor]]) -> Bags:
        """From (h, y) of each group, h (bags, elements, dim) and y (bags,)."""
        h = torch.stack([bags for bags, _ in samples])
        return cls(
            h.transpose(1, 2).contiguous(),
            torch.stack([masked_mean(bags) for bags in h]),
            torch.stack([dispersion(bags) for bags in h]),
            torch.stack([target for _, target in samples]),
        )

    def take(self, index: Tensor) -> Bags:
        """The bags of ``index``, the same of every group."""
        axes = (2, 1, 1, 1)
        return Bags(*(field.index_select(axis, index) for field, axis in zip(self, axes, strict=True)))


class Output(NamedTuple):
    """Of each model and bag: prediction (groups, variants, bags); gamma and tau of the variants that attend."""

    prediction: Tensor
    gamma: Tensor
    temperature: Tensor


class Stack(nn.Module):
    """All ``variants`` x groups as one module; group g starts from ``seeds[g]``.

    >>> stack = Stack([Variant(name="a", pool="mean"), Variant(name="b", pool="eca")], seeds=[0, 1, 2], dim=4)
    >>> h, y = torch.randn(5, 3, 4), torch.randn(5)
    >>> stack(Bags.of([(h, y)] * 3)).prediction.shape
    torch.Size([3, 2, 5])
    """

    def __init__(self, variants: Sequence[Variant], seeds: Sequence[int], dim: int) -> None:
        super().__init__()
        self.variants, self.seeds, self.dim = list(variants), list(seeds), dim
        self.losses = [variant.loss() for variant in self.variants]
        models = [[variant.model(dim, seed) for variant in self.variants] for seed in self.seeds]
        self.pools = [model["pool"] for model in models[0]]  # for their options; the parameters are stacked below
        attends = [v for v, pool in enumerate(self.pools) if not isinstance(pool, MeanPool)]
        self.families: list[_Family] = []
        self.stacked = nn.ParameterDict()
        self._keys: dict[str, list[tuple[int, str]]] = {}
        self._stack("head_weight", models, range(len(self.variants)), "head.weight")
        self._stack("head_bias", models, range(len(self.variants)), "head.bias")
        self._stack("scorer", models, attends, "pool.scorer.weight")
        self._find_families(models, attends)
        self.attends = attends

    def _stack(self, name: str, models: list[list[nn.ModuleDict]], members: Sequence[int], key: str) -> None:
        """One parameter (groups, members, ...) of the parameter ``key`` of all models."""
        if len(members) == 0:
            return
        values = [torch.stack([row[v].get_parameter(key).detach() for v in members]) for row in models]
        self.stacked[name] = nn.Parameter(torch.stack(values))
        self._keys[name] = [(v, key) for v in members]

    def _find_families(self, models: list[list[nn.ModuleDict]], attends: list[int]) -> None:
        """Variants of one formula share a family: their gain, or their temperature, is computed at once."""
        for kind in ("gain", "temperature"):
            groups: dict[tuple[Any, ...], list[int]] = {}
            for v in attends:
                part = getattr(self.pools[v], kind, None)
                if part is None:
                    signature: tuple[Any, ...] = ()
                elif kind == "gain":
                    signature = (part.form, part.cap, part.hidden.out_features)
                else:
                    signature = (part.fixed, self.pools[v].divisor)
                groups.setdefault(signature, []).append(v)
            for signature, members in groups.items():
                name = f"{kind}{len(self.families)}"
                self.families.append(_Family(name, kind, signature, members))
                if signature and kind == "gain":
                    for key in ("hidden.weight", "hidden.bias", "out.weight", "out.bias"):
                        self._stack(f"{name}_{key.replace('.', '_')}", models, members, f"pool.gain.{key}")
                elif signature and signature[0] is None:
                    for key in ("log_base", "slope"):
                        self._stack(f"{name}_{key}", models, members, f"pool.temperature.{key}")

    def forward(self, bags: Bags) -> Output:
        """Predictions of all models for all bags."""
        weight, bias = self.stacked["head_weight"].squeeze(2), self.stacked["head_bias"]
        mean = torch.bmm(weight, bags.mean.transpose(1, 2))
        if not self.attends:
            empty = mean[:, :0]
            return Output(mean + bias, empty, empty)
        groups, elements, count, dim = bags.elements.shape
        head = weight[:, self.attends]
        flat = bags.elements.view(groups, elements * count, dim).transpose(1, 2)
        both = torch.bmm(torch.cat([self.stacked["scorer"].squeeze(2), head], 1), flat)
        logits, values = both.view(groups, 2, len(self.attends), elements, count).unbind(1)
        tau, gamma = self._assemble("temperature", bags), self._assemble("gain", bags)
        attended = (torch.softmax(logits / tau.unsqueeze(2), 2) * values).sum(2)
        centre = mean[:, self.attends]
        moved = centre + gamma * (attended - centre)
        rest = [v for v in range(len(self.variants)) if v not in self.attends]
        order = torch.tensor([*self.attends, *rest]).argsort()
        prediction = torch.cat([moved, mean[:, rest]], 1)[:, order] + bias
        return Output(prediction, gamma, tau)

    def _assemble(self, kind: str, bags: Bags) -> Tensor:
        """gamma or tau of every attending variant, (groups, attending, bags)."""
        families = [family for family in self.families if family.kind == kind]
        rule = self._gain if kind == "gain" else self._temperature
        parts = torch.cat([rule(family, bags) for family in families], 1)
        return parts[:, torch.tensor([v for family in families for v in family.members]).argsort()]

    def _gain(self, family: _Family, bags: Bags) -> Tensor:
        groups, count, dim = bags.mean.shape
        members = len(family.members)
        if not family.signature:
            return bags.mean.new_ones(groups, members, count)
        form, cap, width = family.signature
        weight, bias, out, last = (
            self.stacked[f"{family.name}_{key}"] for key in ("hidden_weight", "hidden_bias", "out_weight", "out_bias")
        )
        hidden = torch.baddbmm(
            bias.view(groups, -1, 1), weight.view(groups, members * width, dim), bags.mean.transpose(1, 2)
        )
        hidden = (torch.tanh(hidden) if form == "free" else torch.relu(hidden)).view(groups * members, width, count)
        raw = torch.bmm(out.view(groups * members, 1, width), hidden).view(groups, members, count) + last
        return free_gain(raw, cap) if form == "free" else paper_gain(raw, cap)

    def _temperature(self, family: _Family, bags: Bags) -> Tensor:
        groups, count = bags.dispersion.shape
        members = len(family.members)
        if not family.signature:
            return bags.mean.new_ones(groups, members, count)
        fixed, divisor = family.signature
        spread = (bags.dispersion / divisor).unsqueeze(1).expand(groups, members, count)
        if fixed is not None:
            return linear_temperature(spread, *(spread.new_tensor(x) for x in fixed))
        base, slope = self.stacked[f"{family.name}_log_base"].exp(), self.stacked[f"{family.name}_slope"]
        return power_temperature(spread, base.unsqueeze(-1), slope.unsqueeze(-1))

    def loss(self, output: Output, target: Tensor) -> Tensor:
        """The sum of all models' losses: its gradient with respect to one model is that of this model's own loss."""
        x, y = _as_columns(output.prediction, target)
        m = moments(x, y, None)
        total = squared_error(x, y, None, m.weight).sum()
        for kind in _CORRELATIONS.values():
            weight = [loss.weight if isinstance(loss.correlation, kind) else 0.0 for loss in self.losses]
            if any(weight):
                total = total + torch.dot(kind().terms(m) * m.defined, x.new_tensor(weight).repeat(len(self.seeds)))
        penalty = x.new_tensor([getattr(self.pools[v], "penalty_weight", 0.0) for v in self.attends])
        return total + (penalty * (output.gamma - 1.0).square().mean(2)).sum()

    def model(self, group: int, variant: int) -> nn.ModuleDict:
        """The real modules of one model, with its parameters as they are now."""
        model = self.variants[variant].model(self.dim, self.seeds[group])
        with torch.no_grad():
            for name, members in self._keys.items():
                for position, (v, key) in enumerate(members):
                    if v == variant:
                        model.get_parameter(key).copy_(self.stacked[name][group, position])
        return model

    def keep_where(self, better: Tensor, best: dict[str, Tensor]) -> None:
        """Copy into ``best`` the parameters of the models for which ``better`` (groups, variants) is True."""
        for name, parameter in self.stacked.items():
            chosen = better[:, [v for v, _ in self._keys[name]]]
            shape = chosen.shape + (1,) * (parameter.dim() - 2)
            best[name] = torch.where(chosen.view(shape), parameter.detach(), best[name])

    def snapshot(self) -> dict[str, Tensor]:
        """A copy of all parameters."""
        return {name: parameter.detach().clone() for name, parameter in self.stacked.items()}

    def restore(self, values: dict[str, Tensor]) -> None:
        """Set all parameters, as :meth:`snapshot` gave them."""
        with torch.no_grad():
            for name, value in values.items():
                self.stacked[name].copy_(value)


class _Family(NamedTuple):
    """Variants whose gain or temperature has one formula; no signature: it is 1."""

    name: str
    kind: str
    signature: tuple[Any, ...]
    members: list[int]


def _as_columns(prediction: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Bags down, models across: what :mod:`excora.moments` calls targets."""
    groups, variants, count = prediction.shape
    y = target.unsqueeze(1).expand(groups, variants, count)
    x, y, _ = columns(prediction.reshape(-1, count).T, y.reshape(-1, count).T, None, None)
    return x, y


def scores(prediction: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """PCC (0 where undefined) and MSE of each model, (groups, variants) each."""
    x, y = _as_columns(prediction.double(), target.double())
    m = moments(x, y, None)
    shape = prediction.shape[:2]
    return m.pearson.view(shape), squared_error(x, y, None, m.weight).view(shape)
