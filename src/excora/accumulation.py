"""The gradient of one large batch from micro-batches, exactly, in two passes.

A correlation is not a mean over samples: the mean of the micro-batches' correlations is not that of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from excora.errors import InputError
from excora.reduce import Penalty

Outputs = Mapping[str, Any]  # keyword arguments of a loss
#: Those that have a row a sample and through which gradients flow.
_ROWS = ("prediction", "compared")


def accumulate_backward(
    model: nn.Module, forward: Callable[[Any], Outputs], loss: Callable[..., Tensor], batches: Iterable[Any]
) -> Tensor:
    """Add to ``.grad`` the gradient of ``loss`` over all ``batches`` together, with the memory of one; return the loss.

    The gradient is that of one large batch, dL/dtheta = sum_k (dL/dyhat_k)(dyhat_k/dtheta), in two passes:
    predictions without a graph, dL/dyhat of the whole, then each micro-batch again with a graph for its own slice.

    - ``forward(batch)`` returns a mapping of the keyword arguments of ``loss``: ``prediction``, ``target`` and what
      else it takes. ``penalty``, if there, is a :class:`Penalty` or several and is summed; every other tensor has the
      micro-batch's samples on its first axis and is concatenated. Gradients flow through prediction, ``compared`` (what
      else a loss compares between samples) and penalty sums.
    - Micro-batches may differ in size; one sample and a fully masked one are fine. A ``forward`` that gives another
      prediction the second time raises :class:`InputError`, as its gradient would be wrong; clear the gradients then.
    - Random state (CPU and the devices of ``model``) is replayed per micro-batch, so dropout is the same in both
      passes. Buffers of ``model`` return to their start before the second pass and so end updated once.
    - Under DistributedDataParallel give ``model`` the wrapper and call it in ``forward``: gradients travel once, with
      the last micro-batch. Each rank has its own number of micro-batches, at least one.

    Cost: one extra forward without a graph; memory of one micro-batch's graph, plus the inputs and all predictions.

    >>> model = nn.Linear(1, 1, bias=False)
    >>> batches = [torch.tensor([[1.0], [2.0]]), torch.tensor([[4.0]])]
    >>> def forward(batch):
    ...     return {"prediction": model(batch), "target": batch}
    >>> def variance_ratio(prediction, target):
    ...     return prediction.var() / target.var()
    >>> value = accumulate_backward(model, forward, variance_ratio, batches)
    >>> torch.allclose(model.weight.grad, 2 * model.weight.detach())
    True
    """
    batches = list(batches)
    if not batches:
        raise InputError("accumulate_backward needs at least one micro-batch on every rank, got none")
    replay = _Replay(model)
    outputs = []
    with torch.no_grad():
        for batch in batches:
            replay.record()
            output = _checked(forward(batch))
            # A clone: a prediction that is a view would keep its whole base alive.
            outputs.append({**output, "prediction": output["prediction"].clone()})
    replay.record()
    replay.rewind()  # before the loss, whose own buffers count this call and may be part of the model
    value, grads = _differentiate(loss, outputs)
    tolerance = _tolerance(torch.cat([output["prediction"] for output in outputs]))
    for k, batch in enumerate(batches):
        replay.restore(k)
        with replay.communication(last=k == len(batches) - 1), torch.enable_grad():
            output = _checked(forward(batch))
            _check_replayed(output["prediction"], outputs[k]["prediction"], tolerance)
            _backward(output, grads[k])
    replay.restore(len(batches))
    return value


class _Replay:
    """What the second pass must find as the first one did: random state, buffers, DDP's pending buffer broadcast."""

    def __init__(self, model: nn.Module) -> None:
        devices = {t.device for t in [*model.parameters(), *model.buffers()] if t.device.type not in ("cpu", "meta")}
        self.generators = [_generator(device) for device in [torch.device("cpu"), *devices]]
        self.states: list[list[Tensor]] = []
        # A layer may replace its buffer by a new tensor: the tensor itself is kept beside a copy of its content.
        self.buffers = [
            (module, name, buffer, buffer.detach().clone())
            for module in model.modules()
            for name, buffer in module.named_buffers(recurse=False)
        ]
        ddp = [module for module in model.modules() if isinstance(module, DistributedDataParallel)]
        self.wrappers = [(wrapper, wrapper.require_forward_param_sync) for wrapper in ddp]

    def record(self) -> None:
        """Append the random state of now."""
        self.states.append([read() for read, _ in self.generators])

    def restore(self, k: int) -> None:
        """Put the k-th recorded random state back."""
        for (_, write), state in zip(self.generators, self.states[k], strict=True):
            write(state)

    @torch.no_grad()
    def rewind(self) -> None:
        """Put everything but the random state back where it was before the first pass."""
        for module, name, buffer, content in self.buffers:
            setattr(module, name, buffer.copy_(content))
        for wrapper, pending in self.wrappers:
            wrapper.require_forward_param_sync = pending
        # Torch with issue 158232 would reuse pass 1's autocast casts, which carry no graph: weights without a gradient.
        torch.clear_autocast_cache()

    def communication(self, *, last: bool) -> ExitStack:
        """The context of one micro-batch: DDP holds its all-reduce back until the last one."""
        stack = ExitStack()
        for wrapper, _ in [] if last else self.wrappers:
            stack.enter_context(wrapper.no_sync())
        return stack


