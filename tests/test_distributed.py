"""Losses, accumulation and metrics on real gloo ranks against one process.

Imports cost seconds a process: a fork server imports once, and its three children run every case, first as three
ranks, then two of them as two.
"""

from __future__ import annotations

import datetime
import multiprocessing
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from excora import reduce
from excora.accumulation import accumulate_backward
from excora.losses import ConcordanceLoss, DispersionNormalizedPearsonLoss, JointLoss, PearsonLoss
from excora.metrics import ConcordanceCorrelation, CorrelationSummary, PearsonCorrelation
from excora.pooling import ECAPool
from excora.reduce import all_reduce_max, all_reduce_sum, gathered

ROWS = 37
SIZES = {3: (5, 31, 1), 2: (20, 17)}
Batch = dict[str, Tensor]


class Case(NamedTuple):
    loss: nn.Module = JointLoss(weight=0.7)
    keys: tuple[str, ...] = ("target", "mask", "weight")
    masked_rank: int | None = None
    sizes: tuple[int, ...] | None = None
    dtype: torch.dtype = torch.float64
    micro: int = ROWS


CASES = {
    "pearson": Case(PearsonLoss(), ("target",)),
    "normalised": Case(DispersionNormalizedPearsonLoss()),
    "concordance": Case(ConcordanceLoss()),
    "plain joint": Case(keys=("target",)),
    "joint": Case(),
    "joint of concordance": Case(JointLoss(correlation=ConcordanceLoss(), weight=2.0)),
    "first rank masked": Case(masked_rank=0),
    "second rank masked": Case(masked_rank=1),
    "empty rank": Case(sizes=(36, 0, 1)),
    "float32": Case(dtype=torch.float32),
    "accumulated": Case(micro=4),
    "accumulated, last masked": Case(micro=4, masked_rank=1),
}
METRIC_CASES = ("joint", "second rank masked", "empty rank")


class Regressor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pool = ECAPool.paper(4, penalty_weight=0.3)
        self.head = nn.Linear(4, 3)

    def forward(self, bags: Tensor) -> tuple[Tensor, reduce.Penalty]:
        pooled = self.pool(bags)
        return self.head(pooled.value), pooled.penalty


