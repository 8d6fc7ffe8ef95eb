"""Numbers as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from excora.report.numerals import correlation, count, duration, figure, plain, plural, signed


def read(shown: str) -> float:
    """A figure back as a number."""
    mantissa, _, power = shown.replace("−", "-").replace(",", "").partition(" × 10")
    return float(mantissa) * 10.0 ** int(power.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")) or 0)


@given(st.floats(1e-90, 1e90) | st.floats(-1e9, -1e-9), st.integers(3, 6))
def test_a_figure_says_the_number_to_its_digits(value, digits):
    assert read(figure(value, digits)) == pytest.approx(value, rel=0.51 * 10.0 ** (1 - digits))


@pytest.mark.parametrize(
    ("value", "words"), [(9.99996, "10.00"), (999_999.9, "1,000,000"), (1e7, "1.000 × 10⁷"), (0.99995, "1.000")]
)
def test_rounding_may_add_a_digit(value, words):
    assert figure(value) == words


def test_a_correlation_that_rounds_to_0_has_no_sign():
    assert [correlation(x) for x in (-0.0004, -0.0006, 1.0)] == ["0.000", "−0.001", "1.000"]
    assert [signed(x) for x in (0.0004, 0.0006, -0.0006, None)] == ["0.000", "+0.001", "−0.001", "–"]


@pytest.mark.parametrize(
    ("seconds", "words"), [(59.94, "59.9 s"), (60, "1 min 0 s"), (3599.9, "59 min 59 s"), (3600, "1 h 0 min")]
)
def test_a_duration_at_its_turns(seconds, words):
    assert duration(seconds) == words


def test_counts_and_words():
    assert (count(12_345.4), count(None)) == ("12,345", "–")
    assert (plural(1, "bag"), plural(0, "bag"), plural(1200, "bag")) == ("1 bag", "0 bags", "1,200 bags")
    assert plain({"a": [], "b": (1, True), "c": {}}) == "a: –, b: 1, yes, c: –"
