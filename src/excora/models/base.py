"""The model door: what the file of a model gives, and the network and its output that all models have in common.

A model is one file with a subclass of :class:`Model` under :func:`register_model`; fit, predict, compare, the
estimators, resume, data-parallel training, the run folder and the report come with it.
"""

from __future__ import annotations

import contextlib
import copy
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from excora.data.dataset import Features, Index, Inputs, Spec
from excora.errors import InputError
from excora.options import Options
from excora.pooling import Pooled
from excora.reduce import Penalty
from excora.registry import Registry


class Output(NamedTuple):
    """A forward pass: the prediction, what each pool did, and the named losses beside that of the prediction."""

    prediction: Tensor  #: (n, targets), standardised scale
    pooled: Mapping[str, Pooled] = {}  #: by name, the one that a report shows first; a model without a pool has none
    losses: Mapping[str, Penalty] = {}  #: by name, each weighted already; (sum, count), so that it reduces exactly
    spread: Tensor | None = None  #: (n, targets): how far labels are expected from the prediction; None: it cannot say
    compared: Tensor | None = None  #: (n, …): what :meth:`Network.compare` reads of each sample

    @property
    def penalties(self) -> list[Penalty]:
        """All that is added to the loss of the prediction."""
        return [*(pooled.penalty for pooled in self.pooled.values()), *self.losses.values()]


class Network(nn.Module):
    """Base of the networks: ``network(inputs) -> Output``, where ``inputs`` is what its source's features read as."""

    linear_start: nn.Module | None
    #: Submodules that the plateau monitor listens to: a pool and the head that reads its value; None: neither.
    monitored: ClassVar[tuple[str, str] | None] = ("pool", "head")

    def __init__(self) -> None:
        super().__init__()
        #: Elements that its pools weigh before those of a sample, such as learned tokens.
        self.leading = 0
        #: What of its shape comes from the training samples, beyond the spec; plain values for JSON.
        self.learned: dict[str, Any] = {}
        #: What it adds to, see :mod:`excora.models.parts.start`; None: nothing.
        self.register_module("linear_start", None)
        #: That :meth:`Model.build` took, where it has just fitted the network.
        self.seconds = 0.0

    def __call__(self, inputs: Inputs) -> Output:
        """Predict a batch: what ``forward`` says, on top of the ridge that it started from, if it did."""
        output: Output = super().__call__(inputs)
        if self.linear_start is None:
            return output
        return output._replace(prediction=self.linear_start(inputs) + output.prediction)

    def compare(self, compared: Tensor, target: Tensor, known: Tensor | None) -> Mapping[str, Tensor]:  # noqa: ARG002
        """Losses over the samples of a whole batch, or that see labels, by name, each weighted already.

        ``compared`` are the rows of :attr:`Output.compared`, of all pieces and ranks; ``target`` (n, targets) the
        standardised labels, where ``known``. It is a function of these alone: no parameters.
        """
        return {}

    @torch.no_grad()
    def begin_at_zero(self, inputs: Inputs, *, only_try: bool = False) -> bool:
        """Make every prediction 0 by a last layer of zeros, and say whether that could be done; ``inputs``: some.

        The layer is the last linear one with an output a target of which that is true. A network whose prediction does
        not come from such a layer has its own way. ``only_try``: leave it as it was.
        """
        before = self.training
        self.eval()
        targets = self.forward(inputs).prediction.shape[1]
        layers = [layer for layer in self.modules() if isinstance(layer, nn.Linear) and layer.out_features == targets]
        done = False
        for layer in reversed(layers):
            kept = [p.clone() for p in layer.parameters()]
            for p in layer.parameters():
                p.zero_()
            done = not bool(self.forward(inputs).prediction.any())
            if only_try or not done:
                for p, value in zip(layer.parameters(), kept, strict=True):
                    p.copy_(value)
            if done:
                break
        self.train(before)
        return done

    def element_names(self, names: list[str] | None) -> list[str] | None:
        """What its first pool weighs in a sample, where ``names`` are those of the source; None: elements by number."""
        return names

    def reach(self, level: float) -> Tensor | None:  # noqa: ARG002
        """How many spreads around a prediction hold ``level`` of all labels, (targets,); None: it gives no spread."""
        return None

    def look_up(self, features: Features) -> Features:
        """New samples as it reads them: with their neighbours, for a network that has training rows to look them up."""
        return features

    def pretrained(self) -> Iterator[nn.Parameter]:
        """Weights that have been trained elsewhere, for which a recipe may have another step size; none for most."""
        yield from ()

    def carried(self) -> tuple[str, ...]:
        """What of the training data travels with it, in words; nothing for most."""
        return ()


