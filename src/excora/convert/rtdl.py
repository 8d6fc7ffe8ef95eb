"""rtdl_revisiting_models: the attention of FTTransformer, with or without Linformer's compression of the keys."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from excora.convert.adapter import Adapter, Converted, judge_class, swap
from excora.convert.hosted import Options

_ATTENTION = "rtdl_revisiting_models.MultiheadAttention"


class _Attention(Converted):
    """What rtdl's layer computes, by fused attention. Compressed keys are the keys that are attended to."""

    W_q: nn.Module
    W_k: nn.Module
    W_v: nn.Module
    W_out: nn.Module | None
    dropout: nn.Dropout | None
    key_compression: nn.Module | None
    value_compression: nn.Module | None
    _n_heads: int
    extrapolation: Any
    training: bool

    def forward(self, x_q: Tensor, x_kv: Tensor) -> Tensor:
        """(bags, queries, width) and (bags, keys, width) to (bags, queries, width)."""
        q, k, v = self.W_q(x_q), self.W_k(x_kv), self.W_v(x_kv)
        if self.key_compression is not None:
            compress_values = self.key_compression if self.value_compression is None else self.value_compression
            k = self.key_compression(k.transpose(1, 2)).transpose(1, 2)
            v = compress_values(v.transpose(1, 2)).transpose(1, 2)
        q, k, v = (x.unflatten(-1, (self._n_heads, -1)).transpose(1, 2) for x in (q, k, v))
        dropout = self.dropout.p if self.dropout is not None and self.training else 0.0
        output = self.extrapolation(q, k, v, dropout=dropout).output.transpose(1, 2).flatten(2)
        return output if self.W_out is None else self.W_out(output)


def _install(module: Any, options: Options) -> None:
    swap(module, _Attention, module.W_v.out_features // module._n_heads, module._n_heads, options)


ADAPTER = Adapter("rtdl's MultiheadAttention", lambda module: judge_class(module, _ATTENTION), _install)
