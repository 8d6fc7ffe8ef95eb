"""The loops of the residual, called by hand: what a forward leaves for a backward; gradients add up over bags."""

from __future__ import annotations

import torch

from excora.extrapolation import Gain
from excora.kernels import residual


def test_units_and_slope_are_kept_for_the_backward():
    torch.manual_seed(0)
    gain, mean, attended = Gain(6, form="free", cap=3.0, hidden=4), torch.randn(7, 6), torch.randn(7, 6)
    torch.nn.init.normal_(gain.out.weight)
    _, gamma, hidden, slope = residual.forward(("free", 3.0), mean, attended, *gain.weights())
    torch.testing.assert_close(hidden, torch.tanh(gain.hidden(mean)).detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(slope, gamma * (1.0 - gamma / 3.0), rtol=1e-5, atol=1e-6)


def test_gradients_of_the_weights_are_sums_over_bags():
    torch.manual_seed(0)
    gain, mean, attended = Gain(6, form="free", cap=3.0, hidden=4), torch.randn(7, 6), torch.randn(7, 6)
    torch.nn.init.normal_(gain.out.weight)

    def gradients(of: slice) -> list[torch.Tensor]:
        inputs = (mean[of], attended[of], *(x.detach() for x in gain.weights()))
        found = residual.forward(("free", 3.0), *inputs)
        return residual.backward(("free", 3.0), inputs, found[1:], (torch.ones_like(inputs[0]), None))[2:]

    parts = [gradients(slice(b, b + 1)) for b in range(7)]
    for whole, *each in zip(gradients(slice(None)), *parts, strict=True):
        torch.testing.assert_close(whole, torch.stack(each).sum(0), rtol=1e-4, atol=1e-5)
        assert whole.abs().max() > 1e-3
