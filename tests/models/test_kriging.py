"""Kriging as a model: whom rows see, what neighbours weigh, how wide intervals are, and what it falls back to."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import samples_data
import torch
from oracles.rows import plain_rows, wavy

from excora.data.table import TableFeatures, TableSpec
from excora.errors import InputError
from excora.models import Samples, kriging, models
from excora.models.parts import members, row_space, stack
from excora.models.parts.channels import BENDS
from excora.models.parts.kriging import RANK, Keys, learn

MODEL = models["kriging"]
OPTIONS = MODEL.Options(members=2, neighbours=20, trees=False)
WITH_TREES = dataclasses.replace(OPTIONS, trees=True)


@pytest.fixture(autouse=True, scope="module")
def short():
    """Few steps."""
    steps = learn.__kwdefaults__["steps"]
    learn.__kwdefaults__["steps"] = 12
    yield
    learn.__kwdefaults__["steps"] = steps


@pytest.fixture(scope="module")
def fitted():
    """On 200 of 260 rows."""
    spec, features, target = wavy()
    samples = Samples(features, target, np.arange(200))
    network, found = MODEL.build(spec, samples, OPTIONS, seed=0)
    return network.eval(), found, target


def test_it_beats_its_ridge_and_says_so(fitted):
    network, features, target = fitted
    output = network(features.read(np.arange(200, 260)))
    found = np.corrcoef(output.prediction[:, 0], target[200:, 0])[0, 1]
    ridge, stack = network.scores.tolist()
    assert found > ridge + 0.1
    assert stack > ridge
    assert any("200 training rows" in line for line in network.carried())
    assert any(f"ridge PCC {ridge:.3f}" in line for line in network.carried())


def test_of_a_lead_that_left_out_rows_do_not_bear_out_a_fifth_is_taken(monkeypatch):
    spec, features, _ = wavy()
    x = features.read(np.arange(260))["numeric"].numpy()
    target = (x.sum(1, keepdims=True) + 3 * np.random.default_rng(6).normal(size=(260, 1))).astype(np.float32)
    found = []
    for doubted in (0.0, stack.DOUBTED):
        monkeypatch.setattr(stack, "DOUBTED", doubted)
        network, read = MODEL.build(spec, Samples(features, target, np.arange(200)), OPTIONS, seed=0)
        inputs = read.read(np.arange(200, 260))
        line = inputs["channels"] @ network.coefficient + network.intercept
        found.append((float(network.share), network(inputs).prediction - line))
    (whole, added), (share, kept) = found
    assert whole > 0.1
    assert share == pytest.approx(0.2 * whole)
    torch.testing.assert_close(kept, 0.2 * added, atol=1e-5, rtol=1e-4)


def test_the_weights_of_neighbours_sum_to_one_and_make_the_prediction(fitted):
    network, features, _ = fitted
    inputs = features.read(np.arange(200, 230))
    output = network(inputs)
    weights = output.pooled["neighbours"].effective
    assert weights.shape == (30, 40)
    torch.testing.assert_close(weights.sum(1), torch.ones(30), atol=1e-5, rtol=0)
    assert (weights < 0).any()
    residual = (weights * network.context_label[inputs["neighbours"], 0]).sum(1)
    line = inputs["channels"] @ network.coefficient + network.intercept
    torch.testing.assert_close(output.prediction[:, 0], line[:, 0] + network.share * residual, atol=1e-4, rtol=1e-4)
    for numbers, each in zip(inputs["neighbours"], weights, strict=True):
        weighed = numbers[each != 0]
        assert len(weighed) == len(weighed.unique()), "a row has one weight"
    assert features.element_sample(200, 3) == int(inputs["neighbours"][0, 3])


def test_a_training_row_does_not_see_itself_and_a_group_not_its_own():
    spec, features, target = wavy()
    group = np.arange(260) // 5
    samples = Samples(features, target, np.arange(200), group=group)
    _, found = MODEL.build(spec, samples, OPTIONS, seed=0)
    seen = found.read(np.arange(200))["neighbours"].numpy()
    assert not (group[seen] == group[:200, None]).any()


def test_the_rows_of_a_gap_in_time_do_not_meet():
    spec, features, target = wavy()
    samples = Samples(features, target, np.arange(200), time=np.arange(260.0))
    _, found = MODEL.build(spec, samples, dataclasses.replace(OPTIONS, gap=3.0), seed=0)
    seen = found.read(np.arange(200))
    apart = np.abs(seen["neighbours"].numpy() - np.arange(200)[:, None])
    assert (apart > 3)[seen["allowed"].numpy()].all()
    with pytest.raises(InputError, match="there is no column of times"):
        MODEL.build(spec, samples._replace(time=None), dataclasses.replace(OPTIONS, gap=3.0), seed=0)


def test_rows_of_weight_zero_and_without_labels_are_not_looked_at():
    spec, features, target = wavy(targets=2)
    target = target.copy()
    target[:20], target[20:60, 1] = np.nan, np.nan
    weight = np.where(np.arange(260) < 40, 0.0, 1.0 + np.arange(260) % 3)
    network, found = MODEL.build(spec, Samples(features, target, np.arange(200), weight=weight), OPTIONS, seed=0)
    assert len(network.context_x) == 160
    assert found.train is not None
    assert found.train.min() == 40
    output = network(found.read(np.arange(200, 260)))
    assert output.prediction.isfinite().all()
    for k in range(2):
        assert np.corrcoef(output.prediction[:, k], target[200:, k])[0, 1] > 0.5


def test_an_interval_holds_its_share_of_labels(fitted):
    network, features, target = fitted
    output = network(features.read(np.arange(200, 260)))
    wrong = np.abs(output.prediction[:, 0].numpy() - target[200:, 0])
    shares = [(wrong <= float(network.reach(level)[0]) * output.spread[:, 0].numpy()).mean() for level in (0.5, 0.9)]
    assert 0.3 <= shares[0] <= 0.85  # a member of two has half of the rows, the network all
    assert 0.78 <= shares[1] <= 1.0
    reach = [float(network.reach(level)[0]) for level in (0.1, 0.5, 0.9, 0.99)]
    assert reach == sorted(reach)


def test_intervals_are_about_what_all_members_say_of_rows_that_they_do_not_see(monkeypatch):
    told: list[members.Together] = []
    given: list[tuple] = []

    def listened(*words):
        given.append(words)
        told.append(members.together(*words))
        return told[-1]

    monkeypatch.setattr(kriging, "together", listened)
    spec, features, target = wavy()
    network, found = MODEL.build(spec, Samples(features, target, np.arange(200)), OPTIONS, seed=0)
    held = torch.cat([m.held for m in given[0][1]])[told[0].some]
    assert len(held) == 200
    assert all(int(row) in given[0][1][int(k)].held for row, k in zip(held, told[0].own, strict=True))
    output = network(found.read(held.numpy()))
    torch.testing.assert_close(output.pooled["neighbours"].value, told[0].guess.mean(1), atol=2e-3, rtol=2e-3)
    spread = (told[0].variance * network.unit).mean(1).sqrt()
    torch.testing.assert_close(output.spread, spread, atol=2e-3, rtol=2e-3)
    MODEL.build(spec, Samples(features, target, np.arange(200), time=np.arange(260.0)), OPTIONS, seed=0)
    assert len(told) == 1, "in time order neighbours in time would flatter it"


def test_labels_that_count_little_widen_no_interval_and_spoil_no_score():
    spec, features, target = wavy()
    junk = np.arange(260) % 2 == 0
    noisy = (target + 30 * junk[:, None] * np.random.default_rng(0).normal(size=target.shape)).astype(np.float32)
    found = []
    for given, weight in ((target, None), (noisy, np.where(junk, 1e-6, 1.0))):
        network, _ = MODEL.build(spec, Samples(features, given, np.arange(200), weight=weight), OPTIONS, seed=0)
        found.append((float(network.reach(0.9) * network.unit.mean().sqrt()), float(network.scores[1])))
    (reach, pcc), (other, spoilt) = found
    assert other < 2 * reach
    assert spoilt > pcc - 0.1


def test_rows_of_a_group_tell_nothing_of_each_other():
    """Rows of a group are nearly one row: a ridge that knew the others would leave nothing of its label."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(26), 10)
    x = (rng.normal(size=(26, 12))[group] + 0.1 * rng.normal(size=(260, 12))).astype(np.float32)
    spec, features = TableSpec(targets=1, numeric=12), plain_rows(x)
    target = rng.normal(size=26)[group, None].astype(np.float32)
    network, _ = MODEL.build(spec, Samples(features, target, np.arange(200), group=group), OPTIONS, seed=0)
    assert float(network.scores[0]) < 0.5
    alone, _ = MODEL.build(spec, Samples(features, target, np.arange(200)), OPTIONS, seed=0)
    assert float(alone.scores[0]) > 0.7