def _generator(device: torch.device) -> tuple[Callable[[], Tensor], Callable[[Tensor], None]]:
    """Reader and writer of a device's random state."""
    if device.type == "cpu":
        return torch.get_rng_state, torch.set_rng_state
    module = torch.get_device_module(device)
    if device.type == "mps":  # one generator, whose functions take no device
        return module.get_rng_state, module.set_rng_state
    return partial(module.get_rng_state, device), partial(module.set_rng_state, device=device)


def _checked(output: Outputs) -> Outputs:
    """Refuse what cannot be concatenated over micro-batches."""
    prediction = output.get("prediction") if isinstance(output, Mapping) else None
    if not isinstance(prediction, Tensor) or prediction.dim() == 0:
        raise InputError(
            "forward must return a mapping of the loss's keyword arguments with a tensor 'prediction' that has samples "
            f"on its first axis, got {type(output).__name__} with prediction {prediction!r}"
        )
    for key, value in output.items():
        per_sample = isinstance(value, Tensor) and value.dim() > 0 and len(value) == len(prediction)
        if not (value is None or (isinstance(value, Sequence) if key == "penalty" else per_sample)):
            raise InputError(
                f"forward's {key!r} must be a tensor with the {len(prediction)} samples of 'prediction' on its first "
                f"axis, or None ('penalty': a Penalty or several), got {value!r}; bind constants into the loss instead"
            )
    return output


def _merge(outputs: Sequence[Outputs]) -> dict[str, Any]:
    """One set of keyword arguments from those of the micro-batches: tensors concatenated, penalties summed."""
    kinds = [{key: type(value).__name__ for key, value in output.items()} for output in outputs]
    if any(kind != kinds[0] for kind in kinds):
        raise InputError(f"forward must return the same keys and types for every micro-batch, got {kinds}")
    return {
        key: None if first is None else (_added if key == "penalty" else torch.cat)([output[key] for output in outputs])
        for key, first in outputs[0].items()
    }


def _added(parts: Sequence[Any]) -> Any:
    """The micro-batches' penalties added up; several penalties entry by entry."""
    if parts[0] and isinstance(parts[0][0], Tensor):
        return Penalty(*(torch.stack(part).sum(0) for part in zip(*parts, strict=True)))
    return [_added(entry) for entry in zip(*parts, strict=True)]


def _differentiate(loss: Callable[..., Tensor], outputs: Sequence[Outputs]) -> tuple[Tensor, list[list[Tensor]]]:
    """The loss of all micro-batches, and for each one the gradients for its :func:`_roots`."""
    arguments = _merge(outputs)
    leaves = [root.requires_grad_() for root in _roots(arguments)]
    with torch.enable_grad():
        value = loss(**arguments)
    if not value.requires_grad:
        raise InputError("loss must depend on the prediction by differentiable operations, got a constant")
    grads = torch.autograd.grad(value, leaves, allow_unused=True, materialize_grads=True)
    rows = len(_rows(arguments))
    sizes = [len(output["prediction"]) for output in outputs]
    own = zip(*(grad.split(sizes) for grad in grads[:rows]), strict=True)
    return value.detach(), [[*part, *grads[rows:]] for part in own]


def _rows(output: Outputs) -> list[Tensor]:
    return [output[name] for name in _ROWS if output.get(name) is not None]


def _roots(output: Outputs) -> list[Tensor]:
    """Through what the loss reaches the model: the prediction and what is compared, then the sums of the penalties."""
    penalty = output.get("penalty") or ()
    several = [penalty] if penalty and isinstance(penalty[0], Tensor) else penalty
    return [*_rows(output), *(pair[0] for pair in several)]


def _tolerance(prediction: Tensor) -> Tensor:
    """How far a replayed prediction may lie off, per target: what rounding explains, against spread and size."""
    if prediction.numel() == 0:
        return prediction.new_zeros(())
    eps = torch.finfo(prediction.dtype).eps
    prediction = prediction.detach().nan_to_num(0.0, 0.0, 0.0)
    spread = prediction.amax(0) - prediction.amin(0)
    return eps**0.5 * spread + 64 * eps * prediction.abs().amax(0)


def _check_replayed(prediction: Tensor, first: Tensor, tolerance: Tensor) -> None:
    if prediction.shape == first.shape:
        close = (prediction - first).abs() <= tolerance
        if bool((close | (prediction == first) | (prediction.isnan() & first.isnan())).all()):
            return
    raise InputError(
        "forward must give the same prediction for a micro-batch in both passes, got another one the second time: "
        "its gradient would be wrong. State that is neither a buffer of `model` nor torch's global random state "
        "(an own torch.Generator, numpy's or Python's random, a counter, a batch changed in place) must not reach it"
    )


def _backward(output: Outputs, grads: Sequence[Tensor]) -> None:
    if not output["prediction"].requires_grad:
        raise InputError("prediction must depend on parameters that require a gradient, got one that does not")
    # A penalty may well be constant: that of a plain pool is zero.
    pairs = [(root, grad) for root, grad in zip(_roots(output), grads, strict=True) if root.requires_grad]
    torch.autograd.backward([root for root, _ in pairs], [grad for _, grad in pairs])
