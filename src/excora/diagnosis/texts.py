"""The verdicts: what each means, what to try next, and what it takes to give it."""

from __future__ import annotations

from typing import NamedTuple


class Text(NamedTuple):
    """What a verdict means, what to try next (and which option of Excora that is), and what it cannot do without."""

    meaning: str
    advice: str
    needs: tuple[str, ...] = ()


#: What may be missing from an input, and how it is given.
GIVEN = {
    "epochs": "12 epochs or more: monitor.update(...) a batch, monitor.end_epoch() an epoch",
    "validation": "validation=, a second PlateauMonitor that is updated with the validation part",
    "training": "a PlateauMonitor of the training part",
    "peers": "peers=, the validation score of a simple model, such as ridge, on the same split",
    "kinds": "peers= of three kinds or more, such as ridge, boosted or random trees, and nearest neighbours",
    "pool": "pooled= and h= at each update (and head= for the ceilings)",
}

TEXTS = {
    "still improving": Text(
        "It was still getting better at the end: there is nothing to explain yet.",
        "Train longer; judge again when the curve has come to rest.",
        ("epochs",),
    ),
    "overfitting": Text(
        "After the kept epoch the training part went on getting better while validation got worse.",
        "Training longer will not help: more dropout= or weight_decay=, a smaller model, a lower learning rate, more "
        "data. The best epoch on validation is the one that was kept.",
        ("epochs", "training", "validation"),
    ),
    "behind a simple model": Text(
        "A simple model does better on the same rows: the data holds more than this model has learned.",
        "Use the simple model, or start from it. A model that is trained in epochs may need more of them, another "
        "learning rate or stronger regularisation, until it is level.",
        ("validation", "peers"),
    ),
    "optimisation-limited": Text(
        "PCC is at rest although a linear read-out of the bags does better: training does not get there.",
        "Raise the learning rate or decay it later. Give the correlation a gradient that does not fade: "
        "JointLoss(DispersionNormalizedPearsonLoss(), weight=1.0); standardise the target.",
        ("epochs", "pool"),
    ),
    "capacity-limited": Text(
        "PCC is at rest at what convex attention weights can reach under this head, and the bags hold more.",
        "Let the pool leave the convex hull: ECAPool(dim) in place of the pool, or extrapolate_(model) on the model "
        "as it is. If it is an ECAPool already, raise cap=.",
        ("epochs", "pool"),
    ),
    "attention collapsed": Text(
        "Attention is uniform: the model is as good as a mean over the elements.",
        "Check that the scorer receives a gradient and has a large enough learning rate; "
        "ECAPool(dim, temperature='learned') sharpens it, GatedPool has more capacity. If all elements should count "
        "the same, MeanPool says so.",
        ("epochs", "pool"),
    ),
    "attention saturated": Text(
        "Attention rests on one element a bag, where its gradient vanishes, and the bags hold more.",
        "Soften the attention: ECAPool(dim, temperature='learned') or a start from smaller scorer weights; "
        "dropout= on the pool spreads it while training.",
        ("epochs", "pool"),
    ),
    "data-limited": Text(
        "No simple model that it was compared with is ahead: label noise, or what the features do not tell, may be "
        "the limit. Nothing here rules out that another model finds more.",
        "One more model of another kind is the cheapest test (excora compare --models). If it is level too: better "
        "labels or repeats, further features, more samples. CorrelationSummary with groups= shows noisier groups.",
        ("validation", "kinds"),
    ),
    "no signal found": Text(
        "Neither the model nor the simple models have found a correlation with the target.",
        "Check that rows and labels belong together; then look for other features or more samples.",
        ("validation", "peers"),
    ),
    "scale or offset only": Text(
        "A straight line through the predictions would remove much of their error; their correlation stays as it is.",
        "Fit slope and intercept on validation data (`diagnose` of predictions prints them), or train with "
        "ConcordanceLoss or JointLoss, which see scale and offset; PearsonLoss alone does not.",
    ),
    "healthy": Text(
        "No fault found.",
        "Nothing to repair. Whether another model is better takes a comparison, not a diagnosis.",
        ("validation",),
    ),
    "cannot tell": Text("", "See which evidence is missing, and give it; few samples can only be helped by more."),
}


def out_of_reach(*missing: str) -> tuple[str, ...]:
    """Which verdicts cannot be given without what is ``missing``, a sentence for each of these.

    >>> out_of_reach("peers")[0].split(": ")[1]
    'behind a simple model, no signal found'
    """
    found = []
    for what in missing:
        names = [name for name, text in TEXTS.items() if what in text.needs]
        found.append(f"Not possible here: {', '.join(names)}: that takes {GIVEN[what]}.")
    return tuple(found)
