"""Parts of the models of spots: what a spot is a bag of, attention over what is left of exemplars' labels, checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from excora.data.dataset import Inputs
from excora.errors import InputError
from excora.models.parts.exemplars import Exemplars
from excora.models.parts.pairs import DistanceScorer
from excora.pooling import Pooled, make_pool, pools
from excora.ragged import Ragged


class Part(NamedTuple):
    """Elements of one kind, (n, elements, width), and which of them are real (n, elements); None: all are."""

    elements: Tensor
    real: Tensor | None = None


def parted(inputs: Inputs) -> tuple[Part, Part]:
    """The spot's own elements and its neighbours, each with its distance from the spot as one more channel.

    >>> x, places = torch.tensor([[[5.0], [6.0], [7.0]]]), torch.tensor([[[0.0, 0.0], [0.0, 1.0], [3.0, 4.0]]])
    >>> own, around = parted({"elements": x, "places": places, "own": torch.tensor([1])})
    >>> own.elements.tolist(), around.elements.tolist()
    ([[[5.0, 0.0]]], [[[6.0, 1.0], [7.0, 5.0]]])
    """
    x, places, own = inputs["elements"], inputs["places"], inputs["own"]
    real = None
    if isinstance(x, Ragged):
        x, real = x.pad()
        places = places.pad()[0] if isinstance(places, Ragged) else places
    assert isinstance(places, Tensor)
    assert isinstance(own, Tensor)
    h = torch.cat([x, torch.linalg.vector_norm(places, dim=-1, keepdim=True).to(x.dtype)], -1)
    first = int(own[0]) if len(own) else 0
    if real is None and bool((own == first).all()):
        return Part(h[:, :first]), Part(h[:, first:])
    mine = torch.arange(h.shape[1], device=h.device) < own.to(h.device).unsqueeze(1)
    there = torch.ones_like(mine) if real is None else real
    most = int(own.max())
    return Part(h[:, :most], (mine & there)[:, :most]), Part(h, ~mine & there)


class ExemplarAttention(nn.Module):
    """gain_t * sum_j alpha_j r_jt, alpha by the distance of keys: attention over what is left of exemplars' labels.

    The element of exemplar j is [W p - W p_j, r_j], its logit -||W p - W p_j||^2; ``pool`` may be any. ``gain``, one a
    target, starts at 0.
    """

    def __init__(self, width: int, targets: int, keys: int, pool: str) -> None:
        super().__init__()
        self.keys, self.gain = keys, nn.Parameter(torch.zeros(targets))
        self.key = nn.Linear(width, keys, bias=False)
        # Standardised features of two spots differ by about sqrt(2 width): a median logit of about -1 at first.
        nn.init.normal_(self.key.weight, std=(2.0 * width * keys) ** -0.5)
        ways: dict[str, Any] = {"scorer": DistanceScorer(keys), "keys": keys}
        self.pool = make_pool(pool, keys + targets, **{name: x for name, x in ways.items() if pools[pool].takes(name)})

    def forward(self, inputs: Inputs) -> tuple[Tensor, Pooled]:
        """(n, targets), and how the exemplars were weighed."""
        feature, theirs, left = (inputs[name] for name in ("feature", "exemplar_features", "exemplar_targets"))
        assert isinstance(feature, Tensor)
        assert isinstance(left, Tensor)
        h = torch.cat([self.key(feature).unsqueeze(1) - self.key(theirs), left], -1)
        real: Any = inputs["exemplar_mask"]
        pooled = self.pool(h, None if bool(real.all()) else real)
        return self.gain * pooled.value[:, self.keys :], pooled


def carried(bank: Exemplars) -> str:
    """What of the training data travels with a network that looks at exemplars, in words."""
    size = sum(t.numel() * t.element_size() for t in bank.buffers()) / 1e6
    return (
        f"the model carries the features and the expression of its {len(bank.target)} training spots ({size:.3g} MB), "
        "among which it looks up exemplars: who has its file can read them"
    )


def without_spots(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What a network knows, without the training spots: how exemplars are re-ranked is knowledge, who they are not.

    >>> sorted(without_spots({"bank.slide": torch.zeros(2), "bank.scale": torch.ones(()), "head.bias": torch.ones(1)}))
    ['bank.scale', 'head.bias']
    """
    own = ("bank.feature", "bank.target", "bank.slide")
    return {name: t for name, t in state.items() if not name.startswith(own)}


def check_counts(learned: Any, names: Sequence[str], model: str) -> None:
    """Raise unless a stranger's ``learned`` is whole numbers above 0 of these names."""
    fine = isinstance(learned, dict) and set(learned) == {*names}
    if not fine or not all(type(n) is int and 1 <= n < 2**31 for n in learned.values()):
        raise InputError(f"what a {model} network learned must be {' and '.join(names)}, got {learned!r}")


def check_bank(tensors: Mapping[str, Tensor]) -> None:
    """Raise unless the training spots in a stranger's file are numbers."""
    broken = [name for name, t in tensors.items() if name.startswith("bank.") and not bool(t.isfinite().all())]
    if broken:
        raise InputError(f"the training spots are damaged in {', '.join(broken)}")
