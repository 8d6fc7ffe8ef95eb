"""Fixtures that the tests of this folder share."""

from __future__ import annotations

import pytest

from excora.report import write_report
from report.samples import plain, write_hostile, write_run


@pytest.fixture(scope="session")
def hostile(tmp_path_factory):
    return write_report(write_hostile(tmp_path_factory.mktemp("hostile")))


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("run"), targets=("a", "b"), samples=60)


@pytest.fixture
def content(folder):
    return plain(folder)
