"""Metrics against scipy: any split of the data, merging, groups, undefined targets, and torchmetrics' own machinery."""

from __future__ import annotations

import importlib
import io
import itertools
import sys
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import correlation as oracle
from scipy import stats
from torch import Tensor, nn
from torchmetrics import ConcordanceCorrCoef, MetricCollection, PearsonCorrCoef

from excora.errors import InputError, MissingExtraError
from excora.metrics import ConcordanceCorrelation, CorrelationSummary, PearsonCorrelation
from excora.moments import concordance


def batch(n: int, targets: int = 1, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    target = torch.randn(n, targets, dtype=dtype)
    return 0.5 * target + torch.randn(n, targets, dtype=dtype) + 10, target


def scipy(x: Tensor, y: Tensor) -> Tensor:
    x, y = x.double(), y.double()
    return torch.tensor([stats.pearsonr(x[:, t], y[:, t]).statistic for t in range(x.shape[1])], dtype=torch.float64)


def close(value: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(value, expected.to(value), rtol=0, atol=1e-10, equal_nan=True)


@given(
    cuts=st.lists(st.integers(0, 60), max_size=6),
    scale=st.sampled_from([1e-18, 1.0, 1e18]),
    far=st.sampled_from([0.0, 1e5]),
)
def test_any_split_gives_scipys_number(cuts: list[int], scale: float, far: float) -> None:
    x, y = batch(60, 2, torch.float64)
    x, y = (x + far) * scale, y - far
    metric = PearsonCorrelation(num_targets=2)
    edges = sorted({0, 60, *cuts})
    for start, end in itertools.pairwise(edges):
        metric.update(x[start:end], y[start:end])
    metric.update(x[:0], y[:0])
    assert metric.compute().dtype == torch.float64
    close(metric.compute(), scipy(x, y))


def test_one_sample_at_a_time() -> None:
    x, y = batch(200)
    metric = PearsonCorrelation()
    for i in range(200):
        metric.update(x[i], y[i])
    close(metric.compute()[None], scipy(x, y))


def test_weights_and_masks() -> None:
    x, y = batch(50, 2)
    mask, weight = torch.rand(50, 2) > 0.3, torch.rand(50)
    x[~mask] = torch.nan
    metric = PearsonCorrelation(num_targets=2)
    for part in torch.arange(50).split(7):
        metric.update(x[part], y[part], mask[part], weight[part])
    merged = (mask * weight[:, None]).numpy()
    expected = [oracle.pearson(x[:, t], y[:, t], merged[:, t]) for t in range(2)]
    close(metric.compute(), torch.tensor(expected, dtype=torch.float64))


@given(cuts=st.lists(st.integers(0, 60), max_size=6), far=st.sampled_from([-1.0, 0.0, 1e5]), masked=st.booleans())
def test_concordance_of_any_split(cuts: list[int], far: float, masked: bool) -> None:
    torch.manual_seed(0)  # the same numbers in every example
    x, y = batch(60, 2, torch.float64)
    x, y = x - 9 + far, 3 * y + far
    mask = torch.rand(60, 2) > 0.3 if masked else None
    weight = torch.rand(60, dtype=torch.float64) if masked else None
    metrics = ConcordanceCorrelation(2), ConcordanceCorrelation(2, reduction="mean")
    for start, end in itertools.pairwise(sorted({0, 60, *cuts})):
        rows = slice(start, end)
        for metric in metrics:
            metric.update(
                x[rows], y[rows], mask if mask is None else mask[rows], weight if mask is None else weight[rows]
            )
    merged = np.ones((60, 2)) if mask is None else (mask * weight[:, None]).numpy()
    expected = torch.tensor([oracle.concordance(x[:, t], y[:, t], merged[:, t]) for t in range(2)], dtype=torch.float64)
    assert 0.05 < expected.abs().min() < expected.abs().max() < 0.95, "away from trivial values"
    close(metrics[0].compute(), expected)
    close(metrics[0].compute(), concordance(x, y, mask, weight))
    close(metrics[1].compute(), expected.mean())


def test_concordance_is_torchmetrics_but_for_its_divisor() -> None:
    x, y = batch(25, 2, torch.float64)
    for moved in (x - x.mean(0) + y.mean(0), x - 9):
        theirs, ours = ConcordanceCorrCoef(num_outputs=2).set_dtype(torch.float64), ConcordanceCorrelation(2)
        for part in torch.arange(25).split(6):
            theirs.update(moved[part], y[part])
            ours.update(moved[part], y[part])
        # With n - 1 for n in the variances, 1 / theirs lacks offset^2 / (2 n cov).
        apart = moved.mean(0) - y.mean(0)
        covariance = ((moved - moved.mean(0)) * (y - y.mean(0))).mean(0)
        close(ours.compute(), 1 / (1 / theirs.compute() + apart.square() / (2 * 25 * covariance)))
        assert ours.compute().abs().max() < 0.9


def test_concordance_is_undefined_where_the_correlation_is() -> None:
    x, y = batch(30, 4)
    y[:, 1], x[:, 2], x[3, 3] = 0.1, 1 + torch.finfo(torch.float32).eps * torch.randint(0, 2, (30,)), torch.nan
    metrics = PearsonCorrelation(4), ConcordanceCorrelation(4), ConcordanceCorrelation(4, reduction="mean")
    for metric in metrics:
        metric.update(x, y)
    rho, each, mean = (metric.compute() for metric in metrics)
    assert each.isnan().tolist() == rho.isnan().tolist() == [False, True, True, True]
    close(mean, each[0])
    empty = ConcordanceCorrelation(4, reduction="mean")
    empty.update(x[:1], y[:1])
    assert empty.compute().item() == 0.0


@pytest.mark.parametrize(
    ("kind", "peer"), [(PearsonCorrelation, PearsonCorrCoef), (ConcordanceCorrelation, ConcordanceCorrCoef)]
)
def test_one_target_is_a_scalar_as_in_torchmetrics(kind: type, peer: type) -> None:
    x, y = batch(9, 3)
    for columns in (x[:, 0], y[:, 0]), (x[:, :1], y[:, :1]):
        metric, theirs = kind(), peer()
        assert metric(*columns).shape == theirs(columns[0].flatten(), columns[1].flatten()).shape == ()
        assert metric.compute().shape == theirs.compute().shape == ()
    assert kind(3)(x, y).shape == peer(num_outputs=3)(x, y).shape == (3,)
    assert kind(3, reduction="mean")(x, y).shape == ()


def test_cases_where_torchmetrics_fails() -> None:
    y = torch.zeros(3000)
    y[7] = 1.0
    x = 0.02 * torch.randn(3000)
    x[7] = 1.0
    metric = PearsonCorrelation()
    metric.update(x, y)
    close(metric.compute()[None], scipy(x[:, None], y[:, None]))

    half = [t.to(torch.bfloat16) for t in batch(4096)]
    metric.reset()
    for part in torch.arange(4096).split(512):
        metric.update(*(t[part] for t in half))
    close(metric.compute()[None], scipy(*half))


def test_undefined_targets_beside_good_ones() -> None:
    x, y = batch(30, 4)
    y[:, 1], x[:, 2] = 0.1, 1 + torch.finfo(torch.float32).eps * torch.randint(0, 2, (30,))
    metrics = [PearsonCorrelation(4), PearsonCorrelation(4, reduction="mean"), CorrelationSummary(4)]
    for metric in metrics:
        for part in torch.arange(30).split(4):
            metric.update(x[part], y[part])
    good = scipy(x[:, [0, 3]], y[:, [0, 3]])
    each, mean, summary = (metric.compute() for metric in metrics)
    close(each, torch.tensor([good[0], torch.nan, torch.nan, good[1]]))
    close(mean, good.mean())
    assert summary["undefined"].item() == 2
    close(summary["PCC@M"], good.mean())
    close(summary["selection"], good.sum() / 4)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_nothing_defined(n: int) -> None:
    x = torch.full((n, 2), 0.1)
    summary, mean = CorrelationSummary(2), PearsonCorrelation(2, reduction="mean")
    summary.update(x, x, torch.zeros(n, dtype=torch.int64))
    mean.update(x, x)
    assert mean.compute().item() == 0.0
    values = {name: value.item() for name, value in summary.compute().items()}
    assert values["undefined"] == 2
    assert all(value == 0.0 for name, value in values.items() if "undefined" not in name and name != "groups")
    nan = PearsonCorrelation(reduction="mean")
    nan.update(torch.tensor([1.0, torch.nan, 2.0]), torch.tensor([1.0, 2.0, 3.0]))
    assert nan.compute().item() == 0.0


def test_summary_pooled_and_by_group() -> None:
    x, y = batch(90, 5)
    groups = torch.randint(0, 3, (90,)) * 11 - 4
    x += groups[:, None]
    y[groups == 7, 2] = 1.0  # one target is constant in one group
    summary = CorrelationSummary(5)
    for part in torch.arange(90).split(13):
        summary.update(x[part], y[part], groups[part])
    values, by_group = summary.compute(), summary.by_group()
    assert by_group.ids.tolist() == [-4, 7, 18]
    expected = np.full((3, 5), np.nan)
    for g, name in enumerate(by_group.ids):
        for t in range(5):
            if (name, t) != (7, 2):
                expected[g, t] = oracle.pearson(x[groups == name, t], y[groups == name, t])
    close(by_group.correlation, torch.from_numpy(expected))
    for prefix, per_target in [("", scipy(x, y).numpy()), ("group_", np.nanmean(expected, 0))]:
        close(values[prefix + "PCC@F"], torch.tensor(np.percentile(per_target, 25)))
        close(values[prefix + "PCC@S"], torch.tensor(np.median(per_target)))
        close(values[prefix + "PCC@M"], torch.tensor(per_target.mean()))
    assert values["groups"].item() == 3
    assert values["group_undefined"].item() == 1
    close(values["group_selection"], torch.tensor(np.nan_to_num(expected).mean()))
    assert all(value.dim() == 0 for value in values.values())


def test_forward_merge_reset_and_state_dict() -> None:
    x, y = batch(40, 3)
    groups = torch.arange(40) % 4
    whole = CorrelationSummary(3)
    whole.update(x, y, groups)
    halves = [CorrelationSummary(3), CorrelationSummary(3)]
    for metric, part in zip(halves, (slice(0, 15), slice(15, 40)), strict=True):
        batch_value = metric(x[part], y[part], groups[part])
        close(batch_value["PCC@M"], scipy(x[part], y[part]).mean())
    halves[0].merge_state(halves[1])
    for name, value in whole.compute().items():
        close(halves[0].compute()[name], value)

    whole.persistent(True)
    file = io.BytesIO()
    torch.save(whole.state_dict(), file)
    file.seek(0)
    loaded = CorrelationSummary(3)
    loaded.persistent(True)
    loaded.load_state_dict(torch.load(file, weights_only=True))
    loaded.update(x[:5], y[:5] + 1, groups[:5])
    whole.update(x[:5], y[:5] + 1, groups[:5])
    close(loaded.by_group().correlation, whole.by_group().correlation)
    close(loaded.compute()["PCC@M"], whole.compute()["PCC@M"])

    whole.reset()
    whole.update(x[:9], y[:9])
    close(whole.compute()["PCC@M"], scipy(x[:9], y[:9]).mean())
    assert "groups" not in whole.compute()


def computed_together(ranks: list[CorrelationSummary]) -> list[dict[str, Tensor]]:
    """compute() of every rank, with the other ranks' states handed over instead of a network."""
    states = [rank.clone() for rank in ranks]
    results = []
    for rank in ranks:
        names = iter(["pooled", "group_ids", "grouped"])

        def gather(state: Tensor, group: object = None, names: Iterator[str] = names) -> list[Tensor]:
            parts = [getattr(other, name) for name in [next(names)] for other in states]
            return [torch.cat(part) if isinstance(part, list) else part for part in parts]

        rank.dist_sync_fn = gather
        rank.distributed_available_fn = lambda: True
        results.append(rank.compute())
    return results


def test_ranks_merge_exactly_and_one_may_be_empty() -> None:
    x, y = batch(37, 3)
    groups = torch.arange(37) % 2
    whole, ranks = CorrelationSummary(3), [CorrelationSummary(3) for _ in range(4)]
    whole.update(x, y, groups)
    for rank, part in zip(ranks, (slice(0, 5), slice(5, 36), slice(36, 37)), strict=False):
        rank.update(x[part], y[part], groups[part])
    ranks[3].update(x[:0], y[:0])
    for values in computed_together(ranks):
        for name, value in whole.compute().items():
            close(values[name], value)


def test_dtype_of_the_host_does_not_damage_the_state() -> None:
    x, y = batch(100, 2)
    host = nn.Module()
    host.metric = CorrelationSummary(2)
    host.metric.update(x[:50], y[:50], torch.zeros(50, dtype=torch.int64))
    for change in (host.half, host.double, lambda: host.to(torch.bfloat16), host.metric.half):
        change()
    host.metric.update(x[50:], y[50:], torch.zeros(50, dtype=torch.int64))
    assert host.metric.pooled.dtype == torch.float64
    close(host.metric.compute()["PCC@M"], scipy(x, y).mean())
    close(host.metric.by_group().correlation[0], scipy(x, y))
    host.to(torch.float16)
    host.metric.reset()
    host.metric.update(x, y)
    close(host.metric.compute()["PCC@M"], scipy(x, y).mean())


def test_in_a_collection() -> None:
    x, y = batch(30, 2)
    collection = MetricCollection({"each": PearsonCorrelation(2), "mean": PearsonCorrelation(2, reduction="mean")})
    collection.update(x[:10], y[:10])
    collection.update(x[10:], y[10:])
    values = collection.compute()
    close(values["each"], scipy(x, y))
    close(values["mean"], scipy(x, y).mean())


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="2 targets of num_targets"):
        PearsonCorrelation(2).update(*batch(4, 3))
    with pytest.raises(InputError, match="broadcasting"):
        PearsonCorrelation().update(torch.zeros(4), torch.zeros(4, 1))
    with pytest.raises(InputError, match=r"integer ids of shape \(4,\)"):
        CorrelationSummary().update(*batch(4), groups=torch.zeros(4))
    with pytest.raises(InputError, match="'none' or 'mean'"):
        PearsonCorrelation(reduction="sum")
    with pytest.raises(InputError, match="'none' or 'mean'"):
        ConcordanceCorrelation(reduction="sum")
    with pytest.raises(InputError, match="at least 1"):
        PearsonCorrelation(0)


def test_without_torchmetrics_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchmetrics", None)
    monkeypatch.delitem(sys.modules, "excora.metrics")
    with pytest.raises(MissingExtraError, match=r"excora\[app\]"):
        importlib.import_module("excora.metrics")
