"""Kernels of the encodings against the ones they stand for; invariance to translation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import iv

from excora.encodings.time import Bochner, InverseCDF, Mercer, time_encoding
from excora.errors import InputError

KINDS = {"bochner": lambda: Bochner(12), "inverse-cdf": lambda: InverseCDF(12), "mercer": lambda: Mercer(periods=2)}


@pytest.fixture(params=KINDS)
def encoding(request):
    torch.manual_seed(0)
    made = KINDS[request.param]().double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return made


def test_the_kernel_is_invariant_to_translation(encoding):
    t = torch.rand(9, dtype=torch.float64) * 50
    here, there = encoding(t), encoding(t + 7.3)
    assert here.shape == (9, encoding.dim)
    torch.testing.assert_close(here @ here.T, there @ there.T, rtol=0, atol=1e-12)


def test_gradients_and_late_times(encoding):
    assert torch.autograd.gradcheck(encoding, torch.rand(3, 2, dtype=torch.float64, requires_grad=True))
    encoding(torch.rand(4, dtype=torch.float64)).square().sum().backward()
    single = encoding.float()
    late = single(torch.tensor([1e6, 1e6 + 1.0]))  # whole numbers that float32 holds exactly
    early = single(torch.tensor([0.0, 1.0]))
    torch.testing.assert_close(late @ late.T, early @ early.T, rtol=0, atol=1e-5)
    assert single(torch.arange(3)).dtype == torch.float32


def test_every_parameter_learns(encoding):
    t = torch.rand(20, dtype=torch.float64) * 10
    (encoding(t) @ torch.randn(encoding.dim, dtype=torch.float64)).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in encoding.parameters())


@pytest.mark.parametrize("frequencies", [64, 512])
def test_bochner_of_normal_frequencies_is_the_gaussian_kernel(frequencies):
    phi = Bochner(2 * frequencies)
    t = torch.linspace(0, 10, 400)
    error = []
    for seed in range(5):
        # the sign of a frequency does not matter to a cosine, nor to the kernel
        draw = torch.randn(frequencies, generator=torch.Generator().manual_seed(seed)).abs().log()
        with torch.no_grad():
            phi.log_frequency.copy_(draw)
            error.append((phi(t) @ phi(t[:1]).T).squeeze(1).sub(torch.exp(-(t**2) / 2)).abs().max().item())
    assert np.mean(error) < 3.5 / math.sqrt(frequencies)


@pytest.mark.parametrize(("harmonics", "error"), [(1, 0.32), (2, 0.050), (5, 4.8e-5)])
def test_mercer_of_bessel_coefficients_is_the_periodic_kernel(harmonics, error):
    phi = Mercer(periods=1, harmonics=harmonics).double()
    c = torch.tensor([iv(0, 1.0), *(2 * iv(j, 1.0) for j in range(1, harmonics + 1))], dtype=torch.float64)
    with torch.no_grad():
        phi.raw.copy_(torch.log(torch.expm1(c)).unsqueeze(0))
        phi.log_frequency.copy_(torch.tensor([math.log(2 * math.pi / 3.0)]))
        t = torch.linspace(0, 6, 500, dtype=torch.float64)
        found = (phi(t) @ phi(t[:1]).T).squeeze(1)
    worst = (found - torch.exp(torch.cos(2 * math.pi * t / 3.0))).abs().max().item()
    assert worst == pytest.approx(error, rel=0.05)


def test_inverse_cdf_starts_as_bochner_spaced_by_midpoints():
    w = InverseCDF(200, shortest=1.0, longest=100.0).frequency()
    assert (w.diff() > 0).all()
    assert 0.01 < w[0] < 0.011
    assert 0.95 < w[-1] < 1.0


@pytest.mark.parametrize(
    "make", [lambda: Bochner(5), lambda: Bochner(0), lambda: InverseCDF(3), lambda: Mercer(periods=0)]
)
def test_widths_are_checked(make):
    with pytest.raises(InputError, match="must be"):
        make()


def test_ranges_are_checked():
    with pytest.raises(InputError, match="shortest"):
        Bochner(4, shortest=2.0, longest=1.0)


def test_an_encoding_has_a_name_and_none_is_none():
    assert [type(time_encoding(name)) for name in ("bochner", "mercer", "inverse-cdf")] == [Bochner, Mercer, InverseCDF]
    assert time_encoding("none") is None
    with pytest.raises(InputError, match="a time encoding is one of bochner"):
        time_encoding("clock")
