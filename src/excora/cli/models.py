"""The command ``models``."""

from __future__ import annotations

from excora.cli.base import echo_json, show
from excora.cli.options import Json


def models(as_json: Json = False) -> None:
    """List the models, pools and peers that there are, with what each reads; for compare and fit.

    Examples:

      excora models

      excora fit --model retrieval --help
    """
    from excora.console import table
    from excora.models import models as known
    from excora.peers import peers
    from excora.pooling import pools
    from excora.theory.depth import sizing

    if as_json:
        found = {name: {"reads": list(known[name].reads), "says": known[name].says} for name in known}
        echo_json({"models": found, "pools": list(pools), "peers": list(peers)})
        return
    rows = [(name, ", ".join(known[name].reads), known[name].says) for name in known]
    signed = ", ".join(name for name in pools if not pools[name].convex)
    show(table(rows, ("model", "reads", "what it is")))
    show(f"pools: {', '.join(pools)} (may leave the convex hull: {signed})")
    show(f"peers of compare: {', '.join(peers)}")
    for name in known:
        if stack := known[name].attends(known[name].Options()):
            show(f"depth of {name}, unless asked otherwise: {sizing(depth=stack[0], width=stack[1])}")
    show("options of a model: excora fit --model NAME --help")
