"""PlateauMonitor: the record against an oracle, any split of the epoch, non-linear heads, Lightning, ranks, export."""

from __future__ import annotations

import csv
import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracles import diagnosis as oracle
from torch import nn

from excora import ECAPool, MeanPool, PearsonLoss, Ragged, SoftmaxPool
from excora.errors import InputError
from excora.monitor import PlateauMonitor
from excora.monitor import epoch as epoch_module
from excora.monitor.epoch import FIELDS
from excora.monitor.hull import head_slope, hull_columns
from excora.monitor.probe import RIDGES, _features, _out_of_fold, probe_correlation
from excora.theory import achievable_ceiling, prediction_range


def bags_of(
    count: int = 24, elements: int = 7, dim: int = 5, spread: float = 0.05
) -> tuple[torch.Tensor, torch.Tensor]:
    h = torch.randn(count, 1, dim, dtype=torch.float64) + spread * torch.randn(
        count, elements, dim, dtype=torch.float64
    )
    mask = torch.arange(elements) < torch.randint(2, elements + 1, (count, 1))
    return h.masked_fill(~mask.unsqueeze(-1), torch.nan), mask


def close(ours: float | int | None, theirs: float | None, tolerance: float = 1e-9) -> bool:
    if ours is None or theirs is None:
        return ours is theirs
    return abs(ours - theirs) <= tolerance * max(abs(theirs), 1e-3)


@pytest.mark.parametrize("make", [lambda: SoftmaxPool(5), lambda: ECAPool(5), lambda: MeanPool(5)])
@pytest.mark.parametrize("split", [24, 5, 1])
def test_record_is_that_of_the_whole_epoch(make, split) -> None:
    h, mask = bags_of()
    pool, head = make().double(), nn.Linear(5, 1).double()
    pooled = pool(h, mask)
    x = head(pooled.value).squeeze(1)
    y = x.detach() + 0.3 * torch.randn(24, dtype=torch.float64) + 0.2
    monitor = PlateauMonitor()
    for rows in torch.arange(24).split(split):
        part = pool(h[rows], mask[rows])
        monitor.update(x[rows], y[rows], pooled=part, h=h[rows], mask=mask[rows], head=head)
    record = monitor.end_epoch()
    bags = [h[s][mask[s]].numpy() for s in range(24)]
    weights = [pooled.weights[s][mask[s]].detach().numpy() for s in range(24)]
    w, c = head.weight[0].detach().numpy(), float(head.bias.detach())
    wanted = oracle.record(x.detach().numpy(), y.numpy(), bags, weights, w, c)
    assert wanted["hull_ceiling"] is not None
    assert {name for name, value in wanted.items() if not close(record[name], value)} == set()
    low, high = prediction_range(h.nan_to_num(0.0), head.weight[0], mask=mask)
    assert close(record["achievable_ceiling"], float(achievable_ceiling(low, high, y).value))
    assert close(record["achievable_used"], record["pcc"] / record["achievable_ceiling"])
    assert record.keys() == FIELDS.keys()
    assert (record["gamma_50"] is not None) == isinstance(pool, ECAPool)


def test_ragged_padded_and_float32_agree() -> None:
    h, mask = bags_of()
    pool, head = ECAPool(5).double(), nn.Linear(5, 1).double()
    y = torch.randn(24, dtype=torch.float64)
    records = []
    for batch, padding in ((h, mask), (Ragged.from_padded(h, mask), None)):
        monitor = PlateauMonitor()
        pooled = pool(batch, padding)
        monitor.update(head(pooled.value), y[:, None], pooled=pooled, h=batch, mask=padding, head=head)
        records.append(monitor.end_epoch())
    assert all(close(records[1][name], value) for name, value in records[0].items() if value is not None)
    single, linear = pool.float(), head.float()
    pooled = single(h.float(), mask)
    monitor = PlateauMonitor()
    monitor.update(linear(pooled.value), y.float()[:, None], pooled=pooled, h=h.float(), mask=mask, head=linear)
    record = monitor.end_epoch()
    assert all(close(record[name], value, 1e-3) for name, value in records[0].items() if value is not None)


