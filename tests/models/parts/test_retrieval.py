"""RetrievalNetwork against a numpy oracle; what it sees, remembers and stores; training it."""

from __future__ import annotations

import copy
import itertools
import json

import numpy as np
import pytest
import torch
from oracles import retrieval as oracle
from oracles.rows import CATEGORIES, randomised, table
from safetensors.torch import load, save
from torch import Tensor

from excora.data.dataset import Batch, Inputs, RetrievalInput, TableInput, move
from excora.data.features import TableFeatures
from excora.data.splits import Split
from excora.errors import InputError
from excora.models import retrieval
from excora.models.neighbours import Excluded
from excora.models.retrieval import RetrievalNetwork, build_retrieval
from excora.models.retrieval_blocks import Dropout, Pieces
from excora.settings import POOLS, Settings
from excora.training import train
from excora.training.batches import Rows
from excora.training.evaluation import answers

SMALL = {"keys": 4, "values": 5, "width": 6, "neighbours": 4, "bins": 3}


def network_with_rows(pool: str = "eca", targets: int = 2, **options) -> tuple[RetrievalNetwork, RetrievalInput]:
    """Away from its start, in float64, with 9 rows in its context and 5 rows to predict, one of them without any."""
    inputs = Inputs(targets=targets, numeric=3, categories=CATEGORIES)
    network = RetrievalNetwork(inputs, context=9, gaps=[0, 2], pool=pool, **SMALL | options).double().eval()
    rows = table(9, 3, CATEGORIES, missing=0.3)
    rows.numeric[0, 1] = 40.0  # beyond reach
    for name, part in zip(("numeric", "missing", "codes"), rows, strict=True):
        getattr(network, f"context_{name}").copy_(part)
    network.encoder.fit(network.columns(rows))
    network.context_labels.copy_(torch.randn(9, targets))
    network.metric_weight.copy_(torch.rand_like(network.metric_weight))
    if network.metric_mix is not None:
        network.metric_mix.copy_(0.3 * torch.randn_like(network.metric_mix))
    allowed = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]], dtype=torch.bool)
    x = RetrievalInput(table(5, 3, CATEGORIES, missing=0.3), torch.randint(0, 9, (5, 4)), allowed)
    return randomised(network), x


def by_oracle(network: RetrievalNetwork, x: RetrievalInput, pool: str) -> list[tuple[np.ndarray, ...]]:
    """h, weights and prediction of each row."""
    p = {name: value.numpy() for name, value in network.state_dict().items()}
    layout = {"gaps": network.gaps, "categories": CATEGORIES}
    context = [
        oracle.columns(*row, **layout) for row in zip(*(p[f"context_{n}"] for n in TableInput._fields), strict=True)
    ]
    out = []
    for s, row in enumerate(zip(*(part.numpy() for part in x.table), strict=True)):
        seen = x.neighbours[s][x.allowed[s]].tolist()
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
    for s, (elements, weights, prediction) in enumerate(by_oracle(network, x, pool)):
        seen = x.allowed[s].numpy()
        if len(elements):
            np.testing.assert_allclose(h[s][seen], elements, rtol=0, atol=1e-12)
        np.testing.assert_allclose(output.pooled.weights[s].detach().numpy()[seen], weights, rtol=0, atol=1e-12)
        assert not output.pooled.weights[s].detach().numpy()[~seen].any()
        np.testing.assert_allclose(output.prediction[s].detach().numpy(), prediction, rtol=0, atol=1e-11)
    if pool.startswith("eca"):
        assert float(output.pooled.details["gamma"].detach().sub(1).abs().max()) > 1e-3  # it meant something


@pytest.mark.parametrize("pool", POOLS)
def test_every_pool_serves_and_every_parameter_learns(pool):
    network, x = network_with_rows(pool)
    network.train()
    output = network(x)
    (output.prediction.square().sum() + output.pooled.penalty.sum).backward()
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
    bag = network.bag(x[:4])
    whole = network.pool.elements(bag)
    assert whole.shape == (4, 4, network.pool.dim)
    pooled = network.pool(bag, x.allowed[:4])
    value = torch.einsum("nk,nkd->nd", pooled.weights, whole)
    if pool == "eca":
        mean = torch.stack([h[seen].mean(0) for h, seen in zip(whole, x.allowed, strict=False)])
        value = mean + pooled.details["gamma"].unsqueeze(1) * (value - mean)
    torch.testing.assert_close(pooled.value, value, rtol=0, atol=1e-12)


