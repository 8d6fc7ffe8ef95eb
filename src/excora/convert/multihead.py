"""torch's own nn.MultiheadAttention, inside nn.TransformerEncoder and Decoder too."""

from __future__ import annotations

from torch import nn

from excora.attention import ExtrapolativeAttention
from excora.convert.adapter import Adapter, judge_class, path_of
from excora.convert.hosted import Options


def _judge(module: nn.Module) -> str | None:
    return judge_class(module, path_of(nn.MultiheadAttention))


def _install(module: nn.Module, options: Options) -> None:
    module.__class__ = ExtrapolativeAttention
    module._install(**options)  # type: ignore[operator]


ADAPTER = Adapter("nn.MultiheadAttention (inside nn.TransformerEncoder and Decoder too)", _judge, _install)
