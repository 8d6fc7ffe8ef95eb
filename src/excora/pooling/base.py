"""The pool door: the call and the result that every pool has, the registry, and what several pools share.

A pool is one file with a subclass of :class:`Pool` under :func:`register_pool`; every model that pools has it then, and
so have ``--pool NAME``, compare and the monitor.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from excora.errors import InputError
from excora.functional import at_least_float32, check_bags
from excora.ragged import Ragged
from excora.reduce import Penalty
from excora.registry import Registry


class Pooled(NamedTuple):
    """What a pool returns, whatever its kind."""

    value: Tensor  #: the pooled embedding, (bags, width of the pool), in the dtype of the input
    weights: Tensor  #: attention weights, differentiable: (bags, elements), or (total,) for a :class:`Ragged`
    penalty: Penalty  #: the pool's regulariser as (sum, count), see :class:`excora.JointLoss`
    details: dict[str, Tensor]  #: what a monitor reads: gamma, temperature, dispersion, logits
    real: Tensor | None = None  #: the mask that was given, or the lengths of a :class:`Ragged`; None: all are real
    attends: bool = True  #: whether what an element is decides its weight; of a mean, say, it does not

    @property
    def effective(self) -> Tensor:
        """The linear weight of each element in the value, which may be negative: value = sum_i effective_i h_i.

        (1 - gamma) / n + gamma alpha_i with a gain, the weights themselves without one, and what a pool of another
        kind has put into ``details["effective"]``. In the layout of the weights.

        >>> from excora import SoftmaxPool
        >>> pooled = SoftmaxPool(4)(torch.randn(2, 3, 4))
        >>> pooled.effective is pooled.weights
        True
        """
        if "effective" in self.details:
            return self.details["effective"]
        gamma = self.details.get("gamma")
        if gamma is None:
            return self.weights
        if self.weights.dim() == 2:
            ones = torch.ones_like(self.weights) if self.real is None else self.real.to(self.weights.dtype)
            share, gain = ones / ones.sum(1, keepdim=True).clamp_min(1.0), gamma.unsqueeze(1)
        else:
            assert self.real is not None
            lengths = self.real.to(gamma.device)
            even = lengths.clamp_min(1).to(gamma.dtype).reciprocal()  # 1 / lengths would be of single precision
            share, gain = (torch.repeat_interleave(x, lengths) for x in (even, gamma))
        return torch.lerp(share.to(self.weights.dtype), self.weights, gain.to(self.weights.dtype))


class Pool(nn.Module):
    """Base of the pools: ``pool(h, mask=None)`` with h (bags, elements, dim) or a :class:`Ragged` in place of both."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        if dim < 1:
            raise InputError(f"dim must be a positive width of the elements, got {dim}")
        self.dim = dim

    @property
    def width(self) -> int:
        """Of the value."""
        return self.dim

    def check(self, h: Tensor | Ragged, mask: Tensor | None) -> None:
        """Raise unless the input is a batch of bags of this pool's width, as a padded tensor or a ragged batch."""
        if isinstance(h, Ragged):
            if mask is not None:
                raise InputError("a Ragged carries its lengths: pass no mask with it")
            if h.values.dim() != 2 or not h.values.is_floating_point():
                raise InputError(
                    f"the values of a Ragged must be floating of shape (total, {self.dim}), "
                    f"got {h.values.dtype} of shape {tuple(h.values.shape)}"
                )
            width = h.values.shape[1]
        else:
            check_bags(h, mask)
            width = h.shape[-1]
        if width != self.dim:
            raise InputError(f"this pool was made for elements of width {self.dim}, got {width}")

    def __call__(self, h: Tensor | Ragged, mask: Tensor | None = None) -> Pooled:
        """Pool each bag."""
        return super().__call__(h, mask)

    def extra_repr(self) -> str:
        """The width, in ``print(pool)``."""
        return f"dim={self.dim}"


