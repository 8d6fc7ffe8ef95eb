"""A network from a file: its options, what it learned of its shape, and its tensors may all come from a stranger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from excora.data.dataset import Spec
from excora.errors import InputError
from excora.models.base import Network, models, seeded


def restore(model: str, spec: Spec, options: Any, learned: Any, tensors: Mapping[str, Tensor]) -> Network:
    """The network that ``tensors`` are of, in eval mode, where ``learned`` is what its :attr:`Network.learned` was.

    What does not fit together is an :class:`InputError`, found before memory is taken for it.
    """
    kind = models[model]
    kind.check(spec, options)
    tensors = kind.renewed(options, tensors)
    kind.check_learned(learned, spec, options, tensors)
    try:
        with torch.device("meta"), seeded(0):
            shape = kind.network(spec, options, learned).state_dict()
    except (RuntimeError, OverflowError, TypeError) as error:  # TypeError: a number beyond 64 bits
        first = str(error).splitlines()[0]
        raise InputError(f"the settings describe a network that no machine holds: {first}") from None
    expected = {name: (t.shape, t.dtype) for name, t in shape.items()}
    found = {name: (t.shape, t.dtype) for name, t in tensors.items()}
    if found != expected:
        differ = sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))
        raise InputError(f"these weights are of another model, they differ in {', '.join(differ[:5])}")
    kind.check_tensors(spec, tensors)
    with seeded(0):
        network = kind.network(spec, options, learned)
    network.load_state_dict(tensors)
    return network.eval()


def check_depth(layers: int, tensors: Mapping[str, Tensor]) -> None:
    """Raise where a file asks for more layers than it has tensors: they would take time and memory to make."""
    if layers > len(tensors):
        raise InputError(f"{layers} layers need more than the {len(tensors)} tensors in the file")
