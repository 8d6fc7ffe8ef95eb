"""Pools of other packages with extrapolation: subclasses made on demand, so that importing this needs none of them."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import torch
from torch import Tensor, nn

from excora.pooling import ECAPool


class _HostScorer(nn.Module):
    """The logits of a torchmil pool, from its own layers. It holds the pool unregistered: no key is there twice."""

    def __init__(self, host: nn.Module) -> None:
        super().__init__()
        self.host: tuple[Any] = (host,)

    def forward(self, h: Tensor) -> Tensor:
        """(bags, elements, width) to (bags, elements, 1)."""
        (host,) = self.host
        hidden = host.act_layer(host.fc1(h))
        return host.fc2(hidden * host.act_gated(host.fc_gated(h)) if host.gated else hidden)


@functools.cache
def extrapolative_attention_pool() -> type[nn.Module]:
    """torchmil's AttentionPool with the pooling of ECAPool; made on demand, because torchmil is optional."""
    base: Any = importlib.import_module("torchmil.nn.attention").AttentionPool

    class ExtrapolativeAttentionPool(base):
        """As torchmil's AttentionPool, in call and result; an empty bag gives zeros, the logits of padding are f(0)."""

        last_penalty = last_details = None

        def _install(self, **options: Any) -> None:
            pool = ECAPool(self.fc1.module.in_features, scorer=_HostScorer(self), **options)
            pool.requires_grad_(any(p.requires_grad for p in self.parameters()))
            self.extrapolation = pool.to(self.fc2.weight).train(self.training)

        def forward(self, X: Tensor, mask: Tensor | None = None, return_att: bool = False) -> Any:
            """z, or (z, logits) with ``return_att``."""
            pooled = self.extrapolation(X, None if mask is None else mask != 0)
            if not torch.compiler.is_exporting():
                self.last_penalty = pooled.penalty
                self.last_details = {name: x.detach() for name, x in pooled.details.items()}
            return (pooled.value, pooled.details["logits"]) if return_att else pooled.value

        def __getstate__(self) -> dict[str, Any]:
            return {name: x for name, x in vars(self).items() if name not in ("last_penalty", "last_details")}

        def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
            new = {f"{prefix}extrapolation.{name}": p for name, p in self.extrapolation.named_parameters()}
            if prefix + "fc2.weight" in state_dict and not any(name in state_dict for name in new):
                for name, p in new.items():  # an old checkpoint: gamma and temperature from their start
                    state_dict[name] = p.detach().clone() if ".hidden." in name else torch.zeros_like(p)
            super()._load_from_state_dict(state_dict, prefix, *rest)

    ExtrapolativeAttentionPool.__qualname__ = "ExtrapolativeAttentionPool"
    return ExtrapolativeAttentionPool


def __getattr__(name: str) -> Any:
    if name == "ExtrapolativeAttentionPool":  # how pickle finds the class
        return extrapolative_attention_pool()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
