"""Who takes part in a comparison: a model, a model with a pool, a pool of the model that is asked for, or a peer."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Sequence
from typing import NamedTuple

from excora.errors import InputError, MissingExtraError
from excora.models import Model, default_model, models
from excora.options import choices_of
from excora.peers import peers
from excora.pooling import pools
from excora.settings import Machine, Recipe, Settings

#: The peers that take part unless somebody says who does: quick ones.
USUAL = ("ridge", "neighbours", "lightgbm")


class Entrant(NamedTuple):
    """One row of a comparison."""

    name: str
    label: str  #: for people
    settings: Settings | None  #: of a network; None: the peer of that name

    @property
    def peer(self) -> str | None:
        """The name of the peer, if it is one."""
        return self.name.removeprefix("peer:") if self.settings is None else None


def entrants(names: Sequence[str] | None, settings: Settings, kind: str) -> tuple[list[Entrant], list[str]]:
    """Those that take part, for samples of this kind, and notes on those that are left out.

    ``names``: ``MODEL``, ``MODEL:POOL``, ``POOL`` (within the model of ``settings``), a peer, or ``peer:NAME`` where a
    pool has its name. None: its usual pools, and the :data:`USUAL` peers that are installed.
    """
    host = settings.model_for(kind)
    if settings.model == "auto" and any(name in pools and name not in peers for name in names or ()):
        host = models[default_model(kind, ["pool"])]
    known = _pools_of(host)
    notes = [f"pools are compared within the model {host.name}"] if host.name != "pool" and known else []
    if names is None:
        missing = _missing(USUAL)
        notes += [f"{peers[name].label} is left out: {error}" for name, error in missing.items()]
        usual = [name for name in known if pools[name].usual]
        names = [*(usual or [host.name]), *(name for name in USUAL if name not in missing)]
    elif not any(name in known for name in names):
        notes = []
    if not names:
        raise InputError(f"models must be some of {_there_are(host)}, got none")
    found = [_entrant(name, host, settings) for name in dict.fromkeys(names)]
    for one in found:
        if one.peer is not None:
            peers[one.peer].check()
    return found, notes


def _entrant(word: str, host: Model, settings: Settings) -> Entrant:
    model, _, pool = word.partition(":")
    if model == "peer":
        return Entrant(word, peers[pool].label, None)
    if model in models:
        if pool and pool not in _pools_of(models[model]):
            known = ", ".join(_pools_of(models[model])) or "none"
            raise InputError(f"{word!r}: the pools of model {model!r} are {known}")
        label = f"{model}, {pools[pool].label}" if pool else model
        return Entrant(word, label, suited(models[model], settings, pool))
    if word in _pools_of(host):
        return Entrant(word, pools[word].label, suited(host, settings, word))
    if word in peers:
        return Entrant(word, peers[word].label, None)
    near = difflib.get_close_matches(word, [*models, *peers, *_pools_of(host)], 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise InputError(f"models must be some of {_there_are(host)}, got {word!r}{hint}")


def suited(model: Model, settings: Settings, pool: str = "") -> Settings:
    """What is asked of this model: the names that it knows."""
    known = {*model.Options.names(), *Recipe.names(), *Machine.names()}
    named = {name: value for name, value in settings.named.items() if name in known}
    return Settings(model.name, **(named | ({"pool": pool} if pool else {})))


def _pools_of(model: Model) -> list[str]:
    """The pools that a model can be asked for."""
    field = next((field for field in dataclasses.fields(model.Options) if field.name == "pool"), None)
    return [] if field is None else [name for name in pools if name in choices_of(field.metadata)]


def _missing(names: Sequence[str]) -> dict[str, MissingExtraError]:
    found = {}
    for name in names:
        try:
            peers[name].check()
        except MissingExtraError as error:
            found[name] = error
    return found


def _there_are(host: Model) -> str:
    return ", ".join([*models, "MODEL:POOL", *_pools_of(host), *peers])
