"""The parts of EGN; the whole is held against its oracle in tests/models/test_egn.py."""

from __future__ import annotations

import torch

from excora.models.parts.egn import Bridge, Carried, PatchReadOut, cut


def test_patches_are_cut_row_by_row_with_the_channel_last():
    image = torch.arange(3 * 4 * 6.0).view(1, 3, 4, 6)
    tiles = cut(image, 2)
    assert tiles.shape == (1, 6, 12)
    assert tiles[0, 4].tolist() == [
        float(image[0, c, 2 + i, 2 + j]) for i in range(2) for j in range(2) for c in range(3)
    ]


def test_the_last_bridge_leaves_the_keys():
    torch.manual_seed(0)
    given = Carried(torch.randn(2, 8), torch.randn(2, 3, 8), torch.randn(2, 3, 8))
    x = torch.randn(2, 4, 8)
    for last in (True, False):
        bridge = Bridge(8, 4, 2, 4, pool="mean", last=last)
        _, after, pooled = bridge(x, given)
        assert torch.equal(after.key, given.key) == last
        assert torch.equal(after.value, given.value)
        assert pooled.weights.shape == (2, 3)
        assert bridge.key_norm.weight.requires_grad != last


def test_a_constant_window_is_read_as_its_mean():
    read = PatchReadOut(8, None, alone=True)
    x = torch.randn(2, 1, 8).expand(2, 5, 8)
    torch.testing.assert_close(read(x, x).value, read.head(x[:, 0]))
