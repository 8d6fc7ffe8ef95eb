"""What is resampled together."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from excora.stats.units import effective_units, sample_units


@given(st.integers(2, 60), st.integers(0, 5), st.sampled_from(["samples", "groups", "time"]))
def test_units_are_numbered_without_gaps_and_keep_what_belongs_together(n, seed, kind):
    labels = np.random.default_rng(seed).integers(0, 4, n)
    if kind == "groups":
        unit = sample_units(n, group=labels)
        assert all(len(set(unit[labels == label])) == 1 for label in set(labels))
    elif kind == "time":
        unit = sample_units(n, time=labels.astype(float))
        assert (np.diff(unit[np.argsort(labels, kind="stable")]) >= 0).all()
    else:
        unit = sample_units(n)
        assert len(set(unit)) == n
    assert set(unit) == set(range(unit.max() + 1))


def test_many_samples_are_resampled_in_blocks():
    sizes = np.bincount(sample_units(4500))
    assert (len(sizes), sizes.min(), sizes.max()) == (2000, 2, 3)


def test_units_of_several_sizes_are_worth_fewer():
    assert effective_units(np.array([0] * 9 + [1])) == pytest.approx(100 / 82)


def test_statistics_need_numpy_alone():
    names = "correlation", "intervals", "paired", "scores", "units"
    code = f"import sys; {'; '.join(f'import excora.stats.{name}' for name in names)}"
    code += "; print({'torch', 'scipy', 'pandas'} & {*sys.modules})"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"
