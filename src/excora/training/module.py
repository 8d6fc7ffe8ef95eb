"""The LightningModule of the application: network, joint loss, validation score; and the loaders that feed it."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, cast

import torch
from lightning.pytorch import LightningModule
from torch import Tensor
from torch.utils.data import DataLoader

from excora.accumulation import accumulate_backward
from excora.data.dataset import Batch, Index
from excora.errors import ExcoraError
from excora.losses import (
    ConcordanceLoss,
    CorrelationLoss,
    DispersionNormalizedPearsonLoss,
    JointLoss,
    PearsonLoss,
)
from excora.metrics import PearsonCorrelation
from excora.models import Network
from excora.pooling import parameter_groups
from excora.reduce import all_reduce_sum, gathered
from excora.settings import Recipe
from excora.training.batches import Rows, Steps, cut, in_order, largest, shuffled, step_seed
from excora.training.run_monitor import RunMonitor
from excora.training.stepping import Average, clip, learning_rate, slowed

LOSSES: dict[str, type[CorrelationLoss]] = {
    "dnpl": DispersionNormalizedPearsonLoss, "pearson": PearsonLoss, "concordance": ConcordanceLoss,
    "none": PearsonLoss,
}  # fmt: skip
AVERAGE = "average"  #: where a checkpoint has it


class Score(PearsonCorrelation):
    """PCC and MSE of everything seen, means over targets, as (2,); an undefined correlation counts as 0.

    >>> score = Score()
    >>> score.update(torch.tensor([1.0, 1.0]), torch.tensor([0.0, 2.0]))
    >>> score.compute()
    tensor([0., 1.], dtype=torch.float64)
    """

    def compute(self) -> Tensor:
        """MSE = (mean yhat - mean y)^2 + var(yhat - y), from the moments that PCC needs anyway."""
        weight, mean_x, mean_y, xx, yy, xy, _ = self.pooled.unbind(0)
        known = weight > 0  # a target may have no label here
        mse = (mean_x - mean_y).square() + (xx + yy - 2 * xy).clamp_min(0.0) / torch.where(known, weight, 1.0)
        rho: Tensor = super().compute()
        count = known.sum().clamp_min(1)
        return torch.stack([rho.nan_to_num(0.0).sum() / count, torch.where(known, mse, 0.0).sum() / count])


class Regression(LightningModule):
    """Trains a network on the rows of ``train`` and scores it on those of ``validation``, if any, after every epoch.

    A step whose batch is cut (``recipe.accumulate``, ``recipe.max_elements``) accumulates exactly, which takes
    manual optimisation; Lightning fixes that for a run, so it is chosen if any batch might be cut.
    """

    def __init__(
        self, network: Network, rows: Rows, train: Index, validation: Index, recipe: Recipe, *, workers: int = 0
    ) -> None:
        super().__init__()
        self.network, self.recipe, self.workers = network, recipe, workers
        self.rows, self.train_index, self.validation_index = rows, train, validation
        self.loss = JointLoss(
            LOSSES[recipe.correlation](),
            weight=0.0 if recipe.correlation == "none" else recipe.correlation_weight,
            error=recipe.error,
        )
        self.score = Score(rows.target.shape[1])
        self.monitor = RunMonitor(network)
        self.losses: list[Tensor] = []
        # Training never changes them, and they may be all training rows: no rank needs them from another at each step.
        self._ddp_params_and_buffers_to_ignore = [f"network.{name}" for name, _ in network.named_buffers()]
        self.average = Average(network, recipe.average) if recipe.average else None
        self.steps = len(shuffled(train, recipe.batch_size, seed=recipe.seed, epoch=0))  #: of an epoch
        self.few = len(train) - (self.steps - 1) * recipe.batch_size < recipe.fewest  #: in the last step of an epoch
        self.correlation_weight = self.loss.weight
        sizes = rows.features.sizes
        self.automatic_optimization = (
            recipe.accumulate == 1 and largest(train, sizes, recipe.batch_size) <= recipe.max_elements
        )

    # Data. Lightning asks for the loaders when it knows which rank this is.

    def train_dataloader(self) -> DataLoader[Any]:
        """The steps of an epoch; asked anew each epoch which one it is."""
        recipe, progress = self.recipe, cast(Any, self.trainer.fit_loop.epoch_progress.current)

        def batches() -> list[Index]:
            return shuffled(self.train_index, recipe.batch_size, seed=recipe.seed, epoch=progress.processed)

        divide = partial(
            cut, sizes=self.rows.features.sizes, pieces=recipe.accumulate, max_elements=recipe.max_elements
        )
        return self._loader(batches, divide)

    def val_dataloader(self) -> DataLoader[Any]:
        """The validation part in order; every rank has equally many batches, as DDP wants it."""
        sizes, limit = self.rows.features.sizes, self.recipe.max_elements
        batches = in_order(self.validation_index, sizes, max_elements=limit)
        return self._loader(lambda: batches, lambda index: [index])

    def _loader(self, batches: Any, divide: Any) -> DataLoader[Any]:
        steps = Steps(batches, divide, rank=self.global_rank, world=self.trainer.world_size)
        workers = self.workers
        return DataLoader(
            self.rows, sampler=steps, batch_size=None, num_workers=workers, persistent_workers=workers > 0,
            collate_fn=_as_it_is,
        )  # fmt: skip

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:  # noqa: ARG002
        """Pieces are read and moved one at a time, when their turn comes."""
        if isinstance(batch, ExcoraError):
            raise batch
        return batch.to(device) if isinstance(batch, Batch) else batch

    # Training.

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW; gamma and temperature are not decayed."""
        groups = parameter_groups(self.network, self.recipe.weight_decay)
        if self.recipe.pretrained_rate != 1.0:
            groups = slowed(groups, {id(p) for p in self.network.pretrained()}, self.recipe.pretrained_rate)
        # All weights in one call, the same to the last bit: torch's choice on the CPU takes nearly twice as long.
        return torch.optim.AdamW(groups, lr=self.recipe.learning_rate, foreach=True)

    def training_step(self, batch: Batch | list[Index], step: int) -> dict[str, Tensor]:
        """One step: the loss of the global batch, and for the monitor the predictions, unless it has its pieces."""
        seed = step_seed(self.recipe.seed, self.current_epoch, step, self.global_rank)
        torch.default_generator.manual_seed(seed)  # torch.manual_seed looks for every kind of device, each step
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)
        for group in self.trainer.optimizers[0].param_groups:
            rate = learning_rate(self.recipe, self._number(step), self.steps * self.recipe.epochs)
            group["lr"] = rate * group.get("factor", 1.0)
        # The correlation of a handful of samples is noise.
        self.loss.weight = 0.0 if self.few and step == self.steps - 1 else self.correlation_weight
        found = self._step if self.automatic_optimization else self._manual_step
        result = found(batch)
        self.losses.append(result["loss"].detach())
        return result

    def _number(self, step: int) -> int:
        """Of a step of this epoch among those of all epochs, from 0."""
        return self.current_epoch * self.steps + step

    def on_before_optimizer_step(self, optimizer: Any) -> None:  # noqa: ARG002
        """The gradients are those of all ranks by now, without the factor of 16-bit training, by hand or not."""
        clip(self.network, self.recipe.clip)

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:  # noqa: ARG002
        """The step is done."""
        if self.average is not None:
            self.average.add(self._number(batch_idx))

    def on_train_start(self) -> None:
        """The weights are on their device by now."""
        if self.average is not None:
            self.average.load(self.average.named())

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """The average as well."""
        if self.average is not None:
            checkpoint[AVERAGE] = self.average.named()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Go on from it."""
        if self.average is not None:
            self.average.load(checkpoint[AVERAGE])

    def contents(self) -> dict[str, Tensor]:
        """Every tensor of a checkpoint that the model decides on, by name."""
        return self.state_dict() if self.average is None else {**self.state_dict(), **self.average.named()}

    def weights(self) -> dict[str, Tensor]:
        """The state dict of the network that is scored and kept: with ``recipe.average``, the averaged one."""
        return self.network.state_dict() if self.average is None else self.average.state()

    def _step(self, batch: Any) -> dict[str, Tensor]:
        outputs = self._outputs(batch)
        seen = {"target": outputs["target"], "label_mask": outputs["mask"]}
        return {"loss": self.joint(**outputs), "prediction": outputs["prediction"].detach(), **seen}

    def _outputs(self, batch: Batch | Index) -> dict[str, Any]:
        """The arguments of the loss."""
        if not isinstance(batch, Batch):
            batch = self.rows.read(batch).to(self.device)
        output = self.network(batch.inputs)
        return {
            "prediction": output.prediction, "target": batch.target, "mask": batch.target_mask, "weight": batch.weight,
            "penalty": output.penalties, "compared": output.compared,
        }  # fmt: skip

    def joint(self, compared: Tensor | None, target: Tensor, mask: Tensor | None, **others: Any) -> Tensor:
        """The joint loss, and what the network makes of the samples of the whole batch side by side."""
        loss: Tensor = self.loss(target=target, mask=mask, **others)
        if compared is None:
            return loss
        known = None if mask is None else gathered(mask.to(compared.dtype)) > 0
        more = self.network.compare(gathered(compared), gathered(target), known)
        return sum(more.values(), loss)

    def _manual_step(self, batch: Any) -> dict[str, Tensor]:
        """Backward and optimiser step by hand: a batch in pieces is accumulated in two passes."""
        optimizer = cast(Any, self.optimizers())
        optimizer.zero_grad()
        scale = self.trainer.precision_plugin.pre_backward  # the factor of 16-bit training; else none
        if isinstance(batch, Batch):
            result = self._step(batch)
            scale(result["loss"], self).backward()
        else:
            losses: list[Tensor] = []

            def scaled(**arguments: Any) -> Tensor:
                losses.append(self.joint(**arguments))
                return scale(losses[-1], self)

            accumulate_backward(self.network, self._watched, scaled, batch)
            result = {"loss": losses[-1].detach()}
        self._share_gradients()
        optimizer.step()
        return result

    def _watched(self, piece: Index) -> dict[str, Any]:
        """A piece of a cut batch; in the pass that has a graph the monitor takes it in."""
        outputs = self._outputs(piece)
        if torch.is_grad_enabled():
            self.monitor.take(outputs["prediction"], outputs["target"], outputs["mask"])
        return outputs

    @torch.no_grad()
    def _share_gradients(self) -> None:
        """The mean over ranks, as DistributedDataParallel takes it: a backward within the step escapes its hooks."""
        world = self.trainer.world_size
        if world == 1:
            return
        parameters = [p for p in self.network.parameters() if p.requires_grad]
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        total = all_reduce_sum(torch.cat([grad.flatten() for grad in grads])) / world
        for parameter, grad in zip(parameters, total.split([p.numel() for p in parameters]), strict=True):
            parameter.grad = grad.view_as(parameter).clone()

    # Validation.

    def validation_step(self, batch: Batch, step: int) -> None:  # noqa: ARG002
        """Adds a batch to the score."""
        network = self.network if self.average is None else self.average
        self.score.update(network(batch.inputs).prediction, batch.target, mask=batch.target_mask, weight=batch.weight)

    def on_validation_epoch_end(self) -> None:
        """PCC, MSE and the criterion (lower is better) of the whole validation part, over all ranks."""
        pcc, mse = self.score.compute()
        self.score.reset()
        criterion = {
            "joint": mse + self.recipe.correlation_weight * (1.0 - pcc), "pcc": -pcc, "mse": mse
        }[self.recipe.criterion]  # fmt: skip
        values = {"validation_pcc": pcc, "validation_mse": mse, "validation_criterion": criterion}
        # A collapsed or exploded model must not pass for one: with NaN in it PCC is undefined, the MSE is not.
        values["validation_criterion"] = torch.where(mse.isfinite(), criterion, torch.nan)
        self.log_dict(values, batch_size=1, sync_dist=True)

    def figures(self) -> dict[str, float]:
        """The row of the epoch that ends; without a validation part it has no ``validation_`` figures.

        Then nothing else would tell that the last step has broken the weights: the loss is NaN if it has.
        """
        metrics = self.trainer.callback_metrics
        row = {"train_loss": float(torch.stack(self.losses).double().mean())}
        self.losses.clear()
        if len(self.validation_index):
            for name in ("validation_pcc", "validation_mse", "validation_criterion"):
                row[name] = float(metrics[name])
        elif not all(bool(value.isfinite().all()) for value in self.weights().values()):
            row["train_loss"] = math.nan
        return row | {"learning_rate": self.trainer.optimizers[0].param_groups[0]["lr"]}


def _as_it_is(batch: Any) -> Any:
    return batch
