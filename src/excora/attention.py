"""ExtrapolativeAttention: nn.MultiheadAttention whose heads may reach beyond the hull of the values they see.

Each head has a gain gamma and a temperature tau, both from statistics of the values of the keys a query *may see*: one
pair a bag and head without ``attn_mask`` and ``is_causal``, one a query with them. At 1 both are nn.MultiheadAttention.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from excora.errors import InputError
from excora.extrapolation import Extrapolation, Residual, Scale, TemperatureForm, extrapolate, sharpness
from excora.functional import is_autocast, is_exporting, masked_softmax
from excora.reduce import Penalty
from excora.visibility import Visibility, check_inputs, each, known_metric, read_masks, through_padded, value_statistics

#: Where the parameters of gamma and tau stood in files of 0.1, and where they stand.
_GAIN = {"gain_weight": "gain.weight", "gain_bias": "gain.bias"}
_OLD_NAMES = _GAIN | {"log_temperature": "temperature.log_base", "temperature_slope": "temperature.slope"}


class Attended(NamedTuple):
    """What :func:`extrapolated_attention` returns."""

    output: Tensor  #: (bags, heads, queries, dim)
    weights: Tensor | None  #: (bags, heads, queries, keys), after dropout; None unless asked for
    penalty: Penalty | None  #: of gamma, None without a gain
    details: dict[str, Tensor]  #: gamma, temperature and dispersion, detached, (bags, heads, 1 or queries) each


def extrapolated_attention(
    extrapolation: Extrapolation,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    visible: Visibility,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    need_weights: bool = False,
) -> Attended:
    """m + gamma (softmax(scaling q k / tau + bias) v - m), with m, gamma and tau over the keys that a query may see.

    ``q`` is (bags, heads, queries, dim), ``k`` and ``v`` (bags, heads, keys, dim): repeat grouped keys and values
    first. ``scaling`` is 1 / sqrt(dim) if None; ``dropout`` falls on the weights, which are not renormalised. Without
    ``need_weights`` this is one call of torch's fused attention. A query that may see nothing gets zeros.

    >>> q, k, v = torch.randn(3, 2, 4, 5, 8)
    >>> everything = Visibility(None, None, None, causal=False)
    >>> attended = extrapolated_attention(Extrapolation(8, heads=4), q, k, v, everything)
    >>> torch.allclose(attended.output, F.scaled_dot_product_attention(q, k, v), atol=1e-6)
    True
    """
    statistics = value_statistics(v, visible, q.shape[2])
    gamma, tau = extrapolation.gamma(statistics.mean), extrapolation.tau(statistics.dispersion)
    if extrapolation.temperature is not None:
        q = (q * sharpness(tau).unsqueeze(-1)).to(q.dtype)
    attend = _attend_in_the_open if need_weights else _attend_fused
    attended, weights = attend(q, k, v, visible, scaling, dropout)
    # A query without a visible key has m = 0: with gain 0 it gets zeros whatever the back end made of it.
    gain = torch.where(statistics.seen, gamma, 0.0).unsqueeze(-1)
    # Expanded here: torch's lerp cannot broadcast fake tensors of symbolic shape.
    output = extrapolate(statistics.mean.expand_as(attended), attended, gain.expand_as(attended)).to(attended.dtype)
    penalty = None if extrapolation.gain is None else extrapolation.penalty(gamma, statistics.seen)
    named = {"gamma": gamma, "temperature": tau, "dispersion": statistics.dispersion}
    return Attended(output, weights, penalty, {name: x.detach() for name, x in named.items()})


def _attend_in_the_open(
    q: Tensor, k: Tensor, v: Tensor, visible: Visibility, scaling: float | None, dropout: float
) -> tuple[Tensor, Tensor | None]:
    """softmax(q k) v and the weights."""
    scaling = math.sqrt(1.0 / q.shape[-1]) if scaling is None else scaling
    seen = visible.dense(q.shape[2], k.shape[2], q.device)
    logits = (q * scaling) @ k.transpose(2, 3)
    weights = masked_softmax(logits if visible.bias is None else logits + visible.bias, seen)
    if not is_autocast(q.device):
        weights = weights.to(logits.dtype)
    weights = F.dropout(weights, dropout)
    return weights @ v, weights


def _attend_fused(
    q: Tensor, k: Tensor, v: Tensor, visible: Visibility, scaling: float | None, dropout: float
) -> tuple[Tensor, Tensor | None]:
    """softmax(q k) v by torch's fused kernels, which keep the weights to themselves."""
    causal = visible.causal and visible.keys is None
    mask = None if causal else visible.dense(q.shape[2], k.shape[2], q.device)
    if mask is not None and visible.bias is not None:
        mask = torch.where(mask, visible.bias, -math.inf).to(q.dtype)
    return F.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal=causal, scale=scaling), None


