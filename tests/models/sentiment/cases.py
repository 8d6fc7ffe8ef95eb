"""Small batches of several modalities, and what every sentiment network is asked in its own tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from oracles.rows import randomised
from torch import Tensor

STREAMS = {"text": (6, 8), "audio": (3, 11), "vision": (4, 13)}
ALIGNED = {"text": (6, 8), "audio": (3, 8), "vision": (4, 8)}
#: The lengths and widths of MOSI as most people have it.
MOSI = {"text": (768, 50), "audio": (5, 375), "vision": (20, 500)}
MOSI_ALIGNED = {"text": (768, 50), "audio": (5, 50), "vision": (20, 50)}


def batch(
    streams: dict[str, tuple[int, int]] = STREAMS, n: int = 4, seed: int = 0, *, equal: bool = False
) -> dict[str, Tensor]:
    """Padded sequences in float64 of 1 to the longest length, and zeros behind the end; ``equal`` lengths of a clip."""
    generator = torch.Generator().manual_seed(seed)
    inputs, length = {}, None
    for name, (width, longest) in streams.items():
        if length is None or not equal:
            length = torch.randint(1, longest + 1, (n,), generator=generator)
            length[0] = longest
        values = torch.randn(n, longest, width, dtype=torch.float64, generator=generator)
        values[torch.arange(longest) >= length.unsqueeze(1)] = 0.0
        inputs |= {name: values, f"{name}_length": length}
    return inputs


def samples(inputs: dict[str, Tensor], *, whole: bool = False) -> list[dict[str, np.ndarray]]:
    """What an oracle reads: the real steps of each sample, or with ``whole`` the padding as well."""
    names = [name for name in inputs if not name.endswith("_length")]
    found = []
    for k in range(len(inputs[names[0]])):
        ends = {name: None if whole else int(inputs[f"{name}_length"][k]) for name in names}
        found.append({name: inputs[name][k, : ends[name]].numpy() for name in names})
    return found


def away(network: torch.nn.Module, std: float = 0.3) -> torch.nn.Module:
    """In float64 and away from its start, statistics of norms included."""
    torch.manual_seed(1)
    network = randomised(network.double(), std).eval()
    for name, buffer in network.named_buffers():
        if name.endswith(("variance", "running_var")):
            buffer.uniform_(0.5, 2.0)
        elif name.endswith(("mean", "running_mean")):
            buffer.normal_()
    return network


def weights(network: torch.nn.Module) -> dict[str, np.ndarray]:
    """For an oracle."""
    return {name: x.detach().numpy() for name, x in network.state_dict().items()}


def count(network: torch.nn.Module) -> int:
    """Of its parameters."""
    return sum(p.numel() for p in network.parameters())


def check_oracle(network: Any, oracle: Callable[..., Any], inputs: dict[str, Tensor], *, whole: bool = False) -> None:
    """The prediction of every sample equals the oracle's to 1e-10."""
    with torch.no_grad():
        found = network(inputs).prediction.numpy()
    p = weights(network)
    expected = np.stack([oracle(p, sample) for sample in samples(inputs, whole=whole)])
    assert found.std() > 1e-3, "all predictions alike prove nothing"
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def check_padding(network: Any, inputs: dict[str, Tensor]) -> None:
    """What stands behind the end of a sample, and how much, does not matter; nor do its neighbours."""
    with torch.no_grad():
        found = network(inputs).prediction
        other = dict(inputs)
        for name in (name for name in inputs if not name.endswith("_length")):
            real = torch.arange(inputs[name].shape[1]) < inputs[f"{name}_length"].unsqueeze(1)
            other[name] = torch.where(real.unsqueeze(2), inputs[name], 7.0)
        torch.testing.assert_close(network(other).prediction, found, rtol=1e-10, atol=1e-10)
        for k in range(len(found)):
            one = {name: x[k : k + 1] for name, x in inputs.items()}
            cut = one | {
                name: x[:, : int(one[f"{name}_length"])] for name, x in one.items() if not name.endswith("_length")
            }
            for alone in (one, cut):
                torch.testing.assert_close(network(alone).prediction, found[k : k + 1], rtol=1e-10, atol=1e-10)
