"""The command ``models``, which reads the registries."""

from __future__ import annotations

import json

from commands import call

from excora.models import models
from excora.peers import peers
from excora.pooling import pools


def test_models_lists_what_there_is():
    printed = call("models").output
    for word in (*models, *pools, *peers):
        assert word in printed
    found = json.loads(call("models", "--json").output)
    assert list(found["models"]) == list(models)
    assert found["models"]["retrieval"]["reads"] == ["table"]
    assert (found["pools"], found["peers"]) == (list(pools), list(peers))