class Samples(NamedTuple):
    """Prepared samples, of which ``train`` is the training part."""

    features: Features
    target: NDArray[np.float32]  #: (n, targets), standardised, NaN where unknown
    train: Index
    group: NDArray[Any] | None = None  #: (n,)
    time: NDArray[Any] | None = None  #: (n,)
    weight: NDArray[Any] | None = None  #: (n,)
    origin: Index | None = None  #: (n,) where samples repeat others: the place of each one's original


class Model(ABC):
    """What a model's file gives. :meth:`network` is all that most have to write.

    ``recipe`` says what the model wants of a training otherwise than :class:`excora.settings.Recipe` has it, by name; a
    value may be a :class:`excora.options.ByRows`.
    """

    name: ClassVar[str]
    says: ClassVar[str]  #: one line for help texts
    reads: ClassVar[tuple[str, ...]]  #: kinds of samples
    default_for: ClassVar[tuple[str, ...]] = ()  #: kinds of samples whose "auto" it is
    rival_for: ClassVar[tuple[str, ...]] = ()  #: kinds of samples for which it competes to be the "best"
    #: False: :meth:`build` fits it whole and holds out samples itself, so that it needs neither steps nor validation.
    trained: ClassVar[bool] = True
    Options: ClassVar[type[Options]]
    small: ClassVar[Mapping[str, Any]] = {}  #: options of a small network of its kind, for tests and demonstrations
    recipe: ClassVar[Mapping[str, Any]] = {}
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  #: options and recipe that belong together, by name

    @abstractmethod
    def network(self, spec: Spec, options: Any, learned: Mapping[str, Any]) -> Network:
        """A network of that shape, with random weights; ``learned`` is what its ``learned`` will be."""

    def build(self, spec: Spec, samples: Samples, options: Any, *, seed: int) -> tuple[Network, Features]:
        """The network for these samples, and the samples as it reads them. Depends on ``seed`` alone."""
        with seeded(seed):
            return self.network(spec, options, {}), samples.features

    def go_on(self, network: Network, spec: Spec, samples: Samples, options: Any) -> tuple[Network, Features]:  # noqa: ARG002
        """As :meth:`build`, from the weights of a trained network of the same options."""
        return copy.deepcopy(network), samples.features

    def attends(self, options: Any) -> tuple[int, int] | None:  # noqa: ARG002
        """Layers and width of its self-attention, for what theory says of them; None: it has no such stack."""
        return None

    def prepares(self, options: Any) -> dict[str, Any]:  # noqa: ARG002
        """The options of the source's preparation that this model wants."""
        return {}

    def check(self, spec: Spec, options: Any) -> None:  # noqa: ARG002
        """Raise unless these options can read such samples."""
        if spec.kind not in self.reads:
            kinds = " or ".join(self.reads)
            raise InputError(f"model {self.name!r} reads {kinds}, and these are {spec.kind}: take 'auto'")

    def check_learned(self, learned: Any, spec: Spec, options: Any, tensors: Mapping[str, Tensor]) -> None:  # noqa: ARG002
        """Raise unless a stranger's ``learned`` is what this model writes, of a size that his tensors can fill."""
        if learned != {}:
            raise InputError(f"what a {self.name} network learned must be nothing, got {learned!r}")

    def check_tensors(self, spec: Spec, tensors: Mapping[str, Tensor]) -> None:  # noqa: B027
        """Raise where a stranger's tensors, of the right names and shapes, hold what cannot be."""

    def renewed(self, options: Any, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:  # noqa: ARG002
        """Weights that an earlier version wrote, as this one has them."""
        return dict(tensors)


models: Registry[Model] = Registry("model", home="excora.models")


def register_model(kind: type[Model]) -> type[Model]:
    """The decorator of the door."""
    models.register(kind.name, kind())
    return kind


def default_model(kind: str, options: Collection[str] = (), *, trained: bool = False) -> str:
    """The model for samples of this kind, unless one is asked for.

    Where ``options`` are named that it does not have, or one that is ``trained`` in steps is wanted, the next that will
    do: of several defaults the ones that are not trained come first.

    >>> default_model("bags")
    'pool'
    """
    every = [models[name] for name in models if kind in models[name].reads]
    every.sort(key=lambda model: (kind not in model.default_for, model.trained))
    fine = [m.name for m in every if m.trained >= trained and set(options) <= set(m.Options.names())]
    if not every:
        raise InputError(f"no model reads {kind}; there are {', '.join(models)}")
    return (fine or [every[0].name])[0]


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """A block whose random numbers depend on ``seed`` alone; torch's random state is left."""
    with torch.random.fork_rng(devices=()):
        torch.default_generator.manual_seed(seed)
        yield
