"""Roles: declared once, from what a caller gives, to JSON and to the words of a command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from excora.data.roles import Roles
from excora.errors import InputError


def test_each_role_says_what_it_is():
    fields = {role.name: role for role in Roles.fields()}
    names = "target group time weight bag time_within labels features genes expression id drop sep decimal encoding"
    assert " ".join(fields) == names
    assert all(role.says.endswith(".") for role in fields.values())
    assert {name: role.kind for name, role in fields.items() if role.kind != "column"} == {
        "target": "columns", "labels": "file", "features": "file", "genes": "word", "expression": "word",
        "drop": "columns", "sep": "word", "decimal": "word", "encoding": "word",
    }  # fmt: skip
    assert [name for name, role in fields.items() if role.text] == ["group", "bag", "id"]


def test_options_of_two_words_have_a_dash():
    assert Roles.of(time_within="t").words() == ["--time-within", "t"]


def test_from_what_a_caller_gives():
    roles = Roles.of(target="y", drop=["a", 1], labels="b.csv", group=3, time=None)
    assert roles == Roles(target=("y",), drop=("a", "1"), labels=Path("b.csv"), group="3")
    assert roles.given == ("target", "group", "labels", "drop")
    assert roles.columns == {"3": "group", "y": "target"}
    assert roles.text == ["3"]
    assert Roles.of(target=None) == Roles()
    with pytest.raises(TypeError, match="there is no role 'colour'"):
        Roles.of(colour="red")


def test_json_and_back():
    roles = Roles.of(target=["y", "z"], drop="a", labels="b.csv", id="name", bag="slide")
    values = json.loads(json.dumps(roles.to_dict()))
    assert list(values) == [role.name for role in Roles.fields()]
    assert Roles.from_dict(values) == roles
    assert Roles.from_dict(values | {"path": "a.csv", "fingerprint": 5}) == roles
    assert roles.words() == [
        "--target", "y", "--target", "z", "--bag", "slide", "--labels", "b.csv", "--id", "name", "--drop", "a",
    ]  # fmt: skip
    for wrong in ({"target": 5}, {"target": ["y", 5]}, {"group": ["g"]}, {"labels": {}}):
        with pytest.raises(InputError, match=r"the role '\w+' must name a (column|file), got"):
            Roles.from_dict(wrong)


def test_the_declarations_cost_no_heavy_import():
    """The command line's help reads them."""
    code = "import sys, excora.data.roles; print({'torch', 'numpy', 'pandas'} & set(sys.modules) or 'none')"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "none\n"
