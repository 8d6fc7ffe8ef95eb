"""What accumulate_backward must equal: every micro-batch with its graph kept, one loss over all, one backward."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from excora.reduce import Penalty


def one_backward(
    forward: Callable[[Any], dict[str, Any]], loss: Callable[..., Tensor], batches: Iterable[Any]
) -> Tensor:
    """All graphs at once, random numbers drawn micro-batch after micro-batch: obvious, and as large as the batch."""
    outputs = [forward(batch) for batch in batches]
    arguments = {}
    for key, first in outputs[0].items():
        parts = [output[key] for output in outputs]
        if isinstance(first, Penalty):
            arguments[key] = Penalty(sum(part.sum for part in parts), sum(part.count for part in parts))
        elif isinstance(first, list):
            arguments[key] = [
                Penalty(sum(part[i].sum for part in parts), sum(part[i].count for part in parts))
                for i in range(len(first))
            ]
        else:
            arguments[key] = torch.cat(parts)
    value = loss(**arguments)
    value.backward()
    return value.detach()
