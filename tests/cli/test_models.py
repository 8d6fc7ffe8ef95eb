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


def test_it_says_on_which_side_of_the_depth_threshold_a_model_is():
    printed = " ".join(call("models").output.split())
    assert "depth of ft-transformer, unless asked otherwise: 2 layers of width 64 are below the threshold" in printed
    assert "a width of 81 would put it at 4" in printed  # npt: 2 times rows and columns