@pytest.mark.parametrize("far", [0.0, 1e3])
def test_dispersion_and_radius_of_a_homogeneous_bag_far_from_zero(far) -> None:
    h = far + 0.1 * torch.randn(16, 200, 32)
    exact = h.double()
    found = hull_columns(h, None, {}, None, None)
    deviation = (exact - exact.mean(1, keepdim=True)).norm(dim=-1)
    torch.testing.assert_close(found["radius"].double(), deviation.amax(1), rtol=2e-3, atol=0)
    torch.testing.assert_close(found["dispersion"].double(), deviation.square().mean(1).sqrt(), rtol=1e-4, atol=0)


@given(st.integers(0, 6), st.integers(0, 5), st.booleans(), st.integers(0, 1000))
def test_hull_columns_stay_finite(bags, elements, masked, seed) -> None:
    torch.manual_seed(seed)
    h = torch.randn(bags, elements, 3)
    mask = torch.rand(bags, elements) < 0.5 if masked else None
    if mask is not None:
        h = h.masked_fill(~mask.unsqueeze(-1), torch.inf)
    value = torch.randn(bags, 3)
    found = hull_columns(h, mask, {}, value, head_slope(nn.Linear(3, 2), value))
    assert all(column.isfinite().all() and len(column) == bags for column in found.values())
    assert bool((found["lowest"] <= found["mean_prediction"] + 1e-5).all())
    assert bool((found["highest"] >= found["mean_prediction"] - 1e-5).all())


def test_non_linear_head_takes_the_tangent_and_claims_no_bound() -> None:
    head = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 2)).double()
    v = torch.randn(6, 5, dtype=torch.float64)
    before = {k: t.clone() for k, t in head.state_dict().items()}
    slope = head_slope(head, v)
    assert head.training
    assert all(torch.equal(t, before[k]) for k, t in head.state_dict().items())
    jacobian = torch.func.vmap(torch.func.jacrev(lambda one: head.eval()(one[None])[0]))(v)
    torch.testing.assert_close(slope.slope, jacobian)
    assert not slope.linear
    # A linear map that only looks non-linear: same ceilings, but no hull bound.
    h, mask = bags_of()
    pool, linear = SoftmaxPool(5).double(), nn.Linear(5, 1).double()
    pooled, y, records = pool(h, mask), torch.randn(24, dtype=torch.float64), []
    for form in (linear, lambda value: 1.0 * linear(value)):
        monitor = PlateauMonitor()
        monitor.update(linear(pooled.value), y[:, None], pooled=pooled, h=h, mask=mask, head=form)
        records.append(monitor.end_epoch())
    assert records[0]["hull_ceiling"] is not None
    assert records[1]["hull_ceiling"] is None
    assert close(records[0]["achievable_ceiling"], records[1]["achievable_ceiling"])


def test_several_targets_and_label_masks_are_means_over_targets() -> None:
    h, mask = bags_of(60)
    pool, head = ECAPool(5).double(), nn.Linear(5, 3).double()
    pooled = pool(h, mask)
    x = head(pooled.value).detach()
    y = x + torch.randn(60, 3, dtype=torch.float64)
    known = torch.rand(60, 3) < 0.8
    many = PlateauMonitor()
    many.update(x, y.masked_fill(~known, torch.nan), pooled=pooled, h=h, mask=mask, head=head, label_mask=known)
    record = many.end_epoch()
    single = []
    for t in range(3):
        monitor = PlateauMonitor()
        own = {"head": head.weight[t], "label_mask": known[:, t]}
        monitor.update(x[:, t], y[:, t], pooled=pooled, h=h, mask=mask, **own)
        single.append(monitor.end_epoch())
    for name in ("pcc", "mse", "mse_offset", "achievable_ceiling", "sigma_ratio", "gradient_ratio"):
        assert close(record[name], float(np.mean([r[name] for r in single]))), name


