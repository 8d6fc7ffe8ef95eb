"""Exact statistics over ranks: the differentiable all-reduce, and penalties as sums and counts.

A correlation is not a mean over samples: the mean of the ranks' correlations is not the correlation of the batch. What
is additive (sums and counts) is reduced here, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from excora.errors import InputError
from excora.functional import is_exporting


def is_distributed() -> bool:
    """Whether there is anything to reduce over: torch.distributed runs with more than one rank.

    >>> is_distributed()
    False
    """
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


class _AllReduceSum(torch.autograd.Function):
    """y = sum_r x_r on every rank. Each rank's loss depends on every x_r, so dx_r = sum_q dy_q: the same operation."""

    @staticmethod
    def forward(_ctx: Any, x: Tensor) -> Tensor:
        total = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(_ctx: Any, grad: Tensor) -> Tensor:
        return _AllReduceSum.apply(grad)


def all_reduce_sum(t: Tensor) -> Tensor:
    """Sum of ``t`` over the ranks, differentiable to any order: y = sum_r t_r; same shape and dtype.

    The backward sums too, and scales by nothing: DistributedDataParallel's mean of the gradients then gives exactly
    the gradient of one process. Forward and backward are collective: every rank calls both, a rank without
    samples included, with tensors of one shape. One process gets ``t`` itself back.

    >>> all_reduce_sum(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    return _AllReduceSum.apply(t) if is_distributed() else t


def gathered(t: Tensor) -> Tensor:
    """The rows of all ranks, one rank after the other, differentiable as :func:`all_reduce_sum` is: (n, ...).

    For losses that compare the samples of a batch. Ranks may have different numbers of rows, or none. Collective.

    >>> gathered(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    if not is_distributed():
        return t
    counts = torch.zeros(dist.get_world_size(), dtype=torch.int64, device=t.device)
    counts[dist.get_rank()] = len(t)
    dist.all_reduce(counts)
    before, rows = int(counts[: dist.get_rank()].sum()), int(counts.sum())
    padding = (t.new_zeros(before, *t.shape[1:]), t.new_zeros(rows - before - len(t), *t.shape[1:]))
    return all_reduce_sum(torch.cat([padding[0], t, padding[1]]))


def all_reduce_max(t: Tensor) -> Tensor:
    """Elementwise maximum of ``t`` over the ranks, without gradient; same shape and dtype. Collective.

    >>> all_reduce_max(torch.tensor([1.0, 2.0], requires_grad=True))
    tensor([1., 2.])
    """
    t = t.detach()
    if is_distributed():
        t = t.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(t, op=dist.ReduceOp.MAX)
    return t


class Penalty(NamedTuple):
    """A regulariser as (sum, count): its value is sum / count, and both add up over ranks and micro-batches.

    Shapes: both () for one layer, both (layers,) from :func:`penalties`. ``count`` carries no gradient.

    >>> Penalty(sum=torch.tensor(3.0), count=torch.tensor(2.0)).count
    tensor(2.)
    """

    sum: Tensor
    count: Tensor  # type: ignore[assignment]  # tuple.count is of no use here


def penalties(model: nn.Module) -> Penalty:
    """What the layers of ``model`` kept in ``last_penalty`` in its last forward pass, stacked: (layers,) and (layers,).

    Attention layers and converted pools return what their host expects, so they keep their penalty for this function.
    Asking changes no penalty: ask as often as you like. A layer that the last call of ``model`` left out (layer drop)
    has sum 0 and a count that adds nothing, so that sum / count is 0 and all ranks have the same layers: each call
    begins with :func:`begin_afresh`, from the conversion on or, for a model with layers of its own, from the first
    time it is asked about. A module reachable twice counts once, with its last call; so does a penalty that two modules
    hold. Of a model without such layers the result has shape (0,), whose sum is zero. A layer that trains but ran
    without a graph raises :class:`InputError`: re-entrant checkpointing does that; the other kind,
    ``use_reentrant=False``, is exact.

    >>> layer = nn.Identity()
    >>> layer.last_penalty = Penalty(torch.tensor(3.0), torch.tensor(2.0))
    >>> penalties(nn.Sequential(layer, nn.ReLU(), layer))
    Penalty(sum=tensor([3.]), count=tensor([2.]))
    >>> penalties(nn.ReLU())
    Penalty(sum=tensor([]), count=tensor([]))
    """
    found = _found(model)
    if found and not torch.compiler.is_compiling():
        begin_afresh(model)
    device = next((p.device for p in model.parameters()), None)
    like = next((kept.sum for kept in found if kept is not None), torch.zeros((), device=device))
    nothing = Penalty(like.new_zeros(()), like.new_full((), torch.finfo(like.dtype).tiny))
    parts = [[part.to(like.device) for part in kept or nothing] for kept in found]
    stacked = (torch.stack(column) for column in zip(*parts, strict=True))
    return Penalty(*stacked) if parts else Penalty(like.new_zeros(0), like.new_zeros(0))


def _found(model: nn.Module) -> list[Penalty | None]:
    """The penalty of each layer of the last forward pass, None of one that was left out."""
    found: dict[int, Penalty | None] = {}
    for name, module in model.named_modules():
        if not _keeps(module):
            continue
        kept: Any = module.last_penalty
        if kept is not None:
            _check_graph(module, kept)
            found[id(kept)] = kept
        elif not name.endswith("original_module"):  # which PEFT keeps beside the copy that it calls
            found[id(module)] = None
    return list(found.values())


def _keeps(module: nn.Module) -> bool:
    """Whether it is a layer that keeps its penalty; not PEFT's wrapper, which shows that of the layer inside."""
    # By the class first, which a compiler takes as given.
    own = hasattr(type(module), "last_penalty") or "last_penalty" in vars(module)
    return own and getattr(module._modules.get("extrapolation", module), "gain", module) is not None


def _check_graph(module: nn.Module, penalty: Penalty) -> None:
    lost = module.training and torch.is_grad_enabled() and not penalty.sum.requires_grad
    if lost and any(p.requires_grad and ".gain." in f".{name}" for name, p in module.named_parameters()):
        raise InputError(
            f"the last penalty of {type(module).__name__} has no graph and would train nothing: checkpoint with "
            "use_reentrant=False; or, to read the number alone, call penalties under torch.no_grad()"
        )


def begin_afresh(model: nn.Module) -> Callable[[], None]:
    """Let each call of ``model`` forget the penalties of the one before; returns a function that takes it back.

    >>> layer = nn.Identity()
    >>> take_back = begin_afresh(layer)
    >>> layer.last_penalty = Penalty(torch.tensor(3.0), torch.tensor(2.0))
    >>> layer(torch.zeros(1)), layer.last_penalty
    (tensor([0.]), None)
    """
    if _forget in model._forward_pre_hooks.values():
        return lambda: None
    return model.register_forward_pre_hook(_forget).remove


def _forget(model: nn.Module, _inputs: Any) -> None:
    if is_exporting():
        return
    for module in model.modules():
        if _keeps(module):
            module.last_penalty = None  # type: ignore[assignment]