def test_dropout_drops_the_share_it_was_told_to_and_keeps_the_mean():
    x = torch.rand(700, 301, generator=torch.Generator().manual_seed(0)).add(0.1).requires_grad_()
    dropout = Dropout(0.3)
    out = dropout(x)
    kept = out.detach() != 0
    torch.testing.assert_close(out[kept], (x / 0.7)[kept], rtol=1e-4, atol=0)
    for share, n in ((kept.double().mean(0), 700), (kept.double().mean(1), 301)):
        assert float((share - 0.7).abs().max()) < 6 * (0.21 / n) ** 0.5
    out.sum().backward()
    torch.testing.assert_close(x.grad, kept / 0.7, rtol=1e-4, atol=0)
    assert dropout.eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert Dropout(0.5)(x[:0]).shape == (0, 301)


def test_pieces_rise_from_quantile_to_quantile_and_a_bin_without_width_says_nothing():
    x = torch.tensor([[0.0, 3.0], [1.0, 3.0], [2.0, 3.0], [4.0, 3.0], [8.0, 7.0]])
    pieces = Pieces(2, 2, 4)
    pieces.fit(x[torch.tensor([4, 0, 2, 1, 3])])
    torch.testing.assert_close(pieces.starts, torch.tensor([[0.0, 3.0], [2.0, 3.0]]))
    torch.testing.assert_close(pieces.slopes, torch.tensor([[0.5, 0.0], [1 / 6, 0.25]]))
    with torch.no_grad():
        pieces.out.weight.copy_(torch.eye(4))
        found = pieces(torch.tensor([[1.0, 5.0], [-9.0, 9.0], [5.0, 1.0]]))
    torch.testing.assert_close(found, torch.tensor([[0, 0, -0.5, 0], [-0.5, 0, -0.5, 0.5], [0.5, 0, 0, -0.5]]))


def test_a_mask_that_hides_nothing_is_no_mask():
    network, x = network_with_rows()
    rows, alone = x[:2], x[:1]
    torch.testing.assert_close(network(rows).prediction[:1], network(alone).prediction, rtol=0, atol=1e-12)


def test_two_categories_are_at_distance_one_and_an_unseen_one_is_nowhere():
    network = RetrievalNetwork(Inputs(targets=1, categories=(4,)), context=2, **SMALL)
    rows = TableInput(torch.zeros(4, 0), torch.zeros(4, 0, dtype=torch.bool), torch.arange(4)[:, None])
    x = network.columns(rows)
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
        x = x[:4]
        labels = network.context_labels[x.neighbours].squeeze(-1)
        low = labels.masked_fill(~x.allowed, torch.inf).amin(1)
        high = labels.masked_fill(~x.allowed, -torch.inf).amax(1)
        value = network(x).pooled.value[:, network.head.labels].squeeze(1).detach()
        found[pool].append(((value < low - 1e-9) | (value > high + 1e-9)).tolist())
    assert not any(map(any, found["softmax"]))
    assert any(map(any, found["eca"]))
    assert not any(outside[2] for outside in found["eca"])  # a single neighbour has one label


def toy(n: int = 260, targets: int = 1, seed: int = 0):
    """A wavy function of one of four columns, one of another's gaps, and of a category."""
    generator = np.random.default_rng(seed)
    numeric = generator.normal(size=(n, 4)).astype(np.float32)
    codes = generator.integers(1, 4, (n, 1))
    missing = np.zeros((n, 4), bool)
    missing[:, 3] = generator.random(n) < 0.3
    y = np.sin(2 * numeric[:, :1]) + 0.5 * (codes == 2) + 0.5 * missing[:, 3:]
    y = np.concatenate([y, -y + 0.1 * generator.normal(size=y.shape)], 1)[:, :targets]
    target = ((y - y.mean(0)) / y.std(0)).astype(np.float32)
    inputs = Inputs(targets=targets, numeric=4, categories=(4,))
    return inputs, TableFeatures(np.where(missing, 0, numeric).astype(np.float32), missing, codes), target