def test_one_member_leaves_a_fold_of_the_usual_number_out():
    spec, features, target = wavy()
    options = dataclasses.replace(WITH_TREES, members=1)
    network, _ = MODEL.build(spec, Samples(features, target, np.arange(200)), options, seed=0)
    assert len(network.length) == 1
    assert float(network.share) > 0.3
    assert len(network.context_x) == 200


def test_a_small_table_is_fitted_by_one_thread_and_its_trees_by_all(monkeypatch):
    """Of small operations a second thread mostly waits, beside a busy process many times as long."""
    seen, counted = [], kriging.boost
    before = torch.get_num_threads()

    def boost(*given, threads, **more):
        seen.append((torch.get_num_threads(), threads))
        return counted(*given, threads=threads, **more)

    monkeypatch.setattr(kriging, "boost", boost)
    spec, features, target = wavy()
    torch.set_num_threads(2)
    try:
        for large in (4000, 150):
            monkeypatch.setattr(kriging, "LARGE", large)
            MODEL.build(spec, Samples(features, target, np.arange(200)), WITH_TREES, seed=0)
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == [(1, 2), (2, 2)]


def test_the_number_of_members_follows_the_rows(monkeypatch):
    spec, features, target = wavy()
    usual = dataclasses.replace(OPTIONS, members=0)
    for large, count in ((4000, 5), (150, 10)):
        monkeypatch.setattr(members, "LARGE", large)
        network, _ = MODEL.build(spec, Samples(features, target, np.arange(200)), usual, seed=0)
        assert len(network.length) == count


