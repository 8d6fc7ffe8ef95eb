"""TabM: a network whose members share most weights, on piecewise-linear embeddings (Gorishniy et al., 2025)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from excora.errors import MissingExtraError
from excora.peers.base import Context, Fitted, MeanOfLabels, Parameters, Part, Peer, peers
from excora.stats.correlation import Array

BATCH = 256
FEWEST_BINS = 2  # of a column, and fewer than rows
DEFAULTS: Parameters = {
    "n_blocks": 2, "d_block": 128, "dropout": 0.1, "k": 8, "bins": 16, "lr": 2e-3, "weight_decay": 3e-4, "most": 60,
    "patience": 10,
}  # fmt: skip


class TabM(Peer):
    """AdamW on the mean error of the members; the validation part says how many epochs.

    ``n_blocks``, ``d_block``, ``dropout``, ``k``: of the package. ``bins`` of a column, ``lr``, ``weight_decay``.
    ``most`` epochs and ``patience`` with a validation part; without one, ``epochs``.
    """

    label = "TabM"
    candidates = tuple(DEFAULTS | {"dropout": rate} for rate in (0.1, 0.3))

    def check(self) -> None:
        """Takes tabm."""
        _engine()

    def _chosen(self, parameters: Parameters) -> Parameters:
        """Dropout and epochs."""
        return {name: parameters[name] for name in ("dropout", "epochs") if name in parameters}

    def _fits(self, train: Part, candidates: Sequence[Parameters], context: Context) -> Iterator[Fitted]:
        return (_fit(train, parameters, context) for parameters in candidates)


def _fit(train: Part, parameters: Parameters, context: Context) -> Fitted:
    """Rows are kept in the range of the training part: the outer pieces go on without end, and one wild cell among
    thousands of rows would decide the score. Constant columns have no pieces and are left out.
    """
    low, high, held = train.x.min(0), train.x.max(0), context.validation
    use = np.float32(low) < np.float32(high)
    if not use.any() or len(train.x) <= FEWEST_BINS:
        return Fitted(MeanOfLabels(train), parameters)
    train = train._replace(x=train.x[:, use])

    def predict(rows: Array) -> Array:
        return _members(model, np.clip(rows, low, high)[:, use])

    with torch.random.fork_rng(devices=()):
        torch.default_generator.manual_seed(context.seed)
        model = _model(train, parameters)
        epochs = _epochs(model, train, parameters)
        if held is None:
            stopped = int(parameters["epochs"] if "epochs" in parameters else parameters["most"])
            for _ in range(stopped):
                next(epochs)
        else:
            stopped = _stopped(model, epochs, parameters, lambda: context.measure(predict(held.x), held.y, held.weight))
    return Fitted(predict, parameters | {"epochs": stopped})


def _epochs(model: nn.Module, train: Part, parameters: Parameters) -> Iterator[None]:
    """Trains in place, an epoch a step: sum_i v_i |f_k(x_i) - y_i|^2 / n, mean over members k and targets."""
    x, y = (torch.as_tensor(part, dtype=torch.float32) for part in (train.x, train.y))
    weight = None
    if train.weight is not None and train.weight.any():
        weight = torch.as_tensor(train.weight / train.weight.mean(), dtype=torch.float32)[:, None, None]
    optimizer = torch.optim.AdamW(model.parameters(), lr=parameters["lr"], weight_decay=parameters["weight_decay"])
    while True:
        model.train()
        for index in torch.randperm(len(y)).split(BATCH):
            optimizer.zero_grad()
            wrong: Tensor = (model(x[index]) - y[index, None]).square()
            (wrong if weight is None else weight[index] * wrong).mean().backward()
            optimizer.step()
        yield


def _stopped(model: nn.Module, epochs: Iterator[None], parameters: Parameters, score: Callable[[], float]) -> int:
    """Train until the score has not been better for ``patience`` epochs; the best epoch, whose weights are kept."""
    best, kept, stopped = np.inf, model.state_dict(), parameters["most"]
    for epoch in range(1, parameters["most"] + 1):
        next(epochs)
        if (now := score()) < best:
            best, stopped = now, epoch
            kept = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        if epoch - stopped == parameters["patience"]:
            break
    model.load_state_dict(kept)
    return int(stopped)


def _model(train: Part, parameters: Parameters) -> nn.Module:
    tabm, embeddings = _engine()
    shape = {name: parameters[name] for name in ("n_blocks", "d_block", "dropout", "k")}
    with warnings.catch_warnings():  # that a column of two values has one piece
        warnings.filterwarnings("ignore", "The .*-th feature has just two bin edges")
        bins = min(parameters["bins"], len(train.x) - 1)
        edges = embeddings.compute_bins(torch.as_tensor(train.x, dtype=torch.float32), n_bins=bins)
        pieces = embeddings.PiecewiseLinearEmbeddings(edges, d_embedding=8, activation=False, version="B")
    n, targets = train.x.shape[1], train.y.shape[1]
    model: nn.Module = tabm.TabM.make(n_num_features=n, d_out=targets, num_embeddings=pieces, **shape)
    return model


@torch.inference_mode()
def _members(model: nn.Module, x: Array) -> Array:
    """The mean over the members, (n, t)."""
    model.eval()
    parts = torch.as_tensor(x, dtype=torch.float32).split(2048)
    found: Array = torch.cat([model(part).mean(1) for part in parts]).double().numpy()
    return found


def _engine() -> tuple[Any, Any]:
    """The package and that of its embeddings."""
    try:
        import rtdl_num_embeddings
        import tabm
    except ImportError as error:
        raise MissingExtraError("tabm", "compare") from error
    return tabm, rtdl_num_embeddings


peers.register("tabm", TabM())