@pytest.fixture(autouse=True)
def _short_metric(monkeypatch):
    learn = retrieval.learn_metric
    monkeypatch.setattr(retrieval, "learn_metric", lambda *a, **k: learn(*a, **k, steps=40, queries=64))


def test_a_fresh_network_is_about_kernel_regression_in_the_space_of_the_search():
    inputs, rows, target = toy()
    network, features = build_retrieval(inputs, rows, target, np.arange(200), pool="softmax", keys=16, width=8)
    with torch.no_grad():
        network.encoder.deep_key.weight.zero_()
        network.head.outer.weight.zero_()
        x = features.read(np.arange(200, 260))
        found = network.eval()(x).prediction
        m, around = network._searched(x.table), network._searched(network.context(x.neighbours.flatten()))
        far = (m.unsqueeze(1) - around.view(60, 24, -1)).square().sum(-1)
        wanted = torch.softmax(-far, 1).unsqueeze(1) @ network.context_labels[x.neighbours]
    torch.testing.assert_close(found, wanted.squeeze(1), rtol=1e-4, atol=1e-4)


def test_training_rows_do_not_see_themselves_their_group_or_their_time_and_others_see_all():
    inputs, rows, target = toy(120)
    order = np.random.default_rng(1).permutation(120)
    train_part, other = order[:90], order[90:]
    group, time = np.arange(120) // 4, np.arange(120.0) % 60
    network, features = build_retrieval(
        inputs, rows, target, train_part, group=group, time=time, gap=2.0, neighbours=200, width=8
    )
    assert features.neighbours.shape == (120, 90)  # no more than there are
    assert network.element_names(["a"])[::89] == ["neighbour 1", "neighbour 90"]
    assert features.allowed[other].all()
    for row in train_part:
        seen = set(train_part[features.neighbours[row][features.allowed[row]]])
        assert seen == {i for i in train_part if group[i] != group[row] and abs(time[i] - time[row]) > 2}
    again = network.look_up(rows)
    assert torch.equal(again.neighbours[other], features.neighbours[other])
    assert torch.equal(again.neighbours[train_part, 0], torch.arange(90))  # asked as a new row, it meets itself
    torch.testing.assert_close(network.context_labels, torch.from_numpy(target[train_part]))


def test_it_learns_by_the_training_of_the_application_and_its_monitor_reads_it():
    inputs, rows, target = toy(targets=2)
    parts = Split(np.arange(180), np.arange(180, 260), np.arange(0))
    state = torch.get_rng_state()
    network, features = build_retrieval(inputs, rows, target, parts.train, width=16, neighbours=8, metric="plain")
    assert torch.equal(torch.get_rng_state(), state)
    start = copy.deepcopy(network).eval()(features.read(parts.validation)).prediction
    settings = Settings(epochs=8, batch_size=32, learning_rate=5e-3, accelerator="cpu")
    training = train(network, features, target, parts, settings, progress=False)
    before = float((start.detach() - torch.from_numpy(target[180:])).square().mean())
    assert min(row["validation_mse"] for row in training.rows) < 0.7 * before
    record = training.monitor.records[-1]
    assert record["gamma_50"] is not None
    assert record["mean_pcc"] is not None
    one = next(answers(training.network, features, np.array([200]), settings))
    assert one.attention.weight.shape == (8,)
    assert one.attention.weight.sum() == pytest.approx(1.0)
    torch.testing.assert_close(training.network.context_labels, torch.from_numpy(target[:180]))  # data are not trained


