"""ExtrapolativeAttention: nn.MultiheadAttention whose heads may reach beyond the hull of the values they see.

Each head has a gain gamma and a temperature tau, both from statistics of the values of the keys a query *may see*:
one pair a bag and head without ``attn_mask`` and ``is_causal``, one a query with them, so that no future key leaks.
Both start at exactly 1, where the layer is nn.MultiheadAttention up to rounding.
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
from excora.functional import masked_softmax
from excora.reduce import Penalty
from excora.visibility import Visibility, each, read_masks, value_statistics, without_padded_nan

#: Where the parameters of gamma and tau stood in files of 0.1, and where they stand.
_OLD_NAMES = {
    "gain_weight": "gain.weight",
    "gain_bias": "gain.bias",
    "log_temperature": "temperature.log_base",
    "temperature_slope": "temperature.slope",
}


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
    output = extrapolate(statistics.mean, attended, gain).to(attended.dtype)
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
    if not torch.is_autocast_enabled(q.device.type):
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

    extrapolation: Extrapolation
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
        residual: Residual = "free",
        temperature: TemperatureForm = "learned",
        cap: float = 4.0,
        scale: Scale = "sqrt_dim",
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

    def _install(self, **options: Any) -> None:
        """Add what nn.MultiheadAttention does not have: gain and temperature at their start."""
        like, trainable = self.out_proj.weight, any(p.requires_grad for p in self.parameters())
        with like.device:
            extrapolation = Extrapolation(self.head_dim, heads=self.num_heads, **options)
        self.extrapolation = extrapolation.to(like.dtype).requires_grad_(trainable).train(self.training)
        # The fused path of nn.TransformerEncoderLayer goes round forward(), unless a module below it has a hook. This
        # one costs nothing: the extrapolation is used by its methods and never called.
        self.extrapolation.register_forward_pre_hook(_keeps_the_fused_path_away)

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
        dropout = self.dropout if self.training else 0.0
        attended, weights = self._remember(
            extrapolated_attention(self.extrapolation, q, k, v, visible, dropout=dropout, need_weights=need_weights)
        )
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

    def _remember(self, attended: Attended) -> tuple[Tensor, Tensor | None]:
        if not torch.compiler.is_exporting():  # an exported program has nowhere to keep them
            self.last_penalty, self.last_details = attended.penalty, attended.details
        return attended.output, attended.weights


def _keeps_the_fused_path_away(_module: nn.Module, _arguments: Any) -> None:
    """A hook that does nothing."""