class Drifting(nn.Module):
    """Depends on a buffer that moves with every call and differs between ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3).double()
        self.register_buffer("level", torch.zeros((), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        self.level.mul_(0.5).add_(x.detach().mean())
        return self.linear(x) * (1 + self.level)


def rows(case: Case, world: int) -> list[Batch]:
    """The batch of each rank; together always the same 37 rows, but for what the case masks."""
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(ROWS, 6, 4, generator=generator, dtype=torch.float64)
    target = x[:, 0, :3].cumsum(1) + 0.3 * torch.randn(ROWS, 3, generator=generator, dtype=torch.float64)
    mask = torch.rand(ROWS, 3, generator=generator) > 0.2
    weight = torch.rand(ROWS, generator=generator, dtype=torch.float64) + 0.1
    sizes = SIZES[world] if case.sizes is None else (*case.sizes[: world - 1], ROWS - sum(case.sizes[: world - 1]))
    if case.masked_rank is not None:
        mask[sum(sizes[: case.masked_rank]) :][: sizes[case.masked_rank]] = False
    if "mask" in case.keys:
        target = target.masked_fill(~mask, torch.nan)
    batch = {"x": x.to(case.dtype), "target": target.to(case.dtype), "mask": mask, "weight": weight.to(case.dtype)}
    return [
        dict(zip(batch, parts, strict=True)) for parts in zip(*(t.split(sizes) for t in batch.values()), strict=True)
    ]


def whole(case: Case, world: int) -> Batch:
    parts = rows(case, world)
    return {key: torch.cat([part[key] for part in parts]) for key in parts[0]}


def step(wrap: Callable[[nn.Module], nn.Module], case: Case, batch: Batch) -> dict[str, Tensor]:
    """Loss and parameter gradients of one step, in one process or on one rank."""
    torch.manual_seed(11)
    model = Regressor().to(case.dtype)
    wrapped = wrap(model)

    def forward(part: Batch) -> dict[str, Any]:
        prediction, penalty = wrapped(part["x"])
        extra = {"penalty": penalty} if isinstance(case.loss, JointLoss) else {}
        return {"prediction": prediction, **{key: part[key] for key in case.keys}, **extra}

    if case.micro < ROWS:
        parts = zip(*(t.split(case.micro) for t in batch.values()), strict=True)
        value = accumulate_backward(
            wrapped, forward, case.loss, [dict(zip(batch, part, strict=True)) for part in parts]
        )
    else:
        value = case.loss(**forward(batch))
        value.backward()
    return {"loss": value.detach(), "grad": torch.cat([p.grad.flatten() for p in model.parameters()])}


def one_process(case: Case, world: int) -> dict[str, Tensor]:
    return step(lambda model: model, case._replace(micro=ROWS), whole(case, world))


def collectives(rank: int) -> dict[str, Tensor]:
    x = torch.linspace(-1, 2, 4, dtype=torch.float64).add(rank).requires_grad_()
    total = all_reduce_sum(x.square())
    (first,) = torch.autograd.grad(total.pow(3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    highest = all_reduce_max(torch.tensor([float(rank), -float(rank)], requires_grad=True))
    mine = torch.full((rank, 2), rank + 1.0, dtype=torch.float64, requires_grad=True)  # the first rank has none
    rows = gathered(mine)
    (slope,) = torch.autograd.grad((rows.cumsum(0) ** 2).sum(), mine)
    found = {"total": total.detach(), "first": first.detach(), "second": second, "highest": highest}
    return found | {"rows": rows.detach(), "slope": slope}


def curvature(batch: Batch, share: float) -> dict[str, Tensor]:
    """Gradient of a loss for each rank's predictions, and the gradient of that gradient's sum of squares."""
    prediction = (batch["x"].mean(1)[:, :3] + 0.3 * batch["target"].nan_to_num()).requires_grad_()
    loss = JointLoss(ConcordanceLoss(), weight=0.7)(prediction, batch["target"], batch["mask"], batch["weight"])
    (first,) = torch.autograd.grad(share * loss.pow(2), prediction, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), prediction)
    return {"first": first.detach(), "second": second}


def drifting_steps(rank: int) -> dict[str, Tensor]:
    """Two accumulated steps of a model whose buffers DDP broadcasts: the replay must broadcast them too."""
    torch.manual_seed(2)
    model = Drifting()
    wrapped = DistributedDataParallel(model)
    batch = rows(Case(), dist.get_world_size())[rank]
    parts = list(zip(batch["x"][:, 0].split(4), batch["target"].nan_to_num().split(4), strict=True))
    for _ in range(2):
        model.zero_grad()
        value = accumulate_backward(
            wrapped, lambda part: {"prediction": wrapped(part[0]), "target": part[1]}, PearsonLoss(), parts
        )
    return {"loss": value, "grad": model.linear.weight.grad, "level": model.level}


def metric_values(batch: Batch, micro: int) -> dict[str, Tensor]:
    """The metrics of a prediction that is a fixed function of the rows, fed ``micro`` rows at a time."""
    pearson, agreement, summary = PearsonCorrelation(3), ConcordanceCorrelation(3), CorrelationSummary(3)
    for x, target, mask, weight in zip(*(t.split(micro) for t in batch.values()), strict=True):
        prediction, groups = 1e3 + x.mean(1)[:, :3], x[:, 0, 3].round().long()
        pearson.update(prediction, target, mask, weight)
        agreement.update(prediction - 1e3, target, mask, weight)
        summary.update(prediction, target, groups, mask, weight)
    by_group = summary.by_group()
    each = {"pearson": pearson.compute(), "concordance": agreement.compute()}
    return {**each, **summary.compute(), "ids": by_group.ids, "rho": by_group.correlation}


def naive(case: Case, batch: Batch) -> dict[str, Tensor]:
    """What DDP does with a loss that knows its own rank only."""
    with mock.patch.object(reduce, "is_distributed", return_value=False):
        return step(DistributedDataParallel, case, batch)


def work(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    for world in SIZES:
        if rank >= world:
            continue
        dist.init_process_group(
            "gloo",
            init_method=f"file://{folder}/store{world}",
            rank=rank,
            world_size=world,
            timeout=datetime.timedelta(seconds=30),  # a deadlock is a failure, not a wait
        )
        results = {name: step(DistributedDataParallel, case, rows(case, world)[rank]) for name, case in CASES.items()}
        results["naive"] = naive(CASES["pearson"], rows(CASES["pearson"], world)[rank])
        results["collectives"] = collectives(rank)
        results["metrics"] = {name: metric_values(rows(CASES[name], world)[rank], 4) for name in METRIC_CASES}
        results["curvature"] = curvature(rows(CASES["joint"], world)[rank], 1.0)
        results["drifting"] = drifting_steps(rank)
        torch.save(results, f"{folder}/{world}-{rank}.pt")
        dist.destroy_process_group()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory) -> dict[int, list[dict[str, dict[str, Tensor]]]]:
    folder = tmp_path_factory.mktemp("ranks")
    multiprocessing.set_forkserver_preload(["torch._dynamo", "excora.losses", "excora.metrics", "excora.pooling"])
    mp.start_processes(work, args=(str(folder),), nprocs=max(SIZES), start_method="forkserver")
    return {world: [torch.load(folder / f"{world}-{rank}.pt") for rank in range(world)] for world in SIZES}


@pytest.mark.parametrize("world", SIZES)
@pytest.mark.parametrize("name", CASES)
def test_every_rank_has_the_loss_and_gradient_of_one_process(ranks, world: int, name: str) -> None:
    case = CASES[name]
    expected = one_process(case, world)
    tolerance = 1e-12 if case.dtype == torch.float64 else 1e-6
    assert expected["grad"].norm() > 1e-2, "a zero gradient proves nothing"
    for rank in range(world):
        torch.testing.assert_close(ranks[world][rank][name], expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("world", SIZES)
def test_the_mean_of_the_ranks_losses_is_wrong(ranks, world: int) -> None:
    expected = one_process(CASES["pearson"], world)["grad"]
    assert (ranks[world][0]["naive"]["grad"] - expected).norm() > 0.05 * expected.norm()


@pytest.mark.parametrize("world", SIZES)
@pytest.mark.parametrize("name", METRIC_CASES)
def test_metrics_are_those_of_one_process(ranks, world: int, name: str) -> None:
    expected = metric_values(whole(CASES[name], world), ROWS)
    assert expected["groups"] > 3
    assert expected["pearson"].isfinite().all()
    assert expected["concordance"].abs().max() > 0.1
    for rank in range(world):
        got = ranks[world][rank]["metrics"][name]
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-10, equal_nan=True)


@pytest.mark.parametrize("world", SIZES)
def test_all_reduce_and_its_derivatives(ranks, world: int) -> None:
    x = torch.linspace(-1, 2, 4, dtype=torch.float64) + torch.arange(world)[:, None]
    x.requires_grad_()
    total = x.square().sum(0)
    # Each rank computes the same function of the total, and the backward sums over ranks.
    (first,) = torch.autograd.grad(world * total.pow(3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    for rank in range(world):
        got = ranks[world][rank]["collectives"]
        torch.testing.assert_close(got["total"], total.detach())
        torch.testing.assert_close(got["first"], first[rank].detach())
        torch.testing.assert_close(got["second"], second[rank])
        assert got["highest"].tolist() == [world - 1, 0]
        assert not got["highest"].requires_grad


@pytest.mark.parametrize("world", SIZES)
def test_the_rows_of_all_ranks_and_their_gradient(ranks, world: int) -> None:
    parts = [torch.full((rank, 2), rank + 1.0, dtype=torch.float64, requires_grad=True) for rank in range(world)]
    rows = torch.cat(parts)
    slopes = torch.autograd.grad(world * (rows.cumsum(0) ** 2).sum(), parts)
    for rank in range(world):
        got = ranks[world][rank]["collectives"]
        torch.testing.assert_close(got["rows"], rows.detach())
        torch.testing.assert_close(got["slope"], slopes[rank])


@pytest.mark.parametrize("world", SIZES)
def test_second_derivatives_are_those_of_one_process(ranks, world: int) -> None:
    expected = curvature(whole(CASES["joint"], world), float(world))  # each rank's loss is a share of the sum
    for name in ("first", "second"):
        got = torch.cat([ranks[world][rank]["curvature"][name] for rank in range(world)])
        assert got.norm() > 1e-3, "a zero gradient proves nothing"
        torch.testing.assert_close(got, expected[name], rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("world", SIZES)
def test_accumulation_replays_the_broadcast_of_buffers(ranks, world: int) -> None:
    results = [ranks[world][rank]["drifting"] for rank in range(world)]
    for other in results[1:]:
        torch.testing.assert_close(other["loss"], results[0]["loss"], rtol=0, atol=0)
        torch.testing.assert_close(other["grad"], results[0]["grad"], rtol=0, atol=0)
    assert results[0]["level"] != results[1]["level"], "ranks that agree prove nothing"
