"""The gallery: every example runs, and shows what its page says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_says_how_it_is_run(path):
    assert f"python examples/{path.name}" in path.read_text(encoding="utf-8")


def test_the_transport_classifier_is_near_the_best_possible_one():
    example = runpy.run_path(str(EXAMPLES / "optimal_transport_classifier.py"))
    found = example["accuracies"](2.0)
    assert found["best possible"] == pytest.approx(0.9214, abs=1e-4)
    assert found["points"] > found["best possible"] - 0.03
    assert found["instances"] > 0.99
    assert found["optimality"] == pytest.approx(1.0)
