"""torchmil: AttentionPool (ABMIL, CLAM, DTFD-MIL), DSMIL, TransMIL's Nystrom attention, self- and cross-attention."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from excora.convert.adapter import Adapter, Converted, converted_class, judge_class, path_of, swap
from excora.convert.hosted import Options, give, read_mask
from excora.convert.torchmil_models import DSMIL, Nystrom
from excora.errors import ConversionError
from excora.functional import is_exporting
from excora.pooling import ECAPool

_NN = "torchmil.nn.attention."
_DECLINED = {
    _NN + "sm_attention_pool.SmAttentionPool": "its logits depend on an adjacency matrix",
    _NN + "prob_smooth_attention_pool.ProbSmoothAttentionPool": "its weights are sampled",
    _NN + "irpe_multihead_self_attention.iRPEMultiheadSelfAttention": "position terms enter its values",
    "torchmil.models.camil.CAMILSelfAttention": "it attends along an adjacency matrix",
    "torchmil.models.camil.CAMILAttentionPool": "its logits and its values are different features",
}


class _Scorer(nn.Module):
    """The logits of a torchmil pool, from its own layers. It holds the pool unregistered: no key is there twice."""

    def __init__(self, host: nn.Module) -> None:
        super().__init__()
        self.host: tuple[Any] = (host,)

    def forward(self, h: Tensor) -> Tensor:
        """(bags, elements, width) to (bags, elements, 1)."""
        (host,) = self.host
        hidden = host.act_layer(host.fc1(h))
        return host.fc2(hidden * host.act_gated(host.fc_gated(h)) if host.gated else hidden)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Scorer:
        """Of the host's copy if the host is copied too; PEFT copies the extrapolation alone, whose host stays."""
        (host,) = self.host
        return _Scorer(memo.get(id(host), host))


class _Pooling(ECAPool):
    """The extrapolation of a torchmil pool: gain and temperature stand under its own name, as in other layers.

    PEFT takes modules by the end of their name, so that no second one may be called ``extrapolation``.
    """

    def __init__(self, host: Any, **options: Any) -> None:
        super().__init__(host.fc1.module.in_features, scorer=_Scorer(host), **options)
        inner = self.extrapolation
        del self.extrapolation
        vars(self)["extrapolation"] = inner  # no submodule: its own stand here
        self.gain, self.temperature = inner.gain, inner.temperature

    def _load_from_state_dict(self, *given: Any) -> None:
        nn.Module._load_from_state_dict(self, *given)  # without ECAPool's care for names of 0.1, which are these


class _Pool(Converted):
    """As torchmil's AttentionPool, in call and result; an empty bag gives zeros, the logits of padding are f(0)."""

    last_penalty: Any = None
    last_details: Any = None
    extrapolation: Any

    def forward(self, X: Tensor, mask: Tensor | None = None, return_att: bool = False) -> Any:
        """z, or (z, logits) with ``return_att``."""
        pooled = self.extrapolation(X, None if mask is None else mask != 0)
        if not is_exporting():
            self.last_penalty = pooled.penalty
            self.last_details = {name: x.detach() for name, x in pooled.details.items()}
        return (pooled.value, pooled.details["logits"]) if return_att else pooled.value


class _SelfAttention(Converted):
    """torchmil's self-attention. Padded queries get zeros, and dropout is on in eval too, as there."""

    extrapolation: Any
    dropout: float
    training: bool

    def _scaled_dot_product_attention(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, return_att: bool = False
    ) -> Any:
        visible = None if mask is None else read_mask((mask != 0)[:, None, None, :], key.shape[2])
        dropout = self.dropout if self.training or not return_att else 0.0
        attended = self.extrapolation(query, key, value, visible, dropout=dropout, need_weights=return_att)
        output = attended.output if mask is None else attended.output.masked_fill((mask == 0)[:, None, :, None], 0.0)
        return (output, attended.weights) if return_att else output


class _CrossAttention(Converted):
    """torchmil's cross-attention, whose mask, by whatever name, is that of the keys."""

    extrapolation: Any
    dropout: float

    def _scaled_dot_product_attention(
        self, query: Tensor, key: Tensor, value: Tensor, mask_query: Tensor | None = None
    ) -> Tensor:
        visible = None if mask_query is None else read_mask((mask_query != 0)[:, None, None, :], key.shape[2])
        return self.extrapolation(query, key, value, visible, dropout=self.dropout).output


#: The class of a layer, what is mixed in, and (width of a head's values, heads).
_TAKEN: dict[str, tuple[type, Any]] = {
    _NN + "multihead_self_attention.MultiheadSelfAttention": (_SelfAttention, lambda m: (m.head_dim, m.n_heads)),
    _NN + "multihead_cross_attention.MultiheadCrossAttention": (_CrossAttention, lambda m: (m.head_dim, m.n_heads)),
    _NN + "nystrom_attention.NystromAttention": (Nystrom, lambda m: (m.head_dim, m.n_heads)),
    "torchmil.models.dsmil.DSMIL": (DSMIL, lambda m: (m.bag_classifier.in_features, 1)),
}
_POOL = _NN + "attention_pool.AttentionPool"


def _judge(module: nn.Module) -> str | None:
    path = path_of(type(module))
    if path in _DECLINED:
        return _DECLINED[path]
    return next((verdict for known in (_POOL, *_TAKEN) if (verdict := judge_class(module, known)) is not None), None)


def _install(module: Any, options: Options) -> None:
    path = path_of(type(module))
    if path in _TAKEN:
        mixin, size = _TAKEN[path]
        width, heads = size(module)
        swap(module, mixin, width, heads, options)
    else:
        if "metric" in options:
            raise ConversionError(
                f"{type(module).__name__} is a pool and has no queries: metric='plain', or exclude= it"
            )
        give(module, _Pooling(module, **options))
        module.__class__ = converted_class(_Pool, type(module))


ADAPTER = Adapter("torchmil's AttentionPool, DSMIL and attention layers", _judge, _install)
