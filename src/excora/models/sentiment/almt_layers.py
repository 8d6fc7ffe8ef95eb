"""Layers of ALMT: attention of few queries over many frames, and the reader that makes eight tokens of a modality."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from excora.extrapolation import Extrapolation, extrapolate, sharpness
from excora.functional import at_least_float32, dispersion, masked_mean
from excora.models.parts.readout import FORMS
from excora.models.sentiment.parts import Sequence
from excora.pooling import Pooled
from excora.reduce import Penalty


class Looked(NamedTuple):
    """What attention of the queries on a source was like."""

    attended: Tensor  #: (n, queries, inner)
    weights: Tensor  #: (n, heads x queries, keys)
    logits: Tensor  #: of the same shape, at temperature 1
    gamma: Tensor | None  #: (n,)
    temperature: Tensor | None  #: (n,)


class CrossLayer(nn.Module):
    """t + W_o A(LN_q t, LN_k s, LN_v s) + b, then t + FFN(LN t): queries t (n, few, dim) on a source s (n, many, dim).

    A few queries need neither keys nor values of every source vector: with xhat the source less its mean over its
    deviation, LN_k s = g_k xhat + b_k, so the logits are xhat . (g_k W_k^T q) and a constant, and the attended value is
    W_v (g_v sum_i alpha_i xhat_i + b_v). No gradient reaches b_k, a softmax does not see it.

    With an extrapolation, m + gamma (a - m) stands in place of a, where m is the mean of all values.
    """

    def __init__(
        self, dim: int, heads: int, head_width: int, hidden: int, extrapolation: Extrapolation | None = None
    ) -> None:
        super().__init__()
        inner = heads * head_width
        self.heads, self.extrapolation = heads, extrapolation
        self.norm_q, self.norm_k, self.norm_v = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.norm_k.bias.requires_grad_(False)
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, inner, bias=False) for _ in range(3))
        self.to_out = nn.Linear(inner, dim)
        self.norm, self.first, self.second = nn.LayerNorm(dim), nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def forward(
        self, target: Tensor, source: Tensor, mask: Tensor | None = None, spread: Tensor | None = None
    ) -> tuple[Tensor, Looked]:
        """New targets, and what they looked at. ``mask`` (n, keys): True for what is there. ``spread`` (n,): for tau.

        Without ``spread`` the temperature is that of the dispersion of the value vectors.
        """
        looked = self.look(target, source, mask, spread)
        target = target + self.to_out(looked.attended)
        return target + self.second(F.gelu(self.first(self.norm(target)))), looked

    def look(self, target: Tensor, source: Tensor, mask: Tensor | None, spread: Tensor | None) -> Looked:
        """The attention alone."""
        n, queries, dim = target.shape
        plain = F.layer_norm(source, (dim,))
        q = self.to_q(self.norm_q(target)).unflatten(2, (self.heads, -1))
        keys, values = (layer.weight.unflatten(0, (self.heads, -1)) for layer in (self.to_k, self.to_v))
        asked = torch.einsum("nqhe,hed->nhqd", q, keys) * (self.norm_k.weight / math.sqrt(keys.shape[1]))
        logits = at_least_float32(asked.flatten(1, 2) @ plain.mT)
        mean, gamma, tau = self._forms(plain, mask, spread)
        sharp = logits if tau is None else logits * sharpness(tau).view(-1, 1, 1)
        weights = torch.softmax(sharp if mask is None else sharp.masked_fill(~mask.unsqueeze(1), -torch.inf), -1)
        seen = (weights.to(plain.dtype) @ plain) * self.norm_v.weight + self.norm_v.bias
        attended = torch.einsum("nhqd,hed->nqhe", seen.view(n, self.heads, queries, dim), values).flatten(2)
        if mean is not None and gamma is not None:
            attended = extrapolate(mean.unsqueeze(1), attended, gamma.view(-1, 1, 1)).to(attended.dtype)
        return Looked(attended, weights, logits, gamma, tau)

    def _forms(
        self, plain: Tensor, mask: Tensor | None, spread: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Mean of the values, gain and temperature; None each for plain attention."""
        ours = self.extrapolation
        if ours is None:
            return None, None, None
        middle = masked_mean(plain, mask).to(plain.dtype)
        mean = at_least_float32(self.to_v(middle * self.norm_v.weight + self.norm_v.bias))
        if spread is None:
            spread = dispersion(self.to_v(plain * self.norm_v.weight), mask)
        return mean, ours.gamma(mean), ours.tau(spread)


class Reader(nn.Module):
    """A modality as a few tokens: learned tokens before the projected frames, positions, one layer; tokens are kept.

    One layer of which only the tokens are kept needs the tokens as queries and nothing else.

    ``pool``: "softmax", "eca" (which starts as softmax) or "eca-paper". The dispersion behind the temperature is that
    of the frames before positions ("frames"), as learned positions hide how alike frames are, or that of "values".
    """

    def __init__(self, stream: tuple[int, int], options: Any, pool: str) -> None:
        super().__init__()
        width, longest = stream
        dim, inner = options.dim, options.heads * options.head_width
        form, ours = FORMS[pool], None
        if form is not None:
            wider: dict[str, Any] = {"hidden": 64} if pool == "eca-paper" else {}
            ours = Extrapolation(inner, **wider, **form)
            # DIFF: positions hide homogeneity: values disperse by 11.35 for identical frames, 11.77 for random ones.
            ours.divisor = math.sqrt(dim if options.dispersion == "frames" else inner)
        self.early = options.dispersion == "frames"
        self.project = nn.Linear(width, dim)
        self.tokens = nn.Parameter(torch.zeros(options.tokens, dim))
        self.positions = nn.Parameter(torch.randn(longest + options.tokens, dim))
        self.layer = CrossLayer(dim, options.heads, options.head_width, options.hidden, ours)

    def forward(self, sequence: Sequence) -> tuple[Tensor, Pooled]:
        """(n, tokens, dim), and what they looked at: weights (n, tokens + steps), means over heads and tokens."""
        frames, mask, few = self.project(sequence.values), sequence.mask, len(self.tokens)
        x = torch.cat([self.tokens.expand(len(frames), -1, -1), frames], 1) + self.positions[: few + frames.shape[1]]
        real = torch.cat([mask.new_ones(len(mask), few), mask], 1)
        ours = self.layer.extrapolation
        asks = ours is not None and ours.temperature is not None and self.early
        spread = dispersion(frames, mask) if asks else None
        value, looked = self.layer(x[:, :few], x, real, spread)
        details = {"logits": looked.logits.mean(1)}
        penalty = Penalty(details["logits"].new_zeros(()), details["logits"].new_zeros(()))
        if ours is not None and looked.gamma is not None and looked.temperature is not None:
            details |= {"gamma": looked.gamma, "temperature": looked.temperature}
            details |= {} if spread is None else {"dispersion": spread}
            penalty = ours.penalty(looked.gamma)
        return value, Pooled(value.flatten(1), looked.weights.mean(1), penalty, details, real)
