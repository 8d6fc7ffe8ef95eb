"""Weights that an earlier version wrote, as this one names and scales them.

0.1 had gain and temperature directly in the pool, numbers as scalars, and a linear scorer z = h.w + b; now they are in
``extrapolation``, numbers are vectors of one, and z = h.w / sqrt(dim) + b. The shape of a scorer's weight, (1, dim) or
(dim,), tells which of the two it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from torch import Tensor

_PARTS = re.compile(r"^(.*\bpool\.(?:varying\.)?)((?:gain|temperature)\.\w.*)$")


def renewed(tensors: Mapping[str, Tensor], *, scaled: bool) -> dict[str, Tensor]:
    """The same weights in today's form; ``scaled`` says whether the pool's scorer has a scale now.

    >>> import torch
    >>> old = {"pool.temperature.slope": torch.tensor(0.5), "pool.scorer.weight": torch.ones(1, 4)}
    >>> renewed(old, scaled=True)
    {'pool.extrapolation.temperature.slope': tensor([0.5000]), 'pool.scorer.weight': tensor([2., 2., 2., 2.])}
    """
    found = {}
    for name, tensor in tensors.items():
        new = _PARTS.sub(r"\1extrapolation.\2", name)
        if re.search(r"\.temperature\.(log_base|slope)$", new) and tensor.dim() == 0:
            found[new] = tensor.view(1)
        elif scaled and new.endswith("pool.scorer.weight") and tensor.dim() == 2:
            found[new] = tensor.squeeze(0) * math.sqrt(tensor.shape[1])
        else:
            found[new] = tensor
    return found
