"""ExtrapolativeAttention: nn.MultiheadAttention whose heads may reach beyond the hull of the values they see.

Each head has a gain gamma and a temperature tau, both from statistics of the values of the keys a query *may see*:
one pair a bag and head without ``attn_mask`` and ``is_causal``, one a query with them, so that no future key leaks.
Both start at exactly 1, where the layer is nn.MultiheadAttention up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from excora import functional
from excora.errors import InputError
from excora.functional import check_form, free_gain, linear_temperature, masked_softmax, paper_gain, power_temperature
from excora.reduce import Penalty
from excora.tiles import COLD
from excora.visibility import ValueStatistics, Visibility, each, read_masks, value_statistics, without_padded_nan

_EXTRAPOLATION = ("gain_weight", "gain_bias", "log_temperature", "temperature_slope")


class ExtrapolativeAttention(nn.MultiheadAttention):
    """A drop-in for nn.MultiheadAttention with a gain and a temperature a head.

    ::

        m = mean of the visible v_j,  sigma = sqrt(mean ||v_j - m||^2),  spread = sigma / sqrt(head_dim)
        gamma = free_gain(w_h . m + b_h, cap),   tau = T_h (1 + spread)^beta_h
        head = m + gamma (softmax(q k / (tau sqrt(head_dim))) v - m)

    Arguments, masks, shapes and the returned pair are those of nn.MultiheadAttention. Ours, keyword-only, as in
    :class:`ECAPool`: ``residual`` and ``temperature`` switch the components and choose their form (the paper's forms do
    not start at 1), ``cap`` bounds gamma, ``scale="paper"`` takes spread = sigma, ``penalty_weight`` weighs
    (gamma - 1)^2. After each call ``last_penalty`` is the penalty as
    (sum, count), None without gain, and ``last_details`` holds detached gamma, temperature and dispersion,
    (bags, heads, 1 or queries) each; ``torch.export`` leaves both as they were.

    What differs: ``is_causal`` works without ``attn_mask`` too; a float mask of -1e4 or less hides its key like -inf;
    a query that may see nothing gets zeros before ``out_proj``, not NaN; NaN in padded rows of key and value stays
    there; the keys of ``add_bias_kv`` and ``add_zero_attn`` are visible to every query and count in m and sigma.

    >>> layer = ExtrapolativeAttention(16, 4, batch_first=True)
    >>> x = torch.randn(2, 5, 16)
    >>> output, weights = layer(x, x, x)
    >>> output.shape, weights.shape, layer.last_details["gamma"].unique()
    (torch.Size([2, 5, 16]), torch.Size([2, 5, 5]), tensor([1.]))
    """

    gain_weight: nn.Parameter | None
    gain_bias: nn.Parameter | None
    log_temperature: nn.Parameter | None
    temperature_slope: nn.Parameter | None
    last_penalty: Penalty | None = None
    last_details: dict[str, Tensor] | None = None

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
        residual: functional.Residual = "free",
        temperature: functional.Temperature = "learned",
        cap: float = 4.0,
        scale: functional.Scale = "sqrt_dim",
        penalty_weight: float = 1e-3,
    ) -> None:
        super().__init__(
            embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first, device, dtype
        )
        self._install(residual=residual, temperature=temperature, cap=cap, scale=scale, penalty_weight=penalty_weight)

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

    def _install(
        self,
        *,
        residual: functional.Residual = "free",
        temperature: functional.Temperature = "learned",
        cap: float = 4.0,
        scale: functional.Scale = "sqrt_dim",
        penalty_weight: float = 1e-3,
    ) -> None:
        """Add what nn.MultiheadAttention does not have: options, and parameters at their start."""
        check_form(residual, temperature, cap, scale)
        self.residual, self.cap, self.penalty_weight, self.scale = residual, cap, penalty_weight, scale
        self.fixed_temperature = temperature if isinstance(temperature, tuple) else None
        # The fused path of nn.TransformerEncoderLayer goes round forward() unless this says that it cannot.
        self._qkv_same_embed_dim = False
        like, heads = self.out_proj.weight, self.num_heads
        trainable = any(p.requires_grad for p in self.parameters())
        shapes = ((heads, self.head_dim), (heads,), (heads,), (heads,))
        gain, learned = residual is not None, temperature == "learned"
        for name, shape, wanted in zip(_EXTRAPOLATION, shapes, (gain, gain, learned, learned), strict=True):
            start = nn.Parameter(like.new_zeros(shape), requires_grad=trainable) if wanted else None
            self.register_parameter(name, start)

    def extrapolation_parameters(self) -> Iterator[nn.Parameter]:
        """The parameters of gamma and tau, whose start 0 means 1: weight decay is better kept off them."""
        yield from (p for name in _EXTRAPOLATION if (p := self._parameters.get(name)) is not None)

    def _reset_parameters(self) -> None:
        self._qkv_same_embed_dim = self.in_proj_weight is not None  # the base class asks it which weights there are
        super()._reset_parameters()
        self._qkv_same_embed_dim = False
        for parameter in self.extrapolation_parameters():
            nn.init.zeros_(parameter)

    def __getstate__(self) -> dict[str, Any]:
        # What the last call left belongs to its graph, and tensors of a graph can be neither copied nor pickled.
        return {name: value for name, value in vars(self).items() if name not in ("last_penalty", "last_details")}

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        *rest: list[str],
    ) -> None:
        missing: list[str] = []
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing, *rest)
        ours = {prefix + name for name in _EXTRAPOLATION if self._parameters.get(name) is not None}
        if prefix + "out_proj.weight" in state_dict and ours.issubset(missing):  # a plain MultiheadAttention's
            for parameter in self.extrapolation_parameters():
                nn.init.zeros_(parameter)
            missing = [name for name in missing if name not in ours]
        missing_keys += missing

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
        self._check(query, key, value)
        axis = 0 if self.batch_first else 1
        if query.dim() == 2:
            query, key, value = each(lambda x: x.unsqueeze(axis), query, key, value)
            padding = None if key_padding_mask is None else key_padding_mask[None]
            output, weights = self.forward(
                query, key, value, padding, need_weights, attn_mask, average_attn_weights, is_causal
            )
            return output.squeeze(axis), None if weights is None else weights.squeeze(0)
        shape = (key.shape[axis], self.num_heads, query.shape[1 - axis], key.shape[1 - axis])
        # Where nn.MultiheadAttention takes the hint's word for the mask, so does this; else the mask itself counts.
        if is_causal and (
            attn_mask is None or (key_padding_mask is None and not need_weights and shape[2] == shape[3])
        ):
            attn_mask = None
        else:
            is_causal = False
        visible = read_masks(key_padding_mask, attn_mask, shape, causal=is_causal)
        if visible.keys is not None:
            query, key, value = without_padded_nan(visible.keys, axis, query, key, value)
        q, k, v = self._project(query, key, value)
        k, v, visible = self._append_keys(k, v, visible, shape)
        attended, weights = self._attend(q, k, v, visible, need_weights)
        attended = attended.permute((0, 2, 1, 3) if self.batch_first else (2, 0, 1, 3))
        output = self.out_proj(attended.reshape(*attended.shape[:2], self.embed_dim))
        return output, weights.mean(1) if weights is not None and average_attn_weights else weights

    def _check(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        inputs, dims = (query, key, value), (self.embed_dim, self.kdim, self.vdim)
        if any(x.is_nested for x in inputs):
            raise InputError(
                "nested tensors are not supported: pass padded ones and key_padding_mask, and set "
                "use_nested_tensor = False on an enclosing nn.TransformerEncoder (extrapolate_ does)"
            )
        axis = 0 if self.batch_first else 1
        fits = query.dim() in (2, 3) and all(x.dim() == query.dim() for x in inputs)
        fits = fits and all(x.shape[-1] == dim for x, dim in zip(inputs, dims, strict=True))
        fits = fits and key.shape[:-1] == value.shape[:-1] and key.shape[(1 - axis) * (key.dim() - 2)] > 0
        if not fits or (query.dim() == 3 and query.shape[axis] != key.shape[axis]):
            layout = "(bags, length, dim)" if self.batch_first else "(length, bags, dim)"
            raise InputError(
                f"query, key and value must be {layout}, or (length, dim) each, of dims {dims}, with one number of "
                f"bags and as many values as keys, at least one; got {[tuple(x.shape) for x in inputs]}"
            )

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """q, k and v as (bags, heads, length, head_dim): strided views, which the fused kernels take as they are."""
        weight, bias = self.in_proj_weight, self.in_proj_bias
        if weight is not None and query is key and key is value:
            flat = F.linear(query, weight, bias).chunk(3, -1)
        else:
            separate = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
            weights = separate if weight is None else weight.chunk(3)
            biases = (None, None, None) if bias is None else bias.chunk(3)
            flat = tuple(F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))
        order = (0, 2, 1, 3) if self.batch_first else (1, 2, 0, 3)
        return [x.view(*x.shape[:2], self.num_heads, self.head_dim).permute(order) for x in flat]

    def _append_keys(
        self, k: Tensor, v: Tensor, visible: Visibility, shape: tuple[int, int, int, int]
    ) -> tuple[Tensor, Tensor, Visibility]:
        """The keys of ``add_bias_kv`` and ``add_zero_attn``, which every query may see."""
        size, extra = (shape[0], self.num_heads, 1, self.head_dim), 0
        if self.bias_k is not None and self.bias_v is not None:
            ours = [b.view(1, *size[1:]).expand(size).to(k.dtype) for b in (self.bias_k, self.bias_v)]
            k, v, extra = torch.cat([k, ours[0]], 2), torch.cat([v, ours[1]], 2), extra + 1
        if self.add_zero_attn:
            k, v, extra = torch.cat([k, k.new_zeros(size)], 2), torch.cat([v, v.new_zeros(size)], 2), extra + 1
        return k, v, visible.extended(extra, shape[2], shape[3], k.device) if extra else visible

    def _attend(
        self, q: Tensor, k: Tensor, v: Tensor, visible: Visibility, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        statistics = value_statistics(v, visible, q.shape[2])
        gamma, tau = self._gain(statistics), self._temperature(statistics)
        warm = tau > COLD  # else the weights are uniform, as in the pools
        q = (q * torch.where(warm, torch.where(warm, tau, 1.0).reciprocal(), 0.0)).to(q.dtype)
        dropout = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            seen = visible.dense(q.shape[2], k.shape[2], q.device)
            logits = (q * math.sqrt(1.0 / self.head_dim)) @ k.transpose(2, 3)
            weights = masked_softmax(logits if visible.bias is None else logits + visible.bias, seen)
            if not torch.is_autocast_enabled(q.device.type):
                weights = weights.to(logits.dtype)
            weights = F.dropout(weights, dropout)
            attended = weights @ v
        else:
            causal = visible.causal and visible.keys is None
            mask = None if causal else visible.dense(q.shape[2], k.shape[2], q.device)
            if mask is not None and visible.bias is not None:
                mask = torch.where(mask, visible.bias, -math.inf).to(q.dtype)
            attended = F.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal=causal)
        # m + gamma (attended - m) in one kernel, which gives `attended` to the last bit at gamma = 1. A query without a
        # visible key has m = 0: with weight 0 it gets zeros whatever the backend's attention made of it.
        weight = torch.where(statistics.seen, gamma, 0.0)
        mixed = torch.lerp(statistics.mean, attended.to(gamma.dtype), weight).to(attended.dtype)
        self._remember(gamma, tau, statistics)
        return mixed, weights

    def _gain(self, statistics: ValueStatistics) -> Tensor:
        """gamma, (bags, heads, 1 or queries, 1)."""
        if self.gain_weight is None or self.gain_bias is None:
            return torch.ones_like(statistics.dispersion)
        weight = self.gain_weight.to(statistics.mean.dtype).unsqueeze(1)
        raw = (statistics.mean * weight).sum(-1, keepdim=True) + self.gain_bias.to(weight.dtype).view(-1, 1, 1)
        return paper_gain(raw, self.cap) if self.residual == "paper" else free_gain(raw, self.cap)

    def _temperature(self, statistics: ValueStatistics) -> Tensor:
        """tau, (bags, heads, 1 or queries, 1)."""
        spread = statistics.dispersion
        spread = spread / math.sqrt(self.head_dim) if self.scale == "sqrt_dim" else spread
        if self.fixed_temperature is not None:
            return linear_temperature(spread, *(spread.new_tensor(x) for x in self.fixed_temperature))
        if self.log_temperature is None or self.temperature_slope is None:
            return torch.ones_like(spread)
        log_base, slope = (p.to(spread.dtype).view(-1, 1, 1) for p in (self.log_temperature, self.temperature_slope))
        return power_temperature(spread, log_base.exp(), slope)

    def _remember(self, gamma: Tensor, tau: Tensor, statistics: ValueStatistics) -> None:
        if torch.compiler.is_exporting():  # an exported program has nowhere to keep them
            return
        seen = statistics.seen.expand_as(gamma)
        if self.gain_weight is not None:
            deviation = torch.where(seen, (gamma - 1.0).square(), 0.0)
            self.last_penalty = Penalty(self.penalty_weight * deviation.sum(), seen.sum().to(gamma.dtype))
        named = {"gamma": gamma, "temperature": tau, "dispersion": statistics.dispersion}
        self.last_details = {name: x.detach().squeeze(-1) for name, x in named.items()}
