"""torchmil's DSMIL and the Nystrom attention of TransMIL: no fused attention inside, so a formula of its own each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from excora.convert.adapter import Converted
from excora.convert.hosted import read_mask
from excora.extrapolation import extrapolate, sharpness
from excora.visibility import Visibility, value_statistics


class Nystrom(Converted):
    """Nystrom attention is linear in the values, A v: it extrapolates by attending to m + gamma (v - m).

    That is m + gamma (A v - m) where the rows of A sum to 1, which holds as far as the pseudo-inverse has converged.
    """

    extrapolation: Any
    n_heads: int
    _seen: Tensor | None = None

    def forward(self, x: Tensor, mask: Tensor | None = None, return_att: bool = False) -> Any:
        """As torchmil's."""
        self._seen = None if mask is None else mask != 0
        try:
            return super().forward(x, mask, return_att)  # type: ignore[misc]
        finally:
            del self._seen

    def _qkv(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = (t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for t in super()._qkv(x))  # type: ignore[misc]
        seen = self._seen
        if seen is not None:  # torchmil has padded x in front by now
            seen = nn.functional.pad(seen, (x.shape[1] - seen.shape[1], 0))[:, None, None]
        of_values = value_statistics(v, Visibility(seen, None, None, False), v.shape[2])
        gamma, tau = self.extrapolation.gamma(of_values.mean), self.extrapolation.tau(of_values.dispersion)
        q = (q * sharpness(tau).unsqueeze(-1)).to(q.dtype)
        v = extrapolate(of_values.mean, v, gamma.unsqueeze(-1)).to(v.dtype)
        penalty = None if self.extrapolation.gain is None else self.extrapolation.penalty(gamma, of_values.seen)
        named = {"gamma": gamma, "temperature": tau, "dispersion": of_values.dispersion}
        self.extrapolation.keep(penalty, {name: t.detach() for name, t in named.items()})
        return tuple(t.transpose(1, 2).flatten(2) for t in (q, k, v))  # type: ignore[return-value]


class DSMIL(Converted):
    """DSMIL: the instance of the largest logit is the query, every instance a key and a value."""

    extrapolation: Any
    feat_ext: nn.Module
    inst_classifier: nn.Module
    bag_classifier: nn.Module
    q_nn: nn.Module
    v_nn: nn.Module

    def forward(
        self, X: Tensor, mask: Tensor | None = None, return_att: bool = False, return_inst_pred: bool = False
    ) -> Any:
        """As torchmil's: bag logits (bags,), then the weights and the instance logits if asked for."""
        X = self.feat_ext(X)
        logits, V, Q = self.inst_classifier(X), self.v_nn(X), self.q_nn(X)
        # As in torchmil, padding may be the critical instance: a stable sort picks it there too.
        critical = torch.sort(logits, 1, descending=True)[1][:, :1].expand(-1, -1, Q.shape[-1])
        visible = None if mask is None else read_mask((mask != 0)[:, None, None, :], X.shape[1])
        q, k, v = (x.unsqueeze(1) for x in (Q.gather(1, critical), Q, V))
        attended = self.extrapolation(q, k, v, visible, need_weights=return_att)
        bags = self.bag_classifier(attended.output.squeeze(1)).squeeze(-1).squeeze(-1)
        weights = () if attended.weights is None else (attended.weights.squeeze(1).transpose(1, 2),)
        results = (bags, *weights, *((logits.squeeze(-1),) if return_inst_pred else ()))
        return results if len(results) > 1 else bags
