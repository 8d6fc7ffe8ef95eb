"""Parts of the retrieval network: dropout at a quarter of the random numbers, and numbers cut at their quantiles."""

from __future__ import annotations

import torch

from excora.models.parts.pairs import Dropout, Pieces


def test_dropout_drops_the_share_it_was_told_to_and_keeps_the_mean():
    x = torch.rand(700, 301, generator=torch.Generator().manual_seed(0)).add(0.1).requires_grad_()
    dropout = Dropout(0.3)
    out = dropout(x)
    kept = out.detach() != 0
    torch.testing.assert_close(out[kept], (x / 0.7)[kept], rtol=1e-4, atol=0)
    for share, n in ((kept.double().mean(0), 700), (kept.double().mean(1), 301)):
        assert float((share - 0.7).abs().max()) < 6 * (0.21 / n) ** 0.5
    out.sum().backward()
    torch.testing.assert_close(x.grad, kept / 0.7, rtol=1e-4, atol=0)
    assert dropout.eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert Dropout(0.5)(x[:0]).shape == (0, 301)


def test_pieces_rise_from_quantile_to_quantile_and_a_bin_without_width_says_nothing():
    x = torch.tensor([[0.0, 3.0], [1.0, 3.0], [2.0, 3.0], [4.0, 3.0], [8.0, 7.0]])
    pieces = Pieces(2, 2, 4)
    pieces.fit(x[torch.tensor([4, 0, 2, 1, 3])])
    torch.testing.assert_close(pieces.starts, torch.tensor([[0.0, 3.0], [2.0, 3.0]]))
    torch.testing.assert_close(pieces.slopes, torch.tensor([[0.5, 0.0], [1 / 6, 0.25]]))
    with torch.no_grad():
        pieces.out.weight.copy_(torch.eye(4))
        found = pieces(torch.tensor([[1.0, 5.0], [-9.0, 9.0], [5.0, 1.0]]))
    torch.testing.assert_close(found, torch.tensor([[0, 0, -0.5, 0], [-0.5, 0, -0.5, 0.5], [0.5, 0, 0, -0.5]]))
