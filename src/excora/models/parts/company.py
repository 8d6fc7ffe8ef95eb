"""Neighbours by their company: more candidates than are wanted, re-ranked by what else is near them.

A candidate of a row is relevant if its label is near that of the row; :class:`excora.models.parts.rerank.Reranker`
learns from the training rows, in the space of the search, how such candidates stand among the others.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from excora.models.parts.neighbours import TILE, Excluded, Search, nearest
from excora.models.parts.rerank import Reranker, kernel_affinity

#: Candidates for each neighbour that is wanted.
FACTOR = 3
#: Of the candidates, nearest first, those that affinities are to; the query is one more.
ANCHORS = 23
#: The share of candidates whose labels are nearest to that of the row: those that should come first.
RELEVANT = 0.25
_STEPS, _QUERIES, _ROWS = 150, 48, 512

#: Numbers of rows (n,) to their candidates (n, FACTOR k), nearest first, and which of these are allowed.
Candidates = Callable[[Tensor], tuple[Tensor, Tensor]]


class Company(nn.Module):
    """A search like :func:`excora.models.parts.neighbours.nearest` that takes the best ``k`` of ``FACTOR k``.

    What it learned is kept with the network and not trained on: it says who the neighbours are. Until :meth:`fit` it
    ranks by chance.

    >>> x = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
    >>> company = Company(4)
    >>> company.fit(x, x[:, :1], Excluded(x), seed=0, steps=2)
    >>> found, allowed = company(x[:5], x, 4)
    >>> found.shape, bool(allowed.all())
    (torch.Size([5, 4]), True)
    """

    def __init__(self, neighbours: int) -> None:
        super().__init__()
        self.candidates = FACTOR * neighbours
        self.anchors = min(ANCHORS, self.candidates) + 1
        self.reranker = Reranker(anchors=self.anchors, dim=32, depth=1, heads=2).requires_grad_(False)

    def fit(self, x: Tensor, y: Tensor, excluded: Excluded, *, seed: int, steps: int = _STEPS) -> None:
        """To training rows (n, columns) in the space of the search and their labels (n, targets)."""
        search = Search(x)
        self.learn(
            x, y, lambda rows: search(x[rows], self.candidates, excluded=excluded, numbers=rows), seed=seed, steps=steps
        )

    def learn(self, x: Tensor, y: Tensor, candidates: Candidates, *, seed: int, steps: int = _STEPS) -> None:
        """As :meth:`fit`, with candidates that somebody else has found."""
        generator = torch.Generator().manual_seed(seed)
        model = self.reranker.requires_grad_(True).train()
        optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
        with torch.enable_grad():
            for _ in range(steps):
                query = torch.randint(len(x), (min(_QUERIES, len(x)),), generator=generator)
                found, allowed = candidates(query)
                far = (y[found] - y[query, None]).square().sum(-1).masked_fill(~allowed, torch.inf)
                edge = far.sort(1).values.gather(1, (allowed.sum(1, keepdim=True) * RELEVANT).long())
                loss = model.loss(self._affinity(x[query], x[found], allowed), (far <= edge) & allowed, allowed)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        self.reranker.requires_grad_(False).eval()

    def forward(
        self, query: Tensor, rows: Tensor, k: int, *, excluded: Excluded | None = None, numbers: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """As :func:`excora.models.parts.neighbours.nearest`, best first."""
        return self.best(query, rows, *nearest(query, rows, self.candidates, excluded=excluded, numbers=numbers), k)

    @torch.no_grad()
    def best(self, query: Tensor, rows: Tensor, found: Tensor, allowed: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Of candidates (n, FACTOR k), nearest first, the ``k`` of the best score, best first; allowed ones first."""
        self.reranker.eval()
        step = min(_ROWS, max(TILE // ((1 + self.candidates) * query.shape[1]), 1))
        parts = zip(query.split(step), found.split(step), allowed.split(step), strict=True)
        score = [self.reranker(self._affinity(q, rows[f], a), a) for q, f, a in parts]
        order = torch.cat(score).argsort(dim=1, descending=True, stable=True)[:, :k]
        return found.gather(1, order), allowed.gather(1, order)

    def _affinity(self, query: Tensor, candidates: Tensor, allowed: Tensor) -> Tensor:
        """exp(-|m_i - m_anchor|^2), 0 for who is not there; (n, 1 + candidates, anchors)."""
        features = torch.cat([query.unsqueeze(1), candidates], 1)
        there = torch.cat([torch.ones_like(allowed[:, :1]), allowed], 1)
        affinity = kernel_affinity(features, self.anchors)
        return affinity * there.unsqueeze(2) * there[:, None, : self.anchors]
