"""The heaviest elements of chosen samples, by effective share."""

from __future__ import annotations

from typing import Any, NamedTuple

from excora.report.checking import LARGEST
from excora.report.numerals import figure, plural
from excora.report.parts import Element, Sample
from excora.report.records import RunRecord
from excora.report.sections import Made, Missing, Section, section
from excora.report.words import NEGATIVE, SHARES, SIGNED

SHOWN = 6  # samples in sight; the others are folded


class Bar(NamedTuple):
    """An element as a row of a card; places are parts of the width."""

    label: str
    zero: float
    width: float
    tick: float
    effective: str
    weight: str
    negative: bool


class Card(NamedTuple):
    """A sample."""

    id: str
    facts: list[tuple[str, str]]
    size: str
    said: str
    bars: list[Bar]


@section("elements", "Heaviest elements", place=700)
def elements(record: RunRecord) -> Made:
    """A section for each pool that names some."""
    pools = {name: [bag for bag in found.bags if bag.top] for name, found in record.attention.items()}
    pools = {name: bags for name, bags in pools.items() if bags}
    if not pools:
        return Missing("this model weighs no elements, or no sample of them was kept.")
    title = "Heaviest elements: {}" if len(pools) > 1 else ""
    return [_pool(bags, title.format(name)) for name, bags in pools.items()]


def _pool(bags: list[Sample], title: str) -> Section:
    negative = any(item.effective < 0 for bag in bags for item in bag.top)
    gain = any(bag.gamma is not None for bag in bags)
    lead = NEGATIVE if gain else SIGNED if negative else SHARES
    cards = list(map(_card, bags))
    values = {"cards": cards[:SHOWN], "more": cards[SHOWN:], "summary": plural(len(cards) - SHOWN, "more sample")}
    return Section(template="elements.html", title=title, lead=lead, values=values | {"gain": gain})


def _card(bag: Sample) -> Card:
    """The bars are drawn between the smallest and the largest share."""
    shares = [value for item in bag.top for value in (item.effective, item.weight)]
    low, high = min(0.0, *shares), max(0.0, *shares)
    facts = [("predicted", _value(bag.prediction)), ("true", _value(bag.target))]
    known = (("gamma", bag.gamma), ("temperature", bag.temperature))
    facts += [(name, figure(value, 3)) for name, value in known if value is not None]
    size = f"{len(bag.top)} of {plural(bag.elements, 'element')}"
    return Card(str(bag.id), facts, size, bag.said, [_bar(item, low, (high - low) or 1.0) for item in bag.top])


def _bar(item: Element, low: float, span: float) -> Bar:
    effective, weight = item.effective, item.weight
    places = (-low / span, abs(effective) / span, (weight - low) / span)
    return Bar(str(item.label), *places, share(effective), share(weight), effective < 0)


def share(value: float) -> str:
    """A share in per cent, with the digits that it needs.

    >>> share(0.1234), share(-0.00512), share(0)
    ('12.3 %', '−0.51 %', '0.0 %')
    """
    size = abs(100 * value)
    digits = 1 if size >= 1 or size == 0 else 2 if size >= 0.1 else 3
    shown = f"{size:.{digits}f}"
    return ("−" if value < 0 and float(shown) else "") + shown + " %"


def _value(value: Any) -> str:
    """A prediction or a target: a number, or several."""
    if isinstance(value, list):
        return ", ".join(map(_value, value[:3])) + (", …" if len(value) > 3 else "")
    if isinstance(value, dict):
        return _value(list(value.values()))
    if isinstance(value, int | float) and abs(value) < LARGEST:
        return figure(value)
    return "–" if value is None else str(value)
