"""The network of a run, whichever model it is: fresh from the training rows, or as a file describes it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from excora.data.dataset import Features, Index, Inputs, TableInput
from excora.errors import InputError
from excora.models.ft_transformer import FTTransformer
from excora.models.neighbours import Excluded
from excora.models.network import Network, build
from excora.models.older import renewed
from excora.models.retrieval import RetrievalFeatures, RetrievalNetwork, build_retrieval
from excora.models.tokens import quantile_bins
from excora.settings import MODEL_OF, Settings


class Samples(NamedTuple):
    """Prepared samples, of which ``train`` is the training part."""

    features: Features
    target: NDArray[np.float32]  #: (n, targets), standardised
    train: Index
    group: NDArray[Any] | None = None  #: (n,)
    time: NDArray[Any] | None = None  #: (n,)
    weight: NDArray[Any] | None = None  #: (n,)
    origin: Index | None = None  #: (n,) where samples repeat others: the place of each one's original


def build_on(
    inputs: Inputs, samples: Samples, settings: Settings, *, start: Network | None = None
) -> tuple[Network, Features]:
    """The network for these samples, and the samples as it reads them: what ``train`` of training takes.

    ``start``: a trained network of the same settings to go on from. Depends on ``settings.seed`` alone; torch's random
    state is left. ``settings.model`` "auto" is the one of :data:`excora.settings.MODEL_OF`.

    >>> from excora.data.features import TableFeatures
    >>> x = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    >>> rows = TableFeatures(x, np.zeros((50, 2), bool), np.zeros((50, 0), np.int64))
    >>> samples = Samples(rows, x[:, :1], np.arange(40))
    >>> network, features = build_on(Inputs(targets=1, numeric=2), samples, Settings(model="retrieval"))
    >>> network(features.read(np.arange(40, 50))).prediction.shape, network.learned
    (torch.Size([10, 1]), {'context': 40, 'gaps': []})

    A model that cannot read such samples, or with a pool that it does not have, is an :class:`InputError`.
    """
    settings = settings.settled(MODEL_OF["bags" if inputs.width else "table"], len(samples.train))
    _check(inputs, settings)
    if settings.model == "retrieval":
        return _retrieval(inputs, samples, settings, start)
    if start is not None:
        return copy.deepcopy(start), samples.features
    if settings.model == "pool":
        return build(inputs, settings), samples.features
    bins = None
    if settings.embeddings == "piecewise":
        rows = cast(TableInput, samples.features.read(samples.train))
        bins = quantile_bins(rows.numeric, rows.missing)
    return _ft_transformer(inputs, settings, bins), samples.features


def restore(inputs: Inputs, settings: Settings, learned: Any, tensors: Mapping[str, Tensor]) -> Network:
    """The network that ``tensors`` are of, in eval mode, where ``learned`` is what its :attr:`Network.learned` was.

    All three may come from a stranger: what does not fit together is an :class:`InputError`, found before memory is
    taken for it.
    """
    if settings.model == "auto":
        raise InputError("the settings of a trained network name its model, got 'auto'")
    _check(inputs, settings)
    _check_learned(learned, inputs, settings)
    tensors = renewed(tensors, scaled=settings.model == "pool" and settings.pool in ("softmax", "eca"))
    room = sum(t.numel() for t in tensors.values())
    if inputs.numeric * settings.dim * (max(learned.get("bins", ()), default=1) - 1) > room:
        raise InputError(f"bins of {max(learned['bins'])} edges need more than the {room} numbers in the file")
    depth = settings.layers + settings.head + settings.shared
    if depth > len(tensors):
        raise InputError(f"{depth} layers need more than the {len(tensors)} tensors in the file")
    try:
        with torch.device("meta"):
            expected = {name: (t.shape, t.dtype) for name, t in _again(inputs, settings, learned).state_dict().items()}
    except (RuntimeError, OverflowError, TypeError) as error:  # TypeError: a number beyond 64 bits
        first = str(error).splitlines()[0]
        raise InputError(f"the settings describe a network that no machine holds: {first}") from None
    found = {name: (t.shape, t.dtype) for name, t in tensors.items()}
    if found != expected:
        differ = sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))
        raise InputError(f"these weights are of another model, they differ in {', '.join(differ[:5])}")
    _check_rows(inputs, tensors)
    network = _again(inputs, settings, learned)
    network.load_state_dict(tensors)
    return network.eval()


def carried(network: Network) -> tuple[str, ...]:
    """What of the training data travels with the network, in words; nothing for most."""
    if "context" not in network.learned:
        return ()
    parts = [t for name, t in network.named_buffers() if name.startswith("context_")]
    size = sum(t.numel() * t.element_size() for t in parts) / 1e6
    return (
        f"the model carries its {network.learned['context']} training rows and their labels ({size:.3g} MB), in which "
        "it looks up neighbours: who has its file can read them",
    )


def _check(inputs: Inputs, settings: Settings) -> None:
    model, pool = settings.model, settings.pool
    if inputs.width and model != "pool":
        raise InputError(f"model {model!r} reads tables, and these are bags: take 'auto' or 'pool'")
    if model == "ft-transformer" and pool not in ("softmax", "eca-paper", "eca"):
        raise InputError(f"the FT-Transformer attends with softmax, eca-paper or eca, got pool {pool!r}")


def _ft_transformer(inputs: Inputs, settings: Settings, bins: Any) -> Network:
    with torch.random.fork_rng(devices=()):
        torch.default_generator.manual_seed(settings.seed)
        network = FTTransformer(
            inputs,
            dim=settings.dim,
            blocks=max(settings.layers, 1),
            heads=settings.heads,
            attention=cast(Any, settings.pool),
            embeddings=cast(Any, settings.embeddings),
            bins=bins,
            attention_dropout=settings.attention_dropout,
            feedforward_dropout=settings.dropout,
        )
    if bins is not None:
        network.learned = {"bins": [edges if isinstance(edges, int) else len(edges) for edges in bins]}
    return network


def _options(settings: Settings) -> dict[str, Any]:
    """Of the retrieval network."""
    names = ("pool", "metric", "neighbours", "shared", "bins", "dropout", "attention_dropout")
    return {"width": settings.dim, "blocks": settings.layers, **{name: getattr(settings, name) for name in names}}


def _retrieval(
    inputs: Inputs, samples: Samples, settings: Settings, start: Network | None
) -> tuple[Network, RetrievalFeatures]:
    if settings.gap and samples.time is None:
        raise InputError(f"a gap of {settings.gap:g} is a time, and there is no column of times: name it (--time)")
    train = samples.train
    if samples.weight is not None:  # a row that does not count must not be looked at either
        train = train[samples.weight[train] > 0]
    apart: dict[str, Any] = {"group": samples.group, "time": samples.time}
    if start is None:
        network, found = build_retrieval(
            inputs, samples.features, samples.target, train,
            **apart, gap=settings.gap, seed=settings.seed, **_options(settings),
        )  # fmt: skip
    else:
        network = RetrievalNetwork(inputs, **_options(settings), gaps=start.learned["gaps"], context=len(train))
        kept = {name: t for name, t in start.state_dict().items() if not name.startswith("context_")}
        network.load_state_dict(kept, strict=False)
        rows = cast(TableInput, samples.features.read(train))
        for name, part in zip(("numeric", "missing", "codes"), rows, strict=True):
            getattr(network, f"context_{name}").copy_(part)
        network.context_labels.copy_(torch.from_numpy(samples.target[train]))
        known = {name: None if x is None else x[train] for name, x in apart.items()}
        excluded = Excluded(network.columns(rows), **known, gap=settings.gap)
        found = network.look_up(samples.features, train, excluded)
    network.learned = {name: network.options[name] for name in ("context", "gaps")}
    if samples.origin is not None:  # a copy sees what its original sees: never itself
        origin = torch.from_numpy(samples.origin)
        found = RetrievalFeatures(samples.features, found.neighbours[origin], found.allowed[origin])
    return network, found


def _again(inputs: Inputs, settings: Settings, learned: dict[str, Any]) -> Network:
    """A network of that shape."""
    if settings.model == "pool":
        return build(inputs, settings)
    if settings.model == "ft-transformer":
        return _ft_transformer(inputs, settings, learned.get("bins"))
    with torch.random.fork_rng(devices=()):
        network = RetrievalNetwork(inputs, **_options(settings), **learned)
    network.learned = learned
    return network


def _check_learned(learned: Any, inputs: Inputs, settings: Settings) -> None:
    """Names, types and sizes: these numbers say how much memory a network takes."""
    wanted = {"pool": set[str](), "ft-transformer": set[str](), "retrieval": {"context", "gaps"}}[settings.model]
    if settings.model == "ft-transformer" and settings.embeddings == "piecewise":
        wanted = {"bins"}
    if not isinstance(learned, dict) or set(learned) != wanted:
        raise InputError(f"what a {settings.model} network learned must be {sorted(wanted) or 'nothing'}: {learned!r}")
    for name, values in learned.items():
        numbers = [values] if name == "context" else values
        if not isinstance(numbers, list) or not all(type(n) is int and 0 <= n < 2**31 for n in numbers):
            raise InputError(f"{name} must be whole numbers of at least 0, got {values!r}")
    if "bins" in learned and (len(learned["bins"]) != inputs.numeric or min(learned["bins"], default=3) < 3):
        raise InputError(f"bins must be 3 edges or more for each of {inputs.numeric} columns, got {learned['bins']!r}")


def _check_rows(inputs: Inputs, tensors: Mapping[str, Tensor]) -> None:
    """Training rows in a file are looked up: what is in them must be what a preparation can give."""
    rows = {name: t for name, t in tensors.items() if name.startswith(("context_", "metric_"))}
    broken = [name for name, t in rows.items() if not t.isfinite().all()]
    codes = rows.get("context_codes")
    if codes is not None and bool(((codes < 0) | (codes >= torch.tensor(inputs.categories))).any()):
        broken.append("context_codes")
    if broken:
        raise InputError(f"the training rows are damaged in {', '.join(broken)}")
