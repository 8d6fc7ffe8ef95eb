"""Numbers as people read them."""

from __future__ import annotations

from typing import Any

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def figure(value: float | None, digits: int = 4) -> str:
    """A number with that many significant digits; a dash for an undefined one.

    >>> figure(1234.5678), figure(-0.012345678), figure(1.5e-9), figure(0), figure(None)
    ('1,235', '−0.01235', '1.500 × 10⁻⁹', '0', '–')
    """
    if value is None:
        return "–"
    if value == 0:
        return "0"
    mantissa, _, power = f"{abs(value):.{digits - 1}e}".partition("e")  # rounded first: 9.9996 has one digit more
    sign, exponent = ("−" if value < 0 else ""), int(power)
    if not -5 <= exponent < 7:
        return f"{sign}{mantissa} × 10{str(exponent).translate(_SUPERSCRIPT)}"
    return f"{sign}{abs(value):,.{max(digits - 1 - exponent, 0)}f}"


def correlation(value: float | None) -> str:
    """Three decimals; a dash for an undefined one.

    >>> correlation(0.81249), correlation(-0.0001), correlation(None)
    ('0.812', '0.000', '–')
    """
    if value is None:
        return "–"
    rounded = f"{abs(value):.3f}"
    return ("−" if value < 0 and float(rounded) else "") + rounded


def signed(value: float | None) -> str:
    """A difference of correlations: with its sign.

    >>> signed(0.02), signed(-0.02), signed(0.0001)
    ('+0.020', '−0.020', '0.000')
    """
    shown = correlation(value)
    return f"+{shown}" if value is not None and value > 0 and float(shown) else shown


def count(value: float | None) -> str:
    """A whole number, thousands apart."""
    return "–" if value is None else f"{round(value):,}"


def duration(seconds: float) -> str:
    """Seconds as people say them.

    >>> duration(0.42), duration(75), duration(7300)
    ('0.4 s', '1 min 15 s', '2 h 2 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds) // 60} min {int(seconds) % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def plural(number: int, word: str) -> str:
    """``3 bags``, ``1 bag``."""
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def plain(value: Any) -> str:
    """A setting as a reader would write it.

    >>> plain({"seeds": [0, 1], "rate": 1e-3, "resume": False, "group": None})
    'seeds: 0, 1, rate: 0.001, resume: no, group: –'
    """
    if isinstance(value, dict):
        return ", ".join(f"{name}: {plain(item)}" for name, item in value.items()) or "–"
    if isinstance(value, list | tuple):
        return ", ".join(map(plain, value)) or "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return "–" if value is None else str(value)
