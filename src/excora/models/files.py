"""Networks in files: options, what a network learned of its shape, and its tensors may all come from a stranger."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from excora.data.dataset import Spec
from excora.errors import InputError, MissingExtraError
from excora.models.base import Model, Network, models, seeded
from excora.models.parts.start import LinearStart
from excora.storage import write_atomically


def restore(model: str, spec: Spec, options: Any, learned: Any, tensors: Mapping[str, Tensor]) -> Network:
    """The network that ``tensors`` are of, in eval mode, where ``learned`` is what its :attr:`Network.learned` was.

    What does not fit together is an :class:`InputError`, found before memory is taken for it.
    """
    kind = models[model]
    kind.check(spec, options)
    tensors = kind.renewed(options, tensors)
    kind.check_learned(learned, spec, options, tensors)
    started = any(name.startswith("linear_start.") for name in tensors)
    try:
        with torch.device("meta"), seeded(0):
            shape = _network(kind, spec, options, learned, started=started).state_dict()
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
        network = _network(kind, spec, options, learned, started=started)
    network.load_state_dict(tensors)
    if isinstance(network.linear_start, LinearStart):
        network.linear_start.check()
    return network.eval()


def _network(kind: Model, spec: Spec, options: Any, learned: Any, *, started: bool) -> Network:
    network = kind.network(spec, options, learned)
    network.linear_start = LinearStart(spec) if started else None
    return network


def check_depth(layers: int, tensors: Mapping[str, Tensor]) -> None:
    """Raise where a file asks for more layers than it has tensors: they would take time and memory to make."""
    if layers > len(tensors):
        raise InputError(f"{layers} layers need more than the {len(tensors)} tensors in the file")


def write_weights(path: Path, network: Network) -> None:
    """The network's tensors as safetensors; equal tensors give equal bytes."""
    write_atomically(path, _safetensors().save({name: t.contiguous() for name, t in network.state_dict().items()}))


def read_weights(path: Path, model: str, spec: Spec, options: Any, learned: Any) -> Network:
    """The network with the tensors of the file, in eval mode; other names, shapes or types are an InputError.

    ``learned`` is what :attr:`Network.learned` was.
    """
    try:
        tensors: dict[str, Tensor] = _safetensors().load(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"{path}: there are no weights; a run that has not ended can be resumed (--resume)") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except Exception as error:  # safetensors has errors of its own for every way a file can be broken
        raise InputError(f"{path}: this is not a whole safetensors file: {error}") from None
    try:
        return restore(model, spec, options, learned, tensors)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ModuleNotFoundError as error:
        raise MissingExtraError("safetensors", "app") from error
    return safetensors.torch
