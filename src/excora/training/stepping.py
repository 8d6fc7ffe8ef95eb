"""How a run steps: the learning rate of each step, the bound on its gradient, and the average of the weights."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from excora.data.dataset import Inputs
from excora.models import Network, Output
from excora.settings import Recipe

#: One in so many steps is of the warm-up of a cosine schedule.
WARM_UP = 20


def learning_rate(recipe: Recipe, step: int, steps: int) -> float:
    """The rate of step t of T in all, t from 0; of (recipe, t, T) alone, so that a resumed run meets the same ones.

    With W = ceil(T / 20) steps of warm-up and the peak eta = ``recipe.learning_rate``::

        constant  eta
        cosine    eta (t + 1) / W                              for t < W
                  eta (1 + cos(pi (t - W) / (T - W))) / 2      from then on: 0 would be the rate of step T

    >>> [round(learning_rate(Recipe(learning_rate=1, schedule="cosine"), t, 40), 3) for t in (0, 1, 2, 21, 39)]
    [0.5, 1.0, 1.0, 0.5, 0.002]

    A single step has the peak rate; T of 0 or t outside 0 ... T - 1 do not occur.
    """
    peak, warm = recipe.learning_rate, math.ceil(steps / WARM_UP)
    if recipe.schedule == "constant":
        return peak
    if step < warm:
        return peak * ((step + 1) / warm)
    return peak * (1 + math.cos(math.pi * (step - warm) / (steps - warm))) / 2


def slowed(groups: list[dict[str, Any]], some: set[int], factor: float) -> list[dict[str, Any]]:
    """Groups of parameters, those of the ids in ``some`` apart, with a factor on their step size.

    >>> one, other = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
    >>> [(len(group["params"]), group["factor"]) for group in slowed([{"params": [one, other]}], {id(one)}, 0.1)]
    [(1, 1.0), (1, 0.1)]
    """
    found = []
    for group in groups:
        for own, part in ((1.0, False), (factor, True)):
            chosen = [p for p in group["params"] if (id(p) in some) == part]
            found += [{**group, "params": chosen, "factor": own}] if chosen else []
    return found


def clip(network: nn.Module, bound: float) -> None:
    """Scale the gradients in place: g <- g min(1, bound / (||g|| + 1e-6)), the norm over all parameters.

    >>> layer = nn.Linear(1, 1, bias=False)
    >>> layer.weight.grad = torch.tensor([[-5.0]])
    >>> clip(layer, 1.0), layer.weight.grad
    (None, tensor([[-1.0000]]))

    A bound of 0 leaves them as they are; if one is not finite none will be, and training ends as diverged.
    """
    if bound:
        torch.nn.utils.clip_grad_norm_(network.parameters(), bound)


class Average:
    """The running average a of a network's trained weights w; its buffers are neither averaged nor copied.

    After step t, from 0::

        a <- d a + (1 - d) w,      d = min(decay, t / (t + 9))

    so a starts as the weights after the first step, and is a mean of about the last tenth of the steps until that is
    what ``decay`` asks for: nothing of the random start stays in it.

    >>> network = nn.Linear(1, 1, bias=False)
    >>> average = Average(network, 0.999)
    >>> for t, w in enumerate((1.0, 3.0)):
    ...     _ = nn.init.constant_(network.weight, w)
    ...     average.add(t)
    >>> average.state()["weight"]  # 0.1 x 1 + 0.9 x 3
    tensor([[2.8000]])
    """

    def __init__(self, network: Network, decay: float) -> None:
        named = {name: p for name, p in network.named_parameters() if p.requires_grad}
        self.network, self.decay, self.names = network, decay, [*named]
        self.parameters: list[Tensor] = [*named.values()]
        self.values = [p.detach().clone() for p in self.parameters]

    @torch.no_grad()
    def add(self, step: int) -> None:
        """Take in the weights after this step, in one pass over them."""
        keep = min(self.decay, step / (step + 9))
        torch._foreach_lerp_(self.values, self.parameters, 1 - keep)

    def __call__(self, inputs: Inputs) -> Output:
        """The network with the averaged weights; its own are left where they are, whatever interrupts it."""
        output: Output = functional_call(self.network, dict(zip(self.names, self.values, strict=True)), (inputs,))
        return output

    def named(self) -> dict[str, Tensor]:
        """The averages by name, for a checkpoint: "average of" and the weight's name."""
        return {f"average of {name}": value for name, value in zip(self.names, self.values, strict=True)}

    def state(self) -> dict[str, Tensor]:
        """The network's state dict with the averaged weights; weights that have two names have both."""
        averaged = dict(zip(map(id, self.parameters), self.values, strict=True))
        state = self.network.state_dict(keep_vars=True)
        return {name: averaged.get(id(value), value).detach() for name, value in state.items()}

    def load(self, named: dict[str, Tensor]) -> None:
        """Go on from what :meth:`named` gave, on the device where the weights are."""
        self.values = [value.to(p.device) for value, p in zip(named.values(), self.parameters, strict=True)]
