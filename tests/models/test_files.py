"""Networks in files: they come back to the last bit, and what a stranger wrote is refused by its own name."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from oracles.rows import plain_rows
from safetensors.torch import save

from excora.data.table import TableSpec
from excora.errors import InputError
from excora.models import Samples, models
from excora.models.files import check_depth, read_weights, restore, write_weights

SPEC = TableSpec(targets=1, numeric=3)


def built(name, **options):
    """A network on 60 rows of numbers, its options, its features and those before it looked at them."""
    x = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    model = models[name]
    chosen, rows = model.Options(dim=8, **options), plain_rows(x)
    network, features = model.build(SPEC, Samples(rows, x[:, :1] - x[:, 1:2], np.arange(40)), chosen, seed=0)
    return network.eval(), chosen, features, rows


CASES = {
    "pool": ("pool", {}),
    "ft-transformer": ("ft-transformer", {}),
    "piecewise": ("ft-transformer", {"embeddings": "piecewise"}),
    "periodic": ("ft-transformer", {"embeddings": "periodic"}),
    "retrieval": ("retrieval", {"metric": "plain", "neighbours": 4}),
}


@pytest.mark.parametrize("case", CASES)
def test_every_model_is_written_and_read_the_same_way(case, tmp_path):
    name, more = CASES[case]
    network, options, features, rows = built(name, **more)
    learned = json.loads(json.dumps(network.learned))
    write_weights(tmp_path / "a", network)
    state = torch.get_rng_state()
    again = read_weights(tmp_path / "a", name, SPEC, options, learned)
    assert torch.equal(torch.get_rng_state(), state)
    index = np.arange(40, 60)
    found = again(again.look_up(rows).read(index)).prediction
    assert torch.equal(found, network(features.read(index)).prediction)
    assert again.learned == learned
    assert bool(network.carried()) == (name == "retrieval")
    write_weights(tmp_path / "b", again)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    with pytest.raises(InputError, match=r"what a .* network learned must be|bins must be 3 edges"):
        restore(name, SPEC, options, {"surplus": 1}, network.state_dict())


def test_the_edges_of_a_stranger_are_bounded_by_his_file():
    network, options, _, _ = built("ft-transformer", embeddings="piecewise")
    tensors = network.state_dict()
    for bins, message in (
        ([2, 3, 3], "3 edges or more for each of 3 columns"),
        ([3, 3], "3 edges or more for each of 3 columns"),
        ([3, 3, True], "3 edges or more"),
        ([3, 3, 2**31], "3 edges or more"),
        ([3, 3, 2**30], "need more than the .* numbers in the file"),
        ([3, 3, 3], "these weights are of another model"),
    ):
        with pytest.raises(InputError, match=message):
            restore("ft-transformer", SPEC, options, {"bins": bins}, tensors)


def test_a_network_that_no_machine_holds_is_refused():
    network, _, _, _ = built("pool")
    huge = models["pool"].Options(dim=2**62, heads=2)
    with pytest.raises(InputError, match="no machine holds"):
        restore("pool", SPEC, huge, {}, network.state_dict())


def test_files_that_are_no_weights_are_named(tmp_path):
    network, options, _, _ = built("pool")
    path = tmp_path / "weights.safetensors"
    with pytest.raises(InputError, match=r"there are no weights; .*--resume"):
        read_weights(path, "pool", SPEC, options, {})
    path.write_bytes(save(network.state_dict())[:-7])
    with pytest.raises(InputError, match=r"weights\.safetensors: this is not a whole safetensors file"):
        read_weights(path, "pool", SPEC, options, {})
    path.write_bytes(save({"head.weight": torch.zeros(1)}))
    with pytest.raises(InputError, match=r"weights\.safetensors: these weights are of another model"):
        read_weights(path, "pool", SPEC, options, {})
    with pytest.raises(InputError, match="cannot be read"):
        read_weights(tmp_path, "pool", SPEC, options, {})


def test_more_layers_than_tensors_are_refused_before_they_are_made():
    check_depth(2, {"a": torch.zeros(1), "b": torch.zeros(1)})
    with pytest.raises(InputError, match="3 layers need more than the 2 tensors in the file"):
        check_depth(3, {"a": torch.zeros(1), "b": torch.zeros(1)})
    network, _, _, _ = built("pool")
    with pytest.raises(InputError, match="layers need more than"):
        restore("pool", SPEC, models["pool"].Options(layers=10**9, heads=1), {}, network.state_dict())
