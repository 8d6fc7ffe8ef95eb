"""Slides that several tests read and none changes."""

from __future__ import annotations

import pytest

from data.spatial.made import Made, slides


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Four .h5ad files with patch features."""
    return slides(tmp_path_factory.mktemp("slides"))


@pytest.fixture
def made() -> Made:
    return Made()
