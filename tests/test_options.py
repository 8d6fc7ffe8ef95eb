"""Records of choices: the rules of their values, and their way to and from JSON."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from excora.errors import InputError
from excora.options import ByRows, Options, choices_of, option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tea(Options):
    """A record with an option of every kind."""

    minutes: float = option(3.0, "How long it steeps.", least=0)
    cups: int = option(2, "How many.", least=1)
    milk: float = option(0.1, "Share of milk.", least=0, below=1)
    kind: str = option("green", "Of leaves.", choices=("green", "black"))
    pot: str = option("any", "A word of one's own.")
    guest: str = option("bo", "Who drinks it.", choices=lambda: ("al", "bo"))
    hot: bool = option(True, "Whether it is.")
    shift: float = option(0.0, "Any number at all.")


@given(st.floats(0, 1e6), st.integers(1, 99), st.floats(0, 0.99), st.sampled_from(["green", "black"]), st.booleans())
def test_what_keeps_the_rules_survives_json(minutes, cups, milk, kind, hot):
    tea = Tea(minutes=minutes, cups=cups, milk=milk, kind=kind, hot=hot)
    assert Tea.from_dict(json.loads(json.dumps(tea.to_dict()))) == tea


def test_numbers_become_pythons_own():
    tea = Tea(minutes=np.float32(2.5), cups=np.int64(3), milk=0)
    assert [type(x) for x in (tea.minutes, tea.cups, tea.milk)] == [float, int, float]
    assert Tea.names() == ("minutes", "cups", "milk", "kind", "pot", "guest", "hot", "shift")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"minutes": -1}, "minutes must be finite and at least 0, got -1"),
        ({"minutes": float("inf")}, "minutes must be finite"),
        ({"minutes": float("nan")}, "minutes must be finite"),
        ({"minutes": "3"}, "minutes must be a number, got '3'"),
        ({"cups": 1.5}, "cups must be a whole number, got 1.5"),
        ({"cups": True}, "cups must be a whole number, got True"),
        ({"milk": 1.0}, r"milk must be in \[0, 1\), got 1.0"),
        ({"kind": "red"}, "kind must be one of green, black, got 'red'"),
        ({"kind": None}, "kind must be a word, got None"),
        ({"guest": "cy"}, "guest must be one of al, bo, got 'cy'"),
        ({"hot": 1}, "hot must be true or false, got 1"),
        ({"shift": float("nan")}, "shift must be a finite number, got nan"),
        ({"shift": float("inf")}, "shift must be a finite number, got inf"),
        ({"shift": float("-inf")}, "shift must be a finite number, got -inf"),
        ({"minutes": 10**400}, "minutes must be finite and at least 0, got 1000"),
    ],
)
def test_what_breaks_a_rule_is_named(change: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message):
        Tea(**change)
    with pytest.raises(InputError, match=message):
        Tea.from_dict(change)


def test_what_is_no_record_is_refused():
    with pytest.raises(InputError, match="unknown options colour, size: written by another version"):
        Tea.from_dict({"size": 1, "colour": 2, "cups": 1})
    with pytest.raises(InputError, match="tea are a dictionary by name, got list"):
        Tea.from_dict([])
    with pytest.raises(dataclasses.FrozenInstanceError):
        Tea().cups = 3


def test_choices_are_asked_for_when_they_are_needed():
    rules = {field.name: choices_of(field.metadata) for field in dataclasses.fields(Tea)}
    assert rules["kind"] == ("green", "black")
    assert rules["guest"] == ("al", "bo")
    assert rules["pot"] == ()


def test_a_default_by_rows_says_what_it_is():
    rule = ByRows("2 a row", lambda rows: 2 * rows)
    assert (str(rule), rule(4)) == ("2 a row", 8)