@pytest.mark.parametrize("options", [{}, {"metric": "plain", "pool": "eca-paper"}, {"temperature": (0.5, 1.0)}])
def test_it_is_rebuilt_from_json_and_safetensors_to_the_last_bit(options):
    inputs, rows, target = toy(80)
    network, _ = build_retrieval(inputs, rows, target, np.arange(60), width=8, neighbours=5, **options)
    state, config = save(network.state_dict()), json.dumps(network.options)
    again = RetrievalNetwork(inputs, **json.loads(config))
    again.load_state_dict(load(state))
    assert json.dumps(again.options) == config
    for index in (np.arange(60), np.arange(60, 80)):
        found = again.eval().look_up(rows).read(index)
        wanted = network.look_up(rows).read(index)
        assert torch.equal(found.neighbours, wanted.neighbours)
        assert torch.equal(again(found).prediction, network.eval()(wanted).prediction)
    with torch.device("meta"):
        shapes = {
            name: (t.shape, t.dtype) for name, t in RetrievalNetwork(inputs, **json.loads(config)).state_dict().items()
        }
    assert shapes == {name: (t.shape, t.dtype) for name, t in load(state).items()}


def test_the_start_depends_on_the_seed_alone():
    inputs, rows, target = toy(80)
    first, second, other = (
        build_retrieval(inputs, rows, target, np.arange(60), width=8, seed=seed)[0].state_dict() for seed in (3, 3, 4)
    )
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["encoder.first.0.weight"], other["encoder.first.0.weight"])


@pytest.mark.parametrize("wide", [300, 600])
def test_wide_tables_work_and_very_wide_ones_do_not_mix_columns(wide):
    x = np.random.default_rng(0).normal(size=(60, wide)).astype(np.float32)
    rows = TableFeatures(x, np.zeros(x.shape, bool), np.zeros((60, 0), np.int64))
    network, features = build_retrieval(Inputs(targets=1, numeric=wide), rows, x[:, :1], np.arange(50))
    assert (network.metric_mix is None) == (wide == 600)
    assert network(features.read(np.arange(60))).prediction.isfinite().all()


def test_an_input_is_moved_sliced_and_emptied_with_all_its_parts():
    inputs, rows, target = toy(80)
    _, features = build_retrieval(inputs, rows, target, np.arange(60), width=8)
    batch = Rows(features, target, None).read(np.arange(5))
    meta = batch.to("meta")
    assert isinstance(batch, Batch)
    assert isinstance(meta.x, RetrievalInput)
    assert {t.device.type for t in (*meta.x.table, meta.x.neighbours, meta.x.allowed)} == {"meta"}
    assert move(batch.x, torch.device("cpu")).neighbours.shape == (5, 24)
    assert batch.x.double().table.numeric.dtype == torch.float64
    nothing = Rows(features, target, None).read(np.arange(0))
    assert [len(t) for t in (*nothing.x.table, nothing.x.neighbours, nothing.x.allowed)] == [0] * 5


def test_an_empty_batch_has_no_predictions_and_gradients_of_zero():
    network, x = network_with_rows()
    output = network(x[:0])
    assert output.prediction.shape == (0, 2)
    output.prediction.sum().backward()
    assert all(p.grad is None or not p.grad.any() for p in network.parameters())


def test_what_breaks_a_rule_is_named():
    inputs, rows, target = toy(80)
    for options, words in (
        ({"pool": "max"}, "pool must be one of"), ({"metric": "deep"}, "metric must be one of"),
        ({"keys": 0}, "keys must be at least 1"), ({"dropout": 1.0}, r"dropout must be in \[0, 1\)"),
        ({"gaps": [4]}, "rising numbers of the 4 numeric columns"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=words):
            RetrievalNetwork(inputs, context=60, **options)
    network = RetrievalNetwork(inputs, context=60, **SMALL)
    with pytest.raises(InputError, match="a RetrievalInput, got TableInput"):
        network(rows.read(np.arange(2)))
    with pytest.raises(InputError, match=r"labels must be of shape \(60, 1\)"):
        network.remember(rows.read(np.arange(60)), torch.zeros(59, 1), Excluded(torch.zeros(60, 1)))
    with pytest.raises(InputError, match="at least one column"):
        RetrievalNetwork(Inputs(targets=1, width=3), context=5)
    with pytest.raises(InputError, match="none of the 60 training rows may see another"):
        build_retrieval(inputs, rows, target, np.arange(60), group=np.zeros(80), width=8)
    with pytest.raises(InputError, match="train and excluded go together"):
        network.look_up(rows, np.arange(60))
