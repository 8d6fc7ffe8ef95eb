"""torch's own nn.MultiheadAttention, with nn.TransformerEncoder and Decoder around it."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from excora.attention import ExtrapolativeAttention
from excora.convert.adapter import Adapter, judge_class, path_of
from excora.convert.hosted import Options


def _judge(module: nn.Module) -> str | None:
    return judge_class(module, path_of(nn.MultiheadAttention))


def _install(module: nn.Module, options: Options) -> None:
    module.__class__ = ExtrapolativeAttention
    module._install(**options)  # type: ignore[operator]


def _refuse_nested_tensors(model: nn.Module, layers: list[nn.Module]) -> Callable[[], None]:
    """An nn.TransformerEncoder in eval would hand a padded batch on as a nested tensor, past the converted layers."""
    ours = set(layers)
    encoders = [
        (encoder, encoder.use_nested_tensor)
        for encoder in model.modules()
        if isinstance(encoder, nn.TransformerEncoder) and not ours.isdisjoint(encoder.modules())
    ]
    for encoder, _ in encoders:
        encoder.use_nested_tensor = False

    def take_back() -> None:
        for encoder, before in encoders:
            encoder.use_nested_tensor = before

    return take_back


ADAPTER = Adapter(
    "nn.MultiheadAttention (inside nn.TransformerEncoder and Decoder too)", _judge, _install, _refuse_nested_tensors
)
