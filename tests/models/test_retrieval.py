"""The model "retrieval": whom rows see, what is learned of them, what a file may claim; training it."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles.rows import plain_rows, wavy

from excora.data.dataset import Batch, each, in_double
from excora.data.splits import Split
from excora.data.table import TableSpec
from excora.errors import InputError
from excora.models import Samples, models
from excora.models.files import restore
from excora.models.parts import retrieval
from excora.settings import Machine, Recipe, Setup
from excora.stats.ridge import left_out_ridge
from excora.training import train
from excora.training.batches import Rows
from excora.training.evaluation import answers

MODEL = models["retrieval"]


def built(spec, rows, target, index, *, seed=0, group=None, time=None, weight=None, **options):
    """The network and its features."""
    samples = Samples(rows, target, index, group, time, weight)
    return MODEL.build(spec, samples, MODEL.Options(**options), seed=seed)


@pytest.fixture(autouse=True)
def _short_metric(monkeypatch):
    learn = retrieval.learn_metric
    monkeypatch.setattr(retrieval, "learn_metric", lambda *a, **k: learn(*a, **k, steps=40, queries=64))


def test_a_fresh_network_is_about_kernel_regression_in_the_space_of_the_search():
    spec, rows, target = wavy()
    network, features = built(spec, rows, target, np.arange(200), pool="softmax", metric="full", dim=8)
    with torch.no_grad():
        network.encoder.deep_key.weight.zero_()
        network.head.outer.weight.zero_()
        x = features.read(np.arange(200, 260))
        found = network.eval()(x).prediction
        m, around = (network.metric(network.columns(part)) for part in (x, network.context(x["neighbours"].flatten())))
        far = (m.unsqueeze(1) - around.view(60, 24, -1)).square().sum(-1)
        wanted = torch.softmax(-far, 1).unsqueeze(1) @ network.context_labels[x["neighbours"]]
    torch.testing.assert_close(found, wanted.squeeze(1), rtol=1e-4, atol=1e-4)


def test_training_rows_do_not_see_themselves_their_group_or_their_time_and_others_see_all():
    spec, rows, target = wavy(120)
    order = np.random.default_rng(1).permutation(120)
    train_part, other = order[:90], order[90:]
    group, time = np.arange(120) // 4, np.arange(120.0) % 60
    network, features = built(
        spec, rows, target, train_part, group=group, time=time, gap=2.0, neighbours=200, dim=8, metric="full"
    )
    assert features.neighbours.shape == (120, 90)  # no more than there are
    assert network.element_names(["a"])[::89] == ["neighbour 1", "neighbour 90"]
    assert features.allowed[other].all()
    for row in train_part:
        seen = set(train_part[features.neighbours[row][features.allowed[row]]])
        assert seen == {i for i in train_part if group[i] != group[row] and abs(time[i] - time[row]) > 2}
        assert features.element_sample(row, 0) == train_part[features.neighbours[row, 0]]
    again = network.look_up(rows)
    assert torch.equal(again.neighbours[other], features.neighbours[other])
    assert torch.equal(again.neighbours[train_part, 0], torch.arange(90))  # asked as a new row, it meets itself
    assert again.element_sample(0, 0) is None
    torch.testing.assert_close(network.context_labels, torch.from_numpy(target[train_part]))


def test_it_learns_by_the_training_of_the_application_and_its_monitor_reads_it():
    spec, rows, target = wavy(targets=2)
    parts = Split(np.arange(180), np.arange(180, 260), np.arange(0))
    state = torch.get_rng_state()
    network, features = built(spec, rows, target, parts.train, dim=16, neighbours=8, metric="plain")
    assert torch.equal(torch.get_rng_state(), state)
    start = copy.deepcopy(network).eval()(features.read(parts.validation)).prediction
    setup = Setup(
        "retrieval", MODEL.Options(), Recipe(epochs=8, batch_size=32, learning_rate=5e-3), Machine(accelerator="cpu")
    )
    training = train(network, features, target, parts, setup.recipe, setup.machine, progress=False)
    before = float((start.detach() - torch.from_numpy(target[180:])).square().mean())
    assert min(row["validation_mse"] for row in training.rows) < 0.7 * before
    record = training.monitor.records[-1]
    assert record["gamma_50"] is not None
    assert record["mean_pcc"] is not None
    one = next(answers(training.network, features, np.array([200]), setup)).attention["neighbours"]
    assert one.weight.shape == (8,)
    assert one.weight.sum() == pytest.approx(1.0)
    torch.testing.assert_close(training.network.context_labels, torch.from_numpy(target[:180]))  # data are not trained


def test_the_start_depends_on_the_seed_alone():
    spec, rows, target = wavy(80)
    first, second, other = (
        built(spec, rows, target, np.arange(60), metric="full", dim=8, seed=seed)[0].state_dict() for seed in (3, 3, 4)
    )
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["encoder.first.0.weight"], other["encoder.first.0.weight"])


@pytest.mark.parametrize("wide", [300, 600])
def test_wide_tables_work_and_very_wide_ones_do_not_mix_columns(wide):
    x = np.random.default_rng(0).normal(size=(60, wide)).astype(np.float32)
    spec = TableSpec(targets=1, numeric=wide)
    network, features = built(spec, plain_rows(x), x[:, :1], np.arange(50), metric="full")
    assert (network.metric_mix is None) == (wide == 600)
    assert network(features.read(np.arange(60))).prediction.isfinite().all()


def test_an_input_is_moved_sliced_and_emptied_with_all_its_parts():
    spec, rows, target = wavy(80)
    _, features = built(spec, rows, target, np.arange(60), dim=8)
    batch = Rows(features, target, None).read(np.arange(5))
    meta = batch.to("meta")
    assert isinstance(batch, Batch)
    assert meta.inputs.keys() == {"numeric", "missing", "codes", "neighbours", "allowed"}
    assert {t.device.type for t in meta.inputs.values()} == {"meta"}
    assert each(batch.inputs, lambda x: x.to("cpu"))["neighbours"].shape == (5, 24)
    double = in_double(batch.inputs)
    assert double["numeric"].dtype == torch.float64
    assert {name: t.dtype for name, t in double.items() if name != "numeric"} == {
        "missing": torch.bool, "codes": torch.int64, "neighbours": torch.int64, "allowed": torch.bool,
    }  # fmt: skip
    nothing = Rows(features, target, None).read(np.arange(0))
    assert [len(t) for t in nothing.inputs.values()] == [0] * 5


def test_a_gap_needs_a_time_and_rows_of_no_weight_or_label_are_not_looked_at():
    x = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    spec, rows, target = TableSpec(targets=1, numeric=3), plain_rows(x), x[:, :1] - x[:, 1:2]
    small = {"dim": 8, "neighbours": 5, "metric": "plain", "gap": 2.0}
    with pytest.raises(InputError, match="there is no column of times"):
        built(spec, rows, target, np.arange(40), **small)
    weight = np.ones(60)
    weight[:10] = 0.0
    target[10:15] = np.nan
    network, found = built(spec, rows, target, np.arange(40), time=np.arange(60.0), weight=weight, **small)
    assert network.learned["context"] == 25
    seen = 15 + found.neighbours[15:40]
    assert ((seen - torch.arange(15, 40)[:, None]).abs() > 2)[found.allowed[15:40]].all()
    assert network.context_labels.isfinite().all()
    assert found.allowed[:15].all(), "a row that is not among those looked at sees them all"
    with pytest.raises(InputError, match="none of the 40 training rows may see another"):
        built(spec, rows, x[:, :1], np.arange(40), group=np.zeros(60), dim=8, metric="plain")


def test_effective_weights_divide_by_the_neighbours_that_are_there():
    spec, rows, target = wavy(80)
    network, features = built(spec, rows, target, np.arange(60), dim=8, neighbours=5, metric="plain")
    with torch.no_grad():
        network.pool.varying.extrapolation.gain.out.bias.fill_(1.0)
    features.allowed[60, 3:] = False
    features.allowed[61] = False
    setup = Setup("retrieval", MODEL.Options())
    three, none, all_five = (
        one.attention["neighbours"] for one in answers(network, features, np.arange(60, 63), setup)
    )
    assert [len(one.weight) for one in (three, none, all_five)] == [3, 0, 5]
    for one in (three, all_five):
        assert one.gamma > 1.1
        assert one.effective.sum() == pytest.approx(1.0, abs=1e-5)
        n = len(one.weight)
        assert one.effective == pytest.approx((1 - one.gamma) / n + one.gamma * one.weight, abs=1e-6)


def test_a_trained_network_goes_on_with_other_rows():
    spec, rows, target = wavy(80)
    network, _ = built(spec, rows, target, np.arange(60), dim=8, neighbours=5)
    samples, options = Samples(rows, target, np.arange(20, 60)), MODEL.Options(dim=8, neighbours=5)
    again, features = MODEL.go_on(network, spec, samples, options)
    assert again.learned == {"context": 40, "gaps": [3]}
    assert torch.equal(again.metric_weight, network.metric_weight)
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), network.parameters(), strict=True))
    torch.testing.assert_close(again.context_labels, torch.from_numpy(target[20:60]))
    assert (features.neighbours[20:60] != torch.arange(40)[:, None]).all(), "no row meets itself"


def damage(learned, tensors, data):
    """One thing in them that is not as it was."""
    what = data.draw(st.sampled_from(["context", "gaps", "whole", "codes", "numeric", "metric"]))
    junk = st.sampled_from([None, -1, 0, 10**12, 10**30, 0.5, True, "x", [], {}, [-1], [7], ["a"], [1, 1], [2**40]])
    if what == "whole":
        return data.draw(junk), tensors
    if what in learned:
        value = data.draw(junk.filter(lambda value: value != learned[what]))
        return {**learned, what: value}, tensors
    broken = {name: t.clone() for name, t in tensors.items()}
    if what == "codes":
        broken["context_codes"][3, 0] = data.draw(st.sampled_from([-1, 4, 2**40]))
    else:
        name = "context_numeric" if what == "numeric" else "metric_weight"
        broken[name].view(-1)[0] = data.draw(st.sampled_from([np.nan, np.inf]))
    return learned, broken


@pytest.fixture(scope="module")
def described():
    """A network, and its spec and options."""
    spec, rows, target = wavy(80)
    options = MODEL.Options(dim=8, neighbours=5, metric="plain")
    return MODEL.build(spec, Samples(rows, target, np.arange(60)), options, seed=0)[0], spec, options


@given(data=st.data())
def test_damaged_descriptions_and_rows_are_refused(described, data):
    network, spec, options = described
    learned, tensors = damage(network.learned, network.state_dict(), data)
    with pytest.raises(InputError):
        restore("retrieval", spec, options, learned, tensors)


def test_on_a_ridge_start_rows_carry_what_the_ridge_leaves_and_training_rows_a_prediction_without_themselves():
    spec, rows, target = wavy(120)
    target = target + 3 * rows.read(np.arange(120))["numeric"][:, :1].numpy()
    network, features = built(spec, rows, target, np.arange(90), dim=8, residual="ridge", metric="plain")
    x = network.columns(rows.read(np.arange(120)))
    known = left_out_ridge(x[:90].double().numpy(), target[:90].astype(np.float64))
    np.testing.assert_allclose(features.start[:90], known.left_out, atol=1e-4)
    np.testing.assert_allclose(features.start[90:], known.line.predict(x[90:].double().numpy()), atol=1e-4)
    restored = features.start[:90] + network.start.scale * network.context_labels
    np.testing.assert_allclose(restored, target[:90], atol=1e-4)
    again = network.look_up(rows)
    np.testing.assert_allclose(again.start, known.line.predict(x.double().numpy()), atol=1e-4)  # asked as new rows
    assert network.monitored is None
    with torch.no_grad():
        network.head.outer.weight.zero_()
        network.head.label_weight.zero_()
    batch = features.read(np.arange(120))
    torch.testing.assert_close(network.eval()(batch).prediction, features.start)  # nothing added: the ridge itself


def test_a_ridge_start_is_stored_and_moves_with_new_rows():
    spec, rows, target = wavy(100)
    options = {"dim": 8, "residual": "ridge", "metric": "plain"}
    network, features = built(spec, rows, target, np.arange(80), **options)
    choices = MODEL.Options(**options)
    again = restore("retrieval", spec, choices, network.learned, network.state_dict())
    batch = features.read(np.arange(80, 100))
    assert torch.equal(again(batch).prediction, network.eval()(batch).prediction)
    broken = {**network.state_dict(), "start.weight": torch.full_like(network.start.weight, torch.nan)}
    with pytest.raises(InputError, match=r"damaged in start\.weight"):
        restore("retrieval", spec, choices, network.learned, broken)
    moved, other = MODEL.go_on(network, spec, Samples(rows, target, np.arange(40, 100)), choices)
    assert not torch.equal(moved.start.weight, network.start.weight)
    assert torch.equal(moved.head.inner.weight, network.head.inner.weight)
    copies = Samples(rows, target, np.arange(80), origin=np.concatenate([np.arange(80), np.arange(20)]))
    _, doubled = MODEL.build(spec, copies, choices, seed=0)
    assert torch.equal(doubled.start[80:], doubled.start[:20])
    assert len(other.start) == 100


@pytest.mark.parametrize("pool", ["local-linear", "kriging"])
def test_pools_of_elements_with_keys_read_the_networks_own(pool):
    spec, rows, target = wavy(80)
    network, features = built(spec, rows, target, np.arange(60), dim=8, pool=pool)
    assert network.pool.varying.keys.given == 32
    assert not [name for name, _ in network.pool.varying.named_parameters() if name.startswith("keys.")]
    pooled = network.eval()(features.read(np.arange(60, 80))).pooled["neighbours"]
    torch.testing.assert_close(pooled.effective.sum(1), torch.ones(20))
    assert (pooled.effective < 0).any()


def test_a_memory_helps_where_the_task_drifts_and_needs_times():
    """A fresh network, about kernel regression, on labels whose slope turns round with time."""
    rng = np.random.default_rng(0)
    x, time = rng.normal(size=(300, 1)).astype(np.float32), np.arange(300.0)
    y = (1 - time / 150)[:, None] * x + 0.1 * rng.normal(size=(300, 1))
    target, rows, spec = ((y - y.mean()) / y.std()).astype(np.float32), plain_rows(x), TableSpec(targets=1, numeric=1)
    late, errors = np.arange(260, 300), {}
    for memory in (0.0, 30.0):
        made = {"pool": "softmax", "metric": "plain", "neighbours": 40, "dim": 8, "memory": memory}
        network, features = built(spec, rows, target, np.arange(260), time=time, **made)
        with torch.no_grad():
            network.encoder.deep_key.weight.zero_()
            network.head.outer.weight.zero_()
            found = network.eval()(features.read(late)).prediction
        errors[memory] = float((found - torch.from_numpy(target[late])).square().mean())
    assert errors[30.0] < 0.6 * errors[0.0]
    with pytest.raises(InputError, match=r"a memory of 30 is a time.*--time"):
        built(spec, rows, target, np.arange(260), memory=30.0)