@pytest.mark.parametrize("case", ["few", "one group"])
def test_where_nobody_can_be_asked_it_is_its_ridge(case):
    spec, features, target = wavy()
    train = np.arange(8) if case == "few" else np.arange(100)
    group = None if case == "few" else np.zeros(260)
    network, found = MODEL.build(spec, Samples(features, target, train, group=group), OPTIONS, seed=0)
    inputs = found.read(np.arange(200, 260))
    assert float(network.share) == 0.0
    line = inputs["channels"] @ network.coefficient + network.intercept
    torch.testing.assert_close(network(inputs).prediction, line, atol=1e-5, rtol=1e-5)
    assert "ridge alone" in network.carried()[-1]


def test_damaged_tensors_are_refused(fitted):
    network = fitted[0]
    tensors = {name: t.clone() for name, t in network.state_dict().items()}
    MODEL.check_tensors(network.spec, tensors)
    tensors["length"][0] = 0.0
    tensors["mix"][0, 0, 0] = torch.nan
    with pytest.raises(InputError, match="damaged in mix, length"):
        MODEL.check_tensors(network.spec, tensors)
    with pytest.raises(InputError, match="look_up finds them"):
        network(samples_data.table)


def test_curves_under_the_neighbours_have_their_share_and_are_said(monkeypatch):
    monkeypatch.setattr("excora.models.parts.channels.BENT_FROM", 100)
    spec, features, target = wavy()
    network, found = MODEL.build(spec, Samples(features, target, np.arange(200)), OPTIONS, seed=0)
    ridge, stack, curves, bend = network.scores.tolist()
    assert network.bends == network.learned["bends"] == BENDS
    assert curves > ridge
    assert stack > ridge
    assert 0.0 < bend <= 1.0
    assert any(f"{bend:.2f} x curves" in line for line in network.carried())
    inputs = found.read(np.arange(200, 260))
    before = network.eval()(inputs).prediction
    again = MODEL.network(spec, OPTIONS, network.learned)
    again.load_state_dict(network.state_dict())
    torch.testing.assert_close(again.eval()(inputs).prediction, before)
    MODEL.check_learned(network.learned, spec, OPTIONS, network.state_dict())
    with pytest.raises(InputError, match="if any, bends"):
        MODEL.check_learned(network.learned | {"more": 1}, spec, OPTIONS, {})