class Entry(NamedTuple):
    """What the registry knows of a pool."""

    make: Callable[..., Pool]  #: from the width and the pool's own options
    label: str  #: in tables and figures
    convex: bool  #: whether its effective weights are at least 0 and sum to 1, so that the value stays in the hull
    usual: bool = True  #: whether it takes part in a comparison that names no pools
    ordered: bool = False  #: whether the order of the elements counts; a bag of most pools is a set

    def takes(self, option: str) -> bool:
        """Whether the pool has such an option."""
        return option in inspect.signature(self.make).parameters


pools: Registry[Entry] = Registry("pool", home="excora.pooling")
M = TypeVar("M", bound=Callable[..., Pool])


def register_pool(
    name: str, *, convex: bool, label: str | None = None, usual: bool = True, ordered: bool = False
) -> Callable[[M], M]:
    """Put a class of pools, or a function that makes one, behind ``name``."""

    def register(make: M) -> M:
        pools.register(name, Entry(make, label or name, convex, usual, ordered))
        return make

    return register


def make_pool(name: str, dim: int, **options: Any) -> Pool:
    """The pool of a name, for elements of width ``dim``; the bias of its scorer is not trained.

    That bias moves all logits of a bag alike, which a softmax does not see: its gradient is rounding noise, and Adam
    would turn noise into steps of full length.

    >>> make_pool("softmax", 4).scorer.bias.requires_grad
    False
    """
    pool = pools[name].make(dim, **options)
    for head in (module for module in pool.modules() if isinstance(module, Pool)):
        scorer = getattr(head, "scorer", None)
        last = getattr(scorer, "out", scorer)  # a gated scorer ends in a linear layer of that name
        if isinstance(last, nn.Module) and isinstance(bias := getattr(last, "bias", None), nn.Parameter):
            bias.requires_grad_(False)
    return pool


def score(scorer: nn.Module, h: Tensor) -> Tensor:
    """The scorer's logits, one per element, in float32 or better; (..., 1) and (...) are both fine."""
    logits = at_least_float32(scorer(h))
    logits = logits.squeeze(-1) if logits.dim() == h.dim() else logits
    if logits.shape != h.shape[:-1]:
        raise InputError(
            f"a scorer must give one logit per element, shape {tuple(h.shape[:-1])} or {(*h.shape[:-1], 1)}, "
            f"got {tuple(logits.shape)} from {type(scorer).__name__}"
        )
    return logits


def check_dropout(p: float) -> None:
    """Raise unless ``p`` is a probability of dropping an attention weight."""
    if not 0.0 <= p < 1.0:
        raise InputError(f"dropout must be in [0, 1), got {p}")


def attention_dropout(h: Tensor | Ragged, mask: Tensor | None, p: float) -> Tensor | None:
    """Which elements stay in the softmax, one boolean per element; None when none is dropped.

    Dropping weights and dividing by what is left is a softmax over the kept elements, so that is how it is done.
    A bag that would lose all its elements keeps them all.
    """
    if p == 0.0:
        return None
    if isinstance(h, Ragged):
        keep = torch.rand(h.values.shape[0], device=h.values.device) >= p
        bag = h.bag_index()
        kept = torch.zeros(len(h), device=bag.device).index_add(0, bag, keep.float())
        return keep | (kept == 0)[bag]
    keep = torch.rand(h.shape[:2], device=h.device) >= p
    kept_any = (keep if mask is None else keep & mask).any(1, keepdim=True)
    return keep | ~kept_any


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Groups for an optimiser that keep weight decay off gamma and temperature: decay would pull them off their start.

    Likewise off what a module names by a method ``decay_free``.

    >>> from excora import ECAPool
    >>> optimizer = torch.optim.AdamW(parameter_groups(ECAPool(8), weight_decay=0.01))
    >>> [group["weight_decay"] for group in optimizer.param_groups]
    [0.01, 0.0]
    """
    methods = ("extrapolation_parameters", "decay_free")
    found = (getattr(module, method, None) for module in model.modules() for method in methods)
    ours = {id(parameter): parameter for named in found if callable(named) for parameter in named()}
    rest = [parameter for parameter in model.parameters() if id(parameter) not in ours]
    groups = [{"params": rest, "weight_decay": weight_decay}, {"params": list(ours.values()), "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]
