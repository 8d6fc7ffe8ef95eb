"""RetrievalNetwork against a numpy oracle; what it sees, remembers and stores."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import torch
from oracles import retrieval as oracle
from oracles.rows import CATEGORIES, randomised, some, table, wavy
from safetensors.torch import load, save
from torch import Tensor

from excora.data.bags import BagSpec
from excora.data.table import TableSpec
from excora.encodings.columns import PARTS
from excora.errors import InputError
from excora.models.parts.neighbours import Excluded
from excora.models.parts.retrieval import RetrievalNetwork
from excora.pooling import pools

SMALL = {"keys": 4, "values": 5, "width": 6, "neighbours": 4, "bins": 3}


def network_with_rows(pool: str = "eca", targets: int = 2, **options) -> tuple[RetrievalNetwork, dict[str, Tensor]]:
    """Away from its start, in float64, with 9 rows in its context and 5 rows to predict, one of them without any."""
    spec = TableSpec(targets=targets, numeric=3, categories=CATEGORIES)
    network = RetrievalNetwork(spec, context=9, gaps=[0, 2], pool=pool, **SMALL | options).double().eval()
    rows = table(9, 3, CATEGORIES, missing=0.3)
    rows["numeric"][0, 1] = 40.0  # beyond reach
    network.keep(rows, torch.randn(9, targets))
    network.encoder.fit(network.columns(rows))
    network.metric_weight.copy_(torch.rand_like(network.metric_weight))
    if network.metric_mix is not None:
        network.metric_mix.copy_(0.3 * torch.randn_like(network.metric_mix))
    allowed = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]], dtype=torch.bool)
    x = {**table(5, 3, CATEGORIES, missing=0.3), "neighbours": torch.randint(0, 9, (5, 4)), "allowed": allowed}
    return randomised(network), x


def by_oracle(network: RetrievalNetwork, x: dict[str, Tensor], pool: str) -> list[tuple[np.ndarray, ...]]:
    """h, weights and prediction of each row."""
    p = {name: value.numpy() for name, value in network.state_dict().items()}
    layout = {"gaps": network.gaps, "categories": CATEGORIES}
    context = [oracle.columns(*row, **layout) for row in zip(*(p[f"context_{n}"] for n in PARTS), strict=True)]
    out = []
    for s, row in enumerate(zip(*(x[name].numpy() for name in PARTS), strict=True)):
        seen = x["neighbours"][s][x["allowed"][s]].tolist()
        labels = [p["context_labels"][i] for i in seen]
        columns, around = oracle.columns(*row, **layout), [context[i] for i in seen]
        h, own = oracle.bag(p, columns, around, labels, *(network.options[name] for name in ("shared", "blocks")))
        value, weights = oracle.pool(p, h, pool, 4) if seen else (np.zeros(network.pool.varying.dim), np.zeros(0))
        out.append((h, weights, oracle.head(p, value, own, network.head.labels)))
    return out


@pytest.mark.parametrize(
    ("pool", "options"),
    [
        ("mean", {}),
        ("softmax", {"metric": "diagonal"}),
        ("eca", {}),
        ("eca", {"shared": 0, "blocks": 0, "bins": 0}),
        ("eca-paper", {"shared": 2, "blocks": 1}),
    ],
)
def test_bag_and_forward_are_those_of_the_oracle(pool, options):
    network, x = network_with_rows(pool, **options)
    h, output = network.bag(x).varying.detach().numpy(), network(x)
    pooled = output.pooled["neighbours"]
    given = pooled.weights.detach().numpy()
    for s, (elements, weights, prediction) in enumerate(by_oracle(network, x, pool)):
        seen = x["allowed"][s].numpy()
        if len(elements):
            np.testing.assert_allclose(h[s][seen], elements, rtol=0, atol=1e-12)
        np.testing.assert_allclose(given[s][seen], weights, rtol=0, atol=1e-12)
        assert not given[s][~seen].any()
        np.testing.assert_allclose(output.prediction[s].detach().numpy(), prediction, rtol=0, atol=1e-11)
    if pool.startswith("eca"):
        assert float(pooled.details["gamma"].detach().sub(1).abs().max()) > 1e-3  # it meant something


@pytest.mark.parametrize("pool", pools.names())
def test_every_pool_serves_and_every_parameter_learns(pool):
    network, x = network_with_rows(pool)
    network.train()
    output = network(x)
    (output.prediction.square().sum() + output.pooled["neighbours"].penalty.sum).backward()
    frozen = {name for name, p in network.named_parameters() if not p.requires_grad}
    silent = {name for name, p in network.named_parameters() if p.grad is None or not p.grad.any()}
    assert silent == frozen
    assert getattr(network.pool.varying, "dropout", 0.2) == 0.2


def test_gradients_are_those_of_finite_differences():
    network, x = network_with_rows("eca", attention_dropout=0.0, dropout=0.0)
    names = [name for name, _ in network.named_parameters()]

    def run(*values: Tensor) -> Tensor:
        return torch.func.functional_call(network, dict(zip(names, values, strict=True)), (x,)).prediction

    assert torch.autograd.gradcheck(
        run, tuple(p.detach().requires_grad_() for p in network.parameters()), fast_mode=True
    )


@pytest.mark.parametrize("pool", ["mean", "eca"])
def test_what_elements_share_is_pooled_as_if_it_stood_in_each(pool):
    network, x = network_with_rows(pool)
    bag = network.bag(some(x, slice(4)))
    whole = network.pool.elements(bag)
    assert whole.shape == (4, 4, network.pool.dim)
    pooled = network.pool(bag, x["allowed"][:4])
    value = torch.einsum("nk,nkd->nd", pooled.weights, whole)
    if pool == "eca":
        mean = torch.stack([h[seen].mean(0) for h, seen in zip(whole, x["allowed"], strict=False)])
        value = mean + pooled.details["gamma"].unsqueeze(1) * (value - mean)
    torch.testing.assert_close(pooled.value, value, rtol=0, atol=1e-12)


def test_a_mask_that_hides_nothing_is_no_mask():
    network, x = network_with_rows()
    rows, alone = some(x, slice(2)), some(x, slice(1))
    torch.testing.assert_close(network(rows).prediction[:1], network(alone).prediction, rtol=0, atol=1e-12)


def test_two_categories_are_at_distance_one_and_an_unseen_one_is_nowhere():
    network = RetrievalNetwork(TableSpec(targets=1, categories=(4,)), context=2, **SMALL)
    nothing = {"numeric": torch.zeros(4, 0), "missing": torch.zeros(4, 0, dtype=torch.bool)}
    x = network.columns(nothing | {"codes": torch.arange(4)[:, None]})
    torch.testing.assert_close(torch.cdist(x[1:], x[1:]), 1 - torch.eye(3))
    assert not x[0].any()


def test_extrapolation_leaves_the_labels_of_the_neighbours_and_softmax_cannot():
    found = {"softmax": [], "eca": []}
    for pool, seed in itertools.product(found, range(5)):
        torch.manual_seed(seed)
        network, x = network_with_rows(pool, targets=1)
        if pool == "eca":
            with torch.no_grad():
                network.pool.varying.extrapolation.gain.out.bias.fill_(30.0)  # gamma = 4
        x = some(x, slice(4))
        labels = network.context_labels[x["neighbours"]].squeeze(-1)
        low = labels.masked_fill(~x["allowed"], torch.inf).amin(1)
        high = labels.masked_fill(~x["allowed"], -torch.inf).amax(1)
        value = network(x).pooled["neighbours"].value[:, network.head.labels].squeeze(1).detach()
        found[pool].append(((value < low - 1e-9) | (value > high + 1e-9)).tolist())
    assert not any(map(any, found["softmax"]))
    assert any(map(any, found["eca"]))
    assert not any(outside[2] for outside in found["eca"])  # a single neighbour has one label


@pytest.mark.parametrize("options", [{}, {"metric": "plain", "pool": "eca-paper"}, {"temperature": (0.5, 1.0)}])
def test_it_is_rebuilt_from_json_and_safetensors_to_the_last_bit(options):
    spec, rows, target = wavy(80)
    x = rows.read(np.arange(60))
    network = RetrievalNetwork(spec, context=60, gaps=[3], width=8, neighbours=5, **options)
    network.remember(x, torch.from_numpy(target[:60]), Excluded(network.columns(x)))
    state, config = save(network.state_dict()), json.dumps(network.options)
    again = RetrievalNetwork(spec, **json.loads(config))
    again.load_state_dict(load(state))
    assert json.dumps(again.options) == config
    for index in (np.arange(60), np.arange(60, 80)):
        found = again.eval().look_up(rows).read(index)
        wanted = network.look_up(rows).read(index)
        assert torch.equal(found["neighbours"], wanted["neighbours"])
        assert torch.equal(again(found).prediction, network.eval()(wanted).prediction)
    with torch.device("meta"):
        bare = RetrievalNetwork(spec, **json.loads(config)).state_dict()
    shapes = {name: (t.shape, t.dtype) for name, t in bare.items()}
    assert shapes == {name: (t.shape, t.dtype) for name, t in load(state).items()}


def test_an_empty_batch_has_no_predictions_and_gradients_of_zero():
    network, x = network_with_rows()
    output = network(some(x, slice(0)))
    assert output.prediction.shape == (0, 2)
    output.prediction.sum().backward()
    assert all(p.grad is None or not p.grad.any() for p in network.parameters())


def test_what_breaks_a_rule_is_named():
    spec, rows, _ = wavy(80)
    for options, words in (
        ({"pool": "max"}, "there is no pool 'max'"), ({"metric": "deep"}, "metric must be one of"),
        ({"keys": 0}, "keys must be at least 1"), ({"dropout": 1.0}, r"dropout must be in \[0, 1\)"),
        ({"gaps": [4]}, "rising numbers of the 4 numeric columns"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=words):
            RetrievalNetwork(spec, context=60, **options)
    network = RetrievalNetwork(spec, context=60, **SMALL)
    with pytest.raises(InputError, match=r"with their neighbours, got \['codes', 'missing', 'numeric'\]: look_up"):
        network(rows.read(np.arange(2)))
    with pytest.raises(InputError, match="with their neighbours, got Tensor"):
        network(torch.zeros(2, 4))
    with pytest.raises(InputError, match=r"labels must be of shape \(60, 1\)"):
        network.remember(rows.read(np.arange(60)), torch.zeros(59, 1), Excluded(torch.zeros(60, 1)))
    with pytest.raises(InputError, match="at least one column"):
        RetrievalNetwork(BagSpec(targets=1, width=3), context=5)
    with pytest.raises(InputError, match="train and excluded go together"):
        network.look_up(rows, np.arange(60))


def test_a_memory_weighs_neighbours_by_their_age_and_is_part_of_the_file() -> None:
    torch.manual_seed(0)
    spec, features, labels = wavy(60)
    network = RetrievalNetwork(spec, context=60, gaps=[3], metric="plain", memory=5.0, pool="softmax", **SMALL).eval()
    everyone, target = np.arange(60), torch.from_numpy(labels)
    rows, time = features.read(everyone), torch.linspace(100.0, 130.0, 60, dtype=torch.float64)
    excluded = Excluded(network.columns(rows))
    with pytest.raises(InputError, match="needs the time of each training row"):
        network.remember(rows, target, excluded)
    network.remember(rows, target, excluded, time=time)
    found = network.look_up(features).read(everyone)
    pooled = network(found).pooled["neighbours"]
    aged = found["decay"].float().square()
    expected = torch.softmax(pooled.details["logits"] + aged, 1) * torch.exp(-aged)
    torch.testing.assert_close(pooled.weights, expected / expected.sum(1, keepdim=True), rtol=1e-4, atol=1e-5)
    ages = 130.0 - time[found["neighbours"]]
    assert ((found["decay"].argmin(1) == ages.argmin(1)) | (found["decay"] == 0).all(1)).all()
    again = RetrievalNetwork(spec, **json.loads(json.dumps(network.options))).eval()
    again.load_state_dict(load(save(network.state_dict())))
    assert torch.equal(again(again.look_up(features).read(everyone)).prediction, network(found).prediction)
