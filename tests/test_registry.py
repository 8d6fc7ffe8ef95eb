"""The registry: names in the order they came, modules that are found when one asks, errors that help."""

from __future__ import annotations

import importlib.metadata
import sys

import pytest

from excora.errors import InputError
from excora.registry import Registry


def test_names_and_things():
    shapes: Registry[int] = Registry("shape")
    assert shapes.register("square", 4) == 4
    assert shapes.named("triangle")(3) == 3
    assert shapes.names() == tuple(shapes) == ("square", "triangle")
    assert len(shapes) == 2
    assert "square" in shapes
    assert "circle" not in shapes
    assert shapes["triangle"] == 3
    shapes.register("square", shapes["square"])  # the same again: a module that is imported twice
    with pytest.raises(InputError, match="there is a shape 'square' already: give yours another name"):
        shapes.register("square", 5)


@pytest.mark.parametrize("name", ["sqare", "square ", "", "circle", None, 3, ["square"]])
def test_an_unknown_name_is_met_with_those_that_are_there(name):
    shapes: Registry[int] = Registry("shape")
    shapes.register("square", 4)
    with pytest.raises(InputError, match=r"there is no shape .*There are: square") as raised:
        shapes[name]
    assert ("did you mean 'square'?" in str(raised.value)) == (name in ("sqare", "square ", ["square"]))
    assert name not in shapes


def test_modules_of_its_home_and_of_entry_points_are_imported_at_the_first_question(tmp_path, monkeypatch):
    home = tmp_path / "shapes_home"
    home.mkdir()
    (home / "__init__.py").write_text("from excora.registry import Registry\nshapes = Registry('shape', __name__)\n")
    for name in ("square", "round"):
        (home / f"{name}.py").write_text(f"from shapes_home import shapes\nshapes.register('{name}', '{name}')\n")
    (tmp_path / "shapes_guest.py").write_text("from shapes_home import shapes\nshapes.register('star', 'guest')\n")
    monkeypatch.syspath_prepend(tmp_path)
    entry = importlib.metadata.EntryPoint("star", "shapes_guest", "excora.shapes")
    asked = []
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: asked.append(group) or [entry])
    import shapes_home

    try:
        assert "shapes_home.square" not in sys.modules
        assert shapes_home.shapes["star"] == "guest"
        assert set(shapes_home.shapes) == {"round", "square", "star"}
        assert asked == ["excora.shapes"]
    finally:
        for name in [name for name in sys.modules if name.startswith("shapes_")]:
            del sys.modules[name]
