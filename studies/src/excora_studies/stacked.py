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

from excora.functional import dispersion, masked_mean
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
        self._stack("scorer", models, attends, "pool.scorer.weight", (dim,))
        self._find_families(models, attends)
        self.attends = attends
        scales = [getattr(self.pools[v].scorer, "scale", 1.0) for v in attends]
        self.register_buffer("scales", torch.tensor(scales).view(-1, 1), persistent=False)

    def _stack(
        self,
        name: str,
        models: list[list[nn.ModuleDict]],
        members: Sequence[int],
        key: str,
        shape: tuple[int, ...] | None = None,
    ) -> None:
        """One parameter (groups, members, ...) of the parameter ``key`` of all models, each in ``shape`` if given."""
        if len(members) == 0:
            return
        found = [[row[v].get_parameter(key).detach() for v in members] for row in models]
        values = [torch.stack([p if shape is None else p.view(shape) for p in row]) for row in found]
        self.stacked[name] = nn.Parameter(torch.stack(values))
        self._keys[name] = [(v, key) for v in members]

    def _find_families(self, models: list[list[nn.ModuleDict]], attends: list[int]) -> None:
        """Variants of one formula share a family: their gain, or their temperature, is computed at once."""
        for kind in ("gain", "temperature"):
            groups: dict[str, list[int]] = {}
            for v in attends:
                part = _part(self.pools[v], kind)
                divisor = getattr(self.pools[v].extrapolation, "divisor", 1.0) if part is not None else 1.0
                groups.setdefault(f"{part} {divisor if kind == 'temperature' else ''}", []).append(v)
            for members in groups.values():
                family = _Family(f"{kind}{len(self.families)}", kind, members)
                self.families.append(family)
                part = _part(self.pools[members[0]], kind)
                for key, _ in part.named_parameters() if part is not None else ():
                    self._stack(
                        f"{family.name}_{key.replace('.', '_')}", models, members, f"pool.extrapolation.{kind}.{key}"
                    )

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
        scorer = self.stacked["scorer"] * self.scales
        both = torch.bmm(torch.cat([scorer, head], 1), flat)
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
        parts = torch.cat([self._apply_family(family, bags) for family in families], 1)
        return parts[:, torch.tensor([v for family in families for v in family.members]).argsort()]

    def _apply_family(self, family: _Family, bags: Bags) -> Tensor:
        """The real module of a family on the stacked parameters of its members: (groups, members, bags)."""
        pool: Any = self.pools[family.members[0]]
        part, members = _part(pool, family.kind), len(family.members)
        groups, count = bags.dispersion.shape
        if part is None:
            return bags.mean.new_ones(groups, members, count)
        given = bags.mean if family.kind == "gain" else bags.dispersion / pool.extrapolation.divisor
        names = [name for name, _ in part.named_parameters()]
        stacked = {name: self.stacked[f"{family.name}_{name.replace('.', '_')}"] for name in names}
        if not stacked:
            return part(given).unsqueeze(1).expand(groups, members, count)

        def one(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
            return torch.func.functional_call(part, parameters, (x,))

        return torch.vmap(torch.vmap(one, in_dims=(0, None)))(stacked, given)

    def loss(self, output: Output, target: Tensor) -> Tensor:
        """The sum of all models' losses: its gradient with respect to one model is that of this model's own loss."""
        x, y = _as_columns(output.prediction, target)
        m = moments(x, y, None)
        total = squared_error(x, y, None, m.weight).sum()
        for kind in _CORRELATIONS.values():
            weight = [loss.weight if isinstance(loss.correlation, kind) else 0.0 for loss in self.losses]
            if any(weight):
                total = total + torch.dot(kind().terms(m) * m.defined, x.new_tensor(weight).repeat(len(self.seeds)))
        ours = [getattr(self.pools[v], "extrapolation", None) for v in self.attends]
        penalty = x.new_tensor([0.0 if one is None else one.penalty_weight for one in ours])
        return total + (penalty * (output.gamma - 1.0).square().mean(2)).sum()

    def model(self, group: int, variant: int) -> nn.ModuleDict:
        """The real modules of one model, with its parameters as they are now."""
        model = self.variants[variant].model(self.dim, self.seeds[group])
        with torch.no_grad():
            for name, members in self._keys.items():
                for position, (v, key) in enumerate(members):
                    if v == variant:
                        parameter = model.get_parameter(key)
                        parameter.copy_(self.stacked[name][group, position].view_as(parameter))
        return model

    def shorten(self, before: dict[str, Tensor], factor: Tensor) -> None:
        """Let each model go only ``factor`` (groups, variants) of the way from ``before`` to where it is now."""
        with torch.no_grad():
            for name, parameter in self.stacked.items():
                parameter.copy_(torch.lerp(before[name], parameter, self._of_models(name, factor)))

    def _of_models(self, name: str, values: Tensor) -> Tensor:
        """Of ``values`` (groups, variants) those of the models with parameter ``name``, in a shape that broadcasts."""
        own = values[:, [v for v, _ in self._keys[name]]]
        return own.view(own.shape + (1,) * (self.stacked[name].dim() - 2))

    def keep_where(self, better: Tensor, best: dict[str, Tensor]) -> None:
        """Copy into ``best`` the parameters of the models for which ``better`` (groups, variants) is True."""
        for name, parameter in self.stacked.items():
            best[name] = torch.where(self._of_models(name, better), parameter.detach(), best[name])

    def snapshot(self) -> dict[str, Tensor]:
        """A copy of all parameters."""
        return {name: parameter.detach().clone() for name, parameter in self.stacked.items()}

    def restore(self, values: dict[str, Tensor]) -> None:
        """Set all parameters, as :meth:`snapshot` gave them."""
        with torch.no_grad():
            for name, value in values.items():
                self.stacked[name].copy_(value)


class _Family(NamedTuple):
    """Variants whose gain or temperature has one formula."""

    name: str
    kind: str
    members: list[int]


def _part(pool: nn.Module, kind: str) -> nn.Module | None:
    """The gain or the temperature of a pool; None: it is 1."""
    return getattr(getattr(pool, "extrapolation", None), kind, None)


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
