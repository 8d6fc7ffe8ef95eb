"""PlateauMonitor: alone, on two ranks, as a Lightning callback, exported and resumed."""

from __future__ import annotations

import csv
import json
import subprocess
import sys

import pytest
import torch
from torch import nn

from excora import ECAPool, MeanPool, PearsonLoss, SoftmaxPool
from excora.errors import InputError
from excora.monitor import PlateauMonitor
from excora.pooling import Pool
from excora.pooling.fixed import PositionPool
from monitor.samples import close


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


def unread(bags: int = 120) -> tuple[torch.Tensor, torch.Tensor]:
    """Bags whose label is largely their largest element."""
    h = torch.randn(bags, 6, 4, generator=torch.Generator().manual_seed(0))
    return h, h[:, :, 0].amax(1) + h[:, :, 0].mean(1)


@pytest.mark.parametrize("pool", [MeanPool(4), PositionPool(4, [1.0] * 6)])
def test_a_pool_without_attention_cannot_have_lost_it(pool) -> None:
    (h, y), head, monitor = unread(), nn.Linear(4, 1), PlateauMonitor()
    nn.init.eye_(head.weight)
    for _ in range(16):
        pooled = pool(h)
        monitor.update(head(pooled.value).squeeze(1), y, pooled=pooled, h=h, head=head)
        record = monitor.end_epoch()
    assert close(record["effective_elements"], 6.0, 1e-5)
    assert record["attention_spread"] is None
    found = monitor.verdict()
    assert found.evidence["probe_gain"].met
    assert found.name == "cannot tell"
    assert "pool without attention" in found.sentence


@pytest.fixture
def lightning():
    return pytest.importorskip("lightning")


def make_module(lightning, *, answer: bool = True, pool: type[Pool] = ECAPool):
    class Regressor(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.pool, self.head, self.loss = pool(4), nn.Linear(4, 1), PearsonLoss()

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


@pytest.mark.filterwarnings("ignore:.*does not have many workers.*", "ignore:.*treespec.*:FutureWarning")
@pytest.mark.filterwarnings("ignore:.*isinstance.treespec.*:Warning", "ignore:.*no `val_dataloader`.*")
@pytest.mark.parametrize("pool", [MeanPool, SoftmaxPool])
def test_through_lightning_a_softmax_that_stays_even_has_collapsed_and_a_mean_has_not(lightning, tmp_path, pool):
    h, y = unread()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(h, y), batch_size=60)
    model, monitor = make_module(lightning, pool=pool), PlateauMonitor()
    nn.init.eye_(model.head.weight)
    if pool is SoftmaxPool:
        nn.init.zeros_(model.pool.scorer.weight)
    make_trainer(lightning, tmp_path, monitor, epochs=16).fit(model, loader)
    assert (monitor.verdict().name == "attention collapsed") == (pool is SoftmaxPool)