def test_large_batches_measure_every_bag_in_turn(monkeypatch) -> None:
    monkeypatch.setattr(epoch_module, "BUDGET", 4 * 7 * 5)
    h, mask = bags_of(10)
    pool, head = SoftmaxPool(5).double(), nn.Linear(5, 1).double()
    epoch, rows = epoch_module.Epoch(), []
    for _ in range(6 * epoch_module.EVERY):
        bags = epoch.look(pool(h, mask), h, mask, head)
        rows.append(None if bags.geometry is None else (bags.rows.start, bags.rows.stop))
        epoch.add(torch.randn(10), torch.randn(10), None, bags)
    assert rows[:: epoch_module.EVERY] == [(0, 4), (4, 8), (8, 10)] * 2
    assert rows.count(None) == 6 * (epoch_module.EVERY - 1)
    assert epoch.record(0)["bags"] == 60 * epoch_module.EVERY
    ragged = Ragged.from_padded(h, mask)
    parts = [epoch_module.measure_bags(pool(ragged), ragged, None, head, turn=4 * t) for t in range(10)]
    padded = hull_columns(h, mask, {}, None, None)
    for part in parts:
        torch.testing.assert_close(part.geometry["radius"], padded["radius"][part.rows])


def test_probe_is_the_oracle_and_tells_signal_from_noise() -> None:
    n = 300
    mean, value = torch.randn(n, 6, dtype=torch.float64), torch.randn(n, 6, dtype=torch.float64)
    noise = torch.randn(n, 1, dtype=torch.float64)
    signal = mean[:, :1] + value[:, 1:2]
    table = {
        "prediction": mean[:, :1],
        "target": signal + 0.1 * noise,
        "known": torch.ones(n, 1),
        "mean": mean,
        "value": value,
    }
    x, y = _features(table), table["target"][:, 0]
    ours = _out_of_fold(x, y).numpy()
    theirs = [oracle.out_of_fold(x.numpy(), y.numpy(), 5, ridge) for ridge in RIDGES]
    np.testing.assert_allclose(ours, min(theirs, key=lambda f: ((f - y.numpy()) ** 2).mean()), atol=1e-8)
    assert probe_correlation(table)["probe_gain"] > 0.25
    assert probe_correlation(table | {"target": mean[:, :1] + 2 * noise})["probe_gain"] < 0.02
    few = {name: column[:30] for name, column in table.items()}
    assert probe_correlation(few) == {"probe_pcc": None, "probe_gain": None}
    wide = table | {"value": torch.cat([value, torch.zeros(n, 500)], 1)}
    assert probe_correlation(wide)["probe_pcc"] > 0.99


def test_what_is_not_given_is_none_and_nonsense_is_refused() -> None:
    monitor = PlateauMonitor()
    with pytest.raises(InputError, match="without samples"):
        monitor.end_epoch()
    monitor.update(torch.ones(4), torch.arange(4.0))
    record = monitor.end_epoch()
    assert record["pcc"] is None
    assert record["mse"] == 1.5
    assert all(record[name] is None for name in ("radius", "probe_gain", "gamma_10", "effective_elements"))
    pooled = SoftmaxPool(2)(torch.randn(3, 4, 2))
    with pytest.raises(InputError, match="other numbers of bags"):
        monitor.update(torch.ones(4), torch.ones(4), pooled=pooled)
    monitor.update(torch.ones(3), torch.ones(3), pooled=pooled)
    with pytest.raises(InputError, match="same arguments"):
        monitor.update(torch.ones(3), torch.ones(3))
    with pytest.raises(InputError, match="give h="):
        monitor.update(torch.ones(3), torch.ones(3), head=nn.Linear(2, 1))
    with pytest.raises(InputError, match="width 2"):
        monitor.update(torch.ones(3), torch.ones(3), pooled=pooled, h=torch.randn(3, 4, 2), head=torch.ones(3))
    with pytest.raises(InputError, match="stage"):
        PlateauMonitor(stage="test")
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        _ = monitor.absent


