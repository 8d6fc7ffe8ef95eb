"""The sentences of the page that are not about one run: verdicts in plain words, and what the terms mean."""

from __future__ import annotations

#: Verdict: (how it looks: good, open or act; what it says to somebody who knows no attention). The verdict's own
#: sentence, with its numbers, follows.
VERDICTS = {
    "still improving": ("open", "The model was still getting better when training ended: give it more time."),
    "overfitting": (
        "act",
        "The model went on learning its training samples by heart: on others it got worse. The best epoch was kept.",
    ),
    "behind a simple model": ("act", "A simple model predicts the same samples better than this one."),
    "optimisation-limited": (
        "act",
        "The data holds more than the model has learned: a simple reading of what it sees does better.",
    ),
    "capacity-limited": (
        "act",
        "The model has learned all that this kind of attention can express, and the data holds more.",
    ),
    "attention collapsed": ("act", "The model treats all elements of a sample alike, as a plain average would."),
    "attention saturated": (
        "act",
        "The model looks at a single element of each sample, and the others hold more.",
    ),
    "data-limited": (
        "open",
        "No simple model that was tried does better on these samples: the limit may lie in labels, features or "
        "samples, or in models of these kinds.",
    ),
    "no signal found": ("open", "Neither this model nor a simple one can predict these samples."),
    "scale or offset only": (
        "act",
        "The predictions are shifted or stretched: a straight line through them would remove much of their error.",
    ),
    "healthy": ("good", "Nothing looks wrong."),
    #: Of runs of older versions, which did not look at simple models.
    "noise-limited": ("open", "The monitor found nothing more to learn; what simple models reach was not looked at."),
}

#: What the detector says about the end of the run.
STATES = {
    "plateau": "The {part} correlation has been flat since epoch {start}, while the error kept falling.",
    "converged": "The {part} correlation has been flat since epoch {start}, and the error no longer falls either.",
    "improving": "The {part} correlation was still rising at the end.",
    "worsening": "The {part} correlation was falling at the end.",
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

#: Of the error: sigma_y^2 (1 - rho^2), (sigma_yhat - rho sigma_y)^2, (mean yhat - mean y)^2. The right spread of a
#: prediction is rho sigma_y: one that is unsure must vary less than the truth.
PARTS = {
    "order": ("Wrong order", "what only a higher correlation removes"),
    "spread": ("Wrong spread", "predictions vary more or less than their correlation warrants"),
    "level": ("Wrong level", "predictions are too high or too low on average"),
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
