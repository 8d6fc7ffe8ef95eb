"""The sentences of the page that are not about one run: verdicts in plain words, and what the terms mean."""

from __future__ import annotations

#: Verdict: (how it looks: good, open or act; what it says to somebody who knows no attention). The monitor's own
#: sentence stands beside the evidence.
VERDICTS = {
    "still improving": ("open", "The model was still getting better when training ended: give it more time."),
    "overfitting": (
        "act",
        "The model went on learning its training samples by heart: on others it had stopped getting better.",
    ),
    "optimisation-limited": (
        "act",
        "The data holds more than the model has learned, and the model could express it: training did not get there.",
    ),
    "capacity-limited": (
        "act",
        "The model has learned all that this kind of attention can express, and the data holds more.",
    ),
    "attention collapsed": (
        "act",
        "The model treats all elements alike, as a plain average would, although some matter more than others.",
    ),
    "attention saturated": (
        "act",
        "The model looks at a single element of each sample, and often not at the right one.",
    ),
    "noise-limited": (
        "open",
        "The model has found what there is to find in this data: what is left looks like noise.",
    ),
    "scale or offset only": (
        "act",
        "The model has the right order, but its predictions are shifted or stretched: a straight line corrects that.",
    ),
    "healthy": ("good", "Training has come to rest at a high correlation, and nothing looks wrong."),
}

#: What the detector says about the end of the run.
STATES = {
    "plateau": "The correlation has been flat since epoch {start}, while the error kept falling.",
    "converged": "The correlation has been flat since epoch {start}, and the error no longer falls either.",
    "improving": "The correlation was still rising at the end.",
    "worsening": "The correlation was falling at the end.",
    "too short": "There are too few epochs to say whether the correlation has levelled off.",
}

#: Why training ended.
STOPPED = {
    "patience": "Training ended because validation had stopped improving.",
    "epochs": "Training ended after the epochs asked for.",
    "interrupted": "Training was interrupted.",
    "diverged": "Training broke down: its figures ran off to infinity. A lower learning rate is the usual cure.",
}

TERMS = {
    "PCC": "Pearson correlation: how well predictions rise and fall with the truth. 1 is a perfect straight line, "
    "0 no relation. It does not see a shift or a stretch.",
    "MSE": "Mean squared error: the average of the squared distance between prediction and truth. 0 is perfect.",
    "MAE": "Mean absolute error: the average distance between prediction and truth, in the unit of the target.",
    "95 % interval": "The range in which the figure would likely land again with other samples like these.",
    "Epoch": "One pass of the training over all training samples.",
    "Training, validation, test": "The model learns from the training part; the best epoch is picked on the "
    "validation part; the test part is looked at once, at the end. Only the test figures are a fair score.",
}

PARTS = {
    "mse_correlation": ("Wrong order", "what only a higher correlation removes"),
    "mse_scale": ("Wrong spread", "predictions vary too much or too little"),
    "mse_offset": ("Wrong level", "predictions are too high or too low on average"),
}

SHARES = (
    "Attention gives each element of a sample a share, and the shares add up to 1. Plain attention keeps every share "
    "between 0 and 1, so its result always lies somewhere between the elements."
)
NEGATIVE = (
    "Here the shares that count are the effective ones. A gain, gamma, stretches the attention away from equal "
    "shares: effective share = (1 − gamma) / elements + gamma × attention share. At gamma = 1 this is plain attention. "
    "Above 1, elements with less attention than average can get a share below 0: the result is pushed away from them, "
    "and so can lie beyond all elements. A negative share is intended, not a fault, and it does not mean "
    "“unimportant”: an element near 0 is. The shares still add up to 1."
)
SIGNED = (
    "Here shares are not confined to lie between 0 and 1. The result is pushed away from an element whose share is "
    "below 0: that is intended, not a fault, and does not mean “unimportant”. An element near 0 is."
)