def test_export_and_resume(tmp_path) -> None:
    monitor = PlateauMonitor()
    for _ in range(3):
        monitor.update(torch.randn(9), torch.randn(9))
        monitor.end_epoch()
    monitor.to_json(tmp_path / "run.json")
    monitor.to_csv(tmp_path / "run.csv")
    assert json.loads((tmp_path / "run.json").read_text())["records"] == monitor.records
    with (tmp_path / "run.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["pcc"]) for row in rows] == [record["pcc"] for record in monitor.records]
    assert rows[0]["radius"] == ""
    again = PlateauMonitor()
    again.load_state_dict(monitor.state_dict())
    again.update(torch.randn(9), torch.randn(9))
    assert again.end_epoch()["epoch"] == 3
    assert again.records[:3] == monitor.records
    assert len(monitor.records) == 3


def test_import_needs_no_lightning() -> None:
    code = "import sys, excora.monitor; m = excora.monitor.PlateauMonitor(); sys.exit('lightning' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


RANKS = """
import os, sys, torch, torch.distributed as dist
from excora.monitor import PlateauMonitor
from excora.pooling import ECAPool
rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
torch.manual_seed(0)
h, y = torch.randn(50, 6, 4).double(), torch.randn(50).double()
pool, head = ECAPool(4).double(), torch.nn.Linear(4, 1).double()
rows = torch.arange(50)[:17] if rank == 0 else torch.arange(50)[17:]
monitor, alone = PlateauMonitor(), PlateauMonitor()
pooled = pool(h[rows])
monitor.update(head(pooled.value)[:, 0], y[rows], pooled=pooled, h=h[rows], head=head)
try:
    monitor.end_epoch()
    sys.exit(3)
except ValueError as error:
    assert "rank=dist.get_rank()" in str(error)
both = monitor.end_epoch(rank=rank)
dist.destroy_process_group()
pooled = pool(h)
alone.update(head(pooled.value)[:, 0], y, pooled=pooled, h=h, head=head)
for name, value in alone.end_epoch().items():
    assert both[name] == value or abs(both[name] - value) < 1e-9, (name, both[name], value)
"""


def test_two_ranks_give_the_record_of_one_process(tmp_path) -> None:
    command = [sys.executable, "-c", RANKS]
    ranks = [subprocess.Popen([*command, str(r), str(tmp_path / "store")], stderr=subprocess.PIPE) for r in range(2)]
    errors = [rank.communicate(timeout=120)[1].decode() for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], errors


@pytest.fixture
def lightning():
    return pytest.importorskip("lightning")


def make_module(lightning, *, answer: bool = True):
    class Regressor(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.pool, self.head, self.loss = ECAPool(4), nn.Linear(4, 1), PearsonLoss()

        def training_step(self, batch, _):
            h, y = batch
            prediction = self.head(self.pool(h).value).squeeze(1)
            loss = self.loss(prediction, y)
            return {"loss": loss, "prediction": prediction, "target": y} if answer else loss

        def validation_step(self, batch, _):
            return self.training_step(batch, _)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.0)

    return Regressor()


def make_trainer(lightning, folder, *callbacks, epochs: int):
    return lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        callbacks=list(callbacks),
        default_root_dir=folder,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


@pytest.mark.filterwarnings("ignore:.*does not have many workers.*", "ignore:.*treespec.*:FutureWarning")
@pytest.mark.filterwarnings("ignore:.*isinstance.treespec.*:Warning", "ignore:.*exists and is not empty:UserWarning")
def test_lightning_callback_records_checkpoints_and_resumes(lightning, tmp_path) -> None:
    h, y = torch.randn(30, 6, 4), torch.randn(30)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(h, y), batch_size=8)
    model, train, validation = make_module(lightning), PlateauMonitor(), PlateauMonitor(stage="validation")
    trainer = make_trainer(lightning, tmp_path, train, validation, epochs=2)
    trainer.fit(model, loader, loader)
    plain = PlateauMonitor()
    pooled = model.pool(h)
    plain.update(model.head(pooled.value).squeeze(1), y, pooled=pooled, h=h, head=model.head)
    wanted = plain.end_epoch()
    assert [len(m.records) for m in (train, validation)] == [2, 2]
    for monitor in (train, validation):
        bad = {n for n, v in wanted.items() if v is not None and not close(monitor.records[0][n], v, 1e-4)}
        assert bad <= {"epoch"}
    path = tmp_path / "run.ckpt"
    trainer.save_checkpoint(path)
    resumed = PlateauMonitor()
    go_on = make_trainer(lightning, tmp_path, resumed, PlateauMonitor(stage="validation"), epochs=3)
    go_on.fit(make_module(lightning), loader, loader, ckpt_path=path, weights_only=True)
    assert [record["epoch"] for record in resumed.records] == [0, 1, 2]
    assert not model.pool._forward_hooks
    silent = make_module(lightning, answer=False)
    with pytest.raises(InputError, match="'prediction' and 'target'"):
        make_trainer(lightning, tmp_path, PlateauMonitor(), epochs=1).fit(silent, loader, loader)