def stepped(n: int = 400) -> tuple[TableSpec, TableFeatures, np.ndarray]:
    """What trees are good at: steps of one column within those of another, among others that say nothing."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(n, 8)).astype(np.float32)
    y = np.where(x[:, 0] > 0.3, 1.0, -1.0) * np.where(x[:, 1] > -0.2, 1.0, -0.5) + 0.2 * generator.normal(size=n)
    return TableSpec(targets=1, numeric=8), plain_rows(x), y[:, None].astype(np.float32)


@pytest.fixture(scope="module")
def forest():
    """With trees, on 300 of 400 rows."""
    spec, features, target = stepped()
    network, found = MODEL.build(spec, Samples(features, target, np.arange(300)), WITH_TREES, seed=0)
    return network.eval(), found, target


def test_trees_take_their_share_and_are_said(forest):
    network, found, target = forest
    ridge, stack, trees, share = network.scores.tolist()
    assert trees > ridge + 0.3
    assert stack >= trees - 0.01
    assert 0.3 < share <= 1.0
    assert any(
        f"boosted trees {trees:.3f}, {1 - share:.2f} x ridge + {share:.2f} x trees" in s for s in network.carried()
    )
    inputs = found.read(np.arange(300, 400))
    output = network(inputs)
    assert np.corrcoef(output.prediction[:, 0], target[300:, 0])[0, 1] > ridge + 0.2
    line = inputs["channels"].double() @ network.coefficient.double() + network.intercept
    residual = (output.pooled["neighbours"].effective * network.context_label[inputs["neighbours"], 0]).sum(1)
    whole = (line + network.trees(inputs["channels"]))[:, 0] + network.share * residual
    torch.testing.assert_close(output.prediction[:, 0].double(), whole, atol=1e-4, rtol=1e-4)


def test_without_the_option_there_are_no_trees_and_a_seed_fixes_them(forest):
    network = forest[0]
    spec, features, target = stepped()
    samples = Samples(features, target, np.arange(300))
    again = MODEL.build(spec, samples, WITH_TREES, seed=0)[0]
    assert all(
        torch.equal(a, b) for a, b in zip(network.state_dict().values(), again.state_dict().values(), strict=True)
    )
    without = MODEL.build(spec, samples, OPTIONS, seed=0)[0]
    assert "trees" not in without.learned
    assert not any("trees" in line for line in without.carried())


@pytest.mark.parametrize("bent", [False, True], ids=["ridge", "curves"])
def test_weights_gaps_targets_and_groups_go_with_trees(bent, monkeypatch):
    monkeypatch.setattr("excora.models.parts.channels.BENT_FROM", 100 if bent else 10**6)
    spec, features, target = wavy(targets=2)
    target = target.copy()
    target[:30], target[30:60, 1] = np.nan, np.nan
    weight, group = np.where(np.arange(260) < 40, 0.0, 1.0 + np.arange(260) % 3), np.arange(260) // 4
    samples = Samples(features, target, np.arange(200), weight=weight, group=group)
    network, found = MODEL.build(spec, samples, WITH_TREES, seed=0)
    assert bent or network.learned["trees"] > 0  # curves leave nothing that trees could mend
    assert float(network.scores[3::2].sum()) <= 1.0 + 1e-6
    prediction = network(found.read(np.arange(200, 260))).prediction
    for k in range(2):
        assert np.corrcoef(prediction[:, k], target[200:, k])[0, 1] > 0.6


def test_damaged_trees_are_refused(forest):
    network = forest[0]
    MODEL.check_learned(network.learned, network.spec, WITH_TREES, {})
    for name, value in (("child", 10**6), ("child", -1), ("root", -1), ("feature", 16), ("feature", -1)):
        tensors = {key: t.clone() for key, t in network.state_dict().items()}
        MODEL.check_tensors(network.spec, tensors)
        tensors[f"tree_{name}"].view(-1)[0] = value
        with pytest.raises(InputError, match=f"damaged in tree_{name}"):
            MODEL.check_tensors(network.spec, tensors)
    cycle = {key: t.clone() for key, t in network.state_dict().items()}
    cycle["tree_child"][5] = 0
    with pytest.raises(InputError, match="damaged in tree_child"):
        MODEL.check_tensors(network.spec, cycle)
    with pytest.raises(InputError, match="trees and nodes go together"):
        MODEL.check_learned({k: v for k, v in network.learned.items() if k != "nodes"}, network.spec, WITH_TREES, {})


def test_a_wide_table_is_read_in_its_span_and_gives_what_all_channels_give(monkeypatch):
    generator = np.random.default_rng(0)
    latent = generator.normal(size=(70, 2))
    x = latent @ generator.normal(size=(2, 45)) + 0.1 * generator.normal(size=(70, 45))
    features = TableFeatures(x.astype(np.float32), np.zeros((70, 45), bool), np.zeros((70, 0), np.int64))
    target = (latent**2).sum(1, keepdims=True).astype(np.float32)
    spec, samples, found = TableSpec(targets=1, numeric=45), Samples(features, target, np.arange(50)), []
    even = lambda part, *_: Keys(torch.full(part.rows.x.shape[1:], -2.0), torch.zeros(part.rows.x.shape[1], RANK))  # noqa: E731
    monkeypatch.setattr(members, "learn", even)  # Euclidean
    monkeypatch.setattr(row_space, "WIDER", 1)
    monkeypatch.setattr(stack, "DOUBTED", 0.0)
    for wide in (True, False):
        if not wide:
            monkeypatch.setattr(kriging, "row_space", lambda _: None)
        network, read = MODEL.build(spec, samples, OPTIONS, seed=0)
        assert (network.learned.get("components", 0), network.context_x.shape[1]) == ((49, 50) if wide else (0, 90))
        assert float(network.share) > 0.1
        assert any("49 principal directions" in line for line in network.carried()) == wide
        MODEL.check_learned(network.learned, spec, OPTIONS, dict(network.named_buffers()))
        found.append(network(read.read(np.arange(70))))
    torch.testing.assert_close(found[0].prediction, found[1].prediction, atol=1e-4, rtol=0)
    torch.testing.assert_close(found[0].spread, found[1].spread, atol=1e-4, rtol=0)
