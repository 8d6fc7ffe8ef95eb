"""The plateau monitor: per-epoch records of a run, their export, and the verdict; a Lightning callback as well.

Framework-free: Lightning is never imported here. Its Trainer asks a callback for some forty hooks; those that are not
written below are looked up in Lightning's own ``Callback``, which is loaded wherever there is a Trainer.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from excora.diagnosis.verdicts import Verdict, verdict
from excora.errors import InputError
from excora.monitor.epoch import FIELDS, Bags, Epoch, Record
from excora.monitor.hull import Head
from excora.pooling.base import Pool, Pooled
from excora.ragged import Ragged
from excora.storage import write_atomically


class PlateauMonitor:
    """Per-epoch statistics of a run (:data:`excora.monitor.epoch.FIELDS`) and, from them, why PCC has stopped rising.

    In any loop, two lines: :meth:`update` after the forward pass of each batch, :meth:`end_epoch` after the last one.

    >>> from excora import SoftmaxPool
    >>> pool, head, monitor = SoftmaxPool(4), torch.nn.Linear(4, 1), PlateauMonitor()
    >>> h, y = torch.randn(50, 6, 4), torch.randn(50)
    >>> pooled = pool(h)
    >>> monitor.update(head(pooled.value).squeeze(1), y, pooled=pooled, h=h, head=head)
    >>> record = monitor.end_epoch()
    >>> record["bags"], 1 < record["effective_elements"] <= 6, monitor.verdict().name
    (50, True, 'cannot tell')

    With Lightning: ``Trainer(callbacks=[PlateauMonitor()])``. ``training_step`` must return a dict with ``loss``,
    ``prediction`` and ``target`` (optional ``label_mask``). The pool is the only :class:`excora.pooling.Pool` of the
    module, or the submodule called ``pool``; the head is its submodule called ``head`` (default "head", if there
    is one). ``stage="validation"`` watches ``validation_step`` instead. Records gather over all ranks.

    Degenerate: an undefined correlation is None in the record; an epoch without samples is an error.
    """

    def __init__(self, *, pool: str | None = None, head: str | None = None, stage: str = "train") -> None:
        if stage not in ("train", "validation"):
            raise InputError(f"stage must be 'train' or 'validation', got {stage!r}")
        self.pool, self.head, self.stage = pool, head, stage
        self.records: list[Record] = []
        self._epoch = Epoch()
        self._seen: Bags | None = None
        self._hook: Any = None

    def update(
        self,
        prediction: Tensor,
        target: Tensor,
        *,
        pooled: Pooled | None = None,
        h: Tensor | Ragged | None = None,
        mask: Tensor | None = None,
        head: Head | None = None,
        label_mask: Tensor | None = None,
    ) -> None:
        """Add a batch: after its forward pass and before ``optimizer.step()``, which moves the head.

        ``prediction``, ``target`` (n,), (n, 1) or (n, targets), ``label_mask`` True where the label is known. What the
        rest unlocks: ``pooled`` (what the pool returned) attention, gamma, temperature; ``h`` and ``mask`` (what the
        pool was given) dispersion and radius; both with ``head`` the ceilings and the probe. ``head`` is an
        ``nn.Linear``, its weight, or anything callable from (n, dim) to (n,) or (n, targets): for the latter the
        per-sample gradient stands in for w, and no bound is claimed.
        """
        self._epoch.add(prediction, target, label_mask, self._epoch.look(pooled, h, mask, head))

    def end_epoch(self, *, rank: int | None = None, gather: bool = True) -> Record:
        """Close the epoch: its record, which is also appended to :attr:`records`.

        Under torch.distributed every rank calls it with its ``rank`` and gets the record of all samples of all ranks;
        with ``gather=False`` of its own.
        """
        record = self._epoch.record(len(self.records), rank=rank, gather=gather)
        self._epoch = Epoch()
        self.records.append(record)
        return record

    def verdict(
        self,
        *,
        validation: PlateauMonitor | None = None,
        peers: Iterable[Mapping[str, Any]] = (),
        noise_ceiling: float | None = None,
    ) -> Verdict:
        """Why PCC has stopped rising, if it has: see :func:`excora.diagnosis.verdict`, and :func:`excora.diagnose`.

        ``validation``: a monitor of the validation part; overfitting, healthy and all that compares with simple models
        cannot be said without it. ``peers``: their scores there.
        """
        records, held = self.parts(validation)
        return verdict(records, validation=held, peers=peers, noise_ceiling=noise_ceiling)

    def parts(self, validation: PlateauMonitor | None = None) -> tuple[list[Record], list[Record]]:
        """The records of the training part and of the validation part; a monitor of the latter may stand alone."""
        if self.stage == "validation" and validation is None:
            return [], self.records
        return self.records, [] if validation is None else validation.records

    def to_json(self, path: str | Path) -> None:
        """Write the records as JSON; ``excora diagnose FILE`` reads it."""
        write_atomically(Path(path), json.dumps({"fields": FIELDS, "records": self.records}, indent=1) + "\n")

    def to_csv(self, path: str | Path) -> None:
        """Write the records as CSV, one line an epoch; an empty cell is None."""
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, FIELDS)
        writer.writeheader()
        writer.writerows(self.records)
        write_atomically(Path(path), text.getvalue())

    def state_dict(self) -> dict[str, Any]:
        """The records of all finished epochs; the batches of an unfinished one are not part of it."""
        return {"records": [dict(record) for record in self.records]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a saved state: what :meth:`state_dict` gave."""
        self.records = [dict(record) for record in state_dict["records"]]
        self._epoch = Epoch()

    # From here on: Lightning's hooks.

    def __getattr__(self, name: str) -> Any:
        module = sys.modules.get("lightning.pytorch") or sys.modules.get("pytorch_lightning")
        if name.startswith("__") or module is None or not hasattr(module.Callback, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        default = vars(module.Callback)[name]
        return default.__get__(self, type(self))

    @property
    def state_key(self) -> str:
        """Where a checkpoint keeps the state: one place for each stage and pool that is watched."""
        return f"PlateauMonitor({self.stage}, {self.pool})"

    def setup(self, trainer: Any, pl_module: nn.Module, stage: str) -> None:  # noqa: ARG002  (Lightning's signature)
        """Find the pool and listen to it: the head is read at the forward pass, before the optimiser moves it."""
        every = [module for module in pl_module.modules() if isinstance(module, Pool)]
        inside = {id(part) for pool in every for part in pool.modules() if part is not pool}
        pools = [pool for pool in every if id(pool) not in inside]  # the heads of a pool are pools
        if self.pool is None and len(pools) > 1:
            raise InputError(f"the model has {len(pools)} pools: say which to watch, PlateauMonitor(pool='its.name')")
        pool = pl_module.get_submodule(self.pool) if self.pool is not None else next(iter(pools), None)
        named = dict(pl_module.named_children())
        head = named.get("head") if self.head is None else pl_module.get_submodule(self.head)
        if pool is None:
            return

        def listen(module: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any], pooled: Pooled) -> None:
            if module.training is not (self.stage == "train") or trainer.sanity_checking:
                return
            h = arguments[0] if arguments else keywords["h"]
            mask = arguments[1] if len(arguments) > 1 else keywords.get("mask")
            # A pool that weighs other vectors than it is given says which: an attention read-out its values.
            elements = getattr(module, "elements", None)
            if elements is not None:
                with torch.no_grad():
                    h = elements(h)
            self._seen = self._epoch.look(pooled, h, mask, head)

        self._hook = pool.register_forward_hook(listen, with_kwargs=True)

    def teardown(self, trainer: Any, pl_module: nn.Module, stage: str) -> None:  # noqa: ARG002
        """Stop listening."""
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def on_train_batch_end(self, trainer: Any, pl_module: nn.Module, outputs: Any, *_: Any) -> None:  # noqa: ARG002
        """Take the batch in."""
        if self.stage == "train":
            self._take(outputs)

    def on_validation_batch_end(self, trainer: Any, pl_module: nn.Module, outputs: Any, *_: Any) -> None:  # noqa: ARG002
        """Take the batch in."""
        if self.stage == "validation" and not trainer.sanity_checking:
            self._take(outputs)

    def on_train_epoch_end(self, trainer: Any, pl_module: nn.Module) -> None:  # noqa: ARG002
        """Close the epoch."""
        if self.stage == "train":
            self.end_epoch(rank=trainer.global_rank)

    def on_validation_epoch_end(self, trainer: Any, pl_module: nn.Module) -> None:  # noqa: ARG002
        """Close the epoch."""
        if self.stage == "validation" and not trainer.sanity_checking:
            self.end_epoch(rank=trainer.global_rank)

    def _take(self, outputs: Any) -> None:
        if not isinstance(outputs, dict) or not {"prediction", "target"} <= outputs.keys():
            got = sorted(outputs) if isinstance(outputs, dict) else type(outputs).__name__
            raise InputError(
                f"{self.stage} step must return a dict with 'prediction' and 'target' (and 'loss') for the "
                f"PlateauMonitor, got {got}"
            )
        bags, self._seen = self._seen or self._epoch.look(None, None, None, None), None
        self._epoch.add(outputs["prediction"], outputs["target"], outputs.get("label_mask"), bags)
