"""
A Lightning model with the monitor
==================================

``PlateauMonitor`` is a Lightning callback: the training step returns its predictions and targets, and that is all.
"""

import lightning
import matplotlib.pyplot as plt
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from excora import ECAPool, JointLoss, PlateauMonitor, diagnose
from excora.tasks import tasks

torch.set_num_threads(1)
lightning.seed_everything(0, verbose=False)


class Regressor(lightning.LightningModule):
    """A pool and a head."""

    def __init__(self, dim):
        super().__init__()
        self.pool, self.head, self.loss = ECAPool(dim), nn.Linear(dim, 1), JointLoss(weight=0.5)

    def training_step(self, batch, _):
        """Loss, and what the monitor reads."""
        h, target = batch
        pooled = self.pool(h)
        prediction = self.head(pooled.value).squeeze(1)
        loss = self.loss(prediction, target, penalty=pooled.penalty)
        return {"loss": loss, "prediction": prediction.detach(), "target": target}

    def configure_optimizers(self):
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=1e-2)


task = tasks["plateau"]()
data = DataLoader(TensorDataset(*task.sample(512, seed=0)), batch_size=64)
monitor = PlateauMonitor()
quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False, "logger": False}
lightning.Trainer(max_epochs=12, accelerator="cpu", callbacks=[monitor], **quiet).fit(Regressor(task.dim), data)

print(diagnose(monitor))
plt.plot([record["pcc"] for record in monitor.records])
plt.xlabel("epoch")
plt.ylabel("training PCC")
plt.show()

assert len(monitor.records) == 12