class ExtrapolativeAttention(nn.MultiheadAttention):
    """A drop-in for nn.MultiheadAttention with a gain and a temperature a head.

    ::

        m = mean of the visible v_j,  sigma = sqrt(mean ||v_j - m||^2),  spread = sigma / sqrt(head_dim)
        gamma = free_gain(w_h . m + b_h, cap),   tau = T_h (1 + spread)^beta_h
        head = m + gamma (softmax(q k / (tau sqrt(head_dim))) v - m)

    Arguments, masks, shapes and the returned pair are those of nn.MultiheadAttention. Ours, keyword-only, are those of
    :class:`Extrapolation`; the paper's forms do not start at 1. With ``metric="elliptical"`` the channels of q k count
    by :meth:`excora.visibility.Visibility.key_metric`; ``attn_mask`` and ``is_causal`` are then refused. After each
    call ``last_penalty`` and ``last_details`` are those of :class:`Attended`: read them inside a function that
    ``torch.func`` transforms, as they belong to it; ``torch.export`` leaves them as they were.

    What differs: ``is_causal`` works without ``attn_mask`` too; a float mask of -1e4 or less hides its key like -inf;
    a query that may see nothing gets zeros before ``out_proj``, not NaN; NaN in padded rows of key and value stays
    there; the keys of ``add_bias_kv`` and ``add_zero_attn`` are visible to every query and count in m and sigma;
    inside autocast the returned weights stay float32, as all statistics do.

    >>> layer = ExtrapolativeAttention(16, 4, batch_first=True)
    >>> x = torch.randn(2, 5, 16)
    >>> output, weights = layer(x, x, x)
    >>> output.shape, weights.shape, layer.last_details["gamma"].unique()
    (torch.Size([2, 5, 16]), torch.Size([2, 5, 5]), tensor([1.]))
    """

    extrapolation: Extrapolation
    last_penalty: Penalty | None = None
    last_details: dict[str, Tensor] | None = None
    metric: str = "plain"

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        residual: Residual = "free",
        temperature: TemperatureForm = "learned",
        cap: float = 4.0,
        scale: Scale = "sqrt_dim",
        penalty_weight: float = 1e-3,
        metric: str = "plain",
    ) -> None:
        super().__init__(
            embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first, device, dtype
        )
        rest: dict[str, Any] = {"cap": cap, "scale": scale, "penalty_weight": penalty_weight, "metric": metric}
        self._install(residual=residual, temperature=temperature, **rest)

    @classmethod
    def from_multihead(cls, attention: nn.MultiheadAttention, **options: Any) -> ExtrapolativeAttention:
        """A layer over the *same* Parameter objects as ``attention``, so that its optimiser goes on training them.

        ``options`` are the keyword-only arguments of the constructor. The output equals that of ``attention`` at the
        start, in training with dropout too. A subclass is refused: it may compute something else.

        >>> old = nn.MultiheadAttention(16, 4)
        >>> ExtrapolativeAttention.from_multihead(old, cap=2.0).in_proj_weight is old.in_proj_weight
        True
        """
        if type(attention) is not nn.MultiheadAttention:
            raise InputError(f"attention must be an nn.MultiheadAttention itself, got {type(attention).__qualname__}")
        new = cls.__new__(cls)
        nn.Module.__init__(new)
        own = set(vars(new)) - {"training"}  # hooks and the like stay with the old layer
        vars(new).update({name: value for name, value in vars(attention).items() if name not in own})
        new._parameters.update(attention._parameters)
        new._modules.update(attention._modules)
        new._install(**options)
        return new

    def _install(self, *, metric: str = "plain", **options: Any) -> None:
        """Add what nn.MultiheadAttention does not have: gain and temperature at their start."""
        self.metric = known_metric(metric)
        like, trainable = self.out_proj.weight, any(p.requires_grad for p in self.parameters())
        with like.device:
            extrapolation = Extrapolation(self.head_dim, heads=self.num_heads, **options)
        for module in extrapolation.modules():  # Module.to swaps tensors, which fake ones do not always allow
            for name, start in module.named_parameters(recurse=False):
                setattr(module, name, nn.Parameter(start.detach().to(like.dtype), requires_grad=trainable))
        # The fused path of nn.TransformerEncoderLayer goes round forward(), unless a module below it has a hook. This
        # one costs nothing: the extrapolation is used by its methods and never called.
        extrapolation.register_forward_pre_hook(_keeps_the_fused_path_away)
        self.extrapolation = extrapolation.train(self.training)

    def extrapolation_parameters(self) -> Iterator[nn.Parameter]:
        """The parameters of gamma and tau, whose start 0 means 1: weight decay is better kept off them."""
        if "extrapolation" in self._modules:  # not yet while the base class is built
            yield from self.extrapolation.parameters()

    def _reset_parameters(self) -> None:
        super()._reset_parameters()
        for parameter in self.extrapolation_parameters():
            nn.init.zeros_(parameter)

    def __getstate__(self) -> dict[str, Any]:
        # What the last call left belongs to its graph, and tensors of a graph can be neither copied nor pickled.
        return {name: value for name, value in vars(self).items() if name not in ("last_penalty", "last_details")}

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        for old, new in _OLD_NAMES.items():
            if prefix + old in state_dict:
                state_dict[f"{prefix}extrapolation.{new}"] = state_dict.pop(prefix + old)
        ours = {f"{prefix}extrapolation.{name}": p for name, p in self.extrapolation.named_parameters()}
        plain = state_dict.get(prefix + "out_proj.weight")
        if plain is not None and not any(name in state_dict for name in ours):  # of a plain MultiheadAttention
            state_dict |= {name: torch.zeros(p.shape, dtype=p.dtype, device=plain.device) for name, p in ours.items()}
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """As nn.MultiheadAttention.forward; the class says what differs."""
        masked = is_causal or key_padding_mask is not None or attn_mask is not None
        check_inputs((query, key, value), (self.embed_dim, self.kdim, self.vdim), self.batch_first, masked=masked)
        rest = (need_weights, attn_mask, average_attn_weights, is_causal)
        if query.is_nested:
            return through_padded(query, lambda x, hidden: self._forward([x, x, x], hidden, *rest))
        if query.dim() == 3:
            return self._forward([query, key, value], key_padding_mask, *rest)
        axis = 0 if self.batch_first else 1
        padding = None if key_padding_mask is None else key_padding_mask[None]
        output, weights = self._forward(each(lambda x: x.unsqueeze(axis), query, key, value), padding, *rest)
        return output.squeeze(axis), None if weights is None else weights.squeeze(0)

    def _forward(
        self,
        inputs: list[Tensor],
        padding: Tensor | None,
        need_weights: bool,
        attn_mask: Tensor | None,
        average: bool,
        is_causal: bool,
    ) -> tuple[Tensor, Tensor | None]:
        axis = 0 if self.batch_first else 1
        bags, queries, keys = inputs[1].shape[axis], inputs[0].shape[1 - axis], inputs[1].shape[1 - axis]
        shape = (bags, self.num_heads, queries, keys)
        # Where nn.MultiheadAttention takes the hint's word for the mask, so does this; else the mask itself counts.
        trusted = padding is None and not need_weights and queries == keys
        causal = is_causal and (attn_mask is None or trusted)
        visible = read_masks(padding, None if causal else attn_mask, shape, causal=causal)
        q, k, v = self._project(*visible.without_padded_nan(axis, *inputs))
        added = (self.bias_k, self.bias_v) if self.bias_k is not None and self.bias_v is not None else None
        k, v, visible = visible.with_added_keys(k, v, queries, added, zero=self.add_zero_attn)
        if self.metric == "elliptical":
            q = q * visible.key_metric(k, v).to(q.dtype)
        dropout = self.dropout if self.training else 0.0
        found = extrapolated_attention(self.extrapolation, q, k, v, visible, dropout=dropout, need_weights=need_weights)
        if not is_exporting():  # an exported program has nowhere to keep them
            self.last_penalty, self.last_details = found.penalty, found.details
        weights = found.weights.mean(1) if found.weights is not None and average else found.weights
        return self._merge(found.output), weights

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """q, k and v as (bags, heads, length, head_dim): strided views, which the fused kernels take as they are."""
        weight = self.in_proj_weight
        weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight) if weight is None else weight.chunk(3)
        # A bias of another dtype is something torch's linear takes for some shapes and not for others.
        bias = None if self.in_proj_bias is None else self.in_proj_bias.to(weights[0].dtype)
        if weight is not None and query is key and key is value:
            flat = F.linear(query, weight, bias).chunk(3, -1)
        else:
            biases = (None, None, None) if bias is None else bias.chunk(3)
            flat = tuple(F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))
        order = (0, 2, 1, 3) if self.batch_first else (1, 2, 0, 3)
        return [x.view(*x.shape[:2], self.num_heads, self.head_dim).permute(order) for x in flat]

    def _merge(self, heads: Tensor) -> Tensor:
        """``out_proj`` of the heads side by side: (bags, heads, length, head_dim) to the layer's output."""
        # Under dropout the length comes first in memory, as from nn.MultiheadAttention: the dropouts that follow draw
        # their numbers in that order. Else whatever costs no copy.
        turned = self.batch_first and self.training and self.dropout > 0.0
        heads = heads.permute((0, 2, 1, 3) if self.batch_first and not turned else (2, 0, 1, 3))
        output = self.out_proj(heads.reshape(*heads.shape[:2], self.embed_dim))
        return output.transpose(0, 1) if turned else output


def _keeps_the_fused_path_away(_module: nn.Module, _arguments: Any) -> None:
    """A hook that does nothing."""
