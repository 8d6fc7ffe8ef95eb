"""The map of the thirteen systems: every row's call runs, and gives something finite."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

PAGE = Path(__file__).parents[1] / "docs" / "thirteen.md"
ROWS = re.findall(r"^\| (\d+) \|[^|]*\| `([^`]+)` \|", PAGE.read_text(), re.M)


@pytest.fixture(scope="module")
def names() -> dict[str, object]:
    found: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S):
        exec(compile(block, PAGE.name, "exec"), found)
    return found


def test_there_is_a_row_for_each_system():
    assert [int(number) for number, _ in ROWS] == list(range(1, 14))


def numbers(value: object) -> list[float]:
    """All numbers in a result, whatever it is."""
    if isinstance(value, torch.Tensor | np.ndarray | float | int):
        return torch.as_tensor(value).detach().double().flatten().tolist()
    if isinstance(value, dict):
        return [x for part in value.values() for x in numbers(part)]
    if isinstance(value, tuple | list):
        return [x for part in value for x in numbers(part)]
    return numbers(value.changes) if hasattr(value, "changes") else [float(len(str(value)))]


@pytest.mark.parametrize(("number", "call"), ROWS, ids=[number for number, _ in ROWS])
def test_its_call_runs(number, call, names):
    found = numbers(eval(call, names))
    assert found, number
    assert np.isfinite(found).all()
