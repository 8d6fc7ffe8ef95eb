"""extrapolation: gain, temperature and penalty against their formulas, and files of 0.1."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from excora import extrapolation as F
from excora.errors import InputError
from excora.extrapolation import Extrapolation, HeadGain, Temperature


@pytest.mark.parametrize("cap", [1.5, 2.3, 4.0, 10.0])
def test_free_gain_starts_at_exactly_one_and_stays_inside(cap):
    raw = torch.tensor([0.0, -1e4, 1e4, 0.5], requires_grad=True)
    gamma = F.free_gain(raw, cap)
    gamma.sum().backward()
    assert gamma[0] == 1.0
    assert gamma.min() >= 0
    assert gamma.max() <= cap * (1 + 1e-6)
    assert torch.isfinite(raw.grad).all()
    assert raw.grad[0] == pytest.approx(1 - 1 / cap)  # d gamma / d raw at the start
    np.testing.assert_allclose(gamma[3].item(), cap / (1 + (cap - 1) * np.exp(-0.5)), rtol=1e-6)


def test_paper_gain_is_one_plus_softplus_up_to_the_cap():
    raw = torch.tensor([-1.0, 0.0, 5.0], dtype=torch.float64)
    np.testing.assert_allclose(F.paper_gain(raw, 2.0), np.minimum(1 + np.log1p(np.exp(raw.numpy())), 2.0))


def test_temperature_laws():
    spread = torch.tensor([0.0, 0.5, 3.0], dtype=torch.float64)
    base, slope = torch.tensor(0.7, dtype=torch.float64), torch.tensor(1.3, dtype=torch.float64)
    np.testing.assert_allclose(F.power_temperature(spread, base, slope), 0.7 * (1 + spread.numpy()) ** 1.3)
    np.testing.assert_allclose(F.linear_temperature(spread, base, slope), 0.7 + 1.3 * spread.numpy())
    one = torch.tensor(1.0, dtype=torch.float64)  # with beta = 1 the two forms are one line
    torch.testing.assert_close(F.power_temperature(spread, base, one), F.linear_temperature(spread, base, base))


@pytest.mark.parametrize("residual", ["free", "paper"])
def test_a_gain_a_head_is_linear_in_the_mean(residual):
    torch.manual_seed(0)
    ours = Extrapolation(4, heads=3, residual=residual, cap=3.0).double()
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.copy_(torch.randn_like(parameter))
    mean, sigma = torch.randn(2, 3, 5, 4, dtype=torch.float64), torch.rand(2, 3, 5, dtype=torch.float64)
    gamma, tau = ours.gamma(mean).detach().numpy(), ours.tau(sigma).detach().numpy()
    assert isinstance(ours.gain, HeadGain)
    w, b = ours.gain.weight.detach().numpy(), ours.gain.bias.detach().numpy()
    base, slope = (getattr(ours.temperature, name).detach().numpy() for name in ("log_base", "slope"))
    for h in range(3):
        raw = mean[:, h].numpy() @ w[h] + b[h]
        free, paper = 3.0 / (1.0 + 2.0 * np.exp(-raw)), np.minimum(1.0 + np.log1p(np.exp(raw)), 3.0)
        np.testing.assert_allclose(gamma[:, h], free if residual == "free" else paper, rtol=1e-12)
        np.testing.assert_allclose(tau[:, h], np.exp(base[h]) * (1 + sigma[:, h].numpy() / 2.0) ** slope[h], rtol=1e-12)


def test_the_penalty_counts_what_is_real():
    ours = Extrapolation(4, penalty_weight=0.5)
    gamma, real = torch.tensor([1.0, 3.0, 7.0]), torch.tensor([True, True, False])
    assert [x.item() for x in ours.penalty(gamma, real)] == [2.0, 2.0]
    assert [x.item() for x in ours.penalty(gamma)] == [20.0, 3.0]


def test_scalars_of_an_older_file_load():
    ours = Temperature()
    ours.load_state_dict({"log_base": torch.tensor(0.3), "slope": torch.tensor(0.7)})
    assert (ours.log_base.tolist(), ours.slope.tolist()) == ([pytest.approx(0.3)], [pytest.approx(0.7)])


def test_what_does_not_exist_is_refused():
    for options in (
        {"residual": "x"},
        {"temperature": (1.0, -1.0)},
        {"temperature": "x"},
        {"cap": 1.0},
        {"scale": "x"},
    ):
        with pytest.raises(InputError, match=next(iter(options))):
            Extrapolation(4, **options)
