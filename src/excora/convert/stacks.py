"""Which attention layers are the last ones: those whose output is what the head of a model reads."""

from __future__ import annotations

import re
from collections.abc import Collection

from torch import nn


def last_of_each_stack(module: nn.Module, attends: Collection[nn.Module]) -> list[nn.Module]:
    """Of the layers ``attends``, the last of each stack, in the order in which ``module`` registers its children.

    - Children that are numbered alike (``blocks.0``, ``blocks.1``; ``layer1``, ``layer2``) and the children of an
      nn.Sequential are a stack: one layer, the last, of the last child that has any.
    - Where an attention layer is itself a child, it and the children beside it are one sequence: the last counts. So a
      pool stands for the encoder before it.
    - Other children are side by side, each with its own last: encoder and decoder, the towers of a CLIP.

    >>> model = nn.Transformer(8, 2, 2, 2, 8, batch_first=True)
    >>> layers = [m for m in model.modules() if isinstance(m, nn.MultiheadAttention)]
    >>> names = {m: name for name, m in model.named_modules()}
    >>> [names[m] for m in last_of_each_stack(model, layers)]
    ['encoder.layers.1.self_attn', 'decoder.layers.1.multihead_attn']
    """
    if module in attends:
        return [module]
    children = list(module.named_children())
    sequence = isinstance(module, nn.Sequential) or any(child in attends for _, child in children)
    stacks: dict[str, list[nn.Module]] = {}
    for name, child in children:
        if found := last_of_each_stack(child, attends):
            stack = "" if sequence else re.sub(r"\d+", "#", name)
            stacks[stack] = found[-1:] if sequence or "#" in stack else found
    return list(dict.fromkeys(layer for found in stacks.values() for layer in found))
