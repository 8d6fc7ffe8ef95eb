"""Fixtures that the tests of this folder share."""

from __future__ import annotations

import pytest

from pooling.samples import POOLS


@pytest.fixture(params=POOLS)
def pool(request):
    return POOLS[request.param]().double()
